# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor kernel` on a machine made of files."""

import json
import re
from contextlib import ExitStack
from pathlib import Path

import pytest

import torpor
from fake_kernel import RELEASE, changes
from torpor.machine.kernel import governors, journal, modules, support
from torpor.machine.kernel.build import Builder, carried_files
from torpor.machine.kernel.errors import KernelError
from torpor.machine.kernel.system import System

ROOT = Path(__file__).resolve().parents[2]


def state(kernel):
    return kernel.governor, kernel.governors, kernel.modules()


def test_a_build_takes_exactly_the_carried_files():
    carried = carried_files()
    folders = ["kernel/compat/*", "kernel/drivers/*", "governors/cpuidle/*.c"]
    files = [path for pattern in folders for path in ROOT.glob(pattern)]
    files += [ROOT / "kernel" / name for name in ("Makefile", "Kbuild", "scripts/wrap.sh")]
    expected = {str(path.relative_to(ROOT)): path.read_bytes() for path in files}
    # Only for a kernel's own tree, which requires a checkout of Torpor.
    del expected["kernel/compat/intree.h"]
    assert carried == expected


def test_one_name_is_one_source_with_one_setting(tmp_path):
    mine, same, other = (tmp_path / f"{name}.c" for name in ("mine", "a/mine", "b/mine"))
    for path, text in ((mine, "int x;\n"), (same, "int x;\n"), (other, "int y;\n")):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    names = [modules.resolve(str(path)).name for path in (mine, same, other)]
    assert names[0] == names[1] != names[2]
    assert all(re.fullmatch("mine-[0-9a-f]{6}", name) for name in names)
    assert modules.resolve("t-teo").name == modules.resolve("teo").name == "t-teo"
    set_one, set_two = (modules.resolve(f"teo,util_shift={n}") for n in (5, 6))
    assert set_one.parameters == ("util_shift=5",) and set_one.name != set_two.name


@pytest.mark.parametrize("name", ["a-name-that-is-longer-than-the-kernel-takes", "with space"])
def test_every_name_is_one_that_the_kernel_takes(tmp_path, name):
    path = tmp_path / f"{name}.c"
    path.write_text("int x;\n")
    found = modules.resolve(str(path))
    assert len(found.name) <= 15 and re.fullmatch(r"[\w.-]+", found.name)
    assert all(len(governor.name) <= 15 for governor in modules.every_builtin())


@pytest.mark.parametrize(
    "name",
    ["$(touch X)", "$(shell touch X)", "a;touch X;", "q'\"`x`", "new\nline", "a b\\", "%:#", "a,b"],
)
def test_no_name_reaches_make_or_its_shell(kernel, tmp_path, name):
    path = tmp_path / f"{name}.c"
    path.write_text('#include "gov.h"\n')
    (tmp_path / "gov.h").write_text("int x;\n")
    found = modules.resolve(str(path))
    assert sorted(found.files) == ["gov.h", "governor.c"] and found.main == "governor.c"
    (core, module, *_) = Builder(kernel).build([found])
    assert re.fullmatch(r"make -C [\w./=%+-]+( [A-Z]+=[\w./%+-]*)+", kernel.messages[-1])
    assert core.exists() and module.exists()


@pytest.mark.parametrize("name", ["a b.h", "$(shell touch X).h", "a;b.h", "governor.c"])
def test_make_syntax_in_names_is_refused(tmp_path, name):
    (tmp_path / "mine.c").write_text(f'#include "{name}"\n')
    (tmp_path / name).write_text("int x;\n")
    with pytest.raises(KernelError, match="a name that a kernel build does not accept") as error:
        modules.resolve(str(tmp_path / "mine.c"))
    assert f"`{name}`" in str(error.value)


def test_invalid_policy_is_named():
    with pytest.raises(KernelError, match="so CONFIG_X cannot be set"):
        modules.resolve("./mine.c,CONFIG_X=y")
    with pytest.raises(KernelError, match=r"udcff\.c': the name is not UTF-8"):
        modules.resolve("./\udcff.c")


@pytest.mark.parametrize("folder", ["my headers", "a;touch X", "$(touch X)", "a:b", "é"])
def test_folders_unfit_for_a_build_are_refused(kernel, monkeypatch, folder):
    headers = kernel.machine.path(f"lib/modules/{RELEASE}/build")
    other = headers.with_name(folder)
    headers.rename(other)
    with pytest.raises(KernelError, match="cannot be used for a build") as error:
        Builder(kernel, headers=other).build([])
    assert f"`{other}`" in str(error.value) and kernel.messages == []


def test_modules_go_into_any_folder(kernel, tmp_path):
    paths = Builder(kernel, out=tmp_path / "my modules; here").build([modules.resolve("teo")])
    assert all(path.read_text() == "whole" for path in paths) and len(paths) == 3
    assert sorted(paths[0].parent.iterdir()) == sorted(paths)


def test_the_compilers_words_are_about_the_users_file(kernel, tmp_path, monkeypatch):
    path = tmp_path / "mine.c"
    path.write_text("int x\n")
    found = modules.resolve(str(path))

    def make(_, settings):
        raise KernelError(f"failed: {settings['GOVERNOR']}:7:1: error: expected `;`")

    monkeypatch.setattr(kernel, "make", make)
    with pytest.raises(KernelError, match=f"failed: {re.escape(str(path))}:7:1: error"):
        Builder(kernel).build([found])


def test_half_built_module_is_rebuilt(kernel):
    builder = Builder(kernel)
    wanted = [modules.resolve("teo")]
    kernel.kills_make = True
    with pytest.raises(KernelError, match=r"was killed \(signal 9\)"):
        builder.build_missing(wanted)
    assert not list(builder.out.glob("*"))
    kernel.kills_make = False
    builder.build_missing(wanted)
    assert {file.read_text() for file in builder.out.iterdir()} == {"whole"}


def test_an_unknown_parameter_is_refused_before_loading():
    with pytest.raises(torpor.GovernorError, match="util_shift"):
        modules.resolve("teo,util_shfit=5")


def test_loading_is_announced_and_selects_nothing(kernel, run_on_kernel):
    assert run_on_kernel("kernel", "load", "teo", "teo,util_shift=5").splitlines()[0] == "t-teo"
    own = modules.resolve("teo,util_shift=5")
    assert changes(kernel.messages) == [
        "insmod torpor_core.ko",
        "insmod torpor_t_teo.ko",
        f"insmod {own.module}.ko util_shift=5",
    ]
    assert kernel.governor == "menu" and kernel.governors == ["menu", "teo", "t-teo", own.name]
    assert kernel.parameters(own.module) == {"util_shift": "5"}
    kernel.messages.clear()
    run_on_kernel("kernel", "load", "teo")
    assert kernel.messages == []


def test_modules_of_two_versions_do_not_meet(kernel, run_on_kernel):
    run_on_kernel("kernel", "load", "teo")
    kernel.put("sys/module/torpor_core/version", "0.0.1\n")
    assert "Torpor 0.0.1" in run_on_kernel("kernel", "load", "teo", status=2)
    run_on_kernel("kernel", "unload")
    run_on_kernel("kernel", "load", "teo")


def test_dry_run_changes_nothing_and_needs_no_root(kernel, run_on_kernel):
    before = state(kernel)
    kernel.is_superuser = False
    run_on_kernel("kernel", "load", "teo", "-n", "--modules", kernel.machine.root)
    run_on_kernel("kernel", "use", "teo", "-n", "--", "true")
    assert state(kernel) == before
    assert changes(kernel.messages) == [
        *("insmod torpor_core.ko", "insmod torpor_t_teo.ko"),
        *("echo teo > current_governor", "true", "echo menu > current_governor"),
    ]
    assert not list(kernel.machine.root.rglob("*.ko"))


def test_without_root_nothing_is_tried(kernel, run_on_kernel):
    kernel.is_superuser = False
    for command in (["load", "teo"], ["use", "teo"], ["unload"]):
        assert "requires root" in run_on_kernel("kernel", *command, status=2)
    assert kernel.messages == []


@pytest.mark.parametrize("broken", ["torpor_t_teo", "t-teo"])
def test_failure_leaves_the_machine_unchanged(kernel, run_on_kernel, broken):
    before = state(kernel)
    kernel.broken = {broken}
    error = run_on_kernel("kernel", "load", "menu", "teo", status=2)
    assert ("Unknown symbol" if broken.startswith("torpor") else "error: expected `;`") in error
    assert state(kernel) == before


def test_a_command_restores_the_previous_governor(kernel, run_on_kernel, tmp_path):
    file = kernel.machine.cpu_dir / "cpuidle/current_governor"
    seen = tmp_path / "seen"
    script = f"cat {file} > {seen}; exit 3"
    run_on_kernel("kernel", "use", "teo", "--", "sh", "-c", script, status=3)
    assert seen.read_text() == "teo" and kernel.governor == "menu"
    assert "cannot be run" in run_on_kernel(
        "kernel", "use", "teo", "--", tmp_path / "no-program", status=2
    )
    assert kernel.governor == "menu"
    run_on_kernel("kernel", "use", "teo", "--", "sh", "-c", "kill -9 $$", status=128 + 9)


def test_an_unknown_governor_lists_the_available_ones(kernel, run_on_kernel):
    error = run_on_kernel("kernel", "use", "t-teo", status=2)
    assert "it has menu, teo" in error and "torpor kernel load" in error


def test_unloading_goes_back_to_the_governor_before_ours(kernel, run_on_kernel):
    run_on_kernel("kernel", "use", "teo")
    run_on_kernel("kernel", "load", "teo", "menu")
    run_on_kernel("kernel", "use", "t-teo")
    run_on_kernel("kernel", "use", "t-menu")
    kernel.messages.clear()
    run_on_kernel("kernel", "unload", "menu")
    assert changes(kernel.messages) == ["echo teo > current_governor", "rmmod torpor_t_menu"]
    run_on_kernel("kernel", "unload")
    assert state(kernel) == ("teo", ["menu", "teo"], [])
    assert "none of Torpor's governors" in run_on_kernel("kernel", "unload")
    assert "loaded as `ladder`" in run_on_kernel("kernel", "unload", "ladder", status=2)


def test_one_at_a_time_changes_governors(kernel, run_on_kernel):
    with journal.locked(kernel, "torpor ab"):
        for command in (["load", "teo"], ["use", "teo"], ["unload"], ["restore"]):
            error = run_on_kernel("kernel", *command, status=2)
            assert re.search(r"being changed by `torpor ab`, process \d+", error)
    assert kernel.messages == []
    run_on_kernel("kernel", "load", "teo")


def test_truncated_governor_name_is_detected(fake):
    system = System([].append, root=fake.root)
    fake.governor.write_text("menu\n")
    # A file of sysfs takes the write for all of its value; this one keeps the rest.
    with pytest.raises(KernelError, match="accepted governor `ab` but uses `abnu`"):
        system.set_governor("ab")


def test_one_failed_undo_does_not_stop_the_others(kernel):
    with ExitStack() as undo:
        wanted = [modules.resolve("teo"), modules.resolve("menu")]
        governors.load(kernel, Builder(kernel), wanted, undo)
        kernel.stuck = {"torpor_t_menu"}
    assert kernel.modules() == ["torpor_core", "torpor_t_menu"]
    assert kernel.unrestored == ["torpor_t_menu", "torpor_core"]


@pytest.mark.parametrize(
    "file, text, reason",
    [
        ("proc/sys/kernel/osrelease", "5.10.0-8-amd64", "older than 5.15"),
        ("proc/sys/kernel/osrelease", "mine", "not a kernel release"),
        ("proc/sys/kernel/osrelease", "6.12/../$(touch X)", "not a kernel release"),
        ("proc/kallsyms", "0 T kallsyms_lookup_name\n", "no register_kprobe"),
        ("proc/kallsyms", "", "CONFIG_KALLSYMS"),
        ("proc/modules", None, "CONFIG_MODULES"),
        ("proc/sys/kernel/modules_disabled", "1", "until the next boot"),
        ("sys/kernel/security/lockdown", "none [integrity] confidentiality", "integrity"),
        ("sys/module/module/parameters/sig_enforce", "Y", "signed modules"),
        ("sys/module/cpuidle/parameters/off", "1", "cpuidle is off"),
        ("sys/devices/system/cpu/cpuidle/available_governors", None, "CONFIG_CPU_IDLE"),
    ],
)
def test_an_unfit_kernel_is_refused_with_the_reason(kernel, run_on_kernel, file, text, reason):
    support.refuse(kernel)
    if text is None:
        kernel.machine.path(file).unlink()
    else:
        kernel.put(file, text)
    assert reason in run_on_kernel("kernel", "load", "teo", status=2)
    assert reason in run_on_kernel("kernel", "status")


def test_new_kernel_gets_a_note(kernel):
    kernel.put("proc/sys/kernel/osrelease", "7.1.0\n")
    support.refuse(kernel)
    assert "newer than 6.12" in kernel.messages[0]
    kernel.put("sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
    support.refuse(kernel)


@pytest.mark.parametrize(
    "os_release, hint",
    [
        ("ID=debian\n", "apt-get install linux-headers-6.9.9"),
        ('ID=mine\nID_LIKE="rhel fedora"\n', "dnf install kernel-devel-6.9.9"),
        ("ID=mine\n", "--headers DIR"),
    ],
)
def test_missing_headers_name_their_package(kernel, os_release, hint):
    kernel.put("etc/os-release", os_release)
    with pytest.raises(KernelError, match="no headers of Linux") as error:
        Builder(kernel, "6.9.9").build([])
    assert hint in str(error.value)


def test_headers_of_another_kernel_are_refused(kernel):
    headers = kernel.machine.path(f"lib/modules/{RELEASE}/build")
    with pytest.raises(KernelError, match=f"headers of {RELEASE}, not of 6.9.9"):
        Builder(kernel, "6.9.9", headers).build([])
    assert Builder(kernel, headers=headers).release == RELEASE


def test_clang_kernel_gets_clang_modules(kernel):
    kernel.put(f"lib/modules/{RELEASE}/build/include/config/auto.conf", "CONFIG_CC_IS_CLANG=y\n")
    Builder(kernel).build([])
    assert "LLVM=1" in kernel.messages[-1]


def test_modules_are_built_once(kernel):
    builder = Builder(kernel)
    wanted = [modules.resolve("teo"), modules.resolve("teo,util_shift=5")]
    builder.build_missing(wanted)
    assert len(kernel.messages) == 2 and f"NAME={wanted[1].name}" in kernel.messages[1]
    builder.build_missing(wanted)
    assert len(kernel.messages) == 2
    names = [path.name for path in builder.build(wanted)]
    assert names == [
        *("torpor_core.ko", "torpor_t_teo.ko", f"{wanted[1].module}.ko", "torpor_idle.ko")
    ]


def test_status_shows_our_modules(kernel, run_on_kernel):
    run_on_kernel("kernel", "load", "teo,util_shift=5")
    name = modules.resolve("teo,util_shift=5").name
    text = run_on_kernel("kernel", "status")
    assert f"{name} (Torpor)" in text and "references 0, util_shift=5" in text
    assert "driver     fake_idle" in text and "governor   menu" in text


def test_status_counts_timers_of_a_governor(kernel, run_on_kernel):
    run_on_kernel("kernel", "load", "tide", "teo")
    assert "timers" not in run_on_kernel("kernel", "status")
    kernel.put("sys/kernel/debug/torpor/timers/t-tide", "cpu idle busy\n0 40 1\n1 2 2\n")
    text = run_on_kernel("kernel", "status")
    assert "timers     t-tide woke idle CPUs 42 times, and interrupted tasks 3 times" in text
    offered = json.loads(run_on_kernel("kernel", "status", "--format", "json"))["governors"]
    timers = {governor["name"]: governor["timers"] for governor in offered}
    assert timers["t-tide"][1] == {"cpu": 1, "idle": 2, "busy": 2}
    assert timers["t-teo"] == []
