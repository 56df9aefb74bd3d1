# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The report without a browser: bytes, size, escaping, and the numbers behind the figures."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import sample
import torpor
from small_result import refill
from torpor.results.verdict import finding
from torpor.view import report
from torpor.view.report import strip
from torpor.view.report.latency import latency


class Page(HTMLParser):
    """Elements and text of a page, as a browser's tokenizer splits them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and self.scripts and self.cdata_elem == "script":
            attrs, text = self.scripts[-1]
            self.scripts[-1] = (attrs, text + data)
        elif self.cdata_elem is None:
            self.text += data

    def data(self, identifier: str) -> dict:
        return json.loads(next(t for a, t in self.scripts if a.get("id") == identifier))


@pytest.fixture(scope="module")
def pixel_html() -> str:
    return report.render(sample.pixel())


def test_bytes_do_not_depend_on_the_hash_seed(pixel_html: str) -> None:
    script = (
        "import sample, sys; from torpor.view import report;"
        "sys.stdout.buffer.write(report.render(sample.pixel()).encode())"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=Path(__file__).parent,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
        )
        assert done.stdout == pixel_html.encode()


def test_a_page_has_its_parts(pixel_html: str) -> None:
    for part in ("Where the time went", "Wake-up latency", "Choice by choice", "Provenance"):
        assert part in pixel_html
    assert "nearest the oracle" in pixel_html


def test_write_is_render_in_utf8(tmp_path: Path, pixel_html: str) -> None:
    report.write(sample.pixel(), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_bytes() == pixel_html.encode()


def test_render_leaves_the_result_as_it_was() -> None:
    result = sample.errored()
    before = json.dumps(result)
    report.render(result)
    assert json.dumps(result) == before


def test_two_hundred_thousand_decisions_fit_in_a_megabyte() -> None:
    # Some 25,000 sleeps on each of 8 CPUs, under 7 governors.
    assert len(report.render(sample.long(41)).encode()) < 1_000_000


def test_many_recordings_share_the_columns_of_strips() -> None:
    result = sample.long(3)
    result["traces"] *= 3
    few = report.render(result)
    assert few.count("Choice by choice") == 3 and "in 40 columns" in few
    assert len(few.encode()) < 1_000_000
    result["traces"] *= 2
    assert "Choice by choice" not in report.render(result)


ROWS = {"menu": [(0, 15, 1), (20, 40, 1)], "oracle": [(0, 10, 0), (18, 30, 1), (30, 50, 2)]}


def stripped(rows: dict[str, list], oracle: str | None = "oracle") -> strip.Strip:
    named = [{"governor": name, "segments": segments} for name, segments in rows.items()]
    raw = {"start_ns": 0, "end_ns": 50, "rows": named}
    return strip.Strip(raw, "CPU 0", ["C1", "C2", "C3"], oracle)


def test_agreement_is_of_the_time_both_sleep() -> None:
    # Both sleep in 0-10 (deeper than the oracle), 20-30 (same) and 30-40 (shallower).
    whole, _ = stripped(ROWS).charts(50)
    texts = [[cell.text for cell in row] for row in whole.numbers.rows]
    assert texts == [["menu", "2", *["33.3\xa0%"] * 3], ["oracle", "3", *"–––"]]


def test_a_strip_without_an_oracle_compares_with_its_first_row() -> None:
    assert stripped(ROWS, None).base == "menu"


def test_close_up_has_each_sleep_with_its_length() -> None:
    _, close = stripped(ROWS).charts(50)
    menu, signs, _ = close.rows
    assert [block.hint for block in menu.blocks] == ["C2 15\xa0ns", "C2 20\xa0ns"]
    ends = [(block.name, block.start, block.end) for block in signs.blocks]
    # In µs.
    spans = [("deeper", 0, 0.010), ("shallower", 0.030, 0.040)]
    for (name, start, end), (known, low, high) in zip(ends, spans, strict=True):
        assert name == known
        assert (start, end) == pytest.approx((low, high), abs=0.0003)


def test_a_column_has_the_mean_depth_of_its_sleeps() -> None:
    # A fifth of the only column in C3, two fifths in C1: 3/3 / 5 + 1/3 * 2/5, in 24ths.
    whole, _ = stripped({"a": [(0, 20, 0), (30, 40, 2)]}).charts(1)
    (block,) = whole.rows[0].blocks
    assert (block.name, block.depth) == ("C1", 8 / 24)


def test_markup_in_a_name_stays_text() -> None:
    parsed = Page(report.render(sample.hostile()))
    assert [tag for tag, _ in parsed.tags if tag == "img"] == []
    assert not any(name.startswith("on") for _, attrs in parsed.tags for name in attrs)
    # The page's own and the data of latencies; none of the trace's.
    assert [attrs.get("type") for attrs, _ in parsed.scripts] == ["application/json", None]
    assert "pwned" not in parsed.scripts[-1][1]
    assert "shallowest</script><script>window.pwned=1</script>" in parsed.text


def test_the_page_names_the_parts_of_its_power(pixel_html: str) -> None:
    text = Page(pixel_html).text
    assert "Power and energy on this page include: cpu, uncore" in text
    assert "level-3 cache (Wattson books them by count), DRAM, GPU" in text
    assert "Power and energy on this page" not in Page(report.render(sample.desktop())).text


def test_only_our_script_runs_nothing_is_fetched(pixel_html: str) -> None:
    parsed = Page(pixel_html)
    policy = next(a["content"] for t, a in parsed.tags if a.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(parsed.scripts[-1][1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert not re.search(r"https?://|url\(|@import", pixel_html)
    assert not any("src" in attrs for _, attrs in parsed.tags)


def test_headers_have_scopes_and_unique_ids() -> None:
    result = sample.pixel()
    result["traces"] += sample.pixel()["traces"]
    parsed = Page(report.render([result, sample.desktop()]))
    assert ("html", {"lang": "en"}) in parsed.tags
    assert all(attrs.get("scope") for tag, attrs in parsed.tags if tag == "th")
    ids = [attrs["id"] for _, attrs in parsed.tags if "id" in attrs]
    assert sum(name.endswith("-latency-data") for name in ids) == 3
    assert len(ids) == len(set(ids))
    for _, attrs in parsed.tags:
        for name in ("aria-labelledby", "aria-describedby"):
            assert attrs.get(name, ids[0]) in ids


def run(name: str, kind: str = "governor", error: str | None = None, **metrics: float | None):
    keys = ("over_oracle_pct", "idle_energy_uj", "latency_mean_us", "above_pct", "below_pct")
    return {
        "governor": name,
        "kind": kind,
        "error": error,
        "metrics": {key: metrics.get(key) for key in keys},
    }


def test_finding_names_the_nearest_and_its_price() -> None:
    runs = [
        run("menu", over_oracle_pct=12.5, latency_mean_us=80.0),
        run("teo", over_oracle_pct=4.25, latency_mean_us=95.5),
        run("oracle", "oracle", over_oracle_pct=0.0, latency_mean_us=60.0),
    ]
    assert finding(runs) == (
        "teo is nearest the oracle in idle energy, 4.25 % above it "
        "(the farthest, menu, is "
        "12.50 % above); its mean wake-up latency is 95.50 µs, 15.50 µs more than menu, "
        "the quickest."
    )


def test_governor_below_an_incomplete_search_is_the_least() -> None:
    runs = [
        run("menu", over_oracle_pct=12.5),
        run("teo", over_oracle_pct=0.0),
        run("oracle", "oracle", over_oracle_pct=2.9),
    ]
    said = finding(runs)
    assert said.startswith("teo ") and "2.90 %" in said and "nearest" not in said


def test_finding_without_power_ranks_by_wrong_depth() -> None:
    runs = [
        run("menu", above_pct=10.5, below_pct=2.25, latency_mean_us=5.5),
        run("teo", above_pct=9.5, below_pct=5.5, latency_mean_us=7.5),
    ]
    assert finding(runs) == (
        "menu picks the wrong depth least often, in 12.75 % of its sleeps (10.50 % too deep, "
        "2.25 % too shallow); no governor wakes faster (mean 5.50 µs); this platform has no "
        "power numbers, so energy is not known."
    )


def seeded(name: str, key: str, *values: float, **metrics: float):
    """A simulation's run, with a value a seed and their mean."""
    made = run(name, **metrics)
    made["metrics"][key] = sum(values) / len(values)
    made["seeds"] = [{"seed": n, "metrics": {key: value}} for n, value in enumerate(values, 1)]
    return made


def test_no_verdict_without_known_timers() -> None:
    runs = [
        run("menu", over_oracle_pct=12.5, latency_mean_us=80.0),
        run("teo", over_oracle_pct=4.25, latency_mean_us=75.5),
    ]
    said = finding(runs, {"recorded": {"timer_events": 0}, "guessed": {}, "none": {"tick_only": 9}})
    assert said.startswith("No verdict: for 100.00 % of the decisions")
    assert "teo" not in said


def test_finding_states_the_share_it_rests_on() -> None:
    runs = [run("menu", idle_energy_uj=2.0), run("teo", idle_energy_uj=1.0)]

    def of(recorded: int, guessed: int, none: int) -> str:
        counts = {"timer_events": recorded}, {"waking_timer": guessed}, {"tick_only": none}
        return finding(runs, dict(zip(("recorded", "guessed", "none"), counts, strict=True)))

    said = of(80, 0, 20)
    assert said.startswith("teo uses the least idle energy")
    assert "In 20.00 % of the decisions the recording shows only the tick" in said
    assert "of the decisions" not in of(1000, 0, 1)
    assert "In 96.00 % of the decisions the next timer is guessed" in of(0, 96, 4)


def test_finding_names_no_best_within_the_noise() -> None:
    # -1, +1, -0.5: a mean of -0.17 with an interval of some 2.6 on either side.
    runs = [seeded("menu", "energy_uj", 10, 11, 12), seeded("teo", "energy_uj", 9, 12, 11.5)]
    assert finding(runs) == (
        "No governor's energy differs from the least, 10.83 µJ, by more than chance."
    )
    # 5 lower in each seed, and not by the same: that is no chance.
    runs.append(seeded("mine", "energy_uj", 5, 6.1, 6.9))
    assert finding(runs).startswith("mine uses the least energy, 6.00 µJ.")
    runs.append(seeded("yours", "energy_uj", 5.1, 6.0, 6.95))
    said = finding(runs)
    assert "mine and yours use the least energy" in said
    assert "do not separate them" in said


def test_finding_of_one_seed_is_no_verdict() -> None:
    runs = [seeded("menu", "energy_uj", 10), seeded("teo", "energy_uj", 9)]
    assert "in one seed, which may be chance" in finding(runs)


def test_finding_takes_total_energy_where_it_is_known() -> None:
    """To idle for less and to work for more is no gain."""
    runs = [
        seeded("menu", "energy_uj", 10, 11, 12, idle_energy_uj=5.0),
        seeded("teo", "energy_uj", 20, 21.5, 22, idle_energy_uj=1.0),
    ]
    assert finding(runs).startswith("menu uses the least energy, 11.00 µJ")


def test_verdict_says_that_no_governor_finished() -> None:
    runs = [run("mine", error="crashed"), run("oracle", "oracle", over_oracle_pct=0.0)]
    assert finding(runs) == ("No governor finished on this trace, so there is nothing to compare.")


def comparison_row(html: str, key: str) -> list[str]:
    row = re.search(rf'<tr data-key="{key}">(.*?)</tr>', html, re.S)
    assert row
    return re.findall(r"<td.*?</td>", row[1], re.S)


def test_best_is_marked_except_of_one_recording() -> None:
    result = sample.pixel()
    assert "(best)" not in report.render(result)
    rows = {row["key"]: row for row in result["traces"][0]["comparison"]["rows"]}
    rows["idle_energy_uj"]["cells"][1]["is_best"] = True
    html = report.render(result)
    cells = comparison_row(html, "idle_energy_uj")
    assert [("(best)" in cell) for cell in cells].count(True) == 1
    assert not any("(best)" in cell for cell in comparison_row(html, "wakeups"))


def test_changes_are_against_the_first_governor() -> None:
    result = sample.pixel()
    runs = result["traces"][0]["runs"]
    runs[0]["metrics"]["idle_power_mw"], runs[1]["metrics"]["idle_power_mw"] = 209.1, 187.8
    runs[0]["metrics"]["above_pct"], runs[1]["metrics"]["above_pct"] = 16.64, 9.61
    refill(result)
    html = report.render(result)
    # 187.8 / 209.1 = 0.89814; 9.61 - 16.64 = -7.03 points.
    power, above = comparison_row(html, "idle_power_mw"), comparison_row(html, "above_pct")
    assert "(" not in Page(power[0]).text
    assert Page(power[1]).text.replace("\N{NO-BREAK SPACE}", " ") == "187.8 (−10.19 %)"
    assert Page(above[1]).text.replace("\N{NO-BREAK SPACE}", " ") == "9.61 (−7.03 pp)"


def test_unknown_energy_is_never_a_number() -> None:
    html = report.render(sample.desktop())
    assert {Page(cell).text for cell in comparison_row(html, "idle_power_mw")} == {"not known"}


def test_a_failed_governor_is_shown_and_no_base() -> None:
    html = report.render(sample.errored())
    cells = comparison_row(html, "above_pct")
    # The base of changes is first.
    assert Page(cells[1]).text == "failed"
    assert "(" not in Page(cells[0]).text.replace("(best)", "")
    text = Page(html).text
    assert "read address 0x8 (SIGSEGV)" in text
    assert "the change against shallowest" in text


def test_shares_within_a_bound_match_the_histogram() -> None:
    result = sample.pixel()
    runs = result["traces"][0]["runs"]
    own = runs[1]["latency"]
    # A wake-up from polling may take no time at all: no place on a logarithmic axis.
    own["histogram"].insert(0, [0, 7])
    own["count"] += 7
    data = Page(report.render(result)).data("t1-latency-data")
    assert data["counts"][1] == own["count"] == data["rows"][1][-1]
    bounds = latency(runs)["bounds"]
    assert len(bounds) == len(data["rows"][1])
    for bound, total in list(zip(bounds, data["rows"][1], strict=True))[1:]:
        assert total == sum(n for upper, n in own["histogram"] if upper <= bound)


def test_fine_buckets_are_drawn_in_visible_bins() -> None:
    result = sample.pixel()
    own = result["traces"][0]["runs"][0]["latency"]
    # 1 % buckets from 1 us to 10 ms are some 900; 20 bins a decade are 80.
    own["histogram"] = [[round(1000 * 1.01**k), 1] for k in range(925)]
    own["count"], own["max_ns"] = 925, own["histogram"][-1][0]
    bounds = latency(result["traces"][0]["runs"][:1])["bounds"]
    assert 80 <= len(bounds) <= 83
    # 1 us lies inside a bin and not on its bound, where rounding would decide.
    assert [bound for bound in bounds if 900 < bound < 1100] == [944, 1059]


def test_clusters_without_replayed_cpus_are_omitted() -> None:
    # A recording of CPUs 8-11, played on the second cluster only.
    result = sample.pixel()
    trace = result["traces"][0]
    for entry in trace["runs"]:
        entry["clusters"] = [dict(entry["clusters"][1], cpus=[8, 9, 10, 11])]
    trace["strips"] = [dict(trace["strips"][0], cpu=9)]
    html = report.render(result)
    assert 'aria-label="mid, CPU 8-11"' in html
    assert 'aria-label="CPU 9 (mid): ' in html
    assert 'aria-label="little' not in html


def test_a_result_with_hardly_anything_still_renders() -> None:
    result = sample.pixel()
    trace = result["traces"][0]
    for entry in trace["runs"]:
        entry["error"] = "compile error"
        entry["clusters"], entry["latency"] = [], None
    refill(result)
    trace["strips"] = []
    trace["trace"].update(losses=[], event_counts={}, kernel_release=None, machine=None)
    for counts in trace["inputs"]["sleep_length_sources"].values():
        counts.clear()
    result["notes"] = []
    assert "nothing to compare" in report.render(result)


def test_the_page_shows_the_share_of_explained_decisions() -> None:
    guest = Path(__file__).parents[1] / "data" / "guest" / "amd64-6.12-menu-mix"
    dump = next(guest.glob("*before*"))
    replay = torpor.replay(
        str(next(guest.glob("trace.dat*"))),
        platform=str(dump),
        recorded_on=str(dump),
        governors=["menu-6.12", "teo-6.12"],
    )
    html = report.render(replay.to_dict())
    # Without the counters and with nothing fitted, so less than `torpor fidelity` finds.
    assert "Verified: menu-6.12 reproduces 98." in html
