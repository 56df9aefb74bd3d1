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
        "tar": tar(pairs[:8]),
    }
    for name, dump in dumps.items():
        data = dump if isinstance(dump, bytes) else dump.encode()
        (corpus / name).write_bytes(data)
        (corpus / f"{name}.gz").write_bytes(gzip.compress(data, mtime=0))


if __name__ == "__main__":
    main()
