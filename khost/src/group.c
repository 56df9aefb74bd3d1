// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Control groups: the part of kernel/cgroup/ that the scheduler's controller sees. It has the tree
 * of groups, the tasks of each, and writes and reads of the controller's files, whose handlers are
 * the kernel's own. There is one hierarchy, the unified one.
 */
#include <linux/cgroup.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/kernfs.h>
#include <linux/kstrtox.h>
#include <linux/math64.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include "host.h"

#define CONTROLLER "cpu."

struct group {
	struct list_head list;
	/* From the root, without a slash at its beginning. */
	char *path;
	/* CPU time of its tasks and of those in groups below. */
	u64 usage_ns;
	struct css_set set;
	/* Has a flexible array at its end. */
	struct cgroup cgroup;
};

struct css_set init_css_set;
DEFINE_SPINLOCK(css_set_lock);
DEFINE_MUTEX(cgroup_mutex);
DEFINE_STATIC_KEY_TRUE(cpu_cgrp_subsys_enabled_key);
DEFINE_STATIC_KEY_TRUE(cpu_cgrp_subsys_on_dfl_key);

static LIST_HEAD(groups);
static struct cgroup root;

static struct group *group_of(struct cgroup *cgroup)
{
	return container_of(cgroup, struct group, cgroup);
}

static void init_set(struct css_set *set, struct cgroup *cgroup, struct cgroup_subsys_state *css)
{
	set->dfl_cgrp = cgroup;
	set->dom_cset = set;
	set->subsys[cpu_cgrp_id] = css;
	INIT_LIST_HEAD(&set->tasks);
}

static void init_css(struct cgroup_subsys_state *css, struct cgroup *cgroup,
		     struct cgroup_subsys_state *parent)
{
	css->cgroup = cgroup;
	css->ss = &cpu_cgrp_subsys;
	css->parent = parent;
	css->flags = CSS_NO_REF | CSS_ONLINE;
	INIT_LIST_HEAD(&css->children);
	INIT_LIST_HEAD(&css->sibling);
	cgroup->subsys[cpu_cgrp_id] = css;
}

/* Runs before any task is made. */
void khost_init_groups(void)
{
	struct cgroup_subsys_state *css = cpu_cgrp_subsys.css_alloc(NULL);

	init_css(css, &root, NULL);
	init_set(&init_css_set, &root, css);
}

/* Returns null if there is no such group. */
static struct css_set *set_of(const char *path, size_t len)
{
	struct group *group;

	if (!len)
		return &init_css_set;
	list_for_each_entry(group, &groups, list) {
		if (!strncmp(group->path, path, len) && !group->path[len])
			return &group->set;
	}
	return NULL;
}

/* The length of the path of the group above. */
static size_t above_len(const char *path, size_t len)
{
	while (len && path[len - 1] != '/')
		len--;
	return len ? len - 1 : 0;
}

/* Like mkdir() of @path, whose first @len characters count. */
static int make_group(const char *path, size_t len)
{
	struct css_set *above = set_of(path, above_len(path, len));
	struct cgroup_subsys_state *parent, *css;
	struct group *group;

	if (set_of(path, len))
		return -EEXIST;
	if (!above)
		return -ENOENT;
	parent = above->subsys[cpu_cgrp_id];
	css = cpu_cgrp_subsys.css_alloc(parent);
	if (IS_ERR(css))
		return PTR_ERR(css);
	group = khost_alloc(sizeof(*group));
	group->path = khost_alloc(len + 1);
	memcpy(group->path, path, len);
	group->cgroup.self.parent = &parent->cgroup->self;
	init_css(css, &group->cgroup, parent);
	init_set(&group->set, &group->cgroup, css);
	list_add_tail(&css->sibling, &parent->children);
	list_add_tail(&group->list, &groups);
	return cpu_cgrp_subsys.css_online(css);
}

/* Tasks of a group. */

struct css_set *khost_group(unsigned int number)
{
	struct group *group;

	if (!number)
		return &init_css_set;
	list_for_each_entry(group, &groups, list) {
		if (!--number)
			return &group->set;
	}
	khost_trouble(KHOST_PANIC, "no such control group");
}

void khost_group_join(struct task_struct *task, struct css_set *set)
{
	rcu_assign_pointer(task->cgroups, set);
	list_add_tail(&task->cg_list, &set->tasks);
}

void khost_group_leave(struct task_struct *task)
{
	list_del_init(&task->cg_list);
}

/* The iterator's list is that of the css alone, without those below. */
void css_task_iter_start(struct cgroup_subsys_state *css, unsigned int flags,
			 struct css_task_iter *it)
{
	struct cgroup *cgroup = css->cgroup;
	struct css_set *set = cgroup == &root ? &init_css_set : &group_of(cgroup)->set;

	*it = (struct css_task_iter){ .flags = flags, .task_pos = set->tasks.next,
				      .cur_tasks_head = &set->tasks };
}

struct task_struct *css_task_iter_next(struct css_task_iter *it)
{
	struct list_head *at = it->task_pos;

	if (at == it->cur_tasks_head)
		return NULL;
	it->task_pos = at->next;
	return list_entry(at, struct task_struct, cg_list);
}

void css_task_iter_end(struct css_task_iter *it)
{
}

/* The tree. */

static struct cgroup_subsys_state *after(struct cgroup_subsys_state *css,
					 struct cgroup_subsys_state *top)
{
	for (; css != top; css = css->parent) {
		if (!list_is_last(&css->sibling, &css->parent->children))
			return list_next_entry(css, sibling);
	}
	return NULL;
}

struct cgroup_subsys_state *css_next_descendant_pre(struct cgroup_subsys_state *css,
						    struct cgroup_subsys_state *top)
{
	if (!css)
		return top;
	if (!list_empty(&css->children))
		return list_first_entry(&css->children, struct cgroup_subsys_state, sibling);
	return after(css, top);
}

struct cgroup_subsys_state *css_rightmost_descendant(struct cgroup_subsys_state *css)
{
	while (!list_empty(&css->children))
		css = list_last_entry(&css->children, struct cgroup_subsys_state, sibling);
	return css;
}

void __cgroup_account_cputime(struct cgroup *cgroup, u64 delta_ns)
{
	for (; cgroup != &root; cgroup = cgroup_parent(cgroup))
		group_of(cgroup)->usage_ns += delta_ns;
}

/* Of ticks: how much was the kernel's own, in which all time here is not. */
void __cgroup_account_cputime_field(struct cgroup *cgroup, enum cpu_usage_stat index, u64 delta_ns)
{
}

/* Phases of the periods of quotas, as for every random number in a run, come from the run's seed. */
u32 get_random_u32(void)
{
	static struct rnd_state state;
	static bool is_seeded;

	if (!is_seeded)
		prandom_seed_state(&state, khost_machine->seed);
	is_seeded = true;
	return prandom_u32_state(&state);
}

u32 __get_random_u32_below(u32 ceiling)
{
	return reciprocal_scale(get_random_u32(), ceiling);
}

/* Files. */

struct cgroup_subsys_state *of_css(struct kernfs_open_file *of)
{
	return of->priv;
}

/* A number with up to @digits digits behind its point, as an integer of the last one. */
int cgroup_parse_float(const char *text, unsigned int digits, s64 *value)
{
	const char *point = strchrnul(text, '.');
	unsigned long long whole = 0, part = 0;
	char before[24];

	if (point - text >= sizeof(before) || strlen(point) > digits + 1)
		return -EINVAL;
	strscpy(before, text, point - text + 1);
	if (kstrtoull(before, 10, &whole))
		return -EINVAL;
	if (*point && kstrtoull(point + 1, 10, &part))
		return -EINVAL;
	for (size_t have = *point ? strlen(point + 1) : 0; have < digits; have++)
		part *= 10;
	while (digits--)
		whole *= 10;
	*value = whole + part;
	return 0;
}

struct group_file {
	struct css_set *set;
	struct cftype *file;
};

static int store(void *data, const char *line, size_t len)
{
	const struct group_file *to = data;
	struct cgroup_subsys_state *css = to->set->subsys[cpu_cgrp_id];
	struct cftype *file = to->file;
	unsigned long long u64_value;
	long long s64_value;
	char value[64], *text;

	strscpy(value, line, sizeof(value));
	text = strim(value);
	if (file->write) {
		struct kernfs_open_file of = { .priv = css };
		ssize_t written = file->write(&of, text, strlen(text), 0);

		return min_t(ssize_t, written, 0);
	}
	if (file->write_u64)
		return kstrtoull(text, 0, &u64_value) ?: file->write_u64(css, file, u64_value);
	return kstrtoll(text, 0, &s64_value) ?: file->write_s64(css, file, s64_value);
}

/* Registers a group's files that can be written. */
static void register_files(const char *group, struct css_set *set, struct cftype *file)
{
	for (; file && *file->name; file++) {
		struct group_file *to;

		if (!file->write && !file->write_u64 && !file->write_s64)
			continue;
		to = khost_alloc(sizeof(*to));
		to->set = set;
		to->file = file;
		khost_register_file(kasprintf(GFP_KERNEL, "/sys/fs/cgroup/%s/" CONTROLLER "%s",
					      group, file->name),
				    store, to);
	}
}

/*
 * Makes the groups of the machine's list. Each has the files of the unified hierarchy and those of
 * version 1, which exist only if something is written.
 */
void khost_make_groups(void)
{
	if (khost_machine->groups)
		khost_give_idle_tasks();
	for (unsigned int i = 0; i < khost_machine->groups; i++) {
		const char *path = khost_machine->group[i];
		size_t len = strlen(path);
		int error = make_group(path, len);

		if (error)
			khost_trouble(KHOST_REFUSED, "it refuses the control group %s: %pe", path,
				      ERR_PTR(error));
		if (!khost_machine->has_writes && !khost_machine->has_later_writes)
			continue;
		register_files(path, set_of(path, len), cpu_cgrp_subsys.dfl_cftypes);
		register_files(path, set_of(path, len), cpu_cgrp_subsys.legacy_cftypes);
	}
}

/* What a file shows. */

static void print(struct seq_file *file, const char *fmt, va_list args)
{
	if (file->count < file->size)
		file->count += vscnprintf(file->buf + file->count, file->size - file->count, fmt,
					  args);
}

int seq_write(struct seq_file *file, const void *text, size_t len)
{
	len = min(len, file->size - file->count);
	memcpy(file->buf + file->count, text, len);
	file->count += len;
	return 0;
}

void seq_printf(struct seq_file *file, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print(file, fmt, args);
	va_end(args);
}

/* Writes cpu.stat of a group, by its number, to @text, which has room for KHOST_STAT_LEN bytes. */
int khost_group_stat(void *text, unsigned long number)
{
	struct css_set *set = khost_group(number);
	struct seq_file file = { .buf = text, .size = KHOST_STAT_LEN };

	seq_printf(&file, "usage_usec %llu\n",
		   div_u64(group_of(set->dfl_cgrp)->usage_ns, NSEC_PER_USEC));
	cpu_cgrp_subsys.css_extra_stat_show(&file, set->subsys[cpu_cgrp_id]);
	return 0;
}
