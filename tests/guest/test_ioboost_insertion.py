# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""IO boosts are put into a kernel's source tree: at their places, or not at all."""

import re
from pathlib import Path

import pytest
from sources import kernel_sources

from ioboost import insert

ROOT = Path(__file__).resolve().parents[2]

BOOSTS = sorted((ROOT / "governors" / "ioboost").glob("*.c"))

#: As much of a tree as has the places, in no more than their own lines.
PLACES = {
    "kernel/sched/Makefile": "obj-y += fair.o\n",
    "include/linux/sched.h": """
#include <linux/uidgid_types.h>
struct task_struct;
struct task_struct {
	struct sched_info		sched_info;
};
""",
    "kernel/sched/sched.h": '#include "ext.h"\n',
    "kernel/sched/core.c": """
unsigned long uclamp_eff_value(struct task_struct *p, enum uclamp_id clamp_id)
{
	if (p->uclamp[clamp_id].active)
		return 1;
	uc_eff = uclamp_eff_get(p);
	return 0;
}
static void __sched_fork(struct task_struct *p)
{
	p->on_rq = 0;
}
void other(struct task_struct *p)
{
	__sched_fork(p);
	p->on_rq = 0;
}
""",
    "kernel/sched/fair.c": """
static bool dequeue_task_fair(int);
enqueue_task_fair(struct rq *rq)
{
	if (flags & ENQUEUE_DELAYED) {
	}
}
static bool dequeue_task_fair(int flags)
{
	util_est_update(flags);
}
static unsigned long
eenv_pd_max_util(struct task_struct *p)
{
	for (;;) {
		eff_util = effective_cpu_util(cpu);
	}
}
static int find_energy_efficient_cpu(struct task_struct *p)
{
	if (!task_util_est(p) && more)
		return 0;
	fits = util_fits_cpu(util);
}
static int select_idle_sibling(struct task_struct *p)
{
	task_util = task_util_est(p);
}
static int
select_idle_capacity(struct task_struct *p)
{
	task_util = task_util_est(p);
}
""",
    "kernel/sched/cpufreq_schedutil.c": """
static void sugov_iowait_boost(int flags)
{
}
static bool sugov_update_single_common(int flags)
{
	sugov_iowait_boost(flags);
	boost = sugov_iowait_apply(time);
}
unsigned long sugov_effective_cpu_perf(int min, int max)
{
	return max(min, max);
}
static int sugov_next_freq_shared(int time)
{
	boost = sugov_iowait_apply(time);
}
static void
sugov_update_shared(int flags)
{
	sugov_iowait_boost(flags);
}
""",
}


@pytest.fixture
def tree(tmp_path) -> Path:
    for name, text in PLACES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def linux() -> Path:
    """Return the packaged source of Linux 6.12, as far as boosts have places in it."""
    return kernel_sources("6.12")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_insertion_changes_only_its_places(tree):
    insert.install(tree, BOOSTS)
    for name, text in PLACES.items():
        lines = (tree / name).read_text(encoding="utf-8").splitlines()
        ours = [line for line in lines if line.endswith(insert.MARKS[Path(name).suffix])]
        assert len(ours) == sum(hook.file == name for hook in insert.HOOKS)
        assert [line for line in lines if line not in ours] == text.splitlines()


def test_inserted_line_is_in_its_function(tree):
    insert.install(tree, BOOSTS)
    text = (tree / "kernel/sched/core.c").read_text(encoding="utf-8")
    assert "\tp->on_rq = 0;\n\tioboost_fork(p); /* torpor */\n}\nvoid other" in text
    assert "\tif (!ioboost_uclamp(p, clamp_id)) /* torpor */\n\tif (p->uclamp[" in text


def test_all_boosts_are_built_as_they_are(tree):
    insert.install(tree, BOOSTS)
    folder = tree / insert.FOLDER
    made = (folder / "Makefile").read_text(encoding="utf-8")
    for boost in BOOSTS:
        assert (folder / boost.name).read_bytes() == boost.read_bytes()
        assert f" {boost.stem}.o" in made


def test_to_install_again_changes_nothing(tree):
    insert.install(tree, BOOSTS)
    once = contents(tree)
    times = {name: (tree / name).stat().st_mtime_ns for name in PLACES}
    insert.install(tree, BOOSTS)
    assert contents(tree) == once
    assert {name: (tree / name).stat().st_mtime_ns for name in PLACES} == times


def test_uninstall_restores_the_tree(tree):
    before = contents(tree)
    insert.install(tree, BOOSTS)
    insert.uninstall(tree)
    assert contents(tree) == before


@pytest.mark.parametrize("hook", insert.HOOKS, ids=lambda hook: f"{hook.scope}-{hook.line[:24]}")
@pytest.mark.parametrize("count", [0, 2])
def test_an_ambiguous_place_is_named_and_nothing_written(tree, hook, count, capsys):
    path = tree / hook.file
    text = path.read_text(encoding="utf-8")
    # The place in question, which other functions may have, too.
    begin, end = insert._scope(text, hook)
    place = re.search(rf"^[ \t]*{hook.anchor}\n", text[begin : end + 1], re.M)
    at, behind = begin + place.start(), begin + place.end()
    path.write_text(text[:at] + count * place[0] + text[behind:], encoding="utf-8")
    before = contents(tree)
    assert insert.main(["install", str(tree)]) == 2
    said = capsys.readouterr().err
    assert hook.file in said and hook.scope in said
    assert f"{count} lines are like `{hook.anchor}`" in said
    assert contents(tree) == before


def test_missing_function_is_named(tree, capsys):
    path = tree / "kernel/sched/fair.c"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("find_energy_efficient_cpu", "place"), encoding="utf-8")
    assert insert.main(["install", str(tree)]) == 2
    assert "find_energy_efficient_cpu is defined 0 times" in capsys.readouterr().err


def test_an_unknown_boost_is_named_and_nothing_written(tree, capsys):
    before = contents(tree)
    assert insert.main(["install", str(tree), "missing.c"]) == 2
    assert "missing.c: no file of a boost" in capsys.readouterr().err
    assert contents(tree) == before


def test_a_folder_that_is_no_tree_is_refused(tmp_path, capsys):
    assert insert.main(["install", str(tmp_path)]) == 2
    assert "is no kernel's source tree" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_packaged_source_has_every_place(linux):
    texts = insert.inserted(linux)
    for name, text in texts.items():
        mark = insert.MARKS[Path(name).suffix]
        assert text.count(f"{mark}\n") == sum(hook.file == name for hook in insert.HOOKS)


def test_a_hook_quotes_only_its_anchor(linux):
    texts = {hook.file: insert.without(linux, hook.file) for hook in insert.HOOKS}
    theirs = {line.strip() for text in texts.values() for line in text.splitlines()}
    for hook in insert.HOOKS:
        assert "ioboost" in hook.line and hook.line not in theirs
        assert len(hook.anchor) <= 45 and "\n" not in hook.anchor
    long = {line for line in theirs if len(line) > 45 and not line.startswith(("/", "*", "#"))}
    for file in ("core.c", "hooks.h"):
        lines = (ROOT / "kernel" / "ioboost" / file).read_text(encoding="utf-8").splitlines()
        assert not long & {line.strip() for line in lines}
