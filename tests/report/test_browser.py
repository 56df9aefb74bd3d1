# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The report of a replay in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import sample
from browser import PHONE, ActionChains, Browser, By, Keys, ScrollOrigin
from torpor.view import report
from torpor.view.report.latency import latency

SAMPLES: dict[str, Callable[[], dict]] = {
    make.__name__: make for make in (sample.pixel, sample.desktop, sample.errored, sample.hostile)
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("report"))
    opened.results = {name: make() for name, make in SAMPLES.items()}
    for name, result in opened.results.items():
        report.write(result, opened.folder / f"{name}.html")
    yield opened
    opened.driver.quit()


@pytest.mark.parametrize("name", SAMPLES)
def test_page_is_self_contained_and_readable(browser: Browser, name: str) -> None:
    browser.assert_sound(name, texts_least=300)


def test_the_strip_follows_the_colour_scheme(browser: Browser) -> None:
    corner = "return [...arguments[0].getContext('2d').getImageData(0, 0, 1, 1).data]"
    colours = []
    for theme in ("light", "dark"):
        browser.open("pixel", theme=theme)
        canvas = browser.strip()
        browser.view(canvas)
        # The top left pixel is paper.
        colours.append(browser.run(corner, canvas)[:3])
    assert colours == [[253, 253, 251], [21, 23, 26]]


@pytest.mark.parametrize("name", ["pixel", "desktop", "errored"])
def test_the_table_holds_the_numbers_of_the_result(browser: Browser, name: str) -> None:
    browser.open(name)
    result = browser.results[name]
    runs = list(result["traces"][0]["runs"])
    # The base of changes is first.
    runs.insert(0, runs.pop(result["traces"][0]["comparison"]["base"]))
    shown = browser.run(
        "return [...document.querySelectorAll('.comparison tbody tr')].map((tr) => "
        "[tr.dataset.key, [...tr.cells].slice(1).map((td) => "
        "[td.querySelector('data') && td.querySelector('data').value, td.innerText])])"
    )
    rows = result["traces"][0]["comparison"]["rows"]
    assert [key for key, _ in shown] == [row["key"] for row in rows]
    for key, cells in shown:
        for run, (exact, text) in zip(runs, cells, strict=True):
            value = run["metrics"][key]
            if run["error"]:
                assert text == "failed"
            elif value is None:
                assert text == "not known"
            else:
                assert float(exact) == value
                digits = text.replace("•", "").split("(")[0].replace(",", "").replace("−", "-")
                assert float(digits) == pytest.approx(value, rel=6e-3, abs=6e-3)


def test_wheel_zooms_the_strip_and_reset_restores_it(browser: Browser) -> None:
    browser.open("pixel")
    canvas = browser.strip()
    whole = browser.view(canvas)
    ActionChains(browser.driver).scroll_from_origin(
        ScrollOrigin.from_element(canvas), 0, -200
    ).perform()
    zoomed = browser.view(canvas)
    assert whole[0] < zoomed[0] < zoomed[1] < whole[1]
    ActionChains(browser.driver).drag_and_drop_by_offset(canvas, 120, 0).perform()
    panned = browser.view(canvas)
    assert panned[0] < zoomed[0]
    assert panned[1] - panned[0] == pytest.approx(zoomed[1] - zoomed[0])
    browser.driver.find_element(By.CSS_SELECTOR, "[data-do=reset]").click()
    assert browser.view(canvas) == whole


def test_the_strip_obeys_the_keyboard(browser: Browser) -> None:
    browser.open("pixel")
    canvas = browser.strip()
    whole = browser.view(canvas)
    browser.run("arguments[0].focus()", canvas)
    canvas.send_keys("+++")
    zoomed = browser.view(canvas)
    assert zoomed[1] - zoomed[0] == pytest.approx((whole[1] - whole[0]) / 8)
    canvas.send_keys(Keys.ARROW_RIGHT)
    assert browser.view(canvas)[0] > zoomed[0]
    canvas.send_keys(Keys.ARROW_DOWN + "n")
    browser.view(canvas)
    readout = browser.driver.find_element(By.CSS_SELECTOR, "figure.strip output").text
    assert ", menu: " in readout
    assert "than the oracle's" in readout
    canvas.send_keys("0")
    assert browser.view(canvas) == whole


def test_any_cpu_of_the_run_can_be_chosen(browser: Browser) -> None:
    browser.open("pixel")
    canvas = browser.strip()
    select = browser.driver.find_element(By.CSS_SELECTOR, "figure.strip select")
    offered = [option.text for option in select.find_elements(By.TAG_NAME, "option")]
    assert (len(offered), offered[0], offered[7]) == (8, "0 (little)", "7 (big)")
    trace = browser.results["pixel"]["traces"][0]
    heading = "return document.querySelector('h3 .chosen').textContent"
    visible = (
        "return [...document.querySelectorAll('figure.strip [data-of]:not([hidden]) tbody tr')]"
        ".map((tr) => [...tr.cells].slice(0, 2).map((cell) => cell.textContent))"
    )
    keys = "return [...document.querySelectorAll('figure.strip .key:not([hidden])')].length"
    pixels = "return arguments[0].toDataURL()"
    seen = set()
    for cpu, keys_down in ((0, 0), (5, 5), (7, 2)):
        select.send_keys(Keys.ARROW_DOWN * keys_down)
        browser.view(canvas)
        assert browser.run(heading) == offered[cpu]
        assert f"CPU {offered[cpu]}" in canvas.get_attribute("aria-label")
        sleeps = [[r["governor"], f"{len(r['segments']):,}"] for r in trace["strips"][cpu]["rows"]]
        assert browser.run(visible) == sleeps
        assert browser.run(keys) == 1
        seen.add(browser.run(pixels, canvas))
    assert len(seen) == 3


def test_another_cpu_shows_same_time_and_wraps_around(browser: Browser) -> None:
    browser.open("pixel", PHONE)
    canvas = browser.strip()
    browser.run("arguments[0].focus()", canvas)
    canvas.send_keys("++")
    view = browser.view(canvas)
    heading = "return document.querySelector('h3 .chosen').textContent"
    canvas.send_keys("C")
    assert browser.view(canvas) == pytest.approx(view)
    assert browser.run(heading) == "7 (big)"
    spoken = browser.driver.find_element(By.CSS_SELECTOR, "figure.strip [aria-live]")
    assert spoken.get_attribute("textContent").startswith("CPU 7 (big), ")
    canvas.send_keys("c")
    assert browser.view(canvas) == pytest.approx(view)
    assert browser.run(heading) == "0 (little)"
    assert browser.run("return document.querySelector('figure.strip select').value") == "0"


def test_two_fingers_pinch_the_strip(browser: Browser) -> None:
    browser.open("pixel", PHONE)
    canvas = browser.strip()
    whole = browser.view(canvas)
    box = browser.run("const b = arguments[0].getBoundingClientRect(); return [b.x, b.y]", canvas)
    left, right, y = box[0] + 150, box[0] + 200, box[1] + 60

    def touch(kind: str, *xs: float) -> None:
        points = [{"x": x, "y": y, "id": i} for i, x in enumerate(xs)]
        browser.driver.execute_cdp_cmd(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": points}
        )

    touch("touchStart", left, right)
    touch("touchMove", left - 40, right + 40)
    touch("touchMove", left - 80, right + 80)
    touch("touchEnd")
    pinched = browser.view(canvas)
    assert pinched[1] - pinched[0] < (whole[1] - whole[0]) / 2


def test_pointing_at_sleep_reads_its_state_and_length(browser: Browser) -> None:
    browser.open("pixel")
    canvas = browser.strip()
    result = browser.results["pixel"]["traces"][0]
    start, end, state = max(
        result["strips"][0]["rows"][0]["segments"], key=lambda segment: segment[1] - segment[0]
    )
    width, height = canvas.size["width"], canvas.size["height"]
    x = (start + end) / 2 / result["strips"][0]["end_ns"] * width
    ActionChains(browser.driver).move_to_element_with_offset(
        canvas, round(x - width / 2), round(20 - height / 2)
    ).perform()
    browser.view(canvas)
    readout = browser.driver.find_element(By.CSS_SELECTOR, "figure.strip output").text
    name = browser.results["pixel"]["platform"]["clusters"][0]["states"][state]["name"]
    assert f"shallowest: {name} {(end - start) / 1e6:.1f}" in readout.replace("\u00a0", " ")


def test_the_latency_slider_counts_the_histogram(browser: Browser) -> None:
    browser.open("pixel")
    runs = browser.results["pixel"]["traces"][0]["runs"]
    bounds = latency(runs)["bounds"]
    middle = len(bounds) // 2
    texts = browser.run(
        "const i = document.querySelector('.slider input'); i.value = arguments[0];"
        "i.dispatchEvent(new Event('input'));"
        "return [...document.querySelectorAll('.latency tbody td:last-child')]"
        ".map((e) => e.textContent)",
        middle,
    )
    for run, text in zip(runs, texts, strict=True):
        own = run["latency"]
        within = sum(n for bound, n in own["histogram"] if bound <= bounds[middle])
        assert float(text.split()[0]) == pytest.approx(100 * within / own["count"], abs=0.051)


def test_a_metric_shows_its_definition_on_focus(browser: Browser) -> None:
    browser.open("pixel")
    shown = browser.run(
        "document.querySelector('tr[data-key=above_pct] a').focus();"
        "const tip = document.getElementById('tip'); return [tip.hidden, tip.textContent]"
    )
    assert shown[0] is False
    assert "the kernel's rule" in shown[1]
