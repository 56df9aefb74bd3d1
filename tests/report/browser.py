# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Headless Chromium through chromedriver, both of the system, and what every page has to hold."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CHROMEDRIVER = shutil.which("chromedriver")
if not CHROMIUM or not CHROMEDRIVER:
    pytest.skip(
        "needs chromium and chromedriver (Debian: chromium chromium-driver)",
        allow_module_level=True,
    )
selenium = pytest.importorskip("selenium", reason="needs selenium (pip install selenium)")

from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

__all__ = ["PHONE", "WIDE", "Browser", "By", "Keys"]

PHONE, WIDE = (390, 844), (1400, 900)
LIGHT = "rgb(253, 253, 251)"

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
        self.results: dict[str, Any] = {}

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
        # Folded parts are checked, too.
        self.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def assert_sound(self, name: str, texts_least: int) -> None:
        """Check that a page loads nothing, logs nothing, fits any screen and is readable."""
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        for width in (PHONE[0], 800, 1600):
            self.open(name, (width, 900), "dark")
            assert self.run("return document.documentElement.scrollWidth") <= width
        assert self.driver.get_log("browser") == []
        logged = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        sent = [m["params"]["request"]["url"] for m in logged if "requestWillBeSent" in m["method"]]
        assert {u for u in sent if not u.startswith("data:")} == {self.driver.current_url}
        assert self.run("return window.pwned === undefined")
        for theme, paper in (("light", LIGHT), ("dark", "rgb(21, 23, 26)")):
            self.open(name, theme=theme)
            count, poor = self.run(CONTRAST)
            assert count > texts_least and poor == []
            assert self.paper() == paper
        # Printing is on light paper even in the dark.
        dark = [{"name": "prefers-color-scheme", "value": "dark"}]
        media = {"media": "print", "features": dark}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        printed = self.paper()
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        assert printed == LIGHT

    def paper(self) -> str:
        return str(self.run("return getComputedStyle(document.body).backgroundColor"))
