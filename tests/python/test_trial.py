# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor try`: series of patches to a governor of ours, and to a kernel."""

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from sources import kernel_sources

import torpor
from torpor.ask.trial import Standing, TrialError, attempt
from torpor.ask.trial.series import read_source
from torpor.results.kinds.trial import post, verdict

ROOT = Path(__file__).resolve().parents[2]
FILE = "drivers/cpuidle/governors/shallowest.c"


def git(tree, *words):
    identity = ["-c", "user.name=A Writer", "-c", "user.email=writer@example.org"]
    command = ["git", "-C", tree, *identity, *words]
    return subprocess.run(command, check=True, capture_output=True).stdout


def make_tree(folder):
    """Make a tree whose governor is ours; `topic` has words, a change, a README, a breach."""
    text = (ROOT / "governors/cpuidle/deepest.c").read_text()
    text = re.sub(r"\bdeepest\b", "shallowest", text)
    shallow = (ROOT / "governors/cpuidle/shallowest.c").read_text()
    wrong = text.replace("cpuidle_governor_latency_req(dev->cpu)", "KTIME_MAX")
    assert wrong != text
    file = folder / FILE
    file.parent.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 0\n")
    steps = [
        ("Linux 6.1", FILE, text),
        ("cpuidle: Say something", FILE, f"{text}/* 1 */\n"),
        ("cpuidle: Sleep less deeply", FILE, shallow),
        ("README: Say something", "README", "words\n"),
        ("cpuidle: Ask for no limit", FILE, wrong),
    ]
    for number, (subject, path, content) in enumerate(steps):
        (folder / path).write_text(content)
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", subject)
        if not number:
            git(folder, "tag", "v6.1")
            git(folder, "checkout", "-q", "-b", "topic")
    return folder


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return make_tree(tmp_path_factory.mktemp("linux"))


@pytest.fixture(scope="module")
def mails(tree):
    return git(tree, "format-patch", "--stdout", "--base=v6.1", "v6.1..topic")


@pytest.fixture(scope="module")
def standing(recording):
    return Standing(recordings=[str(recording)], platforms=["pixel6"], decisions=20_000)


@pytest.fixture(scope="module")
def tried(tree, standing):
    return attempt(read_source(f"{tree}:v6.1..topic"), None, standing)


def test_range_mailbox_folder_and_stream_give_equal_results(tree, mails, standing, tried, tmp_path):
    (tmp_path / "series.mbox").write_bytes(mails)
    git(tree, "format-patch", "-q", "-o", tmp_path / "folder", "--base=v6.1", "v6.1..topic")
    sources = {str(tmp_path / "series.mbox"): None, str(tmp_path / "folder"): None, "-": mails}
    for source, given in sources.items():
        found = attempt(read_source(source, given), str(tree), standing)
        expected = dict(tried)
        for result in (found, expected):
            # A mail's author and id are its own.
            result["series"] = {**result["series"], "patches": None, "message_id": None}
        assert found == expected, source


def test_each_patch_has_a_column(tried):
    columns = {column["label"]: column for column in tried["columns"]}
    assert [*columns] == ["base", "+1", "+2", "+3", "+4"]
    assert columns["+3"]["same_as"] == "+2" and not columns["+3"]["has_effect"]
    (scenario,) = tried["scenarios"]
    differing = {cell["label"]: cell["differing"] for cell in scenario["cells"]}
    assert differing["+1"] == 0 and differing["+2"] == differing["+3"] > 0
    assert {r["governor"] for r in scenario["references"]} == {"shallowest", "deepest", "oracle"}


def test_a_breach_names_its_patch(tried):
    (check,) = tried["checks"]
    assert [(b["kind"], b["since"]) for b in check["new"]] == [("latency", "+4")]
    assert verdict(tried).endswith("breaks `latency`.")


def test_files_without_an_effect_are_named(tried):
    files = {file["path"]: file["effect"] for file in tried["files"]}
    assert files == {FILE: "governor", "README": "none"}
    assert (
        f"1 of 2 files has an effect here: {FILE}; without: README (no code)" in post(tried).notes
    )


def test_no_functional_change_is_a_verdict(tree, standing):
    found = attempt(read_source(f"{tree}:v6.1..topic~3"), None, standing)
    assert re.fullmatch(
        r"No decision of [\d,]+ differs in 1 recording: no functional change seen\.", verdict(found)
    )


def test_a_series_without_effect_runs_nothing(tree, standing):
    found = attempt(read_source(f"{tree}:topic~2..topic~1"), None, standing)
    assert found["scenarios"] == [] and "no file of it has an effect here" in verdict(found)


def test_base_is_the_commit_with_all_blobs(tree, mails, standing, tmp_path):
    path = tmp_path / "bare.mbox"
    path.write_bytes(re.sub(rb"(?m)^base-commit: .*\n", b"", mails))
    found = attempt(read_source(str(path)), f"{tree}:topic", standing)
    assert found["base"]["name"] == "v6.1" and "blobs" in found["base"]["why"]


def test_rejected_hunks_and_tags_are_listed(tree, mails, standing, tmp_path):
    other = tmp_path / "other"
    git(tree, "clone", "-q", tree, other)
    git(other, "checkout", "-q", "v6.1")
    (other / FILE).write_text("int nothing;\n")
    git(other, "commit", "-q", "-a", "-m", "Linux 6.2")
    git(other, "tag", "v6.2")
    path = tmp_path / "plain.mbox"
    plain = re.sub(rb"(?m)^(base-commit: .*|index .*)\n", b"", mails)
    path.write_bytes(plain)
    with pytest.raises(TrialError, match=r"does not apply to other:v6\.2") as raised:
        attempt(read_source(str(path)), f"{other}:v6.2", standing)
    said = str(raised.value)
    assert FILE in said and "hunk" in said
    assert f"--onto {other}:v6.1, the newest tag" in said


def test_missing_members_are_named(tree, mails, standing, tmp_path):
    path = tmp_path / "third.mbox"
    path.write_bytes(b"From " + mails.split(b"\nFrom ")[-1])
    with pytest.raises(TrialError, match=r"patch 1, 2, 3 of the series"):
        attempt(read_source(str(path)), f"{tree}:main", standing)


def test_lost_white_space_asks_for_the_mail(tree, mails, standing, tmp_path):
    path = tmp_path / "blanks.mbox"
    path.write_bytes(mails.replace(b"\t", b" " * 8))
    with pytest.raises(TrialError, match=r"white space.*\n(.*\n)*hint: fetch the raw mail"):
        attempt(read_source(str(path)), f"{tree}:main", standing)


def test_verdict_names_gain_and_cost(tried):
    changes = [
        ("idle_power_mw", 140.0, True),
        ("latency_mean_us", -87.0, True),
        ("throughput", -7.0, False),
    ]
    result = copy.deepcopy(dict(tried))
    result["checks"] = []
    (scenario,) = result["scenarios"]
    scenario["cells"][-1]["differing"] = 5
    scenario["cells"][-1]["changes"] = [
        {
            **{"metric": key, "difference": size, "relative_pct": size, "low": None},
            **{"high": None, "p": 0.01 if sure else 0.5, "is_significant": sure},
        }
        for key, size, sure in changes
    ]
    assert verdict(result) == (
        "shallowest: 140 % more idle power, 87 % less wake-up latency, 7 % less throughput "
        "(within chance) on phones."
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("no-such-file", "there is no `no-such-file`"),
        ("-", "standard input is empty"),
        ("/:a..b", "is no git repository"),
    ],
)
def test_sources_that_are_none_are_refused(source, message):
    with pytest.raises(TrialError, match=message):
        read_source(source)


def test_mail_has_72_columns_of_ascii(tried):
    text = torpor.post(tried, "mail")
    assert text.isascii() and max(map(len, text.splitlines())) <= 72


def test_a_broken_limit_is_a_finding(tree, standing, tmp_path, torpor_process, recording):
    limits = tmp_path / "limits.toml"
    limits.write_text('[[limit]]\nmetric = "latency_mean_us"\nmax = 0.001\n')
    words = (f"{tree}:v6.1..topic~3", "-t", str(recording), "-p", "pixel6", "--format", "json")
    done = torpor_process("try", *words, "--limits", str(limits))
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert [limit["metric"] for limit in found["limits"]] == ["latency_mean_us"]
    assert found["command"].startswith("torpor try")
    assert torpor_process("try", *words).returncode == 0


def test_a_revision_that_does_not_compile_ends_its_column(tree, standing, tmp_path):
    other = tmp_path / "other"
    git(tree, "clone", "-q", tree, other)
    git(other, "checkout", "-q", "-b", "broken", "v6.1")
    for subject, text in (("Break it", "not C at all\n"), ("Mend it", (tree / FILE).read_text())):
        (other / FILE).write_text(text)
        git(other, "commit", "-q", "-a", "-m", subject)
    found = attempt(read_source(f"{other}:v6.1..broken"), None, standing)
    errors = [column["error"] for column in found["columns"]]
    assert errors[0] is None and errors[1] is not None and errors[2] is None


@pytest.fixture(scope="module")
def kernel_tree(tmp_path_factory):
    """Linux 6.12 as a repository, and on `topic` the tutorial's patches."""
    folder = tmp_path_factory.mktemp("kernel") / "linux"
    shutil.copytree(kernel_sources("6.12"), folder, symlinks=True)
    teo = "drivers/cpuidle/governors/teo.c"
    steps = [
        (teo, r"(#define DECAY_SHIFT.*)", r"\1 /* an eighth */"),
        (teo, r"#define PULSE\b.*", "#define PULSE 512"),
        (teo, r"cpuidle_governor_latency_req\(dev->cpu\)", "KTIME_MAX"),
        ("kernel/sched/fair.c", "= 700000ULL", "= 2800000ULL"),
    ]
    git(folder, "init", "-q", "-b", "topic")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "Linux 6.12")
    git(folder, "tag", "v6.12")
    for number, (path, pattern, text) in enumerate(steps, 1):
        content = (folder / path).read_text()
        (folder / path).write_text(re.sub(pattern, text, content))
        git(folder, "commit", "-q", "-a", "-m", f"Step {number}")
    return folder


@pytest.mark.slow
def test_a_kernels_series_is_equal_from_all_sources(kernel_tree, recording, tmp_path):
    words = ("format-patch", "-q", "--base=v6.12")
    mails = git(kernel_tree, *words, "--stdout", "v6.12..topic")
    (tmp_path / "series.mbox").write_bytes(mails)
    git(kernel_tree, *words, "-o", tmp_path / "folder", "v6.12..topic")
    standing = Standing(
        *([str(recording)], ["pixel6"], ["frames"]), seeds=2, duration="500ms", decisions=20_000
    )
    sources = [f"{kernel_tree}:v6.12..topic", "-"]
    sources += [str(tmp_path / name) for name in ("series.mbox", "folder")]
    results = []
    for source in sources:
        found = attempt(read_source(source, mails), str(kernel_tree), standing)
        found["series"] = {**found["series"], "patches": None, "message_id": None}
        results.append(found)
    assert all(found == results[0] for found in results)
    first = results[0]
    assert [(f["path"], f["effect"]) for f in first["files"]] == [
        ("drivers/cpuidle/governors/teo.c", "governor"),
        ("kernel/sched/fair.c", "hosted"),
    ]
    (check,) = first["checks"]
    assert [(breach["kind"], breach["since"]) for breach in check["new"]] == [("latency", "+3")]
    replayed, simulated = first["scenarios"]
    assert [cell["steps"] for cell in replayed["cells"][:3]] == [False, False, True]
    assert simulated["cells"][4]["steps"], "the scheduler's slice has an effect"
