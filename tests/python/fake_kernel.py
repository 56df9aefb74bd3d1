# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A kernel made of files: insmod, rmmod and make do to a folder what they would do to a machine."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from torpor.machine.kernel.modules import CORE, module_of
from torpor.machine.kernel.system import System

RELEASE = "6.12.1-fake"


class FakeKernel(System):
    """Offers what the folder's files say; notes its messages and commands."""

    def __init__(self, root: Path, *, is_dry_run: bool = False) -> None:
        self.messages: list[str] = []
        super().__init__(self.messages.append, is_dry_run=is_dry_run, root=root)
        self.is_superuser = True
        self.machine_name = "x86_64"
        #: Modules that do not load, or do not go; and what is made by `make` of nothing.
        self.broken: set[str] = set()
        self.stuck: set[str] = set()
        #: Whether make is killed while it writes its last file.
        self.kills_make = False
        self.offers = {}
        put = self.put
        put("proc/sys/kernel/osrelease", f"{RELEASE}\n")
        put("proc/modules", "ext4 1 0 - Live 0x0\n")
        put("proc/kallsyms", "0 T register_kprobe\n0 T kallsyms_lookup_name\n")
        put(f"lib/modules/{RELEASE}/build/Makefile", "")
        put(f"lib/modules/{RELEASE}/build/include/config/kernel.release", f"{RELEASE}\n")

    def put(self, name: str, text: str) -> Path:
        path = self.machine.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @property
    def architecture(self) -> str:
        return self.machine_name

    @property
    def is_root(self) -> bool:
        return self.is_superuser

    def run(self, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        error = getattr(self, f"_{command[0]}")(*command[1:])
        if error == "killed":
            return subprocess.CompletedProcess(command, -9, "", "")
        return subprocess.CompletedProcess(command, int(error is not None), "", error or "")

    def set_governor(self, name: str) -> None:
        # A file keeps what is not written over; one of sysfs does not.
        if not self.is_dry_run:
            self.put("sys/devices/system/cpu/cpuidle/current_governor", "")
        super().set_governor(name)

    def pretend_nothing(self) -> None:
        """Be as a command after a dry run finds it."""
        self._pretended_governor = None

    def _dmesg(self) -> None:
        return None

    def _make(self, _c: str, _folder: str, *variables: str) -> str | None:
        settings = dict(variable.split("=", 1) for variable in variables)
        names = [f"t-{Path(file).stem}" for file in settings["GOVERNORS"].split()]
        names += [settings["NAME"]] if "NAME" in settings else []
        if broken := [name for name in names if name in self.broken]:
            return f"{broken[0]}.c:7: error: expected `;`"
        out = Path(settings["OUT"])
        out.mkdir(parents=True, exist_ok=True)
        for name in (CORE, "torpor_idle", *map(module_of, names)):
            # Like make, does not build again what exists.
            if not (out / f"{name}.ko").exists():
                (out / f"{name}.ko").write_text("half" if self.kills_make else "whole")
        if self.kills_make:
            return "killed"
        self.offers |= {module_of(name): name for name in names}
        return None

    def _insmod(self, file: str, *parameters: str) -> str | None:
        module = Path(file).stem
        if module in self.broken:
            return f"insmod: ERROR: could not insert module {file}: Unknown symbol in module"
        assert Path(file).exists() and not self.is_loaded(module)
        folder = f"sys/module/{module}"
        self.put(f"{folder}/refcnt", "0\n")
        for parameter in parameters:
            name, value = parameter.split("=")
            self.put(f"{folder}/parameters/{name}", f"{value}\n")
        if module != CORE:
            assert self.is_loaded(CORE)
            self.put(f"sys/module/{CORE}/holders/{module}", "")
            self._offer([*self.governors, self.offers[module]])
        return None

    def _rmmod(self, module: str) -> str | None:
        governor = self.offers.get(module)
        if self.governor == governor or self.holders(module) or module in self.stuck:
            return f"rmmod: ERROR: Module {module} is in use"
        shutil.rmtree(self.machine.path(f"sys/module/{module}"))
        if governor is not None:
            self.machine.path(f"sys/module/{CORE}/holders/{module}").unlink()
            self._offer([name for name in self.governors if name != governor])
        return None

    def _offer(self, governors: Sequence[str]) -> None:
        self.put("sys/devices/system/cpu/cpuidle/available_governors", " ".join(governors) + "\n")


def changes(messages: Sequence[str]) -> list[str]:
    """Return the reported changes, without folders: `insmod torpor_core.ko`."""
    return [re.sub(r"\S*/", "", line) for line in messages if not line.startswith(("make", "#"))]
