# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor doctor` reports what exists, and how to get the rest."""

import json
import sys

import pytest

import torpor


@pytest.fixture
def examine(fake, monkeypatch):
    """Look at a machine made of files."""

    def run():
        return {finding["name"]: finding for finding in torpor.doctor(fake.root)}

    return run


def test_every_finding_is_either_usable_or_explained():
    for finding in torpor.doctor():
        assert finding["needed_for"]
        assert (finding["found"] is None) != (finding["reason"] is None)
        assert finding["is_usable"] == (finding["reason"] is None)


def test_json_equals_the_library(torpor):
    found = json.loads(torpor("doctor", "--format", "json", check=0).stdout)
    assert found["findings"]
    assert set(found["findings"][0]) == {
        *("name", "is_usable", "found", "reason", "hint", "needed_for"),
    }


def test_missing_compiler_names_its_package(examine, monkeypatch):
    monkeypatch.setenv("CC", "no-such-cc")
    for name in ("C compiler", "sanitizers", "hosted kernels"):
        finding = examine()[name]
        assert finding["reason"] == "`no-such-cc` is not installed"
        assert "gcc" in finding["hint"]


def test_a_compiler_that_compiles_nothing_is_not_usable(examine, monkeypatch, tmp_path):
    cc = tmp_path / "cc"
    cc.write_text("#!/bin/sh\necho stdint.h: No such file or directory >&2\nexit 1\n")
    cc.chmod(0o755)
    monkeypatch.setenv("CC", str(cc))
    finding = examine()["C compiler"]
    assert "stdint.h: No such file" in finding["reason"]
    assert "libc6-dev" in finding["hint"]


def test_compiler_must_be_a_program(examine, monkeypatch, tmp_path):
    cc = tmp_path / "cc"
    cc.write_bytes(b"\0\1\2")
    cc.chmod(0o755)
    monkeypatch.setenv("CC", str(cc))
    assert "cannot be started" in examine()["C compiler"]["reason"]


def test_kernel_sources_are_listed_by_release(examine, monkeypatch, tmp_path):
    (tmp_path / "linux-source-6.12.tar.xz").touch()
    (tmp_path / "linux-source-6.1").mkdir()
    monkeypatch.setenv("TORPOR_KERNEL_SOURCES", str(tmp_path))
    found = examine()["kernel sources"]["found"]
    assert f"6.12 ({tmp_path})" in found
    assert f"6.1 ({tmp_path})" in found


def test_a_default_kernel_that_is_missing_is_explained(examine, monkeypatch, tmp_path):
    from torpor import _engine

    monkeypatch.setattr(_engine, "has_hosted_kernel", lambda kernel, hz: False)
    finding = examine()["default kernel"]
    release = _engine.default_kernel()
    assert finding["reason"].startswith(f"no image of Linux {release} is installed")
    assert f"`torpor kernel fetch {release}`" in finding["hint"]
    monkeypatch.setattr(_engine, "has_hosted_kernel", lambda kernel, hz: hz == 250)
    assert f"Linux {release} at 100, 300, 1000 Hz is" in examine()["default kernel"]["reason"]


def test_a_source_without_a_compiler_is_no_kernel(examine, monkeypatch, tmp_path):
    from torpor import _engine

    monkeypatch.setattr(_engine, "has_hosted_kernel", lambda kernel, hz: True)
    monkeypatch.setenv("TORPOR_KERNEL_IMAGES", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-cc")
    finding = examine()["default kernel"]
    assert "cannot be compiled: `no-such-cc` is not installed" in finding["reason"]
    assert "gcc" in finding["hint"]


def test_an_idle_driver_is_shown_with_its_governor(examine, fake):
    folder = fake.root / "sys/devices/system/cpu/cpuidle"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "available_governors").write_text("menu teo\n")
    (folder / "current_governor").write_text("teo\n")
    (folder / "current_driver").write_text("none\n")
    assert "no idle driver" in examine()["idle states"]["reason"]
    (folder / "current_driver").write_text("intel_idle\n")
    assert examine()["idle states"]["found"] == "driver intel_idle, governor teo"


def test_each_command_named_exists():
    """A finding that names an option or command which is gone would mislead."""
    import re

    from torpor.cli.app import app

    known = set()

    def walk(command, path):
        known.add(path)
        for name, sub in (command.load_all() if hasattr(command, "load_all") else {}).items():
            walk(sub, f"{path} {name}".strip())

    walk(app, "")
    for finding in torpor.doctor():
        for quoted in re.findall(r"`([a-z][a-z ]*[a-z])(?: --\w+)?`", finding["needed_for"]):
            assert quoted in known, finding["needed_for"]


def test_text_equals_json(torpor):
    text = torpor("doctor", check=0, env={"COLUMNS": "80"}).stdout
    for finding in json.loads(torpor("doctor", "--format", "json", check=0).stdout)["findings"]:
        mark = "ok" if finding["is_usable"] else "no"
        assert f"{mark}  {finding['name']}" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_interpreter_needs_nothing_but_torpor(torpor):
    done = torpor("doctor", check=0, env={"PATH": str(sys.prefix) + "/bin", "CC": ""})
    assert "`cc` is not installed" in done.stdout
    assert "git is not installed" in done.stdout
