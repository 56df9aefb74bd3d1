# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""``python -m attack``: attacks for a given time, and a table of what came out."""

import argparse
import json
import sys
from pathlib import Path

import foreground

from attack.run import FAMILY_NAMES, Attack

_REPORT = Path(__file__).resolve().parents[2] / "build" / "attack"


def main() -> int:
    """Exit status 1 if there was a finding."""
    parser = argparse.ArgumentParser(prog="attack", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=FAMILY_NAMES, help="repeatable")
    parser.add_argument("--case", metavar="SEED/FAMILY/INDEX", help="one case, its outcome printed")
    parser.add_argument("--out", type=Path, default=_REPORT, help="folder of the findings")
    args = parser.parse_args()
    foreground.listen()
    args.out.mkdir(parents=True, exist_ok=True)
    with Attack(args.out) as attack:
        if args.case:
            seed, family, index = args.case.split("/")
            print(json.dumps(attack.case(int(seed), family, int(index)), indent=1))
            return 0
        families = args.only or FAMILY_NAMES
        try:
            attack.run(families, seed=args.seed, seconds=60 * args.minutes)
        except KeyboardInterrupt:
            print("interrupted; what was done:", file=sys.stderr)
        print(attack.table())
        (args.out / "findings.json").write_text(json.dumps(attack.findings, indent=1) + "\n")
    return 1 if attack.findings else 0


if __name__ == "__main__":
    sys.exit(main())
