// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: torpor_core - support for idle governors as modules
 *
 * Linux supports governors only if they are built in: it does not export the functions that they
 * call, and has no function to unregister one. This module finds the functions by name, and removes
 * governors from the core's list after all CPUs have left them.
 *
 * Loading a governor does not make it the current one: it is registered with a rating of 0, whatever
 * its file says.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpuidle.h>
#include <linux/debugfs.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/kvm_para.h>
#include <linux/module.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include "core.h"
#include "log.h"

static bool assume_kvm;
module_param(assume_kvm, bool, 0644);
MODULE_PARM_DESC(assume_kvm, "offer governors for virtual machines outside KVM as well");

DEFINE_STATIC_CALL_NULL(torpor_kallsyms_lookup_name, kallsyms_lookup_name);
DEFINE_STATIC_CALL_NULL(torpor_cpuidle_register_governor, cpuidle_register_governor);
DEFINE_STATIC_CALL_NULL(torpor_cpuidle_switch_governor, cpuidle_switch_governor);

#define TORPOR_DEFINE(name)						\
	DEFINE_STATIC_CALL_NULL(torpor_##name, name);			\
	EXPORT_STATIC_CALL_GPL(torpor_##name);
TORPOR_FUNCTIONS(TORPOR_DEFINE)

bool *torpor_tick_nohz_enabled;
EXPORT_SYMBOL_GPL(torpor_tick_nohz_enabled);

/* The core's own; NULL if the kernel lists no data symbols. */
static struct list_head *governors;
static struct cpuidle_governor **curr_governor;
static struct cpuidle_governor **prev_governor;

/*
 * kallsyms_lookup_name() finds the other symbols, but is not exported. A kprobe, which is exported,
 * finds its address. On x86 that can be past the landing pad; direct calls may go there, too.
 */
static int find_lookup(void)
{
	struct kprobe probe = { .symbol_name = "kallsyms_lookup_name" };
	int ret = register_kprobe(&probe);

	if (ret) {
		pr_err("no probe on kallsyms_lookup_name (%d); it takes CONFIG_KPROBES\n", ret);
		return -ENOENT;
	}
	static_call_update(torpor_kallsyms_lookup_name,
			   (typeof(&kallsyms_lookup_name))probe.addr);
	unregister_kprobe(&probe);
	return 0;
}

static void *find(const char *name)
{
	return (void *)static_call(torpor_kallsyms_lookup_name)(name);
}

/* Returns whether the kernel has the symbol; if so, redirects calls of it there. */
#define TORPOR_FIND(name) ({						\
	typeof(&name) found = find(#name);				\
									\
	if (found)							\
		static_call_update(torpor_##name, found);		\
	else								\
		pr_debug("this kernel has no %s\n", #name);		\
	!!found;							\
})

#define TORPOR_FIND_FOR_GOVERNORS(name)	TORPOR_FIND(name);

static int find_symbols(void)
{
	int ret = find_lookup();

	if (ret)
		return ret;

	if (!TORPOR_FIND(cpuidle_register_governor) || !TORPOR_FIND(cpuidle_switch_governor)) {
		pr_err("this kernel has no cpuidle_%s_governor; it takes CONFIG_CPU_IDLE\n",
		       find("cpuidle_register_governor") ? "switch" : "register");
		return -ENOENT;
	}
	TORPOR_FUNCTIONS(TORPOR_FIND_FOR_GOVERNORS)

	torpor_tick_nohz_enabled = find("tick_nohz_enabled");
	governors = find("cpuidle_governors");
	curr_governor = find("cpuidle_curr_governor");
	prev_governor = find("cpuidle_prev_governor");
	return 0;
}

/* On a kernel for one CPU, governor.h provides it. */
static bool is_replaced(const char *name)
{
	return !IS_ENABLED(CONFIG_SMP) && !strcmp(name, "sched_cpu_util");
}

/**
 * torpor_find_needs - whether this kernel has what a governor calls
 * @governor: its name, for the log
 * @needs: the symbols' names, a space after each
 *
 * Return: 0, or -ENOENT for the first symbol that is missing, which the log names.
 */
int torpor_find_needs(const char *governor, const char *needs)
{
	while (*needs) {
		char name[KSYM_NAME_LEN];
		size_t length = strchrnul(needs, ' ') - needs;

		strscpy(name, needs, min(length + 1, sizeof(name)));
		if (!find(name) && !is_replaced(name)) {
			pr_err("%s needs %s, which this kernel does not have\n", governor, name);
			return -ENOENT;
		}
		needs += length + 1;
	}
	return 0;
}
EXPORT_SYMBOL_GPL(torpor_find_needs);

/**
 * torpor_register_governor - cpuidle_register_governor() for a module
 * @gov: the governor
 * @name: under which it is offered, whatever @gov says
 *
 * Return: 0; -EEXIST if there is a governor of this name; -ENODEV if CPU idling is off.
 */
int torpor_register_governor(struct cpuidle_governor *gov, const char *name)
{
	int ret;

	strscpy(gov->name, name, sizeof(gov->name));
	gov->rating = 0;
	ret = static_call(torpor_cpuidle_register_governor)(gov);
	if (ret)
		pr_err("cannot register %s: %d%s\n", name, ret,
		       ret == -EEXIST ? ", there is one of this name" : "");
	return ret;
}
EXPORT_SYMBOL_GPL(torpor_register_governor);

/* Replaces the current governor when it goes away and no device uses it. */
static struct cpuidle_governor *best_governor(void)
{
	struct cpuidle_governor *gov, *best = NULL;

	list_for_each_entry(gov, governors, governor_list) {
		if (!best || gov->rating > best->rating)
			best = gov;
	}
	return best;
}

/**
 * torpor_unregister_governor - the inverse that the kernel does not have
 * @gov: the governor; no device is enabled with it, or its module would be in use
 *
 * torpor_can_unregister() has ensured that another governor exists. The core's pointer changes from
 * this governor to that one and is never NULL in between, since a CPU that wakes up reads it
 * without a lock. When this returns, no CPU is inside the governor or can enter it.
 */
void torpor_unregister_governor(struct cpuidle_governor *gov)
{
	/*
	 * Takes cpuidle_lock, of which this is the only exported user, and waits until no CPU is in
	 * select().
	 */
	cpuidle_pause_and_lock();
	list_del(&gov->governor_list);
	if (prev_governor && *prev_governor == gov)
		*prev_governor = NULL;
	if (curr_governor && *curr_governor == gov)
		static_call(torpor_cpuidle_switch_governor)(best_governor());
	cpuidle_resume_and_unlock();

	/* A CPU that slept through all this may have entered reflect() since. */
	synchronize_rcu();
}
EXPORT_SYMBOL_GPL(torpor_unregister_governor);

/**
 * torpor_can_unregister - whether a registered governor can be removed later
 *
 * This needs the core's variables, because only they show the current governor, and another
 * governor to replace it. The first governor of a kernel stays, so that the others have a
 * replacement.
 */
bool torpor_can_unregister(void)
{
	bool is_alone;

	if (!governors || !curr_governor)
		return false;
	cpuidle_pause_and_lock();
	is_alone = list_is_singular(governors);
	cpuidle_resume_and_unlock();
	return !is_alone;
}
EXPORT_SYMBOL_GPL(torpor_can_unregister);

bool torpor_kvm_para_available(void)
{
	return assume_kvm || kvm_para_available();
}
EXPORT_SYMBOL_GPL(torpor_kvm_para_available);

/* In debugfs: the log, and the counts of governors' timers. */
static struct dentry *folder, *timers_folder;

static int timers_show(struct seq_file *to, void *unused)
{
	struct torpor_timers __percpu *timers = (__force struct torpor_timers __percpu *)to->private;
	int cpu;

	seq_puts(to, "cpu idle busy\n");
	for_each_possible_cpu(cpu) {
		const struct torpor_timers *here = per_cpu_ptr(timers, cpu);

		seq_printf(to, "%d %lu %lu\n", cpu, here->idle, here->busy);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(timers);

/**
 * torpor_show_timers - a file of a governor's name with its counts, for debugfs_remove()
 * @governor: the name
 * @timers: the counts, which outlive the file
 */
struct dentry *torpor_show_timers(const char *governor, struct torpor_timers __percpu *timers)
{
	return debugfs_create_file(governor, 0444, timers_folder, (__force void *)timers,
				   &timers_fops);
}
EXPORT_SYMBOL_GPL(torpor_show_timers);

static int __init torpor_core_init(void)
{
	int ret = find_symbols();

	if (ret)
		return ret;
	folder = debugfs_create_dir("torpor", NULL);
	timers_folder = debugfs_create_dir("timers", folder);
	ret = torpor_log_start(folder);
	if (ret) {
		debugfs_remove_recursive(folder);
		torpor_log_stop();
	}
	return ret;
}

/* Governors use symbols of this module and so hold a reference: none is left. */
static void __exit torpor_core_exit(void)
{
	debugfs_remove_recursive(folder);
	torpor_log_stop();
}

module_init(torpor_core_init);
module_exit(torpor_core_exit);

MODULE_DESCRIPTION("Makes loadable modules of idle governors");
MODULE_VERSION(TORPOR_VERSION);
MODULE_LICENSE("GPL");
