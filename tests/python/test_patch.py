# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Patch mails as plain data. `crates/torpor-patch/tests` has the forms of mails."""

import pytest

import torpor
from torpor import _engine

PATH = "drivers/cpuidle/governors/calm.c"
BASE = "static int calm_select(void)\n{\n\tint idx = 0;\n\n\treturn idx;\n}\n"
HUNK = """\
@@ -2,5 +2,5 @@ static int calm_select(void)
 {
 \tint idx = 0;

-\treturn idx;
+\treturn idx + 1;
 }
"""
MAIL = f"""\
From: A <a@example.org>
Date: Mon, 2 Mar 2026 10:00:00 +0100
Message-ID: <1@example.org>
Subject: [PATCH v2 2/2] calm: add one

Reason.
---
diff --git a/{PATH} b/{PATH}
index 1a2b3c4d5e6f..0f1e2d3c4b5a 100644
--- a/{PATH}
+++ b/{PATH}
{HUNK}--
2.43.0
"""


@pytest.fixture
def tree(tmp_path):
    path = tmp_path / "tree" / PATH
    path.parent.mkdir(parents=True)
    path.write_text(BASE, encoding="utf-8")
    return tmp_path / "tree"


@pytest.fixture
def mbox(tmp_path):
    path = tmp_path / "x.eml"
    path.write_text(MAIL, encoding="utf-8")
    return str(path)


def test_a_series_is_plain_data(mbox):
    series = _engine.read_series(mbox)
    assert series == _engine.read_series("-", MAIL.encode())
    assert series["version"] == "2" and series["missing"] == [1] and series["cover"] is None
    (patch,) = series["patches"]
    assert series["patch_id"] == patch["patch_id"] and len(patch["patch_id"]) == 40
    assert (patch["number"], patch["total"], patch["subject"]) == (2, 2, "calm: add one")
    assert patch["files"] == [
        {
            "path": PATH,
            "old_path": None,
            "old_blob": "1a2b3c4d5e6f",
            "new_blob": "0f1e2d3c4b5a",
            "kind": "modify",
            "hunks": 1,
            "added": 1,
            "removed": 1,
        }
    ]


def test_applied_files_have_offsets(mbox, tree):
    path = tree / PATH
    path.write_text("/* moved */\n" + BASE, encoding="utf-8")
    done = _engine.apply_series(mbox, str(tree))
    assert done["applied"] == [{"patch": 2, "path": PATH, "offsets": [1]}]
    assert (done["changed"], done["deleted"], done["rejects"]) == ([PATH], [], [])
    assert path.read_text(encoding="utf-8").endswith(BASE)
    assert _engine.apply_series(mbox, str(tree), 1, 1)["applied"] == []


def test_rejects_say_what_is_there(mbox, tree):
    (tree / PATH).write_text(BASE.replace("= 0", "= 7"), encoding="utf-8")
    done = _engine.apply_series(mbox, str(tree))
    (reject,) = done["rejects"]
    assert done["applied"] == []
    assert (reject["reason"], reject["hunk"], reject["hunks"]) == ("differs", 1, 1)
    assert (reject["line"], reject["expected"]) == (3, "\tint idx = 0;")
    assert reject["found"] == "\tint idx = 7;"
    assert reject["text"].startswith(f"patch 2: `{PATH}`, hunk 1 of 1")


def test_damaged_patches_are_a_torpor_error(tmp_path):
    path = tmp_path / "x.eml"
    path.write_text(MAIL.replace(" \tint idx", "\tint idx"), encoding="utf-8")
    with pytest.raises(torpor.PatchError, match=r"line 9: .*lost white space.*\nhint: fetch"):
        _engine.read_series(str(path))
    with pytest.raises(torpor.TorporError, match="No such file"):
        _engine.read_series(str(tmp_path / "y.mbox"))
