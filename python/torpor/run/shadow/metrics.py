# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Findings of a shadow as OpenMetrics text on the loopback address."""

import socket
import threading
from collections.abc import Iterator
from functools import partial

from torpor._engine import __version__
from torpor.run.loopback import ADDRESS, Answer, Server
from torpor.run.shadow.live import Shadow

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_DAY_S = 86400

#: Sums of each governor: name, unit, description, field and scale.
_OF_GOVERNOR = (
    ("sleeps", "", "Entries into any idle state.", "sleeps", 1),
    ("too_deep_sleeps", "", "Sleeps that a shallower state fitted.", "above", 1),
    ("too_shallow_sleeps", "", "Sleeps that a deeper state fitted.", "below", 1),
    ("delay_seconds", "seconds", "Delay of work by exits from idle.", "delay_ns", 1e-9),
)

#: Labels and values of one family.
_Samples = list[tuple[dict[str, str], float]]


def openmetrics(shadow: Shadow) -> str:
    """Return the text of a scrape."""
    lines = []
    for name, kind, unit, described, samples in _families(shadow):
        family = f"torpor_shadow_{name}"
        lines.append(f"# TYPE {family} {kind}")
        lines += [f"# UNIT {family} {unit}"] * bool(unit)
        lines.append(f"# HELP {family} {described}")
        suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
        lines += [f"{family}{suffix}{_labels(of)} {value!r}" for of, value in samples]
    return "\n".join([*lines, "# EOF", ""])


def _labels(of: dict[str, str]) -> str:
    escaped = {
        name: text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        for name, text in of.items()
    }
    return "{" + ",".join(f'{k}="{v}"' for k, v in escaped.items()) + "}" if of else ""


def _families(shadow: Shadow) -> Iterator[tuple[str, str, str, str, _Samples]]:
    """Yield name, kind, unit, description and samples."""
    for name, unit, described, of, scale in _OF_GOVERNOR:
        samples = [({"governor": g}, getattr(s, of) * scale) for g, s in shadow.sums.items()]
        yield name, "counter", unit, described, samples
    energy = [
        ({"governor": governor, "cluster": cluster}, energy_uj / 1e6)
        for governor, sums in shadow.sums.items()
        for cluster, energy_uj in sums.energy_uj.items()
    ]
    yield "idle_energy_joules", "counter", "joules", "Energy while idle, if known.", energy
    ends = [
        ({"governor": governor, "metric": shadow.judged or "", "bound": bound}, end)
        for governor, tally in shadow.tallies.items()
        for bound, end in zip(("mean", "low", "high"), tally.change, strict=True)
        if end is not None
    ]
    yield "difference_percent", "gauge", "percent", "Paired, from the base; 95 %.", ends
    up = [({"governor": g}, float(s.error is None)) for g, s in shadow.sums.items()]
    yield "governor_up", "gauge", "", "1 as long as the governor has not failed.", up
    for name, kind, unit, described, value in (
        ("windows", "counter", "", "Minutes without losses, begun ones included.", shadow.windows),
        ("lossy_windows", "counter", "", "Minutes with losses, left out.", shadow.lossy_windows),
        ("events", "counter", "", "Events that were read.", shadow.events),
        ("lost_events", "counter", "", "Events that were lost.", shadow.lost_events),
        ("cpu_seconds", "counter", "seconds", "Of Torpor and perf.", shadow.meter.cpu_ns / 1e9),
        ("memory_bytes", "gauge", "bytes", "Of Torpor and perf.", shadow.meter.memory_bytes),
        ("wakeups", "counter", "", "Of Torpor's and perf's threads.", shadow.meter.wakeups),
    ):
        yield name, kind, unit, described, [({}, value)]
    yield "build", "info", "", "Torpor's version.", [({"version": __version__}, 1)]


class Exporter:
    """Serves the latest text to this machine alone."""

    def __init__(self, port: int) -> None:
        """Listen. Raises OSError if the port is taken."""
        self.text = "# EOF\n"
        self._server = Server(self._answer, port)
        self.port = self._server.server_port

    def _answer(self, path: str) -> Answer:
        if path != "/metrics":
            return Answer(404, "Only /metrics is here.")
        return Answer(200, self.text, {"Content-Type": CONTENT_TYPE})

    def __enter__(self) -> "Exporter":
        # By default it would wake up twice a second.
        serve = partial(self._server.serve_forever, poll_interval=_DAY_S)
        threading.Thread(target=serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        ending = threading.Thread(target=self._server.shutdown)
        ending.start()
        while ending.is_alive():
            # Whoever calls wakes it.
            with socket.create_connection((ADDRESS, self.port)):
                ending.join(0.05)
        self._server.server_close()
