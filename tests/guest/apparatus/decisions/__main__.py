# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Prints the tables that compare decisions, of guests that are kept or of new ones."""

import argparse
import json
from dataclasses import asdict

from . import CORPUS, MACHINES, TABLES, Guests, hosted, table


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", action="append", choices=MACHINES, default=[])
    parser.add_argument("kernel")
    given = parser.parse_args()
    for name in given.record:
        text = json.loads(CORPUS.read_text(encoding="utf-8"))
        text[name] = asdict(Guests.boot(MACHINES[name]))
        CORPUS.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")
    guests = {name: Guests.kept(name) for name in MACHINES}
    simulated = {
        (name, title): found
        for name, one in MACHINES.items()
        for load in one.loads
        for title, found in hosted(name, load, given.kernel, guests[name]).items()
    }
    for names in TABLES:
        print(table(names, guests, simulated), end="\n\n")


if __name__ == "__main__":
    main()
