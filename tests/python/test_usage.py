# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Errors of usage speak as all others do."""

import pytest

CASES = {
    "simulat frames": ["error: no such command `simulat`", "hint: did you mean `simulate`?"],
    "kernel fetc": ["error: no such command `fetc`", "hint: did you mean `fetch`?"],
    "simulate --durtion 3": [
        "error: no such option `--durtion`",
        "hint: did you mean `--duration`?",
    ],
    "replay": [
        "error: missing argument `TRACE...`",
        "hint: `torpor replay --help` lists what is allowed",
    ],
    "replay x --base teo": [
        "error: no such option `--base`",
        "hint: `torpor replay --help` lists what is allowed",
    ],
    "simulate frames": [
        "error: missing option `--platform` / `-p`",
        "hint: `torpor platform list` lists those that ship; a file works, too",
    ],
    "help replay": [
        "error: no such command `help`",
        "hint: `torpor COMMAND --help` explains a command",
    ],
    "replay x --hz abc": [
        "error: invalid value for `--hz`: `abc` is not a valid integer",
        "hint: `torpor replay --help` lists what is allowed",
    ],
}


@pytest.mark.parametrize("typed", CASES)
def test_usage_error_has_a_hint(torpor, typed):
    done = torpor(*typed.split(), check=2)
    assert done.stderr.splitlines() == CASES[typed]
