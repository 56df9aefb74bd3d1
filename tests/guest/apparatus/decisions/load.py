# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A load, twice: as a workload of the simulator, and as programs of a guest."""

import re
import shlex
from dataclasses import dataclass
from pathlib import PurePath

import tomllib

from .. import cases

#: Duration of a load without changes, and of the part that is compared: until then utilization is
#: that of the start.
DURATION_S = 4
BEGIN_NS, END_NS = 500_000_000, 3_500_000_000

CPU = "/sys/devices/system/cpu/cpu"
#: Files of a CPU by the key of a change.
CPU_FILES = {
    "scaling_max_freq_khz": "cpufreq/scaling_max_freq",
    "scaling_governor": "cpufreq/scaling_governor",
    "pm_qos_resume_latency_us": "power/pm_qos_resume_latency_us",
    "online": "online",
}


def load_toml(name: str) -> str:
    """The load as a workload; `-io` adds a reader of a disk."""
    first, _, beside = name.partition("-")
    parts = [first, "disk"] if beside == "io" else [first]
    return "".join((cases.TEMPLATES / f"{part}.toml").read_text(encoding="utf-8") for part in parts)


@dataclass(frozen=True)
class Section:
    """A stretch of a load that is compared, from its start on, and the change that began it."""

    title: str
    begin_ns: int
    end_ns: int


def changes(name: str) -> list[tuple[int, dict]]:
    """Return the load's changes with their times in ns."""
    tables = tomllib.loads(load_toml(name)).get("change", ())
    return [(10**6 * int(table.pop("at").removesuffix("ms")), table) for table in tables]


def sections(name: str) -> list[Section]:
    """Return the parts between changes, which are equally long; of a load without, what counts."""
    found = changes(name)
    if not found:
        return [Section(name, BEGIN_NS, END_NS)]
    times = [at for at, _ in found]
    titles = [", ".join(map(_said, table.items())) for _, table in found]
    ends = [*times, times[-1] + times[0]]
    return list(map(Section, ["(start)", *titles], [0, *times], ends))


def _said(item: tuple[str, object]) -> str:
    key, given = item
    return str(given) if key == "write" else f"{key}={str(given).lower()}"


def duration_s(name: str) -> float:
    """Return the load's duration."""
    return sections(name)[-1].end_ns / 1e9 if changes(name) else DURATION_S


def started_toml(name: str, start_us: float) -> str:
    """The load, with everything in it so much later."""
    text = load_toml(name).replace("[[task]]\n", f"[[task]]\nstart_us = {start_us}\n")
    return re.sub(
        r'^at = "(\d+)ms"$', lambda at: f'at = "{1000 * int(at[1]) + start_us}us"', text, flags=re.M
    )


def _change_words(at_ns: int, table: dict) -> list[str]:
    """A change as the guest's program takes it: a word for each file."""
    files = []
    cpus = _cpus(table.pop("cpus", ""))
    for key, given in table.items():
        if key == "write":
            files.append(given)
        elif key == "cpu_dma_latency_us":
            files.append(f"/dev/cpu_dma_latency={given}")
        elif key == "disable":
            files += [f"{CPU}{cpu}/cpuidle/state{n}/disable=1" for cpu in cpus for n in given]
        elif key in CPU_FILES:
            value = int(given) if isinstance(given, bool) else given
            files += [f"{CPU}{cpu}/{CPU_FILES[key]}={value}" for cpu in cpus]
        elif key == "task":
            files.append(f"{given},{table['uclamp_min']},{table['uclamp_max']}")
    return [f"+{at_ns // 1000}:{file}" for file in files]


def _cpus(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1) if text else range(0)


def load_command(name: str) -> str:
    """The load as a guest's programs run it."""
    tasks = [
        task for task in tomllib.loads(load_toml(name))["task"] if task["name"] != "disk_reader"
    ]
    waits = {
        step["wait"]: task["name"] for task in tasks for step in task["phase"] if "wait" in step
    }
    letters = {"run_us": "r", "sleep_us": "s", "period_us": "p"}

    def word(key: str, value: float | str) -> str:
        if key == "wait":
            return "b"
        return f"w{waits[value]}" if key == "wake" else f"{letters[key]}{value}"

    threads = (
        ":".join(
            [
                "@".join(task[key] for key in ("name", "cgroup") if key in task),
                *(f"c{task[key]}" for key in ("cpus",) if key in task),
                *(word(*item) for step in task["phase"] for item in step.items()),
            ]
        )
        for task in tasks
    )
    made = [word for change in changes(name) for word in _change_words(*change)]
    beside = ["beside_disk"] if name.endswith("-io") else []
    grouped = ["grouped", name] if groups(name) else []
    return shlex.join([*grouped, *beside, "steps", str(duration_s(name)), *threads, *made])


def groups(name: str) -> list[tuple[str, dict[str, str]]]:
    """Return the load's control groups, each after the one around it, with their files' values."""
    found: dict[str, dict[str, str]] = {}
    for table in tomllib.loads(load_toml(name)).get("cgroup", ()):
        path = table.pop("name")
        for parent in reversed(PurePath(path).parents[:-1]):
            found.setdefault(str(parent), {})
        files = {key.replace("_", "."): str(given) for key, given in table.items()}
        found[path] = files
    return list(found.items())


def group_script(loads: tuple[str, ...]) -> str:
    """Make all groups, and a function that runs a load and keeps its groups' counters."""
    made = [(load, *group) for load in loads for group in groups(load)]
    if not made:
        return ""
    lines = ["mount -t cgroup2 none /sys/fs/cgroup", "cd /sys/fs/cgroup"]
    for _, path, files in made:
        lines += [f"echo +cpu > {PurePath(path).parent}/cgroup.subtree_control", f"mkdir {path}"]
        lines += [f"echo threaded > {path}/cgroup.type"]
        lines += [f"echo {given} > {path}/{file}" for file, given in files.items()]
    lines += ["cd /", "grouped() {", "	load=$1", "	shift", '	"$@"', "	case $load in"]
    for load in loads:
        kept = [path for path, _ in groups(load)]
        copies = [f"mkdir -p /out/cgroups/{load}/{path}" for path in kept]
        copies += [
            f"cat /sys/fs/cgroup/{path}/cpu.stat > /out/cgroups/{load}/{path}/cpu.stat"
            for path in kept
        ]
        lines.append(f"	{load}) {'; '.join([*copies, 'true'])} ;;")
    return "\n".join([*lines, "	esac", "}"])
