# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs cases that its parent names, one JSON line each way: ``python -m attack.worker FOLDER``.

A case is (seed, family, index) and nothing else, so that its name repeats it.
"""

import json
import os
import random
import resource
import shutil
import sys
import time
import traceback
from pathlib import Path

import torpor
from attack import stores
from attack.families import FAMILIES, Seeds
from attack.judge import BrokenError

ROOT = Path(__file__).resolve().parents[2]
#: Address space of a process: several times that of a sound run of these small inputs.
ADDRESS_SPACE = 6 << 30


def run_case(case: dict, folder: Path, seeds: Seeds) -> tuple[str, str]:
    """Return the outcome, and what was said."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rng = random.Random(f"{case['seed']}/{case['family']}/{case['index']}")
    try:
        (FAMILIES | stores.INSIDE)[case["family"]](rng, folder, seeds)
    except torpor.TorporError as error:
        return "refused", str(error)
    except KeyboardInterrupt:
        return "interrupted", ""
    except BrokenError as error:
        return "broken", str(error)
    except MemoryError as error:
        return "memory", str(error)
    except (OSError, ValueError) as error:
        # Python's own errors about a path or a number that no type of Torpor's holds.
        if isinstance(error, OSError) or "expected" in str(error):
            return "refused", str(error)
        return "exception", traceback.format_exc()
    except OverflowError as error:
        return "refused", str(error)
    except BaseException:  # a panic in Rust is no Exception
        return "exception", traceback.format_exc()
    return "ok", ""


def main() -> None:
    """Serve until stdin ends."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    # A governor may write to any open descriptor, so answers use one that it cannot find.
    answers = os.fdopen(os.dup2(1, 200), "w")
    os.dup2(2, 1)
    seeds = Seeds(folder, ROOT)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        began = time.monotonic()
        outcome, detail = run_case(case, folder / "case", seeds)
        seconds = time.monotonic() - began
        answer = {"outcome": outcome, "detail": detail[-4000:], "seconds": round(seconds, 3)}
        answer["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
