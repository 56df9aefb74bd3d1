# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A folder that stands for a machine: sysfs, procfs and a tracefs that hands out given pages."""

import gzip
import shutil
from pathlib import Path

import pytest

from torpor.machine.record import events, tracefs
from torpor.machine.record.machine import Machine

PAGE_SIZE = 4096
#: As Linux 6.12 prints it on a 64-bit machine, the fields a reader needs.
HEADER_PAGE = b"""\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;
"""
STATES = {"POLL": (0, 0), "C1": (2, 2), "C2": (50, 200)}


class FakeMachine:
    """Builds the folder, and stands in for the kernel where an instance comes and goes."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.machine = Machine(root)
        self.tracefs = root / "sys/kernel/tracing"
        self.governor = root / "sys/devices/system/cpu/cpuidle/current_governor"
        #: Contents of each CPU's trace_pipe_raw.
        self.pages = {0: b"0" * PAGE_SIZE * 2, 1: b"1" * PAGE_SIZE}
        self.stats = "entries: 0\noverrun: 0\nbytes: 40\ndropped events: 0\nread events: 7\n"
        #: Instances by their state when they were removed: file name and text.
        self.removed: dict[str, dict[str, str]] = {}
        #: A file of an instance that refuses to be written to.
        self.unwritable: str | None = None
        self._fill()
        monkeypatch.setattr(tracefs, "make_instance", self._make_instance)
        monkeypatch.setattr(tracefs, "remove_instance", self._remove_instance)

    def put(self, name: str, text: str | bytes = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def drop_event(self, name: str) -> None:
        shutil.rmtree(events.event_dir(self.tracefs, name))

    def dynamic_events(self) -> list[str]:
        file = self.tracefs / "dynamic_events"
        return file.read_text().splitlines() if file.exists() else []

    def defined_probes(self) -> set[str]:
        """Return the dynamic events that remain: those defined, less those removed."""
        defined = set()
        for line in self.dynamic_events():
            kind, _, rest = line.partition(":")
            (defined.discard if kind == "-" else defined.add)(rest.split(" ")[0])
        return defined

    def _fill(self) -> None:
        self.put("proc/self/mounts", "tracefs /sys/kernel/tracing tracefs rw 0 0\n")
        self.put("proc/config.gz", gzip.compress(b"# kernel\nCONFIG_HZ_300=y\nCONFIG_HZ=300\n"))
        self.put("proc/kallsyms", "ffffffff81000000 T tick_nohz_handler\nffffffff82000000 d data\n")
        self.put("proc/sys/kernel/osrelease", "6.12.1-fake\n")
        self.put("proc/meminfo", "MemAvailable:   1048576 kB\n")
        for name in ("dynamic_events", "events/header_event", "printk_formats", "saved_cmdlines"):
            self.put(f"sys/kernel/tracing/{name}")
        self.put("sys/kernel/tracing/events/header_page", HEADER_PAGE)
        self.put("sys/kernel/tracing/events/ftrace/print/format", "name: print\n")
        for name in events.everything():
            event = name.replace(":", "/")
            self.put(f"sys/kernel/tracing/events/{event}/format", f"name: {event}\n")
        (self.tracefs / "instances").mkdir()
        cpu_dir = "sys/devices/system/cpu"
        self.put(f"{cpu_dir}/cpuidle/current_governor", "menu\n")
        self.put(f"{cpu_dir}/cpuidle/current_driver", "fake_idle\n")
        self.put(f"{cpu_dir}/cpuidle/available_governors", "menu teo \n")
        for index, (name, (latency_us, residency_us)) in enumerate(STATES.items()):
            state = f"{cpu_dir}/cpu0/cpuidle/state{index}"
            self.put(f"{state}/name", f"{name}\n")
            self.put(f"{state}/latency", f"{latency_us}\n")
            self.put(f"{state}/residency", f"{residency_us}\n")
            self.put(f"{state}/usage", "17\n")
            # A file that grep shows nothing of.
            self.put(f"{state}/desc", "\n")

    def _make_instance(self, path: Path) -> None:
        shutil.copytree(self.tracefs / "events", path / "events")
        probes = [line.split(" ")[0].partition(":")[2] for line in self.dynamic_events()]
        for name in [n.replace(":", "/") for n in events.everything()] + probes:
            if (path / "events" / name).is_dir() or name in probes:
                self.put(str((path / "events" / name / "enable").relative_to(self.root)), "0")
        for cpu, pages in self.pages.items():
            folder = (path / f"per_cpu/cpu{cpu}").relative_to(self.root)
            self.put(f"{folder}/trace_pipe_raw", pages)
            self.put(f"{folder}/stats", self.stats)
        if self.unwritable is not None:
            (path / self.unwritable).unlink()
            (path / self.unwritable).mkdir()
        for name in ("tracing_on", "buffer_size_kb", "trace_marker", "trace_clock"):
            (path / name).touch()

    def _remove_instance(self, path: Path) -> None:
        files = [f for f in path.rglob("*") if f.is_file() and f.name != "trace_pipe_raw"]
        self.removed[path.name] = {str(f.relative_to(path)): f.read_text() for f in files}
        pid = path.name.rpartition("-")[2]
        is_there = any(f"torpor_{pid}/" in probe for probe in self.defined_probes())
        self.removed[path.name]["probe"] = "there" if is_there else "gone"
        shutil.rmtree(path)
