# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor study io-boost`: what it compares, and what it draws."""

import json
import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from torpor import workload_toml
from torpor.view.chart import svg
from torpor.view.report.page import render_posts
from torpor_lab import charts
from torpor_lab.cli.study import settings
from torpor_lab.studies.io_boost import io_boost_study

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def result():
    return io_boost_study(duration="300ms", seeds=1)


def test_front_has_unbeaten_fixed_frequencies(result):
    fixed = [s for s in result["settings"] if s["kind"] == "fixed"]
    for setting in fixed:
        better = [
            other
            for other in fixed
            if other["iops"] > setting["iops"] and other["uj_per_io"] < setting["uj_per_io"]
        ]
        assert not (setting["is_front"] and better), setting["name"]
        assert setting["is_front"] or any(
            other["iops"] >= setting["iops"] and other["uj_per_io"] <= setting["uj_per_io"]
            for other in fixed
            if other["is_front"]
        ), setting["name"]


def test_both_clusters_are_tried_with_pinned_work(result):
    kept = [s["name"] for s in result["settings"] if s["name"].endswith(", kept there")]
    # The RK3399's 6 and 8 OPPs, and all pairs of them.
    assert len(kept) == 6 + 8
    assert sum(s["kind"] == "fixed" for s in result["settings"]) == 6 + 8 + 6 * 8
    big = {s["name"]: s for s in result["settings"]}["big 1800 MHz, kept there"]
    assert big["freq_mhz"] == {"little": 408.0, "big": 1800.0}


def test_many_opps_are_tried_cluster_by_cluster():
    result = io_boost_study(
        "fio-randread", platform="pixel6", io_boosts=["none"], duration="20ms", seeds=1
    )
    # All at their lowest, once and not for each cluster; and the boost.
    assert len(result["settings"]) == (11 + 14 + 17) + (11 + 14 + 17 - 2) + 1


def test_pinned_work_stays_on_its_cpus(tmp_path):
    pinned = tmp_path / "pinned.toml"
    text = workload_toml("fio-randread").replace("[[fio]]", '[[fio]]\ncpus_allowed = "4"')
    pinned.write_text(text, encoding="utf-8")
    settings = io_boost_study(pinned, io_boosts=["none"], duration="20ms", seeds=1)["settings"]
    assert not [s["name"] for s in settings if "kept there" in s["name"]]


def test_no_label_lies_on_another(result):
    drawn = ElementTree.fromstring(svg(charts.io_boost(result)))
    labels = [text for text in drawn.iter(f"{SVG}text") if text.get("paint-order")]
    boosts = [s for s in result["settings"] if s["kind"] == "boost"]
    assert len(labels) == len(boosts) + sum(s["is_front"] for s in result["settings"])
    boxes = []
    for label in labels:
        x, y = float(label.get("x")), float(label.get("y"))
        width = 6.5 * len(label.text)
        left = x - width * (label.get("text-anchor") == "end")
        boxes.append((left, y - 10, left + width, y + 2, label.text))
    for one, other in combinations(boxes, 2):
        is_apart = (
            one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        )
        assert is_apart, f"{one[4]}, {other[4]}"


def test_the_page_is_complete_and_lists_every_setting(result):
    page = render_posts([charts.with_io_boost(settings(result), result)])
    assert not re.search("https?:", re.sub(r'xmlns="[^"]*"', "", page))
    for setting in result["settings"]:
        if setting["kind"] == "boost" or setting["is_front"]:
            assert setting["name"] in page


def test_plot_is_written_to_the_given_path(torpor, tmp_path):
    for name in ("plot.svg", "plot.html"):
        arguments = (
            "--io-boost",
            "iowait",
            "--duration",
            "50ms",
            "--seeds",
            "1",
            "--format",
            "json",
        )
        done = torpor("study", "io-boost", *arguments, "--plot", str(tmp_path / name), check=0)
        assert json.loads(done.stdout)["settings"][0]["name"] == "iowait"
        assert "</svg>" in (tmp_path / name).read_text(encoding="utf-8")


def test_unusable_plot_is_refused(torpor, tmp_path):
    done = torpor("study", "io-boost", "--plot", str(tmp_path / "plot.png"), check=2)
    assert ".svg or .html" in done.stderr
    done = torpor("study", "io-boost", "--platform", "apple-m1", "--duration", "20ms", check=2)
    assert "power is not known" in done.stderr and "rk3399" in done.stderr
    done = torpor("study", "io-boost", "periodic", "--duration", "50ms", check=2)
    assert "no IO was done" in done.stderr
