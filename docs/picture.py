# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Draws the README's moving picture from a replay: a terminal, and what each governor chose.

``python docs/picture.py`` writes ``docs/images/replay-light.svg`` and ``replay-dark.svg``.
"""

from html import escape
from pathlib import Path

import torpor
from torpor.results.kinds import posted
from torpor.view.post import post_text

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
RECORDING = "demo/web-server.perf.data"
GOVERNORS = ("menu", "teo", "oracle")
COMMAND = f"torpor replay {RECORDING} -p pixel6 -g menu -g teo -g oracle"
#: Rows of the table that the picture has.
ROWS = ("metric", "too deep", "too shallow", "wake-up latency, mean", "idle power, total")
#: Part of the recording that the strips show, in ms after its first decision.
START_MS, SPAN_MS = 1600, 100

WIDTH, MARGIN, LINE = 860, 24, 22
LABEL = 84
STRIP, GAP = 22, 12
#: When the command, its table and the strips appear, and when all begins again.
TYPED_S, TABLE_S, LOOP_S = 2, 3, 12

#: Paper, ink, faint ink; shallow, deep and wrong sleeps.
THEMES = {
    "light": ("#ffffff", "#1f2328", "#59636e", "#a8d5ba", "#1f6f8b", "#cf222e"),
    "dark": ("#0d1117", "#f0f6fc", "#9198a1", "#4f8a75", "#7cc4e0", "#ff7b72"),
}


def table(result: torpor.Replay) -> list[str]:
    """The lines of the printed table that the picture has."""
    text = post_text(posted(result.to_dict()), width=100)
    return [line for line in text.splitlines() if line.startswith(ROWS)]


def sleeps(result: torpor.Replay, governor: str) -> list[tuple[float, float, int, str]]:
    """Begin and end of a governor's sleeps in ms, the state, and whether it was right."""
    decisions = result.decisions.to_dict()
    began_ns = decisions["time_ns"][0]
    found = []
    columns = ("governor", "time_ns", "residency_ns", "state", "outcome")
    for by, time_ns, slept_ns, state, outcome in zip(*(decisions[c] for c in columns), strict=True):
        begin = (time_ns - began_ns) / 1e6 - START_MS
        end = min(begin + slept_ns / 1e6, SPAN_MS)
        if by == governor and 0 <= begin < end:
            found.append((begin, end, state, outcome))
    return found


def strip(result: torpor.Replay, governor: str, top: int) -> list[str]:
    """A governor's sleeps: as high as deep, and a mark under those of a wrong depth."""
    left, scale = MARGIN + LABEL, (WIDTH - 2 * MARGIN - LABEL) / SPAN_MS
    parts = [f'<text x="{MARGIN}" y="{top + 15}">{governor}</text>']
    for begin, end, state, outcome in sleeps(result, governor):
        x, width = left + begin * scale, max((end - begin) * scale - 0.6, 0.4)
        height = STRIP if state else STRIP // 2
        parts.append(
            f'<rect class="{"deep" if state else "shallow"}" x="{x:.1f}" '
            f'y="{top + STRIP - height}" width="{width:.1f}" height="{height}"/>'
        )
        if outcome != "fit":
            parts.append(
                f'<rect class="wrong" x="{x:.1f}" y="{top + STRIP + 2}" width="{width:.1f}" '
                'height="3"/>'
            )
    return parts


def style(theme: str) -> str:
    """Colours and motion; without motion for those who asked for none."""
    paper, ink, faint, shallow, deep, wrong = THEMES[theme]
    typed, shown, swept = (100 * s / LOOP_S for s in (TYPED_S, TABLE_S, 0.8 * LOOP_S))
    return f"""<style>
text {{ font: 14px ui-monospace, Menlo, Consolas, monospace; fill: {ink}; white-space: pre }}
.paper {{ fill: {paper}; stroke: {faint} }} .faint {{ fill: {faint} }}
.shallow {{ fill: {shallow} }} .deep {{ fill: {deep} }} .wrong {{ fill: {wrong} }}
.command {{ animation: type {LOOP_S}s steps(60) infinite }}
.table {{ animation: show {LOOP_S}s step-end infinite }}
.sweep {{ animation: sweep {LOOP_S}s linear infinite }}
@keyframes type {{ 0% {{ clip-path: inset(0 100% 0 0) }}
  {typed:.0f}%, 100% {{ clip-path: inset(0) }} }}
@keyframes show {{ 0% {{ opacity: 0 }} {shown:.0f}%, 100% {{ opacity: 1 }} }}
@keyframes sweep {{ 0%, {shown:.0f}% {{ clip-path: inset(0 100% 0 0) }}
  {swept:.0f}%, 100% {{ clip-path: inset(0) }} }}
@media (prefers-reduced-motion) {{ * {{ animation: none !important }} }}
</style>"""


def picture(result: torpor.Replay, theme: str) -> str:
    """The picture as SVG."""
    lines = table(result)
    tops = [MARGIN + LINE * (len(lines) + 3) + place * (STRIP + GAP) for place in range(3)]
    height = tops[-1] + STRIP + GAP + LINE + MARGIN
    body = [
        f'<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="command" x="{MARGIN}" y="{MARGIN + 14}">$ {escape(COMMAND)}</text>',
        '<g class="table">',
        *(
            f'<text x="{MARGIN}" y="{MARGIN + 14 + LINE * (row + 2)}" xml:space="preserve">'
            f"{escape(line)}</text>"
            for row, line in enumerate(lines)
        ),
        "</g>",
        '<g class="sweep">',
        *(
            part
            for governor, top in zip(GOVERNORS, tops, strict=True)
            for part in strip(result, governor, top)
        ),
        "</g>",
        f'<text class="faint" x="{MARGIN}" y="{height - MARGIN}">{SPAN_MS} ms of one CPU. '
        "Tall: state c2; low: WFI; red line: the wrong depth.</text>",
    ]
    words = f"{COMMAND}\n" + "\n".join(lines)
    return "\n".join(
        [
            "<!-- SPDX-" + "License-Identifier: MIT OR GPL-2.0-only -->",
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<title>{escape(words)}</title>",
            style(theme),
            *body,
            "</svg>\n",
        ]
    )


def pictures() -> dict[Path, str]:
    """Every file with what it contains."""
    result = torpor.replay(ROOT / RECORDING, platform="pixel6", governors=GOVERNORS)
    return {IMAGES / f"replay-{theme}.svg": picture(result, theme) for theme in THEMES}


if __name__ == "__main__":
    for path, text in pictures().items():
        path.write_text(text, encoding="utf-8")
