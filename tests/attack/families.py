# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Attacks that run inside a worker: a damaged input, then every command that reads such a thing.

A family is a function of a random generator, a folder for its files and the seeds (sound inputs);
it raises :class:`torpor.TorporError` where the input was refused. What else it raises is a finding.
"""

import csv
import gzip
import io
import random
import re
from collections.abc import Callable
from pathlib import Path

import torpor
from attack.judge import BrokenError, judge_csv
from attack.mutate import change_bytes, change_text

_MACHINES = ["pixel6", "i5-10600k", "rk3399", "apple-m1", "graviton3-vm"]
_GOVERNORS = ["menu", "teo", "ladder", "oracle"]


class Seeds:
    """Sound inputs, made once: recordings of simulated machines and of guests, dumps, TOML."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        guests = sorted((root / "tests/data/guest").glob("*/trace.dat.gz"))
        self.recordings: dict[str, bytes] = {}
        for guest in guests[:4]:
            self.recordings[f"{guest.parent.name}.dat"] = gzip.decompress(guest.read_bytes())
        for name, workload in [("a.perfetto-trace", "frames"), ("b.txt", "idle-predict")]:
            out = folder / name
            torpor.simulate(
                workload, platform="pixel6", governors=["menu"], duration="60ms", seeds=1, trace=out
            )
            self.recordings[name] = out.read_bytes()
        for path in sorted((root / "crates/torpor-trace/tests/data").glob("*.data")):
            self.recordings[path.name] = path.read_bytes()
        self.dumps = [p.read_text() for g in guests[:4] for p in g.parent.glob("sysfs-*.txt")]
        self.workloads = [torpor.workload_toml(w["name"]) for w in torpor.workloads()]
        self.platforms = [torpor.platform_toml(name) for name in _MACHINES]


def recordings(rng: random.Random, folder: Path, seeds: Seeds) -> None:
    """A damaged recording: what it holds, a replay, a verification, a workload of it."""
    name = rng.choice(sorted(seeds.recordings))
    data = seeds.recordings[name]
    if name.endswith(".txt") and rng.random() < 0.8:
        data = change_text(rng, data.decode(errors="replace")).encode()
    else:
        data = change_bytes(rng, data)
    if rng.random() < 0.1:
        data = gzip.compress(data, 1)
        data = change_bytes(rng, data) if rng.random() < 0.5 else data
    path = folder / name
    path.write_bytes(data)
    match rng.randrange(5):
        case 0:
            torpor.trace_info(path)
        case 1 | 2:
            machine = rng.choice(_MACHINES)
            governors = ["menu", rng.choice(_GOVERNORS)]
            result = torpor.replay(path, platform=machine, governors=governors, cpu_map=_onto(path))
            judge_csv(result.to_csv())
            result.to_json()
        case 3:
            torpor.fidelity(path)
        case _:
            text, _ = torpor.extract_workload(path)
            again = folder / "extracted.toml"
            again.write_text(text)
            simulated(again, "pixel6")


def _onto(path: Path) -> dict[int, int] | None:
    cpus = [cpu["cpu"] for cpu in torpor.trace_info(path)["cpus"]]
    return {cpu: index for index, cpu in enumerate(cpus[:4])} or None


def workloads(rng: random.Random, folder: Path, seeds: Seeds) -> None:
    """A changed workload, simulated."""
    path = folder / "w.toml"
    path.write_text(change_text(rng, rng.choice(seeds.workloads)))
    simulated(path, rng.choice(_MACHINES))


def platforms(rng: random.Random, folder: Path, seeds: Seeds) -> None:
    """A changed machine, under a replay or a simulation."""
    path = folder / "p.toml"
    path.write_text(change_text(rng, rng.choice(seeds.platforms)))
    if rng.random() < 0.5:
        return simulated("idle-predict", path)
    sound = folder / "a.perfetto-trace"
    sound.write_bytes(seeds.recordings["a.perfetto-trace"])
    result = torpor.replay(sound, platform=path, governors=["menu", "teo", "oracle"])
    judge_csv(result.to_csv())


def simulated(workload: str | Path, platform: str | Path) -> None:
    """A short simulation, judged."""
    result = torpor.simulate(
        workload, platform=platform, governors=["menu", "teo"], duration="20ms", seeds=2
    )
    judge_csv(result.to_csv())


def dumps(rng: random.Random, folder: Path, seeds: Seeds) -> None:
    """A changed dump of sysfs: counters, a difference, a machine of it."""
    before, after = folder / "before.txt", folder / "after.txt"
    text = rng.choice(seeds.dumps)
    before.write_text(text)
    after.write_text(change_text(rng, text))
    match rng.randrange(3):
        case 0:
            torpor.diff(before, after)
        case 1:
            torpor.import_platform(after)
        case _:
            torpor.snapshot(after)


def options(rng: random.Random, folder: Path, seeds: Seeds) -> None:
    """Options out of the ordinary, with a sound recording or workload."""
    sound = folder / "a.perfetto-trace"
    sound.write_bytes(seeds.recordings["a.perfetto-trace"])

    def draw(common: list, odd: list) -> object:
        # Two odd options at once would mostly show the first refusal.
        return rng.choice(odd if rng.random() < 0.2 else common)

    common = {
        "governors": [draw(["menu", "teo", "oracle"], ["oracle,x=1", "meno", "haltpoll,x=0"])],
        "hz": draw([None, 100, 250, 1000], [0, 10**9, -1, 2**32 + 250]),
        "latency_limit": draw([None, "0ns", "1ns", "50us"], ["999999s", "-1us", "x", "1e400s"]),
        "disabled_states": draw([[], [1], [(0, 1)]], [[0], [9], [(99, 0)], [-1], [0, 1, 2]]),
        "threads": draw([None, 1, 2], [10**6, 0, -1]),
        "platform": rng.choice(_MACHINES),
    }
    if rng.random() < 0.5:
        cpus = draw(["0", "0-3"], ["0-4294967295", "9999999", "3-1", "", None])
        cpu_map = draw([None], [{0: 0}, {0: 99}, {0: 1, 1: 1}, {2**32: 0}, {}])
        result = torpor.replay(sound, cpus=cpus, cpu_map=cpu_map, **common)
    else:
        result = torpor.simulate(
            draw(["frames", "pipe", "periodic"], ["no-such", "", "."]),
            duration=draw(["1ms", "20ms"], ["0s", "1ns", "-1s", "99999999999s"]),
            seeds=draw([1, 2], [0, 10**9, -1]),
            seed=draw([1], [0, 2**64 - 1, 2**64, -1]),
            cpufreq=draw(
                [(), "performance", "schedutil@6.1,rate_limit_us=0"],
                ["userspace,freq_khz=1", "schedutil@5.4", "schedutil,limit=1", "./none.c@6.1"],
            ),
            io_boosts=draw([(), "iowait"], ["iowait,boost_min=99999", "nope"]),
            **common,
        )
    judge_csv(result.to_csv())


#: Misbehavior of a hosted governor inside a call.
_DEEDS = {
    "null": "*(volatile int *)0 = 1;",
    "spin": "for (;;) barrier();",
    "recursion": "volatile char pad[4096]; pad[0] = 1; torpor_deep((void *)pad);",
    "abort": "__builtin_trap();",
    "divide": "{ volatile int zero = 0; zero = 1 / zero; }",
    "state": "return drv->state_count + 1000000;",
    "negative": "return -2147483647;",
    "smash": "{ volatile char b[8]; int i; for (i = 0; i < 400; i++) b[i] = 0x41; }",
    "exit": '__asm__ volatile("syscall" :: "a"(231), "D"(0) : "rcx", "r11", "memory");',
    "kill": '__asm__ volatile("syscall" :: "a"(62), "D"(0), "S"(9) : "rcx", "r11", "memory");',
    "low": "*(volatile long *)(8 + (unsigned long)dev % 4096) = 3;",
    "text": "*(volatile char *)(unsigned long)torpor_deep = 0;",
    "table": "((struct cpuidle_driver *)drv)->states[0].exit_latency_ns = -1;",
    "jump": "((void (*)(void))0x1234567)();",
    "huge": "{ static char big[1 << 28]; big[dev->cpu] = 1; }",
    "sleep": '{ long t[2] = {60, 0}; __asm__ volatile("syscall" :: "a"(35), "D"(t), "S"(0) : '
    '"rcx", "r11", "memory"); }',
    "close": '{ int i; for (i = 0; i < 99; i++) __asm__ volatile("syscall" :: "a"(3), "D"(i) : '
    '"rcx", "r11", "memory"); }',
}
_GOVERNOR = """
#include <linux/cpuidle.h>
#include <linux/kernel.h>
#include <linux/module.h>
static int calls;
static noinline void torpor_deep(void *p) {{ volatile char pad[512]; pad[0] = 1;
	if (p) torpor_deep((void *)pad); pad[1] = pad[0]; }}
static int w_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev) {{ {enable} return 0; }}
static void w_disable(struct cpuidle_driver *drv, struct cpuidle_device *dev) {{ {disable} }}
static int w_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop)
{{ if (calls++ >= {after}) {{ {select} }} return 0; }}
static void w_reflect(struct cpuidle_device *dev, int index)
{{ struct cpuidle_driver *drv = 0; (void)drv; if (calls >= {after}) {{ {reflect} }} }}
static struct cpuidle_governor g = {{ .name = "hostile", .rating = 1, .enable = w_enable,
	.disable = w_disable, .select = w_select, .reflect = w_reflect }};
static int __init w_init(void) {{ return cpuidle_register_governor(&g); }}
postcore_initcall(w_init);
"""


def governors(rng: random.Random, folder: Path, seeds: Seeds) -> None:
    """A hostile governor next to a sound one, whose results must be those it has alone."""
    hook = rng.choice(["enable", "select", "select", "reflect", "disable"])
    deed = rng.choice(sorted(_DEEDS))
    code = _DEEDS[deed]
    if hook != "select":
        code = re.sub(r"return [^;]*;", "", code)
    hooks = dict.fromkeys(["enable", "select", "reflect", "disable"], "") | {hook: code}
    path = folder / f"hostile-{deed}.c"
    path.write_text(_GOVERNOR.format(after=rng.choice([0, 3, 40]), **hooks))
    sound = folder / "a.perfetto-trace"
    sound.write_bytes(seeds.recordings["a.perfetto-trace"])
    ask = {"platform": "pixel6", "decisions": False, "strip": False}
    alone = torpor.replay(sound, governors=["menu"], **ask)
    both = torpor.replay(sound, governors=["menu", str(path)], **ask)
    judge_csv(both.to_csv())
    if _row(both, "menu") != _row(alone, "menu"):
        raise BrokenError(f"menu's results differ next to a governor that does `{deed}` in {hook}")
    for label, error in both.failures.items():
        if path.name not in error and "hostile" not in error:
            raise BrokenError(f"the failure of {label} does not name it: {error}")


#: Times in us of which many are sums and differences of others, so that events and ends of sleeps
#: come at the same moments.
_TIED_US = [0, 5, 10, 15, 20, 30, 50, 100]


def oracles(rng: random.Random, folder: Path, seeds: Seeds) -> None:
    """An oracle beside governors on a random machine of few values: no proof is above a column."""
    del seeds
    machine, recording = folder / "m.toml", folder / "r.txt"
    cpus = rng.randint(1, 4)
    hz = rng.choice([100, 250, 1000])
    machine.write_text(_tied_machine(rng, cpus, hz))
    recording.write_text(_tied_recording(rng, cpus, 1_000_000 // hz))
    asked = ["oracle", "oracle,price=1mW", "menu", "teo", "deepest", "shallowest"]
    limit = rng.choice([None, None, "15us", "30us"])
    try:
        result = torpor.replay(
            recording, platform=machine, governors=asked, hz=hz, latency_limit=limit
        )
    except torpor.TorporError as error:
        # The replay checks itself.
        if "proves to be the least" in str(error):
            raise BrokenError(str(error)) from error
        raise
    judge_csv(result.to_csv())
    oracle = result.to_dict()["traces"][0]["oracle"]
    least = oracle["found_mw"] if oracle["bound_mw"] is None else oracle["bound_mw"]
    for row in csv.DictReader(io.StringIO(result.to_csv())):
        is_bounded = int(row["forbidden_sleeps"] or 0) == 0
        if is_bounded and float(row["idle_power_mw"]) < least * (1 - 1e-9):
            raise BrokenError(f"{row['governor']} takes {row['idle_power_mw']} mW: {oracle}")


def _tied_machine(rng: random.Random, cpus: int, hz: int) -> str:
    lines = [
        *('name = "m"', 'title = "m"', 'source = "drawn"', f"hz = {hz}"),
        f"tick_handling_us = {rng.choice(_TIED_US)}",
        *("[[cluster]]", 'name = "c"', f'cpus = "0-{cpus - 1}"', "capacity = 1024"),
        *(f'{of}_source = "drawn"' for of in ("idle_state", "opp", "power", "capacity")),
    ]
    count = rng.randint(2, 4)
    powers = sorted((rng.choice([0, 1, 2, 5, 10]) for _ in range(count)), reverse=True)
    residencies = sorted(rng.choice(_TIED_US[1:]) for _ in range(count))
    exits = sorted(rng.choice(_TIED_US) for _ in range(count))
    for index in range(count):
        lines += [
            *("[[cluster.idle_state]]", f'name = "S{index}"'),
            f"entry_latency_us = {rng.choice(_TIED_US)}",
            f"exit_latency_us = {exits[index]}",
            f"target_residency_us = {residencies[index]}",
            f"power_mw = {powers[index]:.1f}",
        ]
    lines += [
        *("[[cluster.opp]]", "freq_khz = 1000000", "active_power_mw = 200.0"),
        f"static_power_mw = {rng.choice([0.0, 1.0, 10.0, 80.0])}",
    ]
    return "\n".join(lines) + "\n"


def _tied_recording(rng: random.Random, cpus: int, tick_us: int) -> str:
    events = []
    for cpu in range(cpus):
        now = 1_000_000 + rng.choice([0, tick_us]) - rng.choice(_TIED_US)
        for _ in range(rng.randint(1, 8)):
            idle = rng.choice([0] * 6 + [tick_us]) + rng.choice(_TIED_US[1:])
            events += [(now, cpu, 1), (now + idle, cpu, 2**32 - 1)]
            now += idle + rng.choice(_TIED_US[1:])
    lines = [
        f"          <idle>-0     [{cpu:03}] d..2 {us / 1e6:.6f}: cpu_idle: state={state} cpu_id={cpu}"
        for us, cpu, state in sorted(events)
    ]
    return "# tracer: nop\n#\n" + "\n".join(lines) + "\n"


def _row(result: torpor.Replay, governor: str) -> dict[str, str]:
    rows = csv.DictReader(io.StringIO(result.to_csv()))
    return next(row for row in rows if row["governor"] == governor)


FAMILIES: dict[str, Callable[[random.Random, Path, Seeds], None]] = {
    "recordings": recordings,
    "workloads": workloads,
    "platforms": platforms,
    "dumps": dumps,
    "options": options,
    "governors": governors,
    "oracles": oracles,
}
