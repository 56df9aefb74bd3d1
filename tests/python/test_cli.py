# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The command line as a user sees it: a process, its two streams, its exit status."""

import ast
import csv
import io
import json
import re
import sys
from importlib.util import find_spec

import click
import pytest
from click.testing import CliRunner

from processes import ran
from torpor.cli.app import app

REPLAY = ("replay", "--platform", "pixel6", "-g", "menu", "-g", "teo")


def test_replay_prints_its_table_on_stdout_only(torpor, recording):
    done = torpor(*REPLAY, recording, "-v", check=0)
    head, *_ = (line for line in done.stdout.splitlines() if line.startswith("metric"))
    assert head.split() == ["metric", "menu", "teo", "change"]
    assert re.search(r"^ ?too deep % +\d+\.\d+ +\d+\.\d+", done.stdout, re.M)
    assert "* open-loop replay" in done.stdout
    assert done.stderr == ""


def test_default_governors_are_references_and_oracle(torpor, recording):
    done = torpor("replay", "-p", "pixel6", recording, "--format", "csv", check=0)
    assert [line["governor"] for line in csv.DictReader(io.StringIO(done.stdout))] == [
        "menu",
        "teo",
        "shallowest",
        "deepest",
        "oracle",
    ]


def test_csv_equals_json(torpor, recording):
    result = json.loads(torpor(*REPLAY, recording, "--format", "json", check=0).stdout)
    lines = csv.DictReader(
        io.StringIO(torpor(*REPLAY, recording, "--format", "csv", check=0).stdout)
    )
    for line, run in zip(lines, result["traces"][0]["runs"], strict=True):
        for key, value in run["metrics"].items():
            assert line[key] == "" if value is None else float(line[key]) == value
        assert line["wakeups"].isdigit()


def test_two_recordings_give_two_tables(torpor, recording):
    done = torpor(*REPLAY, recording, recording, "-v", check=0)
    # And one over both.
    assert done.stdout.count("too deep") == 3
    assert done.stdout.count("Over 2 recordings: ") == 1
    assert done.stdout.count("* open-loop replay") == 1


def test_heading_shows_the_options(torpor, recording):
    done = torpor(
        *REPLAY, recording, "--latency-limit", "50us", "--hz", "1000", "--disable-state", "0:1",
        check=0,
    )  # fmt: skip
    words = " ".join(done.stdout.split())
    assert "tick 1000 Hz" in words
    assert "latency limit 50 µs, state 1 of CPU 0 disabled" in words


def test_governor_parameters_and_cpu_places(torpor, recording):
    done = torpor(*REPLAY, recording, "-C", "0", "--cpu-map", "0:7", "--format", "json", check=0)
    clusters = json.loads(done.stdout)["traces"][0]["runs"][0]["clusters"]
    assert [c["name"] for c in clusters if c["running_ns"]] == ["big"]


def test_decision_time_is_measured_on_request(torpor, recording):
    keys = [f"decision_time_{which}_ns" for which in ("mean", "p50", "p99")]
    governors = ("menu", "shallowest", "oracle")
    replay = ("replay", recording, "-p", "pixel6", *(f"-g{name}" for name in governors))
    done = torpor(*replay, "--time-decisions", "--format", "json", check=0)
    result = json.loads(done.stdout)
    assert result["options"]["time_decisions"] is True
    menu, shallowest, oracle = (run["metrics"] for run in result["traces"][0]["runs"])
    assert all(0 < menu[key] < 1e6 for key in keys)
    assert menu[keys[1]] > shallowest[keys[1]], "menu computes, and shallowest answers 0"
    assert [oracle[key] for key in keys] == [None, None, None], "nobody was asked"
    plain = json.loads(torpor(*replay, "--format", "json", check=0).stdout)
    for run, timed in zip(plain["traces"][0]["runs"], result["traces"][0]["runs"], strict=True):
        assert all(run["metrics"][key] is None for key in keys)
        assert run["metrics"] == timed["metrics"] | dict.fromkeys(keys), "nothing else moves"
    assert "time per decision" not in torpor(*replay, check=0).stdout


def test_tables_and_decisions_are_written(torpor, recording, tmp_path):
    done = torpor(
        *REPLAY,
        recording,
        "--format",
        "csv",
        "--parquet",
        "out/tables",
        "--decisions",
        "d.arrow",
        check=0,
    )
    assert {p.name for p in (tmp_path / "out/tables").iterdir()} == {
        "summary.parquet",
        "states.parquet",
        "latency.parquet",
        "comparison.parquet",
        "causes.parquet",
        "decisions.parquet",
        "result.json",
    }
    assert (tmp_path / "d.arrow").read_bytes().startswith(b"ARROW1")
    assert "tables: out/tables" in done.stderr
    assert "decisions: d.arrow" in done.stderr
    assert done.stdout.startswith("trace,platform,governor,error,wakeups,")


def test_a_report_is_one_file(torpor, recording, tmp_path):
    torpor(*REPLAY, recording, "--report", "r.html", check=0)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "</html>" in page
    # Apart from the trace that it hands over to Perfetto.
    start = page.index('id="trace-data">')
    end = page.index("</script>", start)
    assert end - start < 4_000_000 * 4 / 3
    assert len(page) - (end - start) < 1_000_000


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_fits_the_terminal(torpor, recording, width):
    done = torpor("replay", "-p", "pixel6", recording, env={"COLUMNS": str(width)}, check=0)
    table = [line for line in done.stdout.splitlines() if str(recording) not in line]
    assert max(map(len, table)) <= width


def test_metrics_select_rows_of_tables(torpor, recording):
    some = ("replay", "-p", "pixel6", "-g", "menu", recording, "-m", "latency_p*", "-m", "wakeups")
    lines = torpor(*some, check=0).stdout.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("metric "))
    titles = [line.partition("  ")[0] for line in lines[start + 1 : lines.index("", start)]]
    assert titles == ["wake-ups", "p50 wake-up latency µs", "p99 wake-up latency µs"]
    assert "above_pct" in torpor(*some, "--format", "csv", check=0).stdout
    refused = torpor("replay", "-p", "pixel6", recording, "-m", "wakeup", check=2).stderr
    assert "no metric is called `wakeup`: did you mean `wakeups`?" in refused


def test_an_ascii_terminal_gets_ascii(torpor_process, recording):
    done = torpor_process(*REPLAY, recording, env={"PYTHONIOENCODING": "ascii"}, check=0)
    assert done.stdout.isascii()
    assert "us " in done.stdout


BAD = [
    # arguments after `replay`, words that must be in the error
    (["@", "-p", "pixel-6"], ["`pixel-6`", "did you mean `pixel6`?"]),
    (
        ["@", "-p", "nothing_like_it"],
        ["`nothing_like_it`", "one of 4", "`torpor platform list`"],
    ),
    (["@"], ["needs `--platform`", "`AMD EPYC` with 2 CPUs", "`torpor platform list`"]),
    (["@", "-p", "mine.toml"], ["mine.toml", "No such file", "hint: "]),
    (["@", "-p", "pixel6", "-g", "no/such.c"], ["`no/such.c`: read", "there is no folder `no`"]),
    (["@", "-p", "pixel6", "-g", "./garbage.c"], ["No such file", "did you mean `./garbage`?"]),
    (
        ["@", "-p", "pixel6", "-g", "meno"],
        ["`meno`: did you mean `menu`?", "expected one of deepest"],
    ),
    (["@", "-p", "pixel6", "-g", "mine.c"], ["mine.c"]),
    (["@", "-p", "pixel6", "-g", "menu,nothing=1"], ["no parameter `nothing`"]),
    (["@", "-p", "pixel6", "-g", ""], ["NAME, PATH.c"]),
    (["@", "-p", "pixel6", "--latency-limit", "50"], ["`50`", "ns, us, ms, s"]),
    (["@", "-p", "pixel6", "--latency-limit", "fast"], ["`fast`", "such as 50us"]),
    (["@", "-p", "pixel6", "--latency-limit", "-5us"], ["negative"]),
    (["@", "-p", "pixel6", "--by", "x"], ["`--by`: found `x`", "one of `task`, `irq`, `timer`"]),
    (["@", "-p", "pixel6", "--hz", "123"], ["`--hz`: 123", "100, 250, 300, 1000"]),
    (["@", "-p", "pixel6", "--hz", "many"], ["--hz", "integer"]),
    (["@", "-p", "pixel6", "--disable-state", "C1"], ["`C1`", "index"]),
    (["@", "-p", "pixel6", "--disable-state", "9"], ["no idle state 9", "0 to 1"]),
    (["@", "-p", "pixel6", "--recorded-on", "i5"], ["`i5`"]),
    (["@", "-p", "pixel6", "-C", "a-b"], ["`a-b`", "0-3,7"]),
    (["@", "-p", "pixel6", "-C", "3-1"], ["backwards"]),
    (["@", "-p", "pixel6", "-C", "1"], ["no CPU 1 going idle"]),
    (["@", "-p", "pixel6", "--cpu-map", "0"], ["`0`", "RECORDED:CPU"]),
    (["@", "-p", "pixel6", "--cpu-map", "0:1,0:2"], ["twice"]),
    (["@", "-p", "pixel6", "--cpu-map", "0:64"], ["cpu0", "0 to 7"]),
    (["@", "-p", "pixel6", "-j", "0"], ["--threads"]),
    (["@", "-p", "pixel6", "--from", "5s", "--to", "2s"], ["--from", "--to", "before", "2.000 s"]),
    (["@", "-p", "pixel6", "--format", "json", "--format", "csv"], ["given twice"]),
    (["@", "-p", "pixel6", "--decisions", "d.xlsx"], [".parquet or .arrow", "d.parquet"]),
    (["@", "-p", "pixel6", "--report", "no/such/r.html"], ["no folder `no/such`"]),
    (["@", "-p", "pixel6", "--no-such-option"], ["--no-such-option"]),
    (["-p", "pixel6"], ["TRACE"]),
    (["absent.data", "-p", "pixel6"], ["`absent.data`", "No such file", "hint: "]),
    ([".", "-p", "pixel6"], ["`.`", "folder", "hint: "]),
    (["garbage", "-p", "pixel6"], ["garbage", "expected one of", "perf.data"]),
    (["empty", "-p", "pixel6"], ["empty", "0 bytes"]),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=lambda value: " ".join(value)[:40])
def test_wrong_usage_shows_the_right_one(torpor, recording, tmp_path, arguments, words):
    (tmp_path / "garbage").write_bytes(bytes(range(256)) * 64)
    (tmp_path / "empty").write_bytes(b"")
    done = torpor("replay", *(recording if a == "@" else a for a in arguments), check=2)
    assert done.stdout == ""
    # This test does not depend on where a line is folded.
    message = " ".join(done.stderr.split())
    for word in words:
        assert word in message, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["show", "gone.json"],
        ["study", "run", "./gone.toml"],
        ["contest", "menu", "--no-rules", "--corpus", "gone.toml"],
        ["sweep", "gone.toml"],
        ["sweep", "-t", "gone.data", "-p", "pixel6", "-g", "teo"],
        ["show", "gone"],
        ["shadow", "gone.pipe", "-p", "pixel6"],
        ["gate", "gone", "gone", "-l", "gone.toml"],
        ["simulate", "./gone.toml", "-p", "pixel6"],
    ],
    ids=" ".join,
)
def test_error_of_a_missing_file_has_a_hint(torpor, words):
    error = torpor(*words, check=2).stderr
    assert "gone" in error and "hint: " in error, error
    assert not re.search(r"entity|Errno|os error", error)


def test_a_damaged_recording_is_replayed_with_a_finding(torpor, recording, tmp_path):
    content = bytearray(recording.read_bytes())
    content[400_000:400_200] = bytes(200)
    (tmp_path / "torn.perf.data").write_bytes(content)
    assert torpor("trace", "info", "torn.perf.data", check=1).stdout.count("damage: ") > 0
    done = torpor(*REPLAY, "torn.perf.data", check=1)
    assert "too deep" in done.stdout
    assert re.search(r"^\* Damage: \d+ × ", done.stdout, re.M)


def test_a_crashed_governor_is_a_finding(torpor, recording, crash):
    done = torpor(*REPLAY, "-g", crash.name, recording, cwd=crash.parent, check=1)
    assert re.search(r"too deep % +\d\S* +\d\S* +\S+ pp +failed", done.stdout)
    assert re.search(r"^\* crash\.c failed: .*select", done.stdout, re.M)
    alone = torpor("replay", "-p", "pixel6", "-g", crash, recording, check=2)
    assert "failed" in alone.stdout


def test_version(torpor):
    import torpor as package

    version = torpor("--version", check=0).stdout
    commit = r"commit ([0-9a-f]{12}(-dirty)?|not known)"
    target = r"\w+-unknown-linux-gnu, abi3 from CPython 3\.10"
    first, second = version.splitlines()
    assert re.fullmatch(rf"torpor {package.__version__} \({commit}; {target}\)", first)
    assert second.startswith("recordings: perf.data, perfetto, ")
    assert ("tune" in second) == (find_spec("optuna") is not None)


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["unheard-of"], ["replay"]])
def test_help_and_usage_errors_import_only_click(words):
    script = (
        f"import sys; sys.argv = {['torpor', *words]!r}; from torpor.cli import main; main(); "
        "tops = {name.partition('.')[0] for name in sys.modules}; "
        "print(sorted(tops - sys.stdlib_module_names), file=sys.stderr); "
        "print('csv' in tops or 'difflib' in tops, file=sys.stderr)"
    )
    done = ran(sys.executable, "-I", "-c", script)
    *_, found, is_heavy = done.stderr.splitlines()
    own = {"__main__", "_distutils_hack", "click", "torpor", "torpor_lab"}
    assert {name for name in ast.literal_eval(found) if "sitecustom" not in name} <= own
    # Only an unknown command is compared with all others.
    assert is_heavy == str(words == ["unheard-of"])


def test_short_command_imports_no_pydantic(recording):
    words = ["torpor", *REPLAY, str(recording), "-j", "1", "--no-isolate", "--format", "csv"]
    script = (
        f"import sys; sys.argv = {words!r}; from torpor.cli import main; main(); "
        "print(sorted({'pydantic', 'statistics'} & set(sys.modules)), file=sys.stderr)"
    )
    done = ran(sys.executable, "-c", script)
    assert (done.stderr.strip(), done.returncode) == ("[]", 0)


def leaves():
    """Return the words of each command that needs an argument or an option."""
    found = []
    for name, command in app.load_all().items():
        commands = command.list_commands(None) if isinstance(command, click.Group) else [None]
        for sub in commands:
            leaf = command if sub is None else command.get_command(None, sub)
            if any(parameter.required for parameter in leaf.params):
                found.append([name] if sub is None else [name, sub])
    return found


@pytest.mark.parametrize("words", leaves(), ids=" ".join)
def test_a_missing_argument_is_named(words):
    done = CliRunner().invoke(app.load_all()[words[0]], words[1:])
    assert done.exit_code == 2 and "Missing" in done.output, (done.output, done.exception)


@pytest.mark.parametrize("words", leaves(), ids=" ".join)
def test_help_shows_no_internals(words):
    done = CliRunner().invoke(app.load_all()[words[0]], [*words[1:], "--help"])
    assert done.exit_code == 0 and not re.search(r"Sentinel|UNSET|<.*object", done.output)
