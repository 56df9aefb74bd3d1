# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The build backend: what it checks before it builds, and what it adds."""

import os
import sys
import zipfile
from pathlib import Path

import pytest

from processes import ran

ROOT = Path(__file__).resolve().parents[2]
ASK = "import build_backend; print(build_backend.get_requires_for_build_wheel())"


def asked(path, home):
    env = os.environ | {"PATH": str(path), "HOME": str(home), "PYTHONPATH": str(ROOT / "scripts")}
    env = {key: value for key, value in env.items() if key not in ("CARGO_HOME", "CC")}
    return ran(sys.executable, "-c", ASK, env=env)


def command(path, name, line):
    (path / name).write_text(f"#!/bin/sh\necho '{line}'\n")
    (path / name).chmod(0o755)


def test_build_without_tools_names_them(tmp_path):
    done = asked(tmp_path, tmp_path)
    assert done.returncode == 1 and not done.stdout
    assert "missing: Rust 1.85 or newer; install it with rustup" in done.stderr
    assert "missing: a C compiler (`cc`); install gcc" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "version, said",
    [
        ("rustc 1.63.0 (Debian)", "Rust 1.85 or newer (found 1.63); run rustup update"),
        ("no toolchain", "`rustc --version` fails"),
        ("rustc 1.85.0 (4d91de4e4 2025-02-17)", None),
    ],
)
def test_a_build_takes_rust_1_85(tmp_path, version, said):
    for name in ("cargo", "rustc", "cc"):
        command(tmp_path, name, version)
    done = asked(tmp_path, tmp_path)
    if said:
        assert done.returncode == 1 and said in done.stderr
    else:
        assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


MATURIN = """
import pathlib, zipfile
def build_wheel(folder, *_):
    print("built")
    with zipfile.ZipFile(f"{folder}/t.whl", "w") as wheel:
        wheel.writestr("extension.py", "TEXT = 'generated'")
        for path in pathlib.Path("python").rglob("*.pyi"):
            wheel.write(path)
    return "t.whl"
build_sdist = build_editable = prepare_metadata_for_build_wheel = build_wheel
get_requires_for_build_sdist = build_wheel
"""
GENERATE = """
import extension, pathlib
pathlib.Path("python/torpor/results/types.pyi").write_text(extension.TEXT)
"""


def test_a_wheel_contains_what_its_extension_generates(tmp_path):
    for folder in ("docs", "python/torpor/results", "modules"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "modules" / "maturin.py").write_text(MATURIN)
    (tmp_path / "docs" / "generate.py").write_text(GENERATE)
    env = os.environ | {"PYTHONPATH": f"{tmp_path / 'modules'}{os.pathsep}{ROOT / 'scripts'}"}
    command = [sys.executable, "-c", "import build_backend; build_backend.build_wheel('.')"]
    for builds in (2, 1):
        done = ran(*command, env=env, cwd=tmp_path, check=True)
        # Generated files that have changed take a second build.
        assert done.stdout.count("built") == builds
        with zipfile.ZipFile(tmp_path / "t.whl") as wheel:
            assert wheel.read("python/torpor/results/types.pyi") == b"generated"
