# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Completions that a shell offers when the user presses Tab."""

import pytest

import torpor


@pytest.fixture
def complete(torpor):
    """Return what bash is offered for the last word of a line."""

    def run(line, **env):
        env |= {
            "_TORPOR_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        }
        offered = [line.split(",", 1) for line in torpor(env=env, check=0).stdout.splitlines()]
        return [name for kind, name in offered if kind == "plain"]

    return run


def test_commands_are_completed(complete):
    assert {"replay", "record"} == set(complete("torpor re"))
    assert complete("torpor tr") == ["try", "trace"]
    assert {"info", "stats"} <= set(complete("torpor trace "))


def test_options_are_completed(complete):
    assert "--latency-limit" in complete("torpor replay --lat")


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("torpor replay x -g ", [g["name"] for g in torpor.governors()]),
        ("torpor governor check ", [g["name"] for g in torpor.governors()]),
        ("torpor replay x -p ", [p["name"] for p in torpor.platforms()]),
        ("torpor platform show ", [p["name"] for p in torpor.platforms()]),
        ("torpor simulate ", [w["name"] for w in torpor.workloads()]),
        ("torpor workload show ", [w["name"] for w in torpor.workloads()]),
        ("torpor simulate x --io-boost ", [b["name"] for b in torpor.ioboosts()]),
        ("torpor simulate x --cpufreq s", ["schedutil"]),
        ("torpor study run rk", ["rk3399-io", "rk3399-teo-ladder"]),
    ],
)
def test_names_are_completed(complete, line, names):
    assert sorted(complete(line)) == sorted(names)


def test_releases_have_sources_at_hand(complete, tmp_path):
    (tmp_path / "linux-source-4.99.tar.xz").touch()
    env = {"TORPOR_KERNEL_SOURCES": str(tmp_path)}
    assert complete("torpor replay x -g teo@4", **env) == ["teo@4.99"]
    assert complete("torpor simulate x --kernel 4", **env) == ["4.99"]


def test_shell_completes_files_where_expected(complete):
    assert complete("torpor replay demo") == []
    assert complete("torpor study run ./my") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_printed(torpor, shell):
    assert "_TORPOR_COMPLETE" in torpor(env={"_TORPOR_COMPLETE": f"{shell}_source"}, check=0).stdout


def test_help_shows_whole_summaries(torpor):
    text = torpor("--help", check=0).stdout
    assert "..." not in text.partition("Run governors:")[2]
    assert "and compare them." in " ".join(text.split())
