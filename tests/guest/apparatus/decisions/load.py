# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A load, twice: as a workload of the simulator, and as programs of a guest."""

from pathlib import PurePath

import tomllib

from .. import cases

#: Duration of a load, and of the part that is compared: until then utilization is that of the
#: start.
DURATION_S = 4
BEGIN_NS, END_NS = 500_000_000, 3_500_000_000


def load_toml(name: str) -> str:
    """The load as a workload; `-io` adds a reader of a disk."""
    first, _, beside = name.partition("-")
    parts = [first, "disk"] if beside == "io" else [first]
    return "".join((cases.TEMPLATES / f"{part}.toml").read_text(encoding="utf-8") for part in parts)


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
    beside = ["beside_disk"] if name.endswith("-io") else []
    grouped = ["grouped", name] if groups(name) else []
    return " ".join([*grouped, *beside, "steps", str(DURATION_S), *threads])


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
