// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Writable files of sysfs, procfs, debugfs and devices. The kernel registers them, as at a real
 * start; a write calls the function that the kernel has for it. Nothing reads them, so that files
 * without a write function are left out.
 */
/* Prototypes differ between releases; callers pass the same arguments. */
#define misc_register kernels_misc_register
#define sysfs_create_file_ns kernels_sysfs_create_file_ns
#define sysfs_remove_file_ns kernels_sysfs_remove_file_ns
#define sysfs_create_dir_ns kernels_sysfs_create_dir_ns
#define sysfs_create_groups kernels_sysfs_create_groups
#define sysfs_remove_groups kernels_sysfs_remove_groups
#include <linux/debugfs.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/kthread.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/utsname.h>
#include <asm/page.h>
#undef misc_register
#undef sysfs_create_file_ns
#undef sysfs_remove_file_ns
#undef sysfs_create_dir_ns
#undef sysfs_create_groups
#undef sysfs_remove_groups
#include "host.h"

/* For a reader of `sched/debug`. */
struct uts_namespace init_uts_ns;

struct khost_file {
	struct list_head list;
	/* The kernel's object that has the file, with which it is removed. */
	const void *owner;
	/* Path from the root of its file system, or from its object. */
	const char *folder, *name;
	int (*store)(struct khost_file *file, const char *text, size_t len);
	void *data;
	int (*store_data)(void *data, const char *text, size_t len);
	unsigned int number;
};

static LIST_HEAD(files);
static unsigned int last_number;
/* Increases when a file is registered or removed. */
unsigned int khost_files_generation;

static struct khost_file *add_file(const void *owner, const char *folder, const char *name)
{
	struct khost_file *file = khost_alloc(sizeof(*file));

	file->owner = owner;
	file->folder = folder;
	file->name = name;
	file->number = ++last_number;
	khost_files_generation++;
	list_add_tail(&file->list, &files);
	return file;
}

static void remove_files(const void *owner, const void *data)
{
	struct khost_file *file, *next;

	list_for_each_entry_safe(file, next, &files, list) {
		if (file->owner != owner || (data && file->data != data))
			continue;
		list_del(&file->list);
		khost_free(file);
		khost_files_generation++;
	}
}

static int store_data(struct khost_file *file, const char *text, size_t len)
{
	return file->store_data(file->data, text, len);
}

/*
 * Registers a file that is no object's: @store gets @data and what is written, which ends with a
 * NUL, and returns 0 or a negative error. The caller keeps the path.
 */
void khost_register_file(const char *path, int (*store)(void *data, const char *text, size_t len),
			 void *data)
{
	struct khost_file *file = add_file(NULL, NULL, path);

	file->store = store_data;
	file->store_data = store;
	file->data = data;
}

/* Sysfs: folders are objects, of which lib/kobject.c has names and parents. */

static int store_attribute(struct khost_file *file, const char *text, size_t len)
{
	struct kobject *object = (struct kobject *)file->owner;
	const struct sysfs_ops *ops = object->ktype->sysfs_ops;
	ssize_t result = ops->store(object, file->data, text, len);

	return min_t(ssize_t, result, 0);
}

static int add_attribute(struct kobject *object, const char *folder, const struct attribute *attr)
{
	struct khost_file *file;

	if (!(attr->mode & 0222) || !object->ktype || !object->ktype->sysfs_ops)
		return 0;
	file = add_file(object, folder, attr->name);
	file->store = store_attribute;
	file->data = (void *)attr;
	return 0;
}

int sysfs_add_file_to_group(struct kobject *object, const struct attribute *attr, const char *group)
{
	return add_attribute(object, group, attr);
}

int sysfs_create_file_ns(struct kobject *object, const struct attribute *attr, const void *ns)
{
	return add_attribute(object, NULL, attr);
}

void sysfs_remove_file_ns(struct kobject *object, const struct attribute *attr, const void *ns)
{
	remove_files(object, attr);
}

int device_create_file(struct device *device, const struct device_attribute *attr)
{
	return add_attribute(&device->kobj, NULL, &attr->attr);
}

void device_remove_file(struct device *device, const struct device_attribute *attr)
{
	remove_files(&device->kobj, &attr->attr);
}

int sysfs_create_group(struct kobject *object, const struct attribute_group *group)
{
	struct attribute **at;

	for (at = group->attrs; at && *at; at++) {
		if (!group->is_visible || group->is_visible(object, *at, at - group->attrs))
			add_attribute(object, group->name, *at);
	}
	return 0;
}

void sysfs_remove_group(struct kobject *object, const struct attribute_group *group)
{
	struct attribute **at;

	for (at = group->attrs; at && *at; at++)
		remove_files(object, *at);
}

int sysfs_merge_group(struct kobject *object, const struct attribute_group *group)
{
	return sysfs_create_group(object, group);
}

void sysfs_unmerge_group(struct kobject *object, const struct attribute_group *group)
{
	sysfs_remove_group(object, group);
}

int sysfs_create_groups(struct kobject *object, const struct attribute_group **groups)
{
	for (; groups && *groups; groups++)
		sysfs_create_group(object, *groups);
	return 0;
}

void sysfs_remove_groups(struct kobject *object, const struct attribute_group **groups)
{
	for (; groups && *groups; groups++)
		sysfs_remove_group(object, *groups);
}

int sysfs_create_dir_ns(struct kobject *object, const void *ns)
{
	return 0;
}

void sysfs_remove_dir(struct kobject *object)
{
	remove_files(object, NULL);
}

/* A link to an object: /sys/devices/system/cpu/cpu0/cpufreq is another name of a policy. */

struct link {
	struct list_head list;
	struct kobject *from, *to;
	const char *name;
};

static LIST_HEAD(links);

int sysfs_create_link(struct kobject *from, struct kobject *to, const char *name)
{
	struct link *link = khost_alloc(sizeof(*link));

	*link = (struct link) { .from = from, .to = to, .name = name };
	list_add_tail(&link->list, &links);
	khost_files_generation++;
	return 0;
}

void sysfs_remove_link(struct kobject *from, const char *name)
{
	struct link *link, *next;

	list_for_each_entry_safe(link, next, &links, list) {
		if (link->from != from || strcmp(link->name, name))
			continue;
		list_del(&link->list);
		khost_free(link);
		khost_files_generation++;
	}
}

/* No device is ever removed. */
void *devm_kmalloc(struct device *device, size_t size, gfp_t flags)
{
	return khost_alloc(size);
}

/* Attributes of devices. */

static ssize_t store_device(struct kobject *object, struct attribute *attr, const char *text,
			    size_t len)
{
	struct device_attribute *of_device = container_of(attr, struct device_attribute, attr);

	return of_device->store ? of_device->store(kobj_to_dev(object), of_device, text, len) : -EIO;
}

static const struct sysfs_ops device_ops = { .store = store_device };
static const struct kobj_type device_type = { .sysfs_ops = &device_ops };

void khost_add_device(struct device *device, struct kobject *parent, const char *name)
{
	kobject_init(&device->kobj, (struct kobj_type *)&device_type);
	if (kobject_add(&device->kobj, parent, "%s", name))
		khost_trouble(KHOST_PANIC, "no folder %s", name);
}

/* Files with operations: of debugfs and of devices. */

unsigned long _copy_from_user(void *to, const void __user *from, unsigned long len)
{
	memcpy(to, (const void *)from, len);
	return 0;
}

int simple_open(struct inode *inode, struct file *file)
{
	file->private_data = inode->i_private;
	return 0;
}

static struct file *open_file(const struct file_operations *ops, void *private)
{
	struct inode *inode = khost_alloc(sizeof(*inode));
	struct file *file = khost_alloc(sizeof(*file));

	inode->i_private = private;
	file->f_inode = inode;
	file->f_op = ops;
	if (!ops->open || !ops->open(inode, file))
		return file;
	khost_free(inode);
	khost_free(file);
	return NULL;
}

static int write_file(struct file *file, const char *text, size_t len)
{
	loff_t pos = 0;
	ssize_t result = file->f_op->write(file, (const char __user *)text, len, &pos);

	return min_t(ssize_t, result, 0);
}

static void close_file(struct file *file)
{
	if (file->f_op->release)
		file->f_op->release(file->f_inode, file);
	khost_free(file->f_inode);
	khost_free(file);
}

int single_open(struct file *file, int (*show)(struct seq_file *, void *), void *data)
{
	struct seq_file *seq = khost_alloc(sizeof(*seq));

	seq->private = data;
	file->private_data = seq;
	return 0;
}

int single_release(struct inode *inode, struct file *file)
{
	khost_free(file->private_data);
	return 0;
}

/* Debugfs. A folder has only its name and its parent. */

struct folder {
	struct dentry dentry;
	struct folder *parent;
	const char *name;
};

struct dentry *debugfs_create_dir(const char *name, struct dentry *parent)
{
	struct folder *folder = khost_alloc(sizeof(*folder));

	folder->parent = (struct folder *)parent;
	folder->name = kstrdup(name, GFP_KERNEL);
	return &folder->dentry;
}

struct debugfs_data {
	const struct file_operations *ops;
	void *private;
};

static int store_debugfs(struct khost_file *file, const char *text, size_t len)
{
	struct debugfs_data *data = file->data;
	struct file *opened = open_file(data->ops, data->private);
	int result;

	if (!opened)
		return -EIO;
	result = write_file(opened, text, len);
	close_file(opened);
	return result;
}

static struct dentry *add_debugfs_file(const char *name, umode_t mode, struct dentry *parent,
				       void *data, const struct file_operations *ops)
{
	struct khost_file *file;
	struct debugfs_data *both;

	if (!(mode & 0222) || !ops->write)
		return parent;
	both = khost_alloc(sizeof(*both));
	both->ops = ops;
	both->private = data;
	file = add_file(parent, "debugfs", kstrdup(name, GFP_KERNEL));
	file->store = store_debugfs;
	file->data = both;
	return parent;
}

#ifdef KHOST_HAS_DEBUGFS_CREATE_FILE_FULL

/* A macro of the header chooses one of two functions by the type of the operations. */
#ifdef KHOST_HAS_DEBUGFS_CREATE_FILE_AUX
#define AUX , const void *aux
#else
#define AUX
#endif

struct dentry *debugfs_create_file_full(const char *name, umode_t mode, struct dentry *parent,
					void *data AUX, const struct file_operations *ops)
{
	return add_debugfs_file(name, mode, parent, data, ops);
}

struct dentry *debugfs_create_file_short(const char *name, umode_t mode, struct dentry *parent,
					 void *data AUX, const struct debugfs_short_fops *ops)
{
	struct file_operations *full = khost_alloc(sizeof(*full));

	full->open = simple_open;
	full->write = ops->write;
	return add_debugfs_file(name, mode, parent, data, full);
}

#else

struct dentry *debugfs_create_file(const char *name, umode_t mode, struct dentry *parent, void *data,
				   const struct file_operations *ops)
{
	return add_debugfs_file(name, mode, parent, data, ops);
}

#endif

struct dentry *debugfs_create_file_unsafe(const char *name, umode_t mode, struct dentry *parent,
					  void *data, const struct file_operations *ops)
{
	return add_debugfs_file(name, mode, parent, data, ops);
}

ssize_t debugfs_write_file_bool(struct file *file, const char __user *text, size_t len,
				loff_t *pos)
{
	int result = kstrtobool((const char *)text, file->private_data);

	return result ?: len;
}

static int store_u32(struct khost_file *file, const char *text, size_t len)
{
	return kstrtou32(text, 0, file->data);
}

static int store_u64(struct khost_file *file, const char *text, size_t len)
{
	return kstrtou64(text, 0, file->data);
}

static int store_bool(struct khost_file *file, const char *text, size_t len)
{
	return kstrtobool(text, file->data);
}

static void add_number(const char *name, umode_t mode, struct dentry *parent, void *value,
		       int (*store)(struct khost_file *file, const char *text, size_t len))
{
	struct khost_file *file;

	if (!(mode & 0222))
		return;
	file = add_file(parent, "debugfs", kstrdup(name, GFP_KERNEL));
	file->store = store;
	file->data = value;
}

void debugfs_create_u32(const char *name, umode_t mode, struct dentry *parent, u32 *value)
{
	add_number(name, mode, parent, value, store_u32);
}

void debugfs_create_u64(const char *name, umode_t mode, struct dentry *parent, u64 *value)
{
	add_number(name, mode, parent, value, store_u64);
}

void debugfs_create_bool(const char *name, umode_t mode, struct dentry *parent, bool *value)
{
	add_number(name, mode, parent, value, store_bool);
}

void debugfs_create_ulong(const char *name, umode_t mode, struct dentry *parent,
			  unsigned long *value)
{
	add_number(name, mode, parent, value, store_u64);
}

static bool is_debugfs(const struct khost_file *file)
{
	return file->store == store_debugfs || file->store == store_u32 ||
	       file->store == store_u64 || file->store == store_bool;
}

static bool is_below(const struct folder *folder, const struct folder *parent, const char *name)
{
	for (; folder; folder = folder->parent) {
		if (name ? folder->parent == parent && !strcmp(folder->name, name) : folder == parent)
			return true;
	}
	return false;
}

/* Removes the files of a folder and of those below it. */
static void remove_folder(const struct folder *parent, const char *name)
{
	struct khost_file *file, *next;

	list_for_each_entry_safe(file, next, &files, list) {
		if (!is_debugfs(file) || !is_below(file->owner, parent, name))
			continue;
		list_del(&file->list);
		khost_free(file);
		khost_files_generation++;
	}
}

void debugfs_remove(struct dentry *folder)
{
	if (folder)
		remove_folder((struct folder *)folder, NULL);
}

void debugfs_lookup_and_remove(const char *name, struct dentry *parent)
{
	remove_folder((struct folder *)parent, name);
}

/* Devices. One program has each open, and writes numbers in binary. */

static int store_misc(struct khost_file *file, const char *text, size_t len)
{
	const struct miscdevice *device = file->owner;
	s32 value;
	int result = kstrtos32(text, 0, &value);

	if (result)
		return result;
	if (!file->data)
		file->data = open_file(device->fops, NULL);
	if (!file->data)
		return -EIO;
	return write_file(file->data, (const char *)&value, sizeof(value));
}

int misc_register(struct miscdevice *device)
{
	if (device->fops->write)
		add_file(device, "dev", device->name)->store = store_misc;
	return 0;
}

/* Parameters of modules: `menu.name`, with a prefix if a foreign policy has them. */

static int store_param(struct khost_file *file, const char *text, size_t len)
{
	const struct kernel_param *param = file->owner;

	return param->ops->set(text, param);
}

static void add_params(void)
{
	const struct kernel_param *at;

	for (at = __start___param; at < __stop___param; at++) {
		if (at->perm & 0222 && at->ops->set)
			add_file(at, "module", at->name)->store = store_param;
	}
}

/* Paths, as a user knows them. */

static char *path_of_param(const char *name)
{
	const char *shown = name + strspn(name, "+@");
	const char *dot = strchr(shown, '.');

	return kasprintf(GFP_KERNEL, "/sys/module/%.*s/parameters/%s", (int)(dot - shown), shown,
			 dot + 1);
}

static char *path_of_debugfs(const struct folder *folder, const char *name)
{
	char *path = kasprintf(GFP_KERNEL, "%s", name), *longer;

	for (; folder; folder = folder->parent) {
		longer = kasprintf(GFP_KERNEL, "%s/%s", folder->name, path);
		kfree(path);
		path = longer;
	}
	longer = kasprintf(GFP_KERNEL, "/sys/kernel/debug/%s", path);
	kfree(path);
	return longer;
}

static char *path_of_attribute(const struct khost_file *file)
{
	struct kobject *object = (struct kobject *)file->owner;
	char *folder = kobject_get_path(object, GFP_KERNEL), *path;

	path = kasprintf(GFP_KERNEL, "/sys%s%s%s/%s", folder, file->folder ? "/" : "",
			 file->folder ?: "", file->name);
	kfree(folder);
	return path;
}

static char *path_of(const struct khost_file *file)
{
	if (file->store == store_attribute)
		return path_of_attribute(file);
	if (file->store == store_param)
		return path_of_param(file->name);
	if (is_debugfs(file))
		return path_of_debugfs(file->owner, file->name);
	if (file->store == store_misc)
		return kasprintf(GFP_KERNEL, "/dev/%s", file->name);
	return kasprintf(GFP_KERNEL, "%s", file->name);
}

static void report(struct khost_file *file, char *path)
{
	khost_host->file(khost_host->context, path, file->number);
	kfree(path);
}

/* The same files by another path. */
static void report_links(struct khost_file *file)
{
	struct link *link;

	if (file->store != store_attribute)
		return;
	list_for_each_entry(link, &links, list) {
		char *folder;

		if (link->to != file->owner)
			continue;
		folder = kobject_get_path(link->from, GFP_KERNEL);
		report(file, kasprintf(GFP_KERNEL, "/sys%s/%s/%s", folder, link->name, file->name));
		kfree(folder);
	}
}

/* Reports the paths and the number of each file to the simulator. */
int khost_list_files(void *unused, unsigned long cpu)
{
	struct khost_file *file;

	list_for_each_entry(file, &files, list) {
		report(file, path_of(file));
		report_links(file);
	}
	return 0;
}

/* Writes a line, as `echo` does. The file may be gone, with the governor that had it. */
static void write(const struct khost_write *write)
{
	struct khost_file *file;
	char *line;
	int result = -ENOENT;

	if (write->change) {
		khost_change_task((void *)write->change);
		return;
	}
	list_for_each_entry(file, &files, list) {
		if (file->number != write->file)
			continue;
		line = kasprintf(GFP_KERNEL, "%s\n", write->value);
		result = file->store(file, line, strlen(line));
		kfree(line);
		break;
	}
	if (result)
		khost_trouble(KHOST_REFUSED, "it refuses `%s` for %s: %pe", write->value,
			      write->path, ERR_PTR(result));
}

/* Writes of the start, by the first thread. */
void khost_write_settings(void)
{
	const struct khost_write *next;

	khost_set_sysctl_values();
	khost_add_online_files();
	add_params();
	if (!khost_machine->has_writes)
		return;
	khost_list_files(NULL, 0);
	while ((next = khost_host->next_write(khost_host->context)))
		write(next);
	khost_hide_iowait();
}

/*
 * Later writes, by the same thread, which becomes a shell that runs where the scheduler places it.
 */

static struct task_struct *shell;
static bool is_due;

int khost_serve_writes(void)
{
	const struct khost_write *next;

	shell = current;
	current->flags &= ~PF_NO_SETAFFINITY;
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (!is_due)
			schedule();
		__set_current_state(TASK_RUNNING);
		is_due = false;
		while ((next = khost_host->next_write(khost_host->context)))
			write(next);
		khost_hide_iowait();
		khost_report_idle_limits();
	}
}

static void wake_shell(void *unused)
{
	is_due = true;
	wake_up_process(shell);
}

int khost_write(void *unused, unsigned long cpu)
{
	return khost_call(cpu, wake_shell, NULL);
}

/* The CPU on which the shell last ran, which its wake-up interrupts. */
int khost_shell_cpu(void *cpu, unsigned long unused)
{
	*(unsigned int *)cpu = task_cpu(shell);
	return 0;
}
