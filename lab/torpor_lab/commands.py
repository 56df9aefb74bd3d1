# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Commands that the lab adds to ``torpor``: entry points of lab/pyproject.toml name them."""

from torpor.plugin import Command, Group

STUDY = Group(
    "Reproduce published tables, and run larger questions.",
    {
        "run": Command(
            "torpor_lab.cli.reproduce:reproduce",
            "Simulate what a published table measured, and judge it.",
        ),
        "answer": Command(
            "torpor_lab.cli.answer:answer", "Answer a question of the field by a grid."
        ),
        "io-boost": Command(
            "torpor_lab.cli.study:io_boost", "Compare IO boosts with the best fixed frequencies."
        ),
        "adaptation": Command(
            "torpor_lab.cli.study:adaptation", "Show what a change of load costs governors."
        ),
    },
)
CONTEST = Command("torpor_lab.cli.contest:contest", "Run governors against a frozen corpus.")
SPANS = Command(
    "torpor_lab.cli.spans:spans", "Write one row per idle span, or the bound of what is known."
)
