# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor workload extract` and rt-app's files, from outside."""

import json
from pathlib import Path

DEMO = Path(__file__).resolve().parents[2] / "demo" / "web-server.perf.data"


def test_a_recording_becomes_a_workload_that_runs(torpor, tmp_path):
    made = tmp_path / "server.toml"
    done = torpor("workload", "extract", str(DEMO), "-o", str(made), check=0)
    assert "21 tasks, --duration 10.001s" in done.stderr
    assert 'name = "server"' in made.read_text(encoding="utf-8")
    run = ("--duration", "200ms", "--seeds", "1", "--format", "json")
    done = torpor("simulate", str(made), "-p", "i5-10600k", "-g", "teo", *run, check=0)
    tasks = {task["name"]: task for task in json.loads(done.stdout)["runs"][0]["tasks"]}
    assert tasks["nginx-18207"]["wakeups"] > 10


def test_the_check_needs_the_machine_and_lists_differences(torpor):
    refused = torpor("workload", "extract", str(DEMO), "--check", check=2)
    assert "--platform" in refused.stderr
    # The demo's machine does not ship, so some task may be off, which status 1 reports.
    arguments = ("workload", "extract", str(DEMO), "--check", "-p", "i5-10600k")
    check = json.loads(torpor(*arguments, "--format", "json", check=None).stdout)
    assert {"ks", "decades"} <= set(check["idle"])
    assert len(check["tasks"]) == 21
    for which in ("recorded", "simulated"):
        lags = check[f"{which}_autocorrelation"]["lags"]
        assert [lag["from_ns"] for lag in lags][:3] == [0, 4_000_000, 8_000_000]
        assert all(abs(lag["sleep_length"]) < 0.15 for lag in lags), lags
    text = torpor(*arguments, check=None).stdout
    assert "Autocorrelation, by the time between two sleeps" in text
    assert "128 to 256 ms" in text


def test_background_of_a_changing_load_has_sections(torpor, tmp_path):
    guest = DEMO.parents[1] / "tests" / "data" / "guest" / "amd64-6.12-menu-rates"
    made = tmp_path / "rates.toml"
    arguments = ("workload", "extract", str(guest / "trace.dat.gz"), "--background", "*")
    done = torpor(*arguments, "-o", str(made), check=0)
    sections = made.read_text(encoding="utf-8").count("[[section]]")
    assert sections > 5
    assert f"{sections} sections, by their load: from 0.00 s" in done.stderr
    run = ("--duration", "1s", "--seeds", "1", "-m", "busy_pct")
    torpor("simulate", str(made), "-p", "i5-10600k", "-g", "teo", *run, check=0)
    # The demo's load does not change.
    done = torpor("workload", "extract", str(DEMO), "-o", str(made), check=0)
    assert "sections" not in done.stderr


def test_rt_app_file_runs_or_is_refused(torpor, tmp_path):
    file = tmp_path / "load.json"
    file.write_text('{ "tasks": { "t": { "run": 1000, "sleep": 4000 } } }', encoding="utf-8")
    run = ("-p", "pixel6", "-g", "menu", "--duration", "100ms", "--seeds", "1")
    done = torpor("simulate", str(file), *run, check=0)
    assert "load: simulation" in done.stdout
    file.write_text('{ "tasks": { "t": { "mem": 1000 } } }', encoding="utf-8")
    refused = torpor("simulate", str(file), *run, check=2)
    assert "tasks.t.mem" in refused.stderr and "load.json:1:21" in refused.stderr
