# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Writes small dumps of idle counters in the usual forms, as seeds.

usage: make_dumps.py CORPUS_DIR
"""

import gzip
import io
import json
import pathlib
import sys
import tarfile

STATES = [("POLL", 0, 0), ("C1", 2, 2), ("C6", 133, 600)]


def values():
    """Yield paths below /sys/devices/system/cpu, in a shell's order, with their values."""
    yield "cpuidle/current_driver", "intel_idle"
    yield "cpuidle/current_governor", "menu"
    for cpu in range(2):
        for index, (name, latency, residency) in enumerate(STATES):
            attrs = {
                "above": cpu + index,
                "below": 7,
                "default_status": "enabled",
                "desc": f"MWAIT {index}",
                "disable": 0,
                "latency": latency,
                "name": name,
                "power": 0,
                "rejected": 0,
                "residency": residency,
                "time": 2**31 + 1000 * index,
                "usage": 100 * (index + 1),
            }
            for attr, value in attrs.items():
                yield f"cpu{cpu}/cpuidle/state{index}/{attr}", str(value)


def tar(pairs):
    """Return an archive like `tar`'s of sysfs: files padded with NULs."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path, value in pairs:
            member = tarfile.TarInfo(f"sys/devices/system/cpu/{path}")
            member.size = 64
            archive.addfile(member, io.BytesIO(value.encode().ljust(64, b"\0")))
    return out.getvalue()


def saved():
    """Return a saved snapshot with one state."""
    machine = dict.fromkeys(
        [
            "title",
            "driver",
            "governor",
            "kernel_release",
            "hz",
            "boot_id",
            "taken_at_ns",
            "monotonic_ns",
            "uptime_ns",
        ]
    )
    state = {"index": 0, "name": "POLL", "usage": 5, "time_us": 2**63}
    cpu = {"cpu": 0, "freqs_khz": [], "states": [state]}
    snapshot = {"machine": machine, "cpus": [cpu], "problems": [], "notes": []}
    return json.dumps({"format": "torpor snapshot", "version": 1, "snapshot": snapshot})


def turbostat():
    """Return a log of two tables, with all roles of columns."""
    head = "Time_Of_Day_Seconds\tCPU\tBusy%\tC1-\tC1\tC1+\tC1%\tCPU%c1\tPk%pc10\n"
    text = "turbostat version 2025\ncpu0: C1: ACPI FFH MWAIT 0x0\n"
    for time in (100.5, 105.5):
        text += head + f"{time}\t-\t6.00\t5\t300\t40\t14.00\t30.00\t50.00\n"
        text += f"{time}\t0\t4.00\t3\t200\t10\t16.00\t30.00\t50.00\n"
        text += f"{time}\t1\t8.00\t2\t100\t30\t12.00\n"
    return text + "10.000000 sec\n"


def cpupower():
    """Return the output of `cpupower idle-info` for one CPU."""
    text = "CPUidle driver: intel_idle\nanalyzing CPU 3:\n\nNumber of idle states: 3\n"
    text += "Available idle states: " + " ".join(name for name, _, _ in STATES) + "\n"
    for name, latency, residency in STATES:
        text += f"{name}:\nFlags/Description: MWAIT 0x0\nLatency: {latency}\n"
        text += f"Residency: {residency}\nUsage: 7\nDuration: 900\n"
    return text


def main():
    corpus = pathlib.Path(sys.argv[1])
    corpus.mkdir(parents=True, exist_ok=True)
    pairs = list(values())
    grep = "".join(f"/sys/devices/system/cpu/{path}:{value}\n" for path, value in pairs)
    dumps = {
        "grep": grep,
        "relative": "# CLOCK_MONOTONIC ns 5\n" + grep.replace("/sys/devices/system/cpu/", "./"),
        "mail": "".join(f"> {line}\r\n" for line in grep.replace(" ", "\n").splitlines()),
        "head": "\n".join(f"==> {path} <==\n{value}\n" for path, value in pairs),
        "bare": "".join(f"{value}\n" for path, value in pairs if "state" in path),
        "facts": "/proc/uptime:12.34 5.00\ncpufreq/policy0/related_cpus:0 1\n" + grep,
        "saved": saved(),
        "turbostat": turbostat(),
        "cpupower": cpupower(),
        "tar": tar(pairs[:8]),
    }
    for name, dump in dumps.items():
        data = dump if isinstance(dump, bytes) else dump.encode()
        (corpus / name).write_bytes(data)
        (corpus / f"{name}.gz").write_bytes(gzip.compress(data, mtime=0))


if __name__ == "__main__":
    main()
