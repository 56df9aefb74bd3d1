# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Manual pages from the command line's definitions, one for each command: `man torpor-replay`."""

import inspect
import re
from typing import Any

HEAD = '.\\" SPDX-License-Identifier: MIT OR GPL-2.0-only\n.\\" Written by docs/generate.py.\n'
STATUS = """.SH EXIT STATUS
.TP
.B 0
Success.
.TP
.B 1
Success with a finding: a governor failed, a recording is damaged, a limit is broken.
.TP
.B 2
Failure.
"""


def roff(text: str) -> str:
    """Text as roff has it: no character of it is a command, and hyphens can be copied.

    >>> print(roff("`-p` reads\\n.toml"))
    \\\\fB\\\\-p\\\\fR reads
    \\\\&.toml
    """
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text)
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def paragraphs(text: str) -> str:
    """A command's help: paragraphs, and lines that begin with blanks as they are."""
    parts = []
    for part in inspect.cleandoc(text).split("\n\n"):
        if part.startswith((" ", "\b")):
            parts.append(f".nf\n{roff(part.lstrip(chr(8)))}\n.fi")
        else:
            parts.append(roff(part))
    return "\n.PP\n".join(parts)


def described(param: Any) -> str:
    """Return the description of an option or an argument; empty for one without."""
    return (param.help if param.param_type_name == "option" else param.text) or ""


def options(command: Any) -> str:
    """Return a command's parameters: arguments first."""
    rows = []
    for param in sorted(command.params, key=lambda p: p.param_type_name == "option"):
        if not described(param):
            continue
        if param.param_type_name == "option":
            names = ", ".join([*param.opts, *param.secondary_opts])
            head = " ".join(filter(None, [names, param.metavar if not param.is_flag else None]))
        else:
            head = param.metavar or param.name.upper()
        needed = " Required." if param.required else ""
        rows.append(f".TP\n.B {roff(head)}\n{roff(described(param) + needed)}\n")
    return "".join(rows)


def subcommands(command: Any, *, is_own: bool = False) -> dict[str, Any]:
    """Return the commands of a group, by name, or the package's own ones; none of a command."""
    return command.load_all(is_own=is_own) if hasattr(command, "load_all") else {}


def pages(command: Any, version: str) -> dict[str, str]:
    """Every page by its file's name."""
    found: dict[str, str] = {}

    def walk(command: Any, path: list[str], above: str | None) -> None:
        name = "-".join(path)
        # A wheel has no pages of another package, which may be there where it is built.
        subs = subcommands(command, is_own=True)
        summary = inspect.cleandoc(command.help).split("\n\n")[0].replace("\n", " ").rstrip(".")
        usage = "COMMAND [ARGUMENT...]" if subs else "[OPTION...] [ARGUMENT...]"
        parts = [
            f'{HEAD}.TH {name.upper()} 1 "" "Torpor {version}" "User Commands"\n',
            f".SH NAME\n{roff(name)} \\- {roff(summary)}\n",
            f".SH SYNOPSIS\n.B {roff(' '.join(path))}\n{roff(usage)}\n",
            f".SH DESCRIPTION\n{paragraphs(command.help)}\n",
        ]
        if listed := options(command):
            parts.append(f".SH OPTIONS\n{listed}")
        if subs:
            parts.append(".SH COMMANDS\n")
            for sub, one in subs.items():
                short = inspect.cleandoc(one.help).split("\n\n")[0].replace("\n", " ")
                parts.append(f".TP\n.BR {roff(f'{name}-{sub}')} (1)\n{roff(short)}\n")
        if above is None or not subs:
            parts.append(STATUS)
        if above:
            parts.append(f".SH SEE ALSO\n.BR {roff(above)} (1)\n")
        found[f"{name}.1"] = "".join(parts)
        for sub, one in subs.items():
            walk(one, [*path, sub], name)

    walk(command, ["torpor"], None)
    return found
