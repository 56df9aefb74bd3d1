# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Sample replay results, shaped as the engine's JSON, for the report's tests.

A toy replay makes them, so their numbers hang together: above and below follow the kernel's
rule, residencies sum to wall time, and the oracle is the cheapest choice of the same toy model.
Nothing here is a measurement. Run as a script to write the samples' reports to a folder.
"""

from __future__ import annotations

import hashlib
import json
import random
from bisect import bisect_left
from typing import Any

from torpor import _engine
from torpor.results import comparison

MS = 1_000_000
CATALOGUE = json.loads(_engine.metrics())["replay"]
# Latency buckets 1 % wide, as the engine keeps them: 300 ns to 17 ms.
BOUNDS = sorted({round(300 * 1.01**k) for k in range(1100)})


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _state(name: str, entry: int, exit_: int, residency: int, polling: bool = False) -> dict:
    return {
        "name": name,
        "entry_latency_ns": entry * 1000,
        "exit_latency_ns": exit_ * 1000,
        "latency_ns": (entry + exit_) * 1000,
        "target_residency_ns": residency * 1000,
        "polling": polling,
        "disabled": False,
    }


def _spans(rng: random.Random, count: int) -> list[tuple[int, int]]:
    """(start, length) of the idle spans of one CPU: short bursts, a frame beat, long sleeps."""
    spans, now = [], 0
    for _ in range(count):
        now += round(rng.lognormvariate(12.0, 0.9))
        mean = rng.choices([9.5, 13.2, 15.4, 17.2], [3, 4, 2, 1])[0]
        length = max(1500, round(rng.lognormvariate(mean, 0.7)))
        spans.append((now, length))
        now += length
    return spans


def _fits(states: list[dict], length: int) -> int:
    deep = 0
    for index, state in enumerate(states):
        if index == 0 or state["target_residency_ns"] <= length:
            deep = index
    return deep


def _choose(name: str, states: list[dict], length: int, rng: random.Random) -> int:
    if name == "shallowest":
        return 0
    if name == "deepest":
        return len(states) - 1
    ideal = _fits(states, length)
    if name == "oracle":
        return ideal
    wrong_deep, wrong_shallow = {"menu": (0.34, 0.06), "teo": (0.16, 0.13)}[name.split("@")[0]]
    if "6.12" in name:
        wrong_deep, wrong_shallow = wrong_deep * 0.8, wrong_shallow * 0.9
    draw = rng.random()
    if draw < wrong_deep:
        return min(ideal + 1, len(states) - 1)
    return max(ideal - 1, 0) if draw > 1 - wrong_shallow else ideal


def _cost(states: list[dict], power: list[float], index: int, length: int) -> float:
    """Picojoule-ish cost: state power, plus what makes i pay off at its target residency."""
    fixed = 0.0
    for k in range(1, index + 1):
        fixed += (power[k - 1] - power[k]) * states[k]["target_residency_ns"]
    return (power[index] * length + fixed) * 1e-6


def _run(label: str, platform: dict, power: list[list[float]] | None, work: dict, wall: int) -> Any:
    rng = random.Random(f"run {label}")
    latencies: list[int] = []
    clusters, segments = [], {}
    for c_idx, cluster in enumerate(platform["clusters"]):
        states = cluster["states"]
        rows = [
            {"name": s["name"], "index": i, "usage": 0, "above": 0, "below": 0, "rejected": 0,
             "time_ns": 0} for i, s in enumerate(states)
        ]  # fmt: skip
        energy = 0.0
        for cpu in cluster["cpus"]:
            segments[cpu] = []
            for start, length in work[cpu]:
                index = _choose(label, states, length, rng)
                row = rows[index]
                row["usage"] += 1
                row["time_ns"] += length
                row["above"] += index > 0 and length < states[index]["target_residency_ns"]
                row["below"] += (
                    index + 1 < len(states) and length >= states[index + 1]["target_residency_ns"]
                )
                exit_ns = states[index]["exit_latency_ns"]
                latencies.append(round(exit_ns * rng.uniform(0.6, 1.0)) + rng.randrange(300, 2500))
                segments[cpu].append([start, start + length, index])
                if power:
                    energy += _cost(states, power[c_idx], index, length)
        idle = sum(r["time_ns"] for r in rows)
        clusters.append({
            "name": cluster["name"],
            "cpus": cluster["cpus"],
            "running_ns": wall * len(cluster["cpus"]) - idle,
            "idle_energy_uj": energy if power else None,
            "idle_power_mw": energy / wall * 1e6 if power else None,
            "states": rows,
        })  # fmt: skip
    return _summary(label, clusters, sorted(latencies), wall), segments


def _summary(label: str, clusters: list[dict], latencies: list[int], wall: int) -> dict:
    rows = [row for cluster in clusters for row in cluster["states"]]
    sleeps = sum(row["usage"] for row in rows)
    histogram = [0] * len(BOUNDS)
    for value in latencies:
        histogram[bisect_left(BOUNDS, value)] += 1
    energies = [cluster["idle_energy_uj"] for cluster in clusters]
    energy = None if None in energies else sum(energies)
    cpu_wall = sum(c["running_ns"] + sum(r["time_ns"] for r in c["states"]) for c in clusters)
    idle = sum(row["time_ns"] for row in rows)
    deepest = sum(cluster["states"][-1]["time_ns"] for cluster in clusters)
    p50, p99 = latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100]
    mean = sum(latencies) / len(latencies)
    return {
        "governor": label,
        "name": label.split("@")[0],
        "kind": "oracle" if label == "oracle" else "governor",
        "origin": f"linux-source-6.12/drivers/cpuidle/governors/{label.split('@')[0]}.c"
        if "@" in label
        else "built in",
        "source_sha256": None if label == "oracle" else _sha(label),
        "params": {},
        "error": None,
        "metrics": {
            "wakeups": sleeps,
            "sleeps": sleeps,
            "above_pct": 100 * sum(row["above"] for row in rows) / sleeps,
            "below_pct": 100 * sum(row["below"] for row in rows) / sleeps,
            "deepest_residency_pct": 100 * deepest / cpu_wall,
            "idle_residency_pct": 100 * idle / cpu_wall,
            "latency_mean_us": mean / 1000,
            "latency_p50_us": p50 / 1000,
            "latency_p99_us": p99 / 1000,
            "latency_max_us": latencies[-1] / 1000,
            "idle_power_mw": None if energy is None else energy / wall * 1e6,
            "idle_energy_uj": energy,
            "over_oracle_pct": None,
            "tick_wakeups": sleeps // 9,
            "poll_timeouts": 0,
            "delay_total_us": 0.0 if label == "oracle" else mean / 1000 * 11,
            "absorbed_spans": sleeps // 800,
        },
        "clusters": clusters,
        "latency": {
            "count": len(latencies),
            "mean_ns": round(mean),
            "p50_ns": p50,
            "p99_ns": p99,
            "max_ns": latencies[-1],
            "histogram": [[b, n] for b, n in zip(BOUNDS, histogram, strict=True) if n],
        },
        "sleep_length_sources": {
            "probe": 0, "timer_events": sleeps * 3 // 4, "waking_timer": sleeps // 8,
            "tick_only": sleeps - sleeps * 3 // 4 - sleeps // 8,
        },
    }  # fmt: skip


def _result(
    platform: dict, power: list[list[float]] | None, governors: list[str], count: int, trace: dict
) -> dict:
    cpus = [cpu for cluster in platform["clusters"] for cpu in cluster["cpus"]]
    work = {cpu: _spans(random.Random(f"cpu {cpu}"), count) for cpu in cpus}
    wall = max(start + length for spans in work.values() for start, length in spans) + MS
    runs, strip_rows = [], []
    for label in governors:
        run, segments = _run(label, platform, power, work, wall)
        runs.append(run)
        strip_rows.append({cpu: {"governor": label, "segments": segments[cpu]} for cpu in cpus})
    best = [r["metrics"]["idle_energy_uj"] for r in runs if r["kind"] == "oracle"]
    for run in runs:
        energy = run["metrics"]["idle_energy_uj"]
        if best and energy is not None:
            run["metrics"]["over_oracle_pct"] = 100 * (energy / best[0] - 1)
    spans = count * len(cpus)
    result = {
        "format": 1, "kind": "replay", "torpor": {"version": "0.1.0"},
        "platform": platform,
        "options": {"hz": 250, "latency_limit_ns": None, "disabled_states": [],
                    "recorded_on": None},
        "catalogue": [metric for metric in CATALOGUE if metric["key"] in runs[0]["metrics"]],
        "notes": [
            "Replay is open loop: it cannot see that a slower wake-up changes the work.",
            "A state asked for is not a state reached: hardware may demote it.",
        ],
        "traces": [{
            "trace": {"cpu_count": len(cpus), "duration_ns": wall, **trace},
            "inputs": {
                "spans": spans, "merged_ticks": spans // 7,
                "merged_poll_timeouts": 0, "cut_sleeps": 2,
                "unclosed_entries": 0, "tick_hz": 250, "tick_hz_recorded": 250,
                "sleep_length_sources": {"probe": 0, "timer_events": spans - spans // 4,
                                         "waking_timer": spans // 8, "tick_only": spans // 8},
                "wake_stamp_sources": {"waking_event": spans // 2, "interrupt_event": spans // 4,
                                       "timer_expiry": 0, "exit_stamp": spans // 4},
            },
            "runs": runs,
            "strips": [{"cpu": cpu, "start_ns": 0, "end_ns": wall, "truncated": False,
                        "rows": [rows[cpu] for rows in strip_rows]} for cpu in cpus],
        }],
    }  # fmt: skip
    comparison.refill(result)
    return result


def _trace(name: str, fmt: str, machine: str, losses: list[dict]) -> dict:
    return {
        "path": name,
        "sha256": _sha(name),
        "format": fmt,
        "clock": "boottime",
        "kernel_release": "5.10.66-android12-9",
        "machine": machine,
        "carries": {"cpu_idle": True, "sched_switch": True, "sched_waking": True, "timer": True,
                    "irq": True, "ipi": False, "cpu_idle_miss": False},
        "event_counts": {"cpu_idle": 41_220, "sched_switch": 60_312, "hrtimer_start": 18_455},
        "losses": losses,
    }  # fmt: skip


def pixel(count: int = 400) -> dict:
    """Pixel-6-like: 3 clusters, 8 CPUs, 2 states; 7 runs with the oracle. `count`: spans a CPU."""
    clusters = []
    for name, cpus, capacity, entry, exit_, residency in (
        ("little", [0, 1, 2, 3], 160, 70, 160, 2000),
        ("mid", [4, 5], 498, 150, 190, 2500),
        ("big", [6, 7], 1024, 235, 220, 3500),
    ):
        states = [_state("WFI", 1, 1, 1), _state("c2", entry, exit_, residency)]
        clusters.append({"name": name, "cpus": cpus, "capacity": capacity, "states": states})
    platform = {
        "name": "pixel6", "title": "Google Pixel 6 (gs101)", "sha256": _sha("pixel6"), "hz": 250,
        "sources": ["idle states: gs101.dtsi", "power: a toy, not the measured curves"],
        "has_power": True, "power_includes": ["cpu", "uncore"], "power_missing": ["DRAM & GPU"],
        "clusters": clusters,
    }  # fmt: skip
    losses = [
        {"key": "ftrace_cpu_overrun", "severity": "loss", "count": 12,
         "advice": "record with a larger ftrace buffer (buffer_size_kb)"},
        {"key": "event_unknown", "severity": "info", "count": 3, "advice": "none is needed"},
    ]  # fmt: skip
    governors = ["shallowest", "menu", "teo", "deepest", "menu@6.12", "teo@6.12", "oracle"]
    trace = _trace("phone.perfetto-trace", "perfetto", "Pixel 6", losses)
    return _result(platform, [[28, 6], [55, 11], [130, 26]], governors, count, trace)


def desktop(count: int = 150) -> dict:
    """An x86 machine with nine idle states and no known power."""
    table = [
        ("POLL", 0, 0), ("C1", 2, 2), ("C1E", 10, 20), ("C3", 70, 100), ("C6", 85, 200),
        ("C7s", 124, 800), ("C8", 200, 800), ("C9", 480, 5000), ("C10", 890, 5000),
    ]  # fmt: skip
    states = [_state(n, 0, latency, res, n == "POLL") for n, latency, res in table]
    platform = {
        "name": "cfl-u", "title": "Intel Coffee Lake U", "sha256": _sha("cfl-u"), "hz": 1000,
        "sources": ["a saved copy of sysfs"], "has_power": False,
        "clusters": [{"name": "cpu", "cpus": list(range(8)), "capacity": 1024, "states": states}],
    }  # fmt: skip
    trace = _trace("web-server.perf.data", "perf.data", "x86_64", [])
    trace["carries"]["timer"] = False
    trace["kernel_release"] = None
    return _result(platform, None, ["shallowest", "menu", "teo", "deepest", "oracle"], count, trace)


def errored(count: int = 60) -> dict:
    """The phone again, with a first governor that crashed and so has no numbers."""
    result = pixel(count)
    good = result["traces"][0]["runs"][0]
    result["traces"][0]["runs"].insert(0, {
        **good,
        "governor": "./my_teo.c,threshold=3", "name": "my_teo", "origin": "./my_teo.c",
        "source_sha256": _sha("my_teo"), "params": {"threshold": 3},
        "error": "governor `my_teo`: select() read address 0x8 (SIGSEGV)\n"
                 "  call 17 on cpu 3: latency_req 9223372036854775807 ns, sleep length 4.1 ms",
        "metrics": {key: None for key in good["metrics"]}, "clusters": [],
        "latency": {"count": 0, "mean_ns": 0, "p50_ns": 0, "p99_ns": 0, "max_ns": 0,
                    "histogram": []},
    })  # fmt: skip
    comparison.refill(result)
    return result


HOSTILE = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\"'&\u2028"


def hostile() -> dict:
    """The phone, with markup in every text that a trace, platform or governor may bring."""

    def poison(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: poison(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [poison(v, key) for v in value]
        fixed = ("key", "direction", "severity", "kind", "unit", "sampling")
        return value + HOSTILE if isinstance(value, str) and key not in fixed else value

    result = poison(pixel(30))
    first = result["traces"][0]
    first["trace"]["losses"][0]["key"] += HOSTILE
    first["trace"]["event_counts"][HOSTILE] = 1
    first["runs"][1]["params"] = {HOSTILE: HOSTILE}
    first["runs"][2]["error"] = HOSTILE
    comparison.refill(result)
    return result


if __name__ == "__main__":
    import sys
    from pathlib import Path

    from torpor.view import report

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for make in (pixel, desktop, errored, hostile):
        report.write(make(), folder / f"{make.__name__}.html")
    report.write(pixel(25_000), folder / "large.html")
    two = pixel()
    two["traces"] += pixel(90)["traces"]
    report.write(two, folder / "two.html")
