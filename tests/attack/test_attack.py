# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Some attacks of each family, and what ends an attack: a finding is one, whatever it broke."""

import json
import random
import signal
from pathlib import Path

import click
import pytest

from attack import fifos
from attack.judge import BrokenError, judge_csv
from attack.mutate import change_bytes, change_text
from attack.run import FAMILY_NAMES, Attack
from torpor.cli.app import app

CORPUS = json.loads((Path(__file__).parent / "corpus.json").read_text(encoding="utf-8"))
#: Always the same cases, on a machine of any speed: an eighth of them in `make test`, all in
#: `make test-long`. `make attack` draws new ones.
FIRST = {
    "recordings": 2500,
    "workloads": 900,
    "platforms": 900,
    "dumps": 900,
    "options": 450,
    "governors": 18,
    "oracles": 1500,
    "stores": 200,
    "results": 200,
    "signals": 4,
    "disks": 6,
    "caches": 1,
    "races": 1,
    "writers": 2,
    "windows": 25,
    "fifos": 10,
}


@pytest.fixture(scope="module")
def attack(tmp_path_factory):
    with Attack(tmp_path_factory.mktemp("attack")) as attack:
        yield attack


@pytest.mark.parametrize("name", CORPUS)
def test_former_findings_stay_fixed(attack, name):
    seed, family, index = name.split("/")
    answer = attack.case(int(seed), family, int(index))
    assert answer["outcome"] in {"ok", "refused"}, answer["detail"]


@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_every_family_finds_nothing(attack, share):
    assert set(FIRST) == set(FAMILY_NAMES)
    attack.run_first({name: max(1, count // share) for name, count in FIRST.items()}, seed=1)
    print(attack.table())
    assert attack.findings == []


def _commands(command, words=()):
    if not isinstance(command, click.Group):
        return {" ".join(words)}
    return {
        name
        for word, below in command.load_all().items()
        for name in _commands(below, (*words, word))
    }


def test_every_command_meets_a_fifo():
    known = _commands(app)
    met = {name for text in fifos.COMMANDS for name in known if f"{text} ".startswith(f"{name} ")}
    assert met | fifos.SKIPPED == known
    assert not met & fifos.SKIPPED


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_a_shadow_without_a_writer(tmp_path, number):
    fifos.held("shadow {fifo} -p pixel6 -g menu", number, tmp_path)


def test_change_is_the_same_for_the_same_name():
    data = bytes(range(256)) * 40
    one, again = (change_bytes(random.Random("1/x/7"), data) for _ in range(2))
    assert one == again
    texts = {change_text(random.Random(f"1/x/{n}"), "a = 1\nb = 22\n") for n in range(50)}
    assert len(texts) > 20


@pytest.mark.parametrize(
    "row", ["menu,100.2,1", "menu,1,nan", "menu,-1,1"], ids=["over 100 %", "nan", "below 0"]
)
def test_impossible_result_is_a_finding(row):
    with pytest.raises(BrokenError):
        judge_csv(f"governor,above_pct,idle_power_mw\n{row}\n")
