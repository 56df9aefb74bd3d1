# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor sweep` and `torpor store` as typed."""

import json

import pytest


def test_the_command_line_runs_shows_and_looks_after_a_store(torpor, recording, tmp_path):
    where = tmp_path / "store"
    run_it = ["sweep", "-o", where, "-t", recording, "-p", "pixel6", "-g", "menu", "-g", "teo"]
    planned = torpor(*run_it, "--dry-run", check=0)
    assert "2 points, 0 known, 2 to run" in planned.stdout
    assert not where.exists()
    assert "2 points done, 0 of them failed; 0 were known" in torpor(*run_it, check=0).stderr
    assert "0 points done, 0 of them failed; 2 were known" in torpor(*run_it, check=0).stderr
    shown = torpor("sweep", "show", where, check=0).stdout
    assert "idle power" in shown and "teo" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "| teo |" in torpor("sweep", "show", where, "--format", "markdown", check=0).stdout
    assert len(json.loads(torpor("sweep", "show", where, "--json", check=0).stdout)) == 2
    assert "2 points" in torpor("store", "ls", where, check=0).stdout
    out = tmp_path / "points.csv"
    torpor("store", "export", where, "-o", out, check=0)
    assert len(out.read_text().splitlines()) == 3
    torpor("store", "merge", tmp_path / "new", where, check=0)
    torpor("store", "gc", tmp_path / "new", check=0)
    listed = torpor("store", "ls", tmp_path / "new", check=0).stdout
    assert "2 points" in " ".join(listed.split())
    assert torpor("store", "ls", tmp_path, check=2).stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("env", "shares"),
    [
        ({"SLURM_ARRAY_TASK_ID": "{}", "SLURM_ARRAY_TASK_MIN": "5"}, (5, 6, 7)),
        ({"LSB_JOBINDEX": "{}"}, (1, 2, 3)),
        ({"JOB_COMPLETION_INDEX": "{}"}, (0, 1, 2)),
    ],
)
def test_an_array_of_a_batch_system_shares_the_points(torpor, recording, tmp_path, env, shares):
    count = {"SLURM_ARRAY_TASK_COUNT": "3", "LSB_JOBINDEX_END": "3", "JOB_COMPLETIONS": "3"}
    for share in shares:
        job = {name: value.format(share) for name, value in env.items()} | count
        args = ["-t", recording, "-p", "pixel6", "-p", "rk3399", "-g", "menu", "-g", "teo"]
        torpor("sweep", "-o", tmp_path / "store", *args, env=job, check=0)
    found = json.loads(torpor("sweep", "show", tmp_path / "store", "--json", check=0).stdout)
    assert len(found) == 4


@pytest.mark.parametrize("text", ["3/2", "0/2", "x", "1/", "-1/2"])
def test_a_share_that_is_none_is_refused(torpor, recording, text):
    done = torpor("sweep", "-t", recording, "-p", "pixel6", "-g", "menu", "--shard", text, check=2)
    assert "expected I/N" in done.stderr
