# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor simulate --kernel`: a kernel's own source decides."""

import json
import re
from pathlib import Path

import pytest
from sources import kernel_sources

import torpor as library

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("--duration", "200ms", "--seeds", "2")


@pytest.fixture(scope="module")
def linux() -> str:
    """The tree of Linux 6.12, as Debian ships it."""
    return str(kernel_sources("6.12"))


def test_a_table_names_its_kernel(torpor, linux):
    simulate = ("simulate", "frames", "-p", "pixel6", "-g", "menu", "-g", "teo", *QUICK, "-v")
    named = torpor(*simulate, "--kernel", linux, check=0).stdout
    default = torpor(*simulate, check=0).stdout
    assert f"(--kernel {linux}) decides" in " ".join(named.split())
    assert "(--kernel 6.12) decides" in " ".join(default.split())
    assert re.findall(r"^power.*", named, re.M) == re.findall(r"^power.*", default, re.M)


def test_library_and_command_give_the_same(torpor, linux):
    done = torpor(
        *("simulate", "periodic", "-p", "pixel6", "-g", "menu", *QUICK),
        *("--kernel", linux, "--format", "json"),
        check=0,
    )
    printed = json.loads(done.stdout)
    result = library.simulate(
        "periodic", platform="pixel6", governors="menu", duration="200ms", seeds=2, kernels=linux
    )
    assert result.to_dict()["runs"] == printed["runs"]
    [kernel] = printed["options"]["kernels"]
    assert kernel["kernel"] == linux
    assert kernel["release"].startswith("6.12.")
    assert printed["runs"][0]["origin"] == f"menu@{kernel['release']}"


def test_hosted_kernels_recording_identifies_its_governor(torpor, linux, tmp_path):
    """It has the timers of the kernel's own tracepoints; without them 79 % agree here."""
    trace = tmp_path / "trace.txt"
    run = ("simulate", "frames", "-p", "pixel6", "-g", "menu", "--kernel", linux)
    torpor(*run, "--duration", "1s", "--seeds", "1", "--trace", trace, check=0)
    done = torpor("fidelity", trace, "-p", "pixel6", "-g", f"menu@{linux}", check=None)
    text = " ".join(done.stdout.split())
    assert "Verified: menu" in text
    highest = re.search(r"reproduces ([\d.]+) %", text)
    assert highest and float(highest[1]) > 97


def test_missing_kernel_is_reported(torpor):
    done = torpor("simulate", "pipe", "-p", "pixel6", "-g", "menu", "--kernel", "9.99", check=2)
    assert "Linux 9.99 is not on this machine" in done.stderr
    assert "hint:" in done.stderr
