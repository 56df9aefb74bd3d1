# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Changes to bytes and texts, each drawn from a :class:`random.Random` that a case's name seeds."""

import random
import re
import struct

#: Values at which arithmetic fails: the borders of the types that formats and TOML use.
_INTEGERS = [0, 1, 2, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1]
_TEXTS = ["", "-1", "1e-300", "1e300", "1e-9", "nan", "inf", "-inf", "0x10", "''", "[]", "{}"]
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]+")


def change_bytes(rng: random.Random, data: bytes) -> bytes:
    """Damage a binary file in one to four places."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        if not out:
            return bytes(out)
        at = rng.randrange(len(out))
        match rng.randrange(8):
            case 0:
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                out[at] = rng.randrange(256)
            case 2:  # a field of 8, 4 or 2 bytes, as formats align it
                width, code = rng.choice([(8, "Q"), (4, "I"), (2, "H")])
                value = rng.choice(_INTEGERS) % (1 << (8 * width))
                at -= at % width
                out[at : at + width] = struct.pack(rng.choice("<>") + code, value)
            case 3:
                del out[at : at + rng.choice([1, 8, 100, 4096])]
            case 4:
                chunk = out[at : at + rng.choice([8, 100, 4096])]
                out[at:at] = chunk
            case 5:
                del out[at:]
            case 6:
                size = rng.choice([8, 64, 4096])
                out[at : at + size] = bytes(len(out[at : at + size]))
            case 7:
                other = rng.randrange(len(out))
                size = rng.choice([8, 64, 1024])
                out[at : at + size] = out[other : other + size]
    return bytes(out)


def change_text(rng: random.Random, text: str) -> str:
    """Change numbers, words and lines of a text that is otherwise well-formed."""
    for _ in range(rng.choice([1, 1, 2, 4])):
        match rng.randrange(8):
            case 0 | 1 | 2:
                text = _replace(rng, text, _NUMBER, _number)
            case 3:
                text = _replace(
                    rng, text, _WORD, lambda rng, old: rng.choice([old[:-1], "x", old * 9])
                )
            case _:
                text = _change_lines(rng, text)
    return text


def _number(rng: random.Random, old: str) -> str:
    match rng.randrange(5):
        case 0:
            return str(rng.choice([-1, 1]) * rng.choice(_INTEGERS))
        case 1:
            return rng.choice(_TEXTS)
        case 2:
            return old + "0" * rng.choice([1, 3, 9, 30])
        case 3:
            return f"-{old}"
        case _:
            return str(rng.randrange(10**6))


def _word(rng: random.Random, old: str) -> str:
    return rng.choice([old[:-1], "x", old * 9])


def _replace(rng, text, pattern, change) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    one = rng.choice(found)
    return text[: one.start()] + change(rng, one.group()) + text[one.end() :]


def _change_lines(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[other])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            del lines[at : at + rng.randrange(1, 50)]
        case _:
            lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)] + "\n"
    return "".join(lines)
