# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Prints the tables of docs/concepts/simulation.md, of guests that are kept or of new ones."""

import argparse
import json
from dataclasses import asdict

from . import CORPUS, MACHINES, Figures, Guests, hosted, table


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
    for name, one in MACHINES.items():
        guests = Guests.kept(name)
        simulated: dict[str, Figures] = {}
        for load in one.loads:
            simulated |= hosted(name, load, given.kernel, guests)
        print(table(name, guests, simulated), end="\n\n")


if __name__ == "__main__":
    main()
