#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Insert the IO boosts of governors/ioboost into a kernel's source tree, or remove them.

    insert.py install LINUX [BOOST.c...]
    insert.py uninstall LINUX

All files go into the folder kernel/sched/ioboost. The tree's files get single marked lines; their
own lines do not change. A place is a function or struct and a line in it that must match exactly
once. If a kernel other than Linux 6.12 lacks a place, nothing is written.
"""

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
BOOSTS = HERE.parents[1] / "governors" / "ioboost"

FOLDER = "kernel/sched/ioboost"

#: Marks at the end of each inserted line, by the file's kind.
MARKS = {".c": " /* torpor */", ".h": " /* torpor */", "": " # torpor"}

MADE_FOR = "Linux 6.12"


class InsertError(Exception):
    """A missing boost, or a place that a tree does not have exactly once."""


@dataclass(frozen=True)
class Hook:
    """One inserted line, after or before the line that matches `anchor`, a regular expression."""

    file: str
    #: The function or struct; empty for the whole file.
    scope: str
    anchor: str
    line: str
    before: bool = False


SCHED_H = "kernel/sched/sched.h"
CORE = "kernel/sched/core.c"
FAIR = "kernel/sched/fair.c"
SUGOV = "kernel/sched/cpufreq_schedutil.c"

HOOKS = (
    Hook("kernel/sched/Makefile", "", r"obj-y \+= fair\.o", "obj-y += ioboost/"),
    # A boost's state of a task is in the task.
    Hook(
        "include/linux/sched.h",
        "",
        r"#include <linux/uidgid_types\.h>",
        f'#include "../../{FOLDER}/ioboost.h"',
    ),
    Hook(
        "include/linux/sched.h",
        "struct task_struct",
        r"struct sched_info\s+sched_info;",
        "struct ioboost_task ioboost;",
    ),
    Hook(SCHED_H, "", r'#include "ext\.h"', '#include "ioboost/hooks.h"'),
    Hook(CORE, "__sched_fork", r"p->on_rq\s+= 0;", "ioboost_fork(p);"),
    # Tasks come and go. The first is before the update of the frequency for IO.
    Hook(
        FAIR,
        "enqueue_task_fair",
        r"if \(flags & ENQUEUE_DELAYED\) \{",
        "ioboost_enqueue(rq, p, flags);",
        before=True,
    ),
    Hook(FAIR, "dequeue_task_fair", r"util_est_update\(.*", "ioboost_dequeue(rq, p, flags);"),
    # The frequency: called where the kernel's own boost is called, asked where that is asked.
    *(
        Hook(
            SUGOV,
            function,
            r"sugov_iowait_boost\(.*",
            "ioboost_update(sg_cpu->cpu, time, flags);",
        )
        for function in ("sugov_update_single_common", "sugov_update_shared")
    ),
    *(
        Hook(
            SUGOV,
            function,
            r"boost = sugov_iowait_apply\(.*",
            f"boost = ioboost_cpu({cpu}->cpu, time, max_cap, boost);",
        )
        for function, cpu in (
            ("sugov_update_single_common", "sg_cpu"),
            ("sugov_next_freq_shared", "j_sg_cpu"),
        )
    ),
    # The least performance, above what limits a task.
    Hook(
        SUGOV,
        "sugov_effective_cpu_perf",
        r"return max\(min, max\);",
        "min = max(min, ioboost_perf(cpu));",
        before=True,
    ),
    # Placement. A boosted task is worth an energy estimate, however little it runs.
    Hook(
        FAIR,
        "find_energy_efficient_cpu",
        r"if \(!task_util_est\(p\).*",
        "if (!ioboost_task(p))",
        before=True,
    ),
    Hook(
        FAIR,
        "find_energy_efficient_cpu",
        r"fits = util_fits_cpu\(.*",
        "if (ioboost_rq(cpu, p) > util) "
        "fits = util_fits_cpu(ioboost_rq(cpu, p), util_min, util_max, cpu);",
    ),
    Hook(
        FAIR,
        "eenv_pd_max_util",
        r"eff_util = effective_cpu_util\(.*",
        "eff_util = max(eff_util, ioboost_rq(cpu, tsk));",
    ),
    *(
        Hook(
            FAIR,
            function,
            r"task_util = task_util_est\(p\);",
            "task_util = max(task_util, ioboost_task(p));",
        )
        for function in ("select_idle_sibling", "select_idle_capacity")
    ),
    # A clamp: what the task has got for itself counts if it is higher.
    Hook(
        CORE,
        "uclamp_eff_value",
        r"if \(p->uclamp\[clamp_id\]\.active\)",
        "if (!ioboost_uclamp(p, clamp_id))",
        before=True,
    ),
    Hook(
        CORE,
        "uclamp_eff_value",
        r"uc_eff = uclamp_eff_get\(.*",
        "uc_eff.value = max_t(unsigned long, uc_eff.value, ioboost_uclamp(p, clamp_id));",
    ),
)


def inserted(linux: Path) -> dict[str, str]:
    """Return the tree's files with the inserted lines, by path; raise InsertError."""
    texts: dict[str, str] = {}
    for hook in HOOKS:
        if hook.file not in texts:
            texts[hook.file] = without(linux, hook.file)
        texts[hook.file] = _insert(texts[hook.file], hook)
    return texts


def without(linux: Path, file: str) -> str:
    """Return a file of the tree without the inserted lines."""
    try:
        text = (linux / file).read_text(encoding="utf-8")
    except OSError as error:
        raise InsertError(
            f"{linux} has no {file}; it is no kernel's source tree, or not all of it"
        ) from error
    mark = MARKS[Path(file).suffix]
    return "".join(line for line in text.splitlines(True) if not line.endswith(f"{mark}\n"))


def _insert(text: str, hook: Hook) -> str:
    begin, end = _scope(text, hook)
    found = list(re.finditer(rf"^([ \t]*){hook.anchor}$", text[begin:end], re.M))
    where = f"{hook.file}: {hook.scope}: " if hook.scope else f"{hook.file}: "
    if len(found) != 1:
        raise InsertError(
            f"{where}{len(found)} lines are like `{hook.anchor}`, instead of one; "
            f"the places are those of {MADE_FOR}"
        )
    line = f"{found[0][1]}{hook.line}{MARKS[Path(hook.file).suffix]}\n"
    at = begin + (found[0].start() if hook.before else found[0].end() + 1)
    return text[:at] + line + text[at:]


def _scope(text: str, hook: Hook) -> tuple[int, int]:
    """Return the start and end of the scope's definition, whose last brace starts a line."""
    if not hook.scope:
        return 0, len(text)
    heads = list(
        re.finditer(rf"^(?:[a-z][^\n;{{}}()]*[ *])?{hook.scope}\b[^;{{}}]*\{{", text, re.M)
    )
    if len(heads) != 1:
        raise InsertError(
            f"{hook.file}: {hook.scope} is defined {len(heads)} times, instead of once; "
            f"the places are those of {MADE_FOR}"
        )
    begin = heads[0].end()
    return begin, text.index("\n}", begin)


def sources(boosts: list[Path]) -> list[Path]:
    """Return the files to copy into the folder; its Makefile is generated."""
    folders = {BOOSTS, *(boost.parent for boost in boosts)}
    for boost in boosts:
        if not boost.is_file() or boost.name == "core.c":
            raise InsertError(f"{boost}: no file of a boost; core.c is what calls them")
        # The name becomes a word of a makefile.
        if not re.fullmatch(r"\w[\w.+-]*", boost.stem, re.A):
            raise InsertError(f"{boost}: expected letters, digits, `_`, `-`, `.`, `+` in the name")
    headers = {header for folder in folders for header in folder.glob("*.h")}
    return [HERE / "core.c", HERE / "hooks.h", *sorted(headers), *boosts]


def install(linux: Path, boosts: list[Path]) -> None:
    """Insert the boosts, or update them."""
    objects = " ".join(f"{file.stem}.o" for file in boosts)
    makefile = f"# SPDX-License-Identifier: GPL-2.0-only\nobj-y += core.o {objects}\n"
    ours = {file.name: file.read_text(encoding="utf-8") for file in sources(boosts)}
    ours["Makefile"] = makefile
    texts = inserted(linux)

    folder = linux / FOLDER
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        if file.name not in ours:
            file.unlink()
    _write(linux, texts)
    _write(folder, ours)


def uninstall(linux: Path) -> None:
    """Remove the boosts: restore the tree."""
    _write(linux, {hook.file: without(linux, hook.file) for hook in HOOKS})
    shutil.rmtree(linux / FOLDER, ignore_errors=True)


def _write(folder: Path, texts: dict[str, str]) -> None:
    """Write only files that differ: a new sched.h rebuilds most of a kernel."""
    for name, text in texts.items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit status."""
    if len(arguments) < 2 or arguments[0] not in ("install", "uninstall"):
        print(__doc__, file=sys.stderr)
        return 2
    action, linux, *files = arguments
    try:
        if action == "install":
            install(Path(linux), [Path(file) for file in files] or sorted(BOOSTS.glob("*.c")))
        else:
            uninstall(Path(linux))
    except InsertError as error:
        print(f"insert.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
