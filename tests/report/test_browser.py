# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The report in a real browser: headless Chromium through chromedriver, both of the system."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sample
from torpor import report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CHROMEDRIVER = shutil.which("chromedriver")
if not CHROMIUM or not CHROMEDRIVER:
    pytest.skip(
        "needs chromium and chromedriver (Debian: chromium chromium-driver)",
        allow_module_level=True,
    )
selenium = pytest.importorskip("selenium", reason="needs selenium (pip install selenium)")

from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

SAMPLES: dict[str, Callable[[], dict]] = {
    "pixel": lambda: sample.pixel(120),
    "desktop": lambda: sample.desktop(80),
    "errored": lambda: sample.errored(40),
    "hostile": sample.hostile,
}
PHONE, WIDE = (390, 844), (1400, 900)


class Browser:
    def __init__(self, folder: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in (
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--no-first-run",
        ):  # fmt: skip
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(
            options=options, service=webdriver.ChromeService(CHROMEDRIVER)
        )
        self.folder = folder
        self.results = {name: make() for name, make in SAMPLES.items()}
        for name, result in self.results.items():
            report.write(result, folder / f"{name}.html")

    def open(self, name: str, size: tuple[int, int] = WIDE, theme: str = "light") -> None:
        width, height = size
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": theme}]},
        )
        self.driver.get((self.folder / f"{name}.html").as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def strip(self) -> Any:
        canvas = self.driver.find_element(By.CSS_SELECTOR, "figure.strip canvas")
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", canvas)
        # Longer than the time in which a wheel event counts as part of a page scroll.
        time.sleep(0.5)
        return canvas

    def view(self, canvas: Any) -> tuple[float, float]:
        """The strip's view once the next frame is drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        )
        return float(canvas.get_attribute("data-from")), float(canvas.get_attribute("data-to"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("report"))
    yield opened
    opened.driver.quit()


@pytest.mark.parametrize("name", SAMPLES)
def test_console_is_silent_and_no_foreign_script_ran(browser: Browser, name: str) -> None:
    browser.driver.get_log("browser")
    browser.open(name)
    browser.view(browser.strip())
    assert browser.driver.get_log("browser") == []
    assert browser.run("return window.pwned === undefined")


def test_the_page_asks_the_network_for_nothing(browser: Browser) -> None:
    browser.driver.get_log("performance")
    browser.open("pixel")
    browser.view(browser.strip())
    messages = [json.loads(e["message"])["message"] for e in browser.driver.get_log("performance")]
    urls = {
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
    }
    assert {url for url in urls if not url.startswith("data:")} == {browser.driver.current_url}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("width", [390, 800, 1600])
def test_the_page_does_not_scroll_sideways(browser: Browser, name: str, width: int) -> None:
    browser.open(name, (width, 900))
    assert browser.run("return document.documentElement.scrollWidth") <= width


# WCAG 2: relative luminance and contrast. Text on a picture-like fill is judged by that fill.
CONTRAST = """
const parse = (c) => c.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c;
  }
  return [255, 255, 255];
};
const poor = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let count = 0;
while (walker.nextNode()) {
  const e = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !e.checkVisibility()) continue;
  if (e.closest("script,noscript")) continue;
  const [a, b] = [parse(getComputedStyle(e).color), ground(e)].map(luminance);
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  count++;
  if (ratio < 4.5) poor.push([walker.currentNode.data.trim().slice(0, 30), ratio.toFixed(2)]);
}
return [count, poor];
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["pixel", "desktop", "errored"])
def test_all_text_has_contrast(browser: Browser, name: str, theme: str) -> None:
    browser.open(name, theme=theme)
    count, poor = browser.run(CONTRAST)
    assert count > 300
    assert poor == []
    paper = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(253, 253, 251)") == (theme == "light")


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


def test_printing_is_on_light_paper_even_in_the_dark(browser: Browser) -> None:
    browser.open("pixel", theme="dark")
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"media": "print", "features": dark}
    )
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == (
        "rgb(253, 253, 251)"
    )
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize("name", ["pixel", "desktop", "errored"])
def test_the_table_holds_the_numbers_of_the_result(browser: Browser, name: str) -> None:
    browser.open(name)
    result = browser.results[name]
    runs = result["traces"][0]["runs"]
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


def test_the_wheel_zooms_the_strip_and_reset_restores_it(browser: Browser) -> None:
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


def test_pointing_at_a_sleep_reads_its_state_and_length(browser: Browser) -> None:
    browser.open("pixel")
    canvas = browser.strip()
    result = browser.results["pixel"]["traces"][0]
    start, end, state = max(
        result["strip"]["rows"][0]["segments"], key=lambda segment: segment[1] - segment[0]
    )
    width, height = canvas.size["width"], canvas.size["height"]
    x = (start + end) / 2 / result["strip"]["end_ns"] * width
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
    bounds = report.page.latency(runs)["bounds"]
    middle = len(bounds) // 2
    texts = browser.run(
        "const i = document.querySelector('.slider input'); i.value = arguments[0];"
        "i.dispatchEvent(new Event('input'));"
        "return [...document.querySelectorAll('.within')].map((e) => e.textContent)",
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
