# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor sweep` and `torpor store` as typed."""

import json
import shutil
from pathlib import Path

import pytest

GUEST = Path(__file__).parents[1] / "data" / "guest"


def test_the_command_line_maintains_a_store(torpor, recording, tmp_path):
    where = tmp_path / "store"
    run_it = ["sweep", "-o", where, "-t", recording, "-p", "pixel6", "-g", "menu", "-g", "teo"]
    planned = torpor(*run_it, "--dry-run", check=0)
    assert "2 points, 0 known, 2 to run" in planned.stdout
    assert not where.exists()
    assert "2 points done, 0 of them failed; 0 were known" in torpor(*run_it, check=0).stderr
    assert "0 points done, 0 of them failed; 2 were known" in torpor(*run_it, check=0).stderr
    shown = torpor("show", where, check=0).stdout
    assert "idle power" in shown and "teo" in shown
    narrow = torpor("show", where, env={"COLUMNS": "80"}, check=0).stdout
    assert max(map(len, narrow.splitlines())) <= 80
    assert "| teo |" in torpor("show", where, "--format", "markdown", check=0).stdout
    assert len(json.loads(torpor("show", where, "--format", "json", check=0).stdout)) == 2
    assert f"{where}: 2 points\n" in torpor("store", "list", where, check=0).stdout
    out = tmp_path / "points.csv"
    torpor("store", "export", where, "-o", out, check=0)
    assert len(out.read_text().splitlines()) == 3
    torpor("store", "merge", tmp_path / "new", where, check=0)
    torpor("store", "gc", tmp_path / "new", check=0)
    listed = torpor("store", "list", tmp_path / "new", check=0).stdout
    assert f"{tmp_path / 'new'}: 2 points\n" in listed
    assert torpor("store", "list", tmp_path, check=2).stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("env", "shares"),
    [
        ({"SLURM_ARRAY_TASK_ID": "{}", "SLURM_ARRAY_TASK_MIN": "5"}, (5, 6, 7)),
        ({"LSB_JOBINDEX": "{}"}, (1, 2, 3)),
        ({"JOB_COMPLETION_INDEX": "{}"}, (0, 1, 2)),
    ],
)
def test_array_of_a_batch_system_shares_the_points(torpor, recording, tmp_path, env, shares):
    count = {"SLURM_ARRAY_TASK_COUNT": "3", "LSB_JOBINDEX_END": "3", "JOB_COMPLETIONS": "3"}
    for share in shares:
        job = {name: value.format(share) for name, value in env.items()} | count
        args = ["-t", recording, "-p", "pixel6", "-p", "rk3399", "-g", "menu", "-g", "teo"]
        torpor("sweep", "-o", tmp_path / "store", *args, env=job, check=0)
    found = json.loads(torpor("show", tmp_path / "store", "--format", "json", check=0).stdout)
    assert len(found) == 4


@pytest.mark.parametrize("text", ["3/2", "0/2", "x", "1/", "-1/2"])
def test_invalid_shard_is_refused(torpor, recording, text):
    done = torpor("sweep", "-t", recording, "-p", "pixel6", "-g", "menu", "--shard", text, check=2)
    assert "expected I/N" in done.stderr


def test_a_sweep_knows_the_recorded_machine(torpor, tmp_path):
    folder = GUEST / "arm64-6.12-menu-rates"
    args = ["sweep", "-o", tmp_path / "store", "-p", "pixel6", "-g", "menu-6.12"]
    # Away from its dumps it identifies no machine.
    alone = shutil.copy(folder / "trace.dat.gz", tmp_path / "alone.dat.gz")
    for trace in (folder / "trace.dat.gz", alone):
        torpor(*args, "-t", trace, check=0)
    torpor(*args, "-t", alone, "--recorded-on", "pixel6", check=0)
    # Known by now: the machine is part of a point's name.
    again = torpor(*args, "-t", alone, "--recorded-on", "pixel6", check=0)
    assert "0 points done" in again.stderr
    rows = json.loads(torpor("show", tmp_path / "store", "--format", "json", check=0).stdout)
    shares = {(Path(row["source"]).name, row["options"]): row["above_pct"] for row in rows}
    assert shares == {
        ("trace.dat.gz", "{}"): pytest.approx(0.19, abs=0.01),
        ("alone.dat.gz", "{}"): pytest.approx(2.08, abs=0.01),
        ("alone.dat.gz", '{"recorded_on": "pixel6"}'): pytest.approx(0.19, abs=0.01),
    }


def test_others_option_changes_the_points(torpor, recording, tmp_path):
    args = ["-o", tmp_path / "store", "-t", recording, "-p", "pixel6", "-g", "menu"]
    torpor("sweep", *args, "--others", "busy", check=0)
    torpor("sweep", *args, check=0)
    rows = json.loads(torpor("show", tmp_path / "store", "--format", "json", check=0).stdout)
    power = {row["options"]: row["cluster_power_mw"] for row in rows}
    assert power['{"others": "busy"}'] > power["{}"]


def test_the_first_governor_named_is_the_base(torpor, recording, tmp_path):
    store = tmp_path / "store"
    args = ["-o", store, "-t", recording, "-p", "pixel6"]
    torpor("sweep", *args, "-g", "teo", "-g", "menu", "-g", "deepest", check=0)
    torpor("sweep", *args, "-g", "ladder", "-g", "teo", check=0)
    shown = torpor("show", store, check=0).stdout
    assert "changes are from teo\n" in shown
    heading = next(line for line in shown.splitlines() if line.startswith("scenario"))
    names = [word for word in heading.split() if word in ("teo", "menu", "deepest", "ladder")]
    assert names == ["teo", "menu", "deepest", "ladder"]
    torpor("store", "gc", store, check=0)
    assert "changes are from teo\n" in torpor("show", store, check=0).stdout
    torpor("show", store, "--report", tmp_path / "page.html", check=0)
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.index('"teo"') < page.index('"menu"') < page.index('"ladder"')
    torpor("store", "merge", tmp_path / "other", store, check=0)
    assert "changes are from teo\n" in torpor("show", tmp_path / "other", check=0).stdout


def test_a_pipe_gets_no_folded_lines(torpor, recording, tmp_path):
    store = tmp_path / ("a folder with a long name, " * 4).strip(" ,")
    args = ["-t", recording, "-p", "pixel6", "-g", "menu", "-g", "teo"]
    torpor("sweep", "-o", store, *args, check=0)
    first = torpor("store", "list", store, check=0).stdout.splitlines()[0]
    assert first == f"{store}: 2 points"
    shown = torpor("show", store, "-m", "idle_power_mw", check=0).stdout
    assert sum(line.startswith("scenario") for line in shown.splitlines()) == 1
    assert any(line.startswith(f"{recording.name}, pixel6  ") for line in shown.splitlines())
