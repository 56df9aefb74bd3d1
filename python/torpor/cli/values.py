# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Values as typed on the command line."""

import typer

from torpor import TorporError, _engine


def duration_ns(text: str | None) -> int | None:
    """Read ``50us``; a bare number is refused."""
    if text is None:
        return None
    try:
        value = _engine.parse_duration_ns(text)
    except TorporError as error:
        raise typer.BadParameter(str(error)) from None
    if value < 0:
        raise typer.BadParameter(f"`{text}` is negative")
    return value


def duration(text: str | None) -> str | None:
    """Read ``50us`` and leave it a text."""
    value = duration_ns(text)
    return None if value is None else f"{value}ns"


def cpu_list(text: str | None) -> list[int] | None:
    """Read ``0-3,7``."""
    if text is None:
        return None
    try:
        return _engine.parse_cpu_list(text)
    except TorporError as error:
        raise typer.BadParameter(str(error)) from None


def disabled_state(text: str) -> tuple[int, int] | int:
    """Read ``N`` or ``CPU:N``."""
    cpu, colon, state = text.rpartition(":")
    try:
        if not colon:
            return _index(state)
        return _index(cpu), _index(state)
    except ValueError:
        raise typer.BadParameter(
            f"`{text}` is no idle state: expected its index, such as 1, or CPU:INDEX, such as 4:1"
        ) from None


def cpu_map(text: str | None) -> dict[int, int] | None:
    """Read ``RECORDED:CPU,...``."""
    if text is None:
        return None
    pairs: dict[int, int] = {}
    for part in text.split(","):
        recorded, _, cpu = part.partition(":")
        try:
            pair = _index(recorded), _index(cpu)
        except ValueError:
            raise typer.BadParameter(
                f"`{part}` is no pair of CPUs: expected RECORDED:CPU, such as 0:4,1:5"
            ) from None
        if pair[0] in pairs:
            raise typer.BadParameter(f"recorded CPU {pair[0]} is mapped twice")
        pairs[pair[0]] = pair[1]
    return pairs


def _index(text: str) -> int:
    # int() would take `+1`, `1_0` and ` 1`.
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)
