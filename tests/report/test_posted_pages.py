# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The pages of results that no governor's replay made: what they hold, and in a real browser."""

from __future__ import annotations

import hashlib
import http.server
import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import torpor
from browser import Browser, By, Keys
from processes import TORPOR, ran
from torpor.view import report
from torpor.view.report import handover

GUEST = Path(__file__).parents[1] / "data" / "guest" / "amd64-6.12-menu-mix"
#: Each page, and the words of the command that writes it; every one also writes its result.
COMMANDS = {
    "simulate": ["simulate", "periodic", "-p", "pixel6", "--duration", "1s", "--seeds", "2"],
    "fidelity": ["fidelity", "trace.dat.gz", "-g", "menu-6.12"],
    "diff": ["diff", "sysfs-before.txt", "sysfs-after.txt"],
    "check": ["governor", "check", "menu", "teo", "--decisions", "300"],
    "stats": ["trace", "stats", "trace.dat.gz"],
    "reproduce": ["study", "run", "i5-10600k-idle", "--duration", "200ms", "--seeds", "1"],
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Every page, written by the command line in a folder that has the recording."""
    opened = Browser(tmp_path_factory.mktemp("pages"))
    for file in GUEST.iterdir():
        shutil.copy(file, opened.folder)
    for name, words in COMMANDS.items():
        report = ["--format", "json", "--report", f"{name}.html"]
        done = ran(*TORPOR, *words, *report, cwd=opened.folder)
        assert done.returncode in (0, 1), done.stderr
        opened.results[name] = json.loads(done.stdout)
    yield opened
    opened.driver.quit()


@pytest.mark.parametrize("name", COMMANDS)
def test_page_is_self_contained_and_readable(browser: Browser, name: str) -> None:
    browser.assert_sound(name, texts_least=15)


@pytest.mark.parametrize("name", COMMANDS)
def test_page_ends_with_the_command_that_repeats_it(browser: Browser, name: str) -> None:
    browser.open(name)
    shown = browser.driver.find_elements(By.CSS_SELECTOR, "main > :last-child pre")[-1].text
    assert shown.split() == [
        "torpor",
        *COMMANDS[name],
        "--format",
        "json",
        "--report",
        f"{name}.html",
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_all_parts_are_reached_by_the_keyboard(browser: Browser, name: str) -> None:
    browser.open(name)
    wanted = browser.run(
        "return [...document.querySelectorAll('.scroll, summary, pre[tabindex]')]"
        ".filter((e) => e.checkVisibility()).length"
    )
    reached = 0
    for _ in range(400):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        now = browser.run(
            "const e = document.activeElement; if (e === document.body || e.seen) return null;"
            "e.seen = true; return e.matches('.scroll, summary, pre[tabindex]')"
        )
        if now is None:
            break
        reached += now
    assert reached == wanted


def test_pictures_have_the_numbers_of_the_result(browser: Browser) -> None:
    browser.open("fidelity")
    shown = browser.run(
        "return [...document.querySelectorAll('.plotted details tbody tr')]"
        ".map((tr) => [...tr.cells].slice(0, 2).map((cell) => cell.textContent))"
    )
    compared = browser.results["fidelity"]["decisions"]["compared"]
    for governor in browser.results["fidelity"]["governors"]:
        agreed = f"{100 * governor['agreeing'] / compared:.1f}"
        assert [governor["governor"], f"{agreed}\u00a0%"] in shown
    browser.open("reproduce")
    (study,) = browser.results["reproduce"]
    rows = [row for table in study["tables"] for row in table["rows"]]
    copied = browser.run(
        "return [...document.querySelectorAll('.plotted title')].map((t) => t.textContent)"
    )
    cells = rows[4]["cells"]
    name, _, other, *_ = cells
    published = 100 * (cells[other]["published"] / cells[name]["published"] - 1)
    ours = 100 * (cells[other]["ours"] / cells[name]["ours"] - 1)
    line = f"{rows[4]['title']}, {other}: {published:+.1f} % published, {ours:+.1f} % here"
    assert line in copied


STUB = b"""<!doctype html><title>waiting</title><script>
let pings = 0;
addEventListener("message", async (e) => {
  // As Perfetto does: silent until it is ready.
  if (e.data === "PING" && ++pings > 3) e.source.postMessage("PONG", "*");
  if (!e.data.perfetto) return;
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", e.data.perfetto.buffer));
  const hex = [...hash].map((b) => b.toString(16).padStart(2, "0")).join("");
  document.title = JSON.stringify([hex, e.data.perfetto.title]);
});
</script>"""


@pytest.fixture
def local_copy() -> Iterator[str]:
    """Something that answers as Perfetto does, on this machine."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(STUB)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("name", ["simulate", "fidelity", "stats"])
def test_the_trace_is_handed_over_to_perfetto(
    browser: Browser, name: str, local_copy: str, tmp_path: Path
) -> None:
    trace = tmp_path / "own.perfetto-trace"
    if name == "simulate":
        torpor.simulate("periodic", platform="pixel6", duration="1s", seeds=1, trace=trace)
    else:
        torpor.convert_trace(GUEST / "trace.dat.gz", trace)
    browser.open(name)
    address = browser.driver.find_element(By.CSS_SELECTOR, "form.perfetto input")
    assert address.get_attribute("value") == "https://ui.perfetto.dev"
    address.clear()
    address.send_keys(local_copy, Keys.ENTER)
    page, opened = browser.driver.window_handles
    browser.driver.switch_to.window(opened)
    for _ in range(100):
        if browser.driver.title not in ("", "waiting"):
            break
        time.sleep(0.05)
    found, title = json.loads(browser.driver.title)
    browser.driver.close()
    browser.driver.switch_to.window(page)
    assert found == hashlib.sha256(trace.read_bytes()).hexdigest()
    assert ("periodic: simulation on pixel6" if name == "simulate" else "trace.dat.gz") in title
    said = browser.driver.find_element(By.CSS_SELECTOR, "form.perfetto output").text
    assert said == f"Handed over to {local_copy}."


def test_page_omits_a_large_trace(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    result = browser.results["fidelity"]
    recording = GUEST / "trace.dat.gz"
    assert "Open in Perfetto" in report.render(result, trace=recording)
    monkeypatch.setattr(handover, "EMBEDDED_BYTES", 1000)
    page = report.render(result, trace=recording)
    assert "Open in Perfetto" not in page and "<code>--trace FILE</code>" in page


def test_page_without_trace_names_the_command(browser: Browser) -> None:
    for name, result in browser.results.items():
        page = report.render(result)
        assert page.count("This page has no trace for Perfetto") == 1, name
        kind = (result if isinstance(result, dict) else result[0])["kind"]
        assert kind == "check" or "<code>torpor " in page.split("no trace for Perfetto")[1], name
    assert "of two moons" in report.render(result, why_no_trace="It is of two moons.")


def test_markup_in_result_stays_text_on_every_page(browser: Browser) -> None:
    attack = "<img src=x onerror=alert(1)>"
    for name, found in browser.results.items():
        if name == "simulate":
            continue
        text = json.dumps(found)
        for word in ("teo", "menu", "C1E", "trace.dat.gz", "sysfs-after", "Doug Smythies"):
            text = text.replace(word, attack)
        page = report.render(json.loads(text))
        assert attack not in page and "&lt;img src=x" in page


def test_a_kind_without_a_page_is_refused() -> None:
    with pytest.raises(torpor.TorporError, match=r"expected .*replay"):
        report.render({"kind": "snapshot"})
