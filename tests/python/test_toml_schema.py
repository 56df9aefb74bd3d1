# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Editors know TOML files by their schemas: which an installed Torpor has, and its files name."""

import json
import os
import re
import shutil
import sysconfig
import urllib.parse
import urllib.request
from pathlib import Path

import jsonschema
import pytest

import torpor as library
from processes import ran
from torpor.ask import toml_schemas
from torpor.machine.toml import toml
from torpor_lab.studies import files

ROOT = Path(__file__).parents[2]


def schema_of(text):
    """The schema that a text names in its first line, as an editor finds it."""
    directive, _, address = text.splitlines()[0].partition(" ")
    assert directive == "#:schema"
    path = urllib.request.url2pathname(urllib.parse.urlsplit(address).path)
    return json.loads(Path(path).read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", ["platform", "workload"])
def test_the_schema_is_the_readers_own(torpor, kind):
    printed = torpor("schema", kind, check=0).stdout
    assert json.loads(printed) == library.toml_schema(kind)
    path = torpor("schema", kind, "--path", check=0).stdout.strip()
    assert json.loads(Path(path).read_text(encoding="utf-8")) == library.toml_schema(kind)
    assert "expected one of" in torpor("schema", "governor", check=2).stderr


def test_written_file_passes_its_schema(torpor, recording, tmp_path):
    texts = [
        torpor("platform", "show", "pixel6", check=0).stdout,
        torpor("workload", "show", "frames", check=0).stdout,
        torpor("workload", "idle-predict", "--threads", "3", check=0).stdout,
        torpor("workload", "extract", recording, check=0).stdout,
    ]
    torpor("workload", "extract", recording, "-o", "own.toml", check=0)
    texts.append((tmp_path / "own.toml").read_text(encoding="utf-8"))
    for text in texts:
        jsonschema.validate(toml(text), schema_of(text))
    assert [schema_of(text) for text in texts] == [
        library.toml_schema("platform"),
        *[library.toml_schema("workload")] * 4,
    ]
    # A comment to everybody else.
    (tmp_path / "mine.toml").write_text(texts[0], encoding="utf-8")
    torpor("simulate", "periodic", "-p", "mine.toml", "--duration", "10ms", "--seeds", 1, check=0)


SHIPPED = {
    "platform": (library.platforms, library.platform_toml),
    "workload": (library.workloads, library.workload_toml),
}


@pytest.mark.parametrize("kind", SHIPPED)
def test_shipped_files_match_name_and_schema(kind):
    names, text_of = SHIPPED[kind]
    validator = jsonschema.Draft202012Validator(library.toml_schema(kind))
    for shipped in names():
        file = toml(text_of(shipped["name"]))
        assert file["name"] == shipped["name"]
        validator.validate(file)


@pytest.mark.parametrize(
    ("kind", "name", "from_", "to"),
    [
        ("platform", "pixel6", "hz = 250", "hz = 200"),
        ("platform", "pixel6", "exit_latency_us = 160", "exit_latency_us = -160"),
        ("platform", "pixel6", "exit_latency_us = 160", "exit_latencyus = 160"),
        ("platform", "pixel6", 'cpus = "0-3"', 'cpus = "zero"'),
        ("platform", "pixel6", "capacity = 1024", "capacity = 1025"),
        ("workload", "idle-predict", "run_us = 5", "run_us = -5"),
        ("workload", "idle-predict", "sleep_us = 20 }", "sleeps_us = 20 }"),
        ("workload", "idle-predict", "run_us = 5", 'run_us = { dist = "normal", mean = 5 }'),
        ("workload", "idle-predict", "count = 8", "count = 1.5"),
    ],
)
def test_schema_and_reader_refuse_the_same(tmp_path, kind, name, from_, to):
    _, text_of = SHIPPED[kind]
    broken = text_of(name).replace(from_, to, 1)
    assert broken != text_of(name)
    (tmp_path / "own.toml").write_text(broken, encoding="utf-8")
    with pytest.raises(library.TorporError, match=r"own\.toml"):
        text_of(str(tmp_path / "own.toml"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(toml(broken), library.toml_schema(kind))


def test_the_schema_accepts_exactly_valid_studies():
    schema = library.toml_schema("study")
    assert schema == files.schema()
    for name in files.names():
        study, _ = files.load(name)
        jsonschema.validate(study, schema)
    row = study["table"][0]["row"][0]
    for wrong in (
        {**study, "colour": "red"},
        {key: value for key, value in study.items() if key != "seeds"},
        {**study, "seeds": 0},
        {**study, "table": [{**study["table"][0], "row": [{**row, "not_modelled": "why"}]}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


TAPLO = shutil.which("taplo", path=os.pathsep.join((sysconfig.get_path("scripts"), os.defpath)))


def taplo(folder, *words):
    """Run the tool behind most editors' support of TOML; without a network."""
    if TAPLO is None:
        pytest.skip("needs taplo (pip install taplo)")
    done = ran(TAPLO, "lint", *words, cwd=folder)
    return done.returncode, done.stdout + done.stderr


def test_an_editors_tool_accepts_all_that_ships():
    # As docs/generate.py writes them, which a fresh checkout has not run.
    folder = ROOT / "build" / "schemas"
    folder.mkdir(parents=True, exist_ok=True)
    for kind in toml_schemas.kinds():
        schema = json.dumps(library.toml_schema(kind), indent=1)
        (folder / f"{kind}.schema.json").write_text(f"{schema}\n", encoding="utf-8")
    status, said = taplo(ROOT)
    found = re.search(r"total=(\d+) excluded=0", said)
    assert status == 0, said
    folders = ("platforms", "workloads", "studies")
    assert int(found[1]) == sum(len(list((ROOT / f).glob("*.toml"))) for f in folders)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            ("name =", "frobnicate = 3\nname ="),
            "('frobnicate' was unexpected)",
        ),
        (("title = ", "title = 5 #"), "own.toml:8:9\n  │\n8 │ title = 5 #"),
        (
            ("exit_latency_us = ", "exit_latency = "),
            "'exit_latency' was unexpected",
        ),
    ],
)
def test_an_editors_tool_marks_mistakes(torpor, tmp_path, wrong, words):
    text = torpor("platform", "show", "pixel6", check=0).stdout
    (tmp_path / "own.toml").write_text(text, encoding="utf-8")
    assert taplo(tmp_path, "own.toml")[0] == 0
    (tmp_path / "own.toml").write_text(text.replace(*wrong, 1), encoding="utf-8")
    status, said = taplo(tmp_path, "own.toml")
    assert status != 0 and words in said
