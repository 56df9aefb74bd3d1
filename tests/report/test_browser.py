# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The report of a replay in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import sample
from browser import Browser
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


def test_pictures_follow_the_colour_scheme(browser: Browser) -> None:
    fill = "return getComputedStyle(document.querySelector(arguments[0])).fill"
    parts = ("rect.state", "text.state", "path.state", "circle")
    colours = []
    for theme in ("light", "dark"):
        browser.open("pixel", theme=theme)
        colours.append([browser.run(fill, part) for part in parts])
    assert all(light != dark for light, dark in zip(*colours, strict=True))


def test_numbers_on_blocks_are_readable(browser: Browser) -> None:
    # The lightness of each state's fill, and of the text on it.
    script = (
        "return [...document.querySelectorAll('text.state')].map((text) => [text, "
        "[...text.parentNode.querySelectorAll('rect.state, path.state')].find((r) => "
        "r.getAttribute('style') === text.getAttribute('style'))].map((e) => "
        "Number(getComputedStyle(e).fill.match(/[\\d.]+/)[0])))"
    )
    for name, theme in (("desktop", "light"), ("desktop", "dark"), ("pixel", "dark")):
        browser.open(name, theme=theme)
        pairs = browser.run(script)
        assert pairs and all(abs(text - fill) > 0.35 for text, fill in pairs)


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
