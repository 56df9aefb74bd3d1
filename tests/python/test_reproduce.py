# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor study run`: study files, the judgement, and what it prints."""

import json

import pytest
from sources import kernel_sources

from torpor import TorporError, platform_toml
from torpor.results.shapes import problem
from torpor_lab import StudyError, ceiling, judge, studies
from torpor_lab.reproduction import JudgedCounts
from torpor_lab.studies import files

QUICK = ("--duration", "50ms", "--seeds", "2")
STUDY = """
title = "t"
source = ["s"]
platform = "pixel6"
duration = "100ms"
seeds = 1
calibration = "none"
[[column]]
name = "a"
governor = "menu"
[[column]]
name = "b"
governor = "teo"
[[table]]
title = "t"
workload = "periodic"
columns = ["a", "b"]
[[table.row]]
title = "r"
metric = "power_mw"
published = { a = 1, b = 2 }
calibrated = ["a"]
"""


# Calibrations that a study, or one of its tables, may have beyond a row's one column: a device's
# two numbers, the time of a read and the CPU's work for it; a benchmark's turn and the exit that it
# waits for.
CALIBRATES_TWO = {
    "rk3399-io",
    "fio --rw=randread --bs=4k on /dev/nvme0n1, IOPS",
    "perf bench sched seccomp-notify -l 2500000, s",
    "One thread, package W",
    "Very light work at 73 Hz, package W",
}


@pytest.mark.parametrize("name", files.names())
def test_a_study_calibrates_one_column_of_a_table(name):
    study, _ = files.load(name)
    for table in study["table"]:
        calibrated = [row.get("calibrated", []) for row in table["row"]]
        if {name, table["title"]} & CALIBRATES_TWO:
            assert all(len(names) <= 2 for names in calibrated), table["title"]
        else:
            assert len({name for names in calibrated for name in names}) <= 1, table["title"]


def test_io_study_does_not_calibrate_judged_boosts():
    study, _ = files.load("rk3399-io")
    rows = [row for table in study["table"] for row in table["row"] if row.get("calibrated")]
    boosted = [row for row in rows if {"mainline", "per-task"} & set(row["calibrated"])]
    # These two are scaled to their level alone.
    assert all(row["is_relative"] for row in boosted) and len(boosted) == 2


def test_the_pixel_study_is_calibrated_on_menu_alone():
    study, _ = files.load("pixel6-teo")
    rows = [row for table in study["table"] for row in table["row"]]
    assert {column for row in rows for column in row.get("calibrated", [])} == {"menu"}


def test_jankbench_is_predicted_whole():
    study, _ = files.load("pixel6-teo")
    (table,) = [t for t in study["table"] if t["title"].startswith("Jankbench")]
    assert not any(row.get("calibrated") for row in table["row"])


def test_published_values_are_printed(torpor):
    done = torpor(
        "study", "run", "i5-10600k-idle", "--duration", "50ms", "--seeds", "1", "-v", check=0
    )
    shown = [line.split() for line in done.stdout.splitlines()]
    study, _ = files.load("i5-10600k-idle")
    for row in (row for table in study["table"] for row in table["row"]):
        for value in row.get("published", {}).values():
            assert any(f"{value:.2f}" in words for words in shown), value
    assert done.stderr == ""


def test_study_output_ignores_the_thread_count(torpor):
    arguments = ("study", "run", "pixel6-teo", *QUICK, "--format", "json")
    one = torpor(*arguments, "-j", "1", check=0).stdout
    assert one == torpor(*arguments, "-j", "2", check=0).stdout
    (result,) = json.loads(one)
    assert result["counts"]["sign"]["of"] == 45
    assert result["failures"] == []


def test_idle_powers_are_the_calibrated_ones():
    result = studies.reproduce("i5-10600k-idle", duration="1s", seeds=1)
    for row in result["tables"][0]["rows"]:
        cell = row["cells"]["menu"]
        assert cell["ours"] == pytest.approx(cell["published"], rel=0.02), row["title"]


def test_a_row_that_is_relative_meets_its_base():
    result = studies.reproduce("pixel6-teo", duration="200ms", seeds=1)
    (row,) = [r for r in result["tables"][1]["rows"] if r["title"].startswith("score")]
    assert row["cells"]["menu"]["ours"] == pytest.approx(2716.4)
    assert row["cells"]["teo"]["ours"] != pytest.approx(2795)


PUBLISHED = {"menu": 100.0, "teo": 90.0, "shallow": 50.0}


@pytest.mark.parametrize(
    ("ours", "teo", "shallow"),
    [
        # The row itself; then smaller and larger changes, up to the factor of 2.
        ({"menu": 100, "teo": 90, "shallow": 50}, "sign order size", "sign order size"),
        ({"menu": 10, "teo": 9.4, "shallow": 7}, "sign order size", "sign order size"),
        ({"menu": 100, "teo": 96, "shallow": 90}, "sign order", "sign order"),
        # The other way round.
        ({"menu": 100, "teo": 110, "shallow": 200}, "order", ""),
        # Less than noise is no change, and shares its rank.
        ({"menu": 100, "teo": 99.5, "shallow": 50}, "order", "sign order size"),
        ({"menu": 100, "teo": 40, "shallow": 50}, "sign", "sign size"),
    ],
)
def test_prediction_is_judged_by_sign_order_and_size(ours, teo, shallow):
    verdicts = judge.judge_row(PUBLISHED, ours, "menu", ["menu"], 1.0)
    right = {c: " ".join(a for a in judge.ASPECTS if v.get(a)) for c, v in verdicts.items()}
    assert right == {"teo": teo, "shallow": shallow}


def test_no_published_change_asks_for_none():
    verdict = judge.judge_row({"a": 100, "b": 100.4}, {"a": 7, "b": 7.01}, "a", ["a"], 1.0)
    assert verdict == {"b": {"sign": True, "order": True, "size": True}}
    verdict = judge.judge_row({"a": 100, "b": 100.4}, {"a": 7, "b": 8}, "a", ["a"], 1.0)
    assert verdict == {"b": {"sign": False, "order": False, "size": False}}


def test_an_uncalibrated_base_is_judged_by_its_level():
    assert judge.judge_row({"a": 100}, {"a": 190}, "a", [], 1.0) == {"a": {"size": True}}
    assert judge.judge_row({"a": 100}, {"a": 210}, "a", [], 1.0) == {"a": {"size": False}}


def test_a_published_range_asks_for_a_value_inside():
    published = {"a": [70, 99], "b": [99.98, 100], "c": 5}
    ours = {"a": 70, "b": 99.9, "c": 6}
    verdict = judge.judge_row(published, ours, "a", [], 1.0)
    assert verdict == {"a": {"range": True}, "b": {"range": False}}
    counts = judge.count(list(verdict.values()))
    assert judge.summary(counts) == "1 of 2 ranges right"


def test_a_published_sign_asks_for_no_more():
    published = {"b": "more", "c": "less", "d": "more"}
    ours = {"a": 100, "b": 300, "c": 99.5, "d": 90}
    verdict = judge.judge_row(published, ours, "a", [], 1.0)
    # Half a percent is noise.
    assert verdict == {"b": {"sign": True}, "c": {"sign": False}, "d": {"sign": False}}


def test_cell_missing_on_one_side_is_not_judged():
    assert judge.judge_row({"a": 1, "b": 2}, {"a": 1}, "a", ["a"], 1.0) == {}
    assert judge.judge_row({"a": 1, "b": 2}, {"b": 1}, "a", ["a"], 1.0) == {}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "t"\nsource', "source", "`title` is missing"),
        ("seeds = 1", "seeds = 0", "`seeds` is 0: expected a whole number >= 1"),
        ("seeds = 1", "seeds = true", "`seeds` is true: expected a whole number"),
        (
            'source = ["s"]',
            "source = []",
            "`source` is a list of 0: expected a list of",
        ),
        ("seeds = 1", "seeds = 1\nsneeds = 2", "`sneeds` is unknown: expected one of title"),
        ('name = "b"', 'name = "a"', "column[1].name: 'a' is there twice"),
        ('["a", "b"]', '["a", "c"]', "table[0].columns: 'c', expected one of a, b"),
        ("b = 2 }", "c = 2 }", "table[0].row[0].published: 'c', expected one of a, b"),
        ("b = 2 }", "b = '2' }", '`table[0].row[0].published.b` is "2": expected a number'),
        ("b = 2 }", "b = [1] }", "published.b` is a list of 1: expected a list of length >= 2"),
        ("b = 2 }", "b = [1, true] }", "published.b[1]` is true: expected a number"),
        ("b = 2 }", "b = [2, 1] }", "published.b: [2, 1], expected the lower end first"),
        ('["a"]', '["z"]', "table[0].row[0].calibrated: 'z', expected one of a, b"),
        ('["a"]', '["b"]\nis_relative = true', "is_relative: expected 'a' in `calibrated`"),
        (
            "a = 1, b = 2 }",
            "a = [1, 2] }\nis_relative = true",
            "published.a: [1, 2], expected a num",
        ),
        (
            'governor = "teo"',
            'governor = "teo"\nplatform_params = { hz = "fast" }',
            '`column[1].platform_params.hz` is "fast": expected a number',
        ),
        ('metric = "power_mw"\n', "", "row[0].metric: expected either this or `not_modelled`"),
        ('workload = "periodic"\n', "", "table[0].row[0].workload: missing, here or in its table"),
        ("power_mw", "power_kw", "r: no metric is called `power_kw`: did you mean `power_mw`"),
        ('"periodic"', '"x.toml"', "x.toml"),
        ("[[table]]", "[[table", "line 14"),
    ],
)
def test_wrong_study_names_key_and_allowed_values(tmp_path, old, new, message):
    path = tmp_path / "mine.toml"
    assert STUDY.count(old) >= 1
    path.write_text(STUDY.replace(old, new, 1))
    with pytest.raises(TorporError) as raised:
        studies.reproduce(path)
    assert message in str(raised.value)
    assert "mine.toml" in str(raised.value) or "x.toml" in str(raised.value)


def test_row_may_have_its_own_workload_and_platform(tmp_path):
    path = tmp_path / "own.toml"
    row = STUDY[STUDY.index("[[table.row]]") :]
    own = row.replace('title = "r"', 'title = "own"\nworkload = "pipe"\nplatform = "i5-10600k"')
    path.write_text(STUDY + own)
    here, there = studies.reproduce(path)["tables"][0]["rows"]
    assert here["cells"]["a"]["ours"] != there["cells"]["a"]["ours"]


def test_range_is_printed_with_ours_over_the_seeds(tmp_path, torpor):
    path = tmp_path / "mine.toml"
    path.write_text(STUDY.replace("b = 2 }", "b = [2, 3] }").replace("seeds = 1", "seeds = 3"))
    (row,) = studies.reproduce(path)["tables"][0]["rows"]
    low, high = row["cells"]["b"]["spread"]
    assert low <= row["cells"]["b"]["ours"] <= high
    lines = torpor("study", "run", "./mine.toml", "-v", check=0).stdout.splitlines()
    assert [line for line in lines if "2.00–3.00" in line]
    assert [line for line in lines if line.strip().startswith("seeds")]


def test_the_oracle_adds_metrics_and_no_column(tmp_path, torpor):
    row = STUDY[STUDY.index("[[table.row]]") :]
    text = STUDY.replace('metric = "power_mw"', 'metric = "over_oracle_pct"').replace(
        'workload = "periodic"', 'workload = "periodic"\nagainst_oracle = true\ntells_most = true'
    )
    second = row.replace('"r"', '"pipes"\nworkload = "pipe"').replace("power_mw", "over_oracle_pct")
    (tmp_path / "mine.toml").write_text(text + second)
    (table,) = studies.reproduce(tmp_path / "mine.toml")["tables"]
    for row in table["rows"]:
        assert list(row["cells"]) == ["a", "b"]
        assert all(cell["ours"] >= 0 for cell in row["cells"].values())
    worst = max(table["rows"], key=lambda row: row["cells"]["a"]["ours"])
    assert table["most"]["a"] == worst["title"]
    shown = torpor("study", "run", "./mine.toml", "-v", check=0).stdout
    assert f"a: most with {worst['title']}" in shown


def test_platform_file_next_to_the_study(tmp_path):
    machine = platform_toml("pixel6").replace('name = "pixel6"', 'name = "mine"')
    (tmp_path / "machine.toml").write_text(machine)
    text = STUDY.replace('platform = "pixel6"', 'platform = "machine.toml"')
    (tmp_path / "mine.toml").write_text(text)
    cells = studies.reproduce(tmp_path / "mine.toml")["tables"][0]["rows"][0]["cells"]
    assert cells["a"]["ours"] > 0


def test_a_row_may_set_its_duration(tmp_path):
    path = tmp_path / "own.toml"
    # Under schedutil the first 100 ms are others than the next; the start adds some wake-ups.
    whole = STUDY.replace("seeds", 'cpufreq = "performance"\nseeds').replace("power_mw", "wakeups")
    rows = whole[whole.index("[[table.row]]") :]
    study = whole + rows.replace("metric", 'duration = "300ms"\nmetric')
    path.write_text(study)
    result = studies.reproduce(path)
    here, there = (row["cells"]["a"]["ours"] for row in result["tables"][0]["rows"])
    assert there == pytest.approx(3 * here, rel=0.2)
    assert result["durations"] == ["100ms", "300ms"]
    # A caller's option holds for every row.
    here, there = studies.reproduce(path, duration="50ms")["tables"][0]["rows"]
    # The second time they are repeated, which is said of them.
    for one, other in zip(here["cells"].values(), there["cells"].values(), strict=True):
        assert one["ours"] == other["ours"]


def test_column_may_change_a_number_of_the_machine(tmp_path):
    path = tmp_path / "own.toml"
    own = 'governor = "shallowest"\nplatform_params = { hz = 1000 }'
    study = STUDY.replace('governor = "teo"', own).replace("power_mw", "tick_wakeups")
    path.write_text(study.replace('governor = "menu"', 'governor = "shallowest"'))
    (row,) = studies.reproduce(path)["tables"][0]["rows"]
    assert row["cells"]["b"]["ours"] > 2 * row["cells"]["a"]["ours"]


def test_columns_and_rows_may_set_cpufreq(tmp_path):
    path = tmp_path / "mine.toml"
    study = STUDY.replace('governor = "teo"', 'governor = "teo"\nio_boost = "none"')
    study = study.replace('governor = "menu"', 'governor = "teo"')
    study = study.replace('"periodic"', '"fio-randread"').replace("power_mw", "iops:randread")
    study = study.replace('platform = "pixel6"', 'platform = "rk3399"')
    slow = study[study.index("[[table.row]]") :] + 'cpufreq = "powersave"\n'
    frequency = slow.replace("iops:randread", "freq_khz:big")
    path.write_text(study + slow + frequency)
    rows = studies.reproduce(path, duration="500ms")["tables"][0]["rows"]
    boosted, plain = (rows[0]["cells"][column]["ours"] for column in "ab")
    assert boosted > 1.1 * plain
    # Nothing is below the lowest frequency, whatever boosts.
    slow, same = (rows[1]["cells"][column]["ours"] for column in "ab")
    assert slow == same < boosted
    assert [cell["ours"] for cell in rows[2]["cells"].values()] == [408_000, 408_000]


def test_placeholders_and_values_have_to_match(tmp_path):
    (tmp_path / "w.toml").write_text('phase = "@other@"')
    (tmp_path / "mine.toml").write_text(
        STUDY.replace('"periodic"', '"w.toml"') + "values = { period_us = 5 }\n"
    )
    with pytest.raises(StudyError, match=r"`w\.toml` do not match: other, period_us"):
        studies.reproduce(tmp_path / "mine.toml")


def test_unknown_study_lists_the_valid_ones(torpor):
    done = torpor("study", "run", "nexus", check=2)
    assert (
        f"no study is called `nexus`: expected one of {', '.join(files.names())}\nhint: "
        in done.stderr
    )


def judged_row(published, ours, seeds=None, **more):
    """A row whose first column is `menu`."""
    seeds = seeds or {name: (value,) for name, value in ours.items()}
    fixed = {"base": "menu", "columns": ["menu", "teo", "shallow"], "skipped": ["menu"]}
    return judge.Row(published=published, ours=ours, seeds=seeds, **fixed, noise_pct=1.0, **more)


def test_study_is_compared_to_naive_predictors():
    ours = {"menu": 100, "teo": 80, "shallow": 95, "as shallowest": 95, "as deepest": 120}
    judged = judge.study([judged_row(PUBLISHED, ours)])
    # 10 points off of -10 %, and 45 of -50 %.
    assert judged["change_off_pp"]["median"] == pytest.approx(27.5)
    off = {one["name"]: one["change_off_pp"] for one in judged["predictors"]}
    assert off == pytest.approx({"no change": 30, "as shallowest": 25, "as deepest": 50})
    signs = {one["name"]: one["counts"]["sign"] for one in judged["predictors"]}
    assert signs["no change"] == {"right": 0, "of": 2}
    assert signs["as shallowest"] == {"right": 2, "of": 2}
    beats = {one["column"]: one["beats_no_change"] for one in judged["columns"]}
    assert beats == {"teo": False, "shallow": True}


def test_changes_are_judged_from_a_second_base_too():
    # From teo, shallow changes by -44 % there and by +19 % here; menu is back where it was.
    ours = {"menu": 100, "teo": 80, "shallow": 95}
    second = judge.study([judged_row(PUBLISHED, ours)])["second_base"]
    assert second["columns"] == ["teo"]
    assert second["counts"]["sign"] == {"right": 0, "of": 1}
    assert second["change_off_pp"]["median"] == pytest.approx(100 * (95 / 80 - 50 / 90))


def test_a_bare_sign_is_about_the_first_column():
    published = {"menu": 1, "shallow": "more"}
    ours = {"menu": 100, "teo": 120, "shallow": 110}
    judged = judge.study([judged_row(published, ours)])
    assert judged["columns"][0]["counts"]["sign"] == {"right": 1, "of": 1}
    assert judged["second_base"] is None


def test_errors_have_the_spread_of_single_seeds():
    ours = {"menu": 100, "teo": 90, "shallow": 50}
    seeds = {"menu": (100, 100), "teo": (80, 100), "shallow": (50, 50)}
    judged = judge.study([judged_row(PUBLISHED, ours, seeds)])
    # Each seed of teo is off by 10 points, none of shallow.
    assert judged["change_off_pp"] == {
        "median": pytest.approx(0),
        "spread": [pytest.approx(5), pytest.approx(5)],
        "of": 2,
    }


def test_repeated_and_mechanical_cells_do_not_count(tmp_path):
    path = tmp_path / "mine.toml"
    text = STUDY.replace('governor = "teo"', 'governor = "shallowest"')
    table = text[text.index("[[table]]") :]
    mechanical = table.replace("power_mw", "above_pct").replace("b = 2", "b = 0")
    path.write_text(text + table + mechanical)
    result = studies.reproduce(path)
    cells = [table["rows"][0]["cells"] for table in result["tables"]]
    assert [cell["b"]["not_counted"] for cell in cells] == [None, "repeated", "mechanical"]
    assert [cell["b"]["right"] is None for cell in cells] == [False, True, True]
    assert result["counts"]["sign"]["of"] == 1


def test_a_study_compares_kernels(tmp_path, torpor):
    kernel = str(kernel_sources("6.1"))
    column = '[[column]]\nname = "c"\ngovernor = "menu"\nio_boost = "per-task"\n[[table]]'
    study = STUDY.replace("[[table]]", column, 1).replace('["a", "b"]', '["a", "b", "c"]')
    study = study.replace("duration", 'cpufreq = "schedutil"\nduration')
    (tmp_path / "mine.toml").write_text(study)
    ways = ("study", "run", "./mine.toml", "--kernel", "6.12", "--kernel", kernel)
    new, old = json.loads(torpor(*ways, "--format", "json", check=0).stdout)
    releases = [result["kernel"]["release"] for result in (new, old)]
    assert releases[0].startswith("6.12.") and releases[1].startswith("6.1.")
    values = [result["tables"][0]["rows"][0]["cells"] for result in (new, old)]
    assert values[0]["b"]["ours"] != values[1]["b"]["ours"]
    assert new["left_out"] == [] and values[0]["c"]["ours"] is not None
    lines = torpor(*ways, "-v", check=0).stdout.splitlines()
    assert [line for line in lines if line.strip().startswith("Linux 6.12") and "decides." in line]
    counted = lines[next(n for n, line in enumerate(lines) if line.startswith("Counts")) :]
    shown = [line.split()[:3] for line in counted if line.startswith("mine")]
    assert shown == [["mine", "Linux", release] for release in releases]


def test_a_bare_study_run_starts_nothing(torpor, monkeypatch):
    monkeypatch.setattr(studies, "reproduce", lambda *_args, **_more: pytest.fail("it ran"))
    done = torpor("study", "run", check=0)
    assert len(done.stdout.splitlines()) >= len(studies.names()) > 5
    assert "pixel6-teo" in done.stdout and "all" in done.stderr


def test_counts_have_every_aspect():
    one = {"right": 1, "of": 2}
    assert problem(JudgedCounts, dict.fromkeys(judge.ASPECTS, one)) is None
    assert problem(JudgedCounts, {"sign": one})
    assert problem(JudgedCounts, dict.fromkeys(["a", "b", "c", "d"], one))


def test_a_study_may_place_tasks_without_regard_to_energy(tmp_path):
    path = tmp_path / "mine.toml"
    text = STUDY.replace('"periodic"', '"requests"').replace('"pixel6"', '"rk3399"')
    path.write_text(text)
    by_energy = studies.reproduce(path)
    path.write_text(text.replace("[[table.row]]", "[[table.row]]\nenergy_aware = false"))
    without = studies.reproduce(path)
    cells = [r["tables"][0]["rows"][0]["cells"]["b"]["ours"] for r in (by_energy, without)]
    assert cells[0] != cells[1]


def test_placement_by_energy_is_no_matter_without_schedutil(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        "energy_aware = false\n" + STUDY.replace('= "menu"', '= "menu"\ncpufreq = "performance"')
    )
    assert studies.reproduce(path)["failures"] == []


RUNS = {"menu": [95.0, 100.0, 105.0], "teo": [70.0, 90.0, 104.0], "shallow": [49.0, 50.0, 51.0]}


def test_a_repeat_is_judged_by_the_same_rules():
    row = judged_row(PUBLISHED, {"menu": 100.0, "teo": 101.0, "shallow": 52.0}, runs=RUNS)
    found = ceiling.ceiling([row])
    assert found["here"] == judge.count([*row.right().values()])
    # teo is now and then as high as menu, shallow is lowest in each repeat.
    of = found["here"]["sign"]["of"]
    assert 1 < found["mean_right"]["sign"] < of
    assert found == ceiling.ceiling([row])


def test_equal_runs_repeat_what_was_published():
    runs = {name: [value, value] for name, value in PUBLISHED.items()}
    found = ceiling.ceiling([judged_row(PUBLISHED, {**PUBLISHED, "teo": 200.0}, runs=runs)])
    assert found["mean_right"] == {a: c["of"] for a, c in found["here"].items()}
    assert found["here"]["sign"]["right"] < found["here"]["sign"]["of"]


def test_rows_without_runs_have_no_ceiling():
    assert ceiling.ceiling([judged_row(PUBLISHED, PUBLISHED)]) is None


def test_miss_among_the_published_runs_is_marked(tmp_path, torpor):
    path = tmp_path / "mine.toml"
    path.write_text(STUDY.replace("calibrated", "runs = { b = [1e-9, 2, 1e9] }\ncalibrated"))
    (result,) = json.loads(torpor("study", "run", path, "--format", "json", check=0).stdout)
    cell = result["tables"][0]["rows"][0]["cells"]["b"]
    assert cell["is_in_spread"] and not all(cell["right"].values())
    assert "1 more is within" in torpor("study", "run", path, check=0).stdout
    shown = torpor("study", "run", path, "-v", check=0).stdout
    (here,) = [line for line in shown.splitlines() if line.lstrip().startswith("here")]
    assert here.endswith("~") and "a repeat on the same board" in shown


def test_runs_have_to_be_numbers_above_zero(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(STUDY.replace("calibrated", "runs = { b = [1] }\ncalibrated"))
    with pytest.raises(StudyError, match=r"row\[0\]\.runs\.b: \[1\.?0?\], expected two numbers"):
        files.load(path)
