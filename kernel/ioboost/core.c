// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: IO boosts in a kernel
 *
 * All boosts are built in. ioboost=NAME on the kernel's command line selects one; without it the
 * kernel uses its own. In debugfs, ioboost/name is the name, ioboost/asked the number of
 * evaluations of a CPU's utilization with it, and ioboost/other the number of times that the
 * kernel's own boost, which still gets all calls but has no effect, would have given another
 * result.
 */
#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/mmu_context.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include "../sched.h"

const struct ioboost_ops *ioboost __read_mostly;

static char chosen[IOBOOST_NAME_LEN] __initdata;

static atomic_long_t asked = ATOMIC_LONG_INIT(0);
static atomic_long_t other = ATOMIC_LONG_INIT(0);

static int __init ioboost_choose(char *name)
{
	if (strscpy(chosen, name, sizeof(chosen)) < 0)
		pr_err("ioboost: %s is longer than any name\n", name);
	return 0;
}
early_param("ioboost", ioboost_choose);

int __init ioboost_register(const struct ioboost_ops *ops)
{
	if (!strcmp(ops->name, chosen))
		WRITE_ONCE(ioboost, ops);
	return 0;
}

unsigned long ioboost_instead(unsigned int cpu, u64 now, unsigned long max_cap, unsigned long own)
{
	unsigned long boost = ioboost->cpu_boost ? ioboost->cpu_boost(cpu, now, max_cap) : 0;

	atomic_long_inc(&asked);
	if (boost != own)
		atomic_long_inc(&other);
	return boost;
}

static int name_show(struct seq_file *file, void *unused)
{
	seq_printf(file, "%s\n", ioboost ? ioboost->name : "");
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(name);

static int count_get(void *counter, u64 *value)
{
	*value = atomic_long_read(counter);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(count_ops, count_get, NULL, "%llu\n");

static int __init ioboost_init(void)
{
	struct dentry *folder = debugfs_create_dir("ioboost", NULL);

	debugfs_create_file("name", 0444, folder, NULL, &name_fops);
	debugfs_create_file_unsafe("asked", 0444, folder, &asked, &count_ops);
	debugfs_create_file_unsafe("other", 0444, folder, &other, &count_ops);

	if (chosen[0] && !ioboost)
		pr_err("ioboost: there is no %s; the kernel's own boost stays\n", chosen);
	/* uclamp values are used only after one has been set. */
	if (ioboost && ioboost->task_uclamp_min)
		static_branch_enable(&sched_uclamp_used);
	return 0;
}
late_initcall(ioboost_init);
