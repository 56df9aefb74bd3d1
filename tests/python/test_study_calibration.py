# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor study run --calibrate`: numbers of machines from calibrated cells."""

import re

import pytest

from torpor import platform_toml, simulate
from torpor_lab import StudyError, studies

STUDY = """
title = "t"
source = ["s"]
platform = "machine.toml"
duration = "100ms"
seeds = 1
calibration = "an eMMC's two numbers"
[[column]]
name = "fast"
governor = "teo"
cpufreq = "performance"
[[column]]
name = "slow"
governor = "teo"
cpufreq = "powersave"
[[column]]
name = "menu"
governor = "menu"
cpufreq = "powersave"
[[table]]
title = "t"
workload = "fio --name=a --filename=emmc --rw=randread --direct=1"
columns = ["fast", "slow", "menu"]
[[table.row]]
title = "r"
metric = "iops"
published = { fast = FAST, slow = SLOW, menu = 1 }
calibrated = ["fast", "slow"]
fits = ["io_device.emmc.read_us.mean", "io_device.emmc.work_ratio"]
"""


def machine(folder, read_us, ratio):
    """Write an RK3399 whose eMMC has these numbers."""
    text = platform_toml("rk3399")
    head, emmc = text.split('name = "emmc"')
    emmc = re.sub(r"mean = [\d.]+", f"mean = {read_us}", emmc, count=1)
    emmc = re.sub(r"work_ratio = [\d.]+", f"work_ratio = {ratio}", emmc, count=1)
    path = folder / "machine.toml"
    path.write_text(f'{head}name = "emmc"{emmc}')
    return path


@pytest.fixture
def study(tmp_path):
    """A study whose cells come from 230 us and 3.5, next to a machine with neither."""
    true = machine(tmp_path, 230, 3.5)
    line = "fio --name=a --filename=emmc --rw=randread --direct=1"
    cells = []
    for cpufreq in ("performance", "powersave"):
        ran = simulate(
            line, platform=true, governors=["teo"], cpufreq=cpufreq, duration="100ms", seeds=1
        )
        cells.append(ran.to_dict()["runs"][0]["metrics"]["iops"])
    machine(tmp_path, 120, 1)
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace("FAST", str(cells[0])).replace("SLOW", str(cells[1])))
    return path


def test_numbers_are_found_that_cells_came_from(study, torpor):
    (fit,) = studies.calibrate(study)
    assert [number.was for number in fit.numbers] == [120, 1]
    read_us, ratio = (number.found for number in fit.numbers)
    assert read_us == pytest.approx(230, rel=0.01)
    assert ratio == pytest.approx(3.5, rel=0.01)
    assert [cell.column for cell in fit.cells] == ["fast", "slow"]
    shown = torpor("study", "run", study, "--calibrate").stdout
    assert f"{ratio:g}" in shown and f"{read_us:g}" in shown
    assert studies.calibrate(study, threads=1) == [fit]


def test_unreachable_cell_names_the_nearest_number(study):
    text = study.read_text()
    # At the lowest frequency there are more reads than at the highest.
    study.write_text(re.sub(r"slow = [\d.]+", "slow = 90000", text))
    with pytest.raises(StudyError, match=r"(?s)no numbers of .* meet .*nearest: .*slow: .*90000"):
        studies.calibrate(study)


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        ('"io_device.emmc.work_ratio"', '"io_device.emmc.work_rato"', "not a number above 0 in"),
        ('"io_device.emmc.work_ratio"', '"cluster"', "keys from the file's root"),
        (', "io_device.emmc.work_ratio"', "", "1 numbers, expected as many"),
        ("fits = [", "is_relative = true\nfits = [", "and no `is_relative`"),
        (re.compile("fits = .*"), "", "no row of it has `fits`"),
    ],
)
def test_uncalibratable_study_names_the_place(study, was, becomes, message):
    text = study.read_text()
    study.write_text(re.sub(was if isinstance(was, re.Pattern) else re.escape(was), becomes, text))
    with pytest.raises(StudyError, match=message):
        studies.calibrate(study)


def test_a_calibration_is_of_one_study_as_text(torpor):
    for wrong in (["--calibrate"], ["rk3399-io", "--calibrate", "--format", "json"]):
        assert "expected a STUDY" in torpor("study", "run", *wrong, check=2).stderr


WORKLOAD = """
name = "w"
title = "w"
source = "made up"
[[task]]
name = "t"
phase = [{ run_us = 400 }, { sleep_us = { dist = "exponential", mean = MEAN } }]
"""


def of_workload(folder, mean, fits):
    """Write a study of a task that sleeps this long on average."""
    (folder / "w.toml").write_text(WORKLOAD.replace("MEAN", str(mean)))
    text = STUDY.replace("machine.toml", "rk3399")
    text = re.sub(r"workload = .*", 'workload = "w.toml"', text)
    text = text.replace('"iops"', '"passes_per_s:t"').replace("fast = FAST, slow = SLOW, ", "")
    text = text.replace('["fast", "slow"]', '["menu"]')
    text = re.sub(r"fits = .*", f'fits = ["workload.{fits}"]', text)
    path = folder / "study.toml"
    path.write_text(text)
    return path


def test_calibration_finds_the_length_behind_a_cell(tmp_path):
    of_workload(tmp_path, 3000, "x")
    true = simulate(
        tmp_path / "w.toml", platform="rk3399", governors=["menu"], cpufreq="powersave",
        duration="5s", seeds=1,
    )  # fmt: skip
    passes = true.to_dict()["runs"][0]["tasks"][0]["passes"] / 5
    study = of_workload(tmp_path, 2000, "task.t.phase.1.sleep_us.mean")
    study.write_text(study.read_text().replace("menu = 1 }", f"menu = {passes} }}"))
    (fit,) = studies.calibrate(study, duration="5s")
    (number,) = fit.numbers
    assert (number.of, number.was) == ("w.toml", 2000)
    # It ends where the cell is within 2 %, and work is a part of a pass.
    assert number.found == pytest.approx(3000, rel=0.05)
    assert fit.cells[0].ours == pytest.approx(passes, rel=0.02)
    # The file stays as it is.
    assert "mean = 2000" in (tmp_path / "w.toml").read_text()


@pytest.mark.parametrize("path", ["task.t.phase.9.sleep_us.mean", "task.u.phase", "task.t.name"])
def test_length_that_a_workload_lacks_is_an_error(tmp_path, path):
    study = of_workload(tmp_path, 2000, path)
    with pytest.raises(StudyError, match=r"not a number above 0 in `w\.toml`"):
        studies.calibrate(study)


def test_number_that_the_study_sets_is_found_anew(study):
    given = "machine.toml,io_device.emmc.read_us.mean=150,hz=250"
    study.write_text(study.read_text().replace('"machine.toml"', f'"{given}"'))
    (fit,) = studies.calibrate(study)
    assert [number.was for number in fit.numbers] == [150, 1]
    assert fit.numbers[0].found == pytest.approx(230, rel=0.01)
