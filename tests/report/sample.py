# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Results of replays for the pages' tests, and what this recording does not bring."""

import copy
import functools
from pathlib import Path

import torpor
from small_result import refill

PHONE_TRACE = Path(__file__).parents[1] / "data" / "simulated" / "phone.txt.gz"
GOVERNORS = ("shallowest", "menu", "teo", "deepest", "menu-6.12", "teo-6.12", "oracle")
HOSTILE = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\"'&\u2028"


@functools.cache
def _replayed(platform: str) -> dict:
    return torpor.replay(PHONE_TRACE, platform=platform, governors=GOVERNORS).to_dict()


def pixel() -> dict:
    """A phone: 8 CPUs in 3 clusters, 2 states, and two made losses."""
    result = copy.deepcopy(_replayed("pixel6"))
    result["traces"][0]["strips"].sort(key=lambda strip: strip["cpu"])
    advice = "record with a larger ftrace buffer (buffer_size_kb)"
    result["traces"][0]["trace"]["losses"] = [
        {"key": "ftrace_cpu_overrun", "severity": "loss", "count": 12, "advice": advice},
        {"key": "event_unknown", "severity": "info", "count": 3, "advice": "none is needed"},
    ]
    return result


def long(times: int) -> dict:
    """The phone, each CPU with the busiest one's sleeps, `times` over."""
    result = pixel()
    trace = result["traces"][0]
    busiest = max(trace["strips"], key=lambda strip: len(strip["rows"][0]["segments"]))
    # The last sleep may end after the strip, by the exit latency.
    end = busiest["end_ns"] + 1_000_000
    rows = [
        dict(
            row,
            segments=[
                [a + n * end, b + n * end, state]
                for n in range(times)
                for a, b, state in row["segments"]
            ],
        )
        for row in busiest["rows"]
    ]
    trace["strips"] = [dict(busiest, cpu=n, end_ns=times * end, rows=rows) for n in range(8)]
    return result


def desktop() -> dict:
    """An x86 machine with nine idle states and no known power."""
    return copy.deepcopy(_replayed("coffeelake-e-2278g"))


def errored() -> dict:
    """The phone again, with a first governor that crashed and so has no numbers."""
    result = pixel()
    runs = result["traces"][0]["runs"]
    crashed = {
        "governor": "./my_teo.c,threshold=3",
        "params": {"threshold": 3},
        "error": "governor `my_teo`: select() read address 0x8 (SIGSEGV)\n"
        "  call 17 on cpu 3: latency_req 9223372036854775807 ns, sleep length 4.1 ms",
        "metrics": dict.fromkeys(runs[0]["metrics"]),
        "clusters": [],
        "latency": dict.fromkeys(runs[0]["latency"], 0) | {"histogram": []},
    }
    runs.insert(0, runs[0] | crashed)
    refill(result)
    return result


def hostile() -> dict:
    """The phone, with markup in every text that a trace, platform or governor may bring."""
    fixed = ("key", "direction", "severity", "kind", "unit", "sampling")

    def poison(value, key=""):
        if isinstance(value, dict):
            return {k: poison(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [poison(v, key) for v in value]
        return value + HOSTILE if isinstance(value, str) and key not in fixed else value

    result = poison(pixel())
    first = result["traces"][0]
    first["trace"]["losses"][0]["key"] += HOSTILE
    first["trace"]["event_counts"][HOSTILE] = 1
    first["runs"][1]["params"] = {HOSTILE: HOSTILE}
    first["runs"][2]["error"] = HOSTILE
    refill(result)
    return result
