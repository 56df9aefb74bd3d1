# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Source that is handed on: to a kernel's tree, and to DKMS."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

GOVERNORS = sorted(path.name for path in (ROOT / "governors" / "cpuidle").glob("*.c"))

KCONFIG = 'menu "CPU Idle"\n\nconfig CPU_IDLE\n\tbool\n\nendmenu\n'
MAKEFILE = "obj-$(CONFIG_CPU_IDLE_GOV_MENU) += menu.o\n"


def make(*arguments) -> subprocess.CompletedProcess:
    command = ["make", "-s", "-C", str(ROOT / "kernel"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path) -> Path:
    """As much of a kernel's tree as is written to."""
    governors = tmp_path / "drivers" / "cpuidle" / "governors"
    governors.mkdir(parents=True)
    (governors / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    (governors.parent / "Kconfig").write_text(KCONFIG, encoding="utf-8")
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_tree_gets_every_governor_unmodified(tree):
    done = make("install-into", f"LINUX={tree}")
    assert done.returncode == 0, done.stderr
    folder = tree / "drivers" / "cpuidle" / "governors" / "torpor"
    for name in GOVERNORS:
        source = ROOT / "governors" / "cpuidle" / name
        assert (folder / name).read_bytes() == source.read_bytes()
    options = (folder / "Kconfig").read_text(encoding="utf-8")
    objects = (folder / "Makefile").read_text(encoding="utf-8")
    assert "config CPU_IDLE_GOV_TORPOR_MENU_3_7\n" in options
    assert "obj-$(CONFIG_CPU_IDLE_GOV_TORPOR_MENU_3_7) += torpor_menu_3_7.o\n" in objects
    assert '#define TORPOR_NAME "t-menu-3.7"' in (folder / "torpor_menu_3_7.c").read_text()


def test_to_install_again_changes_nothing(tree):
    make("install-into", f"LINUX={tree}")
    once = contents(tree)
    make("install-into", f"LINUX={tree}")
    assert contents(tree) == once


def test_uninstall_restores_the_tree(tree):
    before = contents(tree)
    make("install-into", f"LINUX={tree}")
    assert contents(tree) != before
    make("uninstall-from", f"LINUX={tree}")
    assert contents(tree) == before


def test_a_folder_that_is_no_tree_is_refused(tmp_path):
    done = make("install-into", f"LINUX={tmp_path}")
    assert done.returncode != 0
    assert "is no kernel's source tree" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_dkms_lists_the_modules_that_are_built(tmp_path, arch):
    done = make("dkms-source", f"DESTDIR={tmp_path}", "VERSION=1.2")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "usr" / "src" / "torpor-1.2"
    script = f'arch={arch}; . ./dkms.conf; echo "$PACKAGE_VERSION" "${{BUILT_MODULE_NAME[@]}}"'
    listed = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.split()

    make("-C", folder / "kernel", "wrappers", "KDIR=none", "OUT=../out", "VERSION=1.2")
    wrappers = {path.stem for path in (folder / "out").glob("torpor_*.c")}
    if arch != "aarch64":
        wrappers -= {name for name in wrappers if name.endswith("_arm64")}
    assert listed[0] == "1.2"
    assert set(listed[1:]) == wrappers
    assert len(listed[1:]) == len(GOVERNORS) + (4 if arch == "aarch64" else 3)


def test_name_too_long_for_a_kernel_is_refused(tmp_path):
    governor = ROOT / "governors" / "cpuidle" / "menu.c"
    done = make("wrappers", f"GOVERNOR={governor}", "NAME=sixteen-letters-", f"OUT={tmp_path}")
    assert done.returncode != 0
    assert "15 characters at most, not 16" in done.stderr
