# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor kernel build` makes what a stock kernel takes, from what the package carries along."""

from apparatus import build
from apparatus.build import TOOLS
from machines import here
from torpor.machine.kernel import modules
from torpor.machine.kernel.build import Builder, carried_files
from torpor.machine.kernel.system import System


def test_governors_build_for_another_kernel(kernel, tmp_path, monkeypatch):
    here(build._tools, kernel.arch)
    architecture, prefix, _ = TOOLS[kernel.arch]
    monkeypatch.setenv("ARCH", architecture)
    monkeypatch.setenv("CROSS_COMPILE", prefix)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    # Neither make nor its shell may read it.
    source = tmp_path / "$(touch X);touch X;mine's $(shell touch X) own,.c"
    source.write_bytes(carried_files()["governors/cpuidle/menu.c"])

    messages = []
    system = System(messages.append, root=tmp_path / "machine")
    builder = Builder(system, headers=kernel.headers, out=tmp_path / "modules")
    assert builder.release == kernel.release
    wanted = [modules.resolve(spec) for spec in ("teo", str(source))]
    files = builder.build(wanted)
    assert len(messages) == 2
    assert {"torpor_core", "torpor_t_teo", wanted[1].module} <= {file.stem for file in files}
    assert not list(tmp_path.rglob("X"))
    for file in files:
        assert f"vermagic={kernel.release} ".encode() in file.read_bytes()
