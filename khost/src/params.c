// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The kernel's command line, parsed by the kernel's own functions and at the same points of the
 * start: __setup() and module parameters before the scheduler, those of initcalls before these.
 */
#include <linux/err.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "host.h"

/* Known to the linker script. */
extern const struct kernel_param __start___param[], __stop___param[];
extern const struct obs_kernel_param __start_khost_setup[], __stop_khost_setup[];

/* Foreign policies have a prefix, since the tree can have one with the same name. */
static const char *shown(const char *name)
{
	return name + strspn(name, "+@");
}

static void refuse_value(const char *name, const char *value)
{
	khost_trouble(KHOST_REFUSED, "`%s` is not a value for %s", value ?: "", shown(name));
}

static bool is_of_governor(const char *name, size_t prefix)
{
	size_t len = strlen(khost_machine->governor);

	return len && prefix == len + 1 && parameqn(name, khost_machine->governor, len);
}

/* Names the parameters of a module, if it has any. */
static void refuse_module(const char *name)
{
	const char *dot = strchr(name, '.');
	size_t prefix = dot ? dot + 1 - name : 0, len = 0;
	const struct kernel_param *at;
	char known[256] = "";

	for (at = __start___param; dot && at < __stop___param; at++) {
		if (parameqn(at->name, name, prefix))
			len += scnprintf(known + len, sizeof(known) - len, "%s%s", len ? ", " : "",
					 at->name + prefix);
	}
	if (len || *name != *shown(name) || is_of_governor(name, prefix))
		khost_trouble(KHOST_REFUSED, "it has no parameter %s; the %s has %s", shown(name),
			      *name == '@' ? "file" : "governor",
			      len ? known : "none");
}

static int unknown(char *name, char *value, const char *doing, void *is_taken)
{
	if (*(bool *)is_taken)
		return 0;
	refuse_module(name);
	khost_trouble(KHOST_UNKNOWN, "%s", name);
}

/* Gives the argument to the functions of __setup() and early_param() that take it. */
static bool set_up(char *name, char *value, bool early)
{
	char *text = kasprintf(GFP_KERNEL, value ? "%s=%s" : "%s", name, value);
	const struct obs_kernel_param *at;
	bool is_taken = false;

	for (at = __start_khost_setup; at < __stop_khost_setup; at++) {
		size_t len = strlen(at->str);

		if (at->early) {
			if (!parameq(name, at->str))
				continue;
			if (early && at->setup_func(value))
				refuse_value(name, value);
			is_taken = true;
		} else if (parameqn(text, at->str, len)) {
			if (!early && !at->setup_func(text + len))
				refuse_value(name, value);
			is_taken = true;
		}
	}
	kfree(text);
	return is_taken;
}

/* The kernel reads one letter of a truth value. An array's numbers are no truth value. */
static void refuse_list(const char *name, const char *value)
{
	const struct kernel_param *at;

	if (*name == *shown(name) || !value || !strchr(value, ','))
		return;
	for (at = __start___param; at < __stop___param; at++) {
		if (at->ops == &param_ops_bool && parameq(at->name, name))
			refuse_value(name, value);
	}
}

static void set_param(char *name, char *value, int min_level, int max_level, bool *is_taken)
{
	char *text = kasprintf(GFP_KERNEL, value ? "%s=\"%s\"" : "%s", name, value);

	refuse_list(name, value);
	if (IS_ERR(parse_args("Booting kernel", text, __start___param,
			      __stop___param - __start___param, min_level, max_level, is_taken,
			      unknown)))
		refuse_value(name, value);
	kfree(text);
}

void khost_set_param(const char *name, const char *value)
{
	bool is_taken = false;

	set_param((char *)name, (char *)value, S16_MIN, S16_MAX, &is_taken);
}

/* Does something with each argument of the command line. */
static void for_each_argument(void (*each)(char *name, char *value))
{
	char *line = kasprintf(GFP_KERNEL, "%s", khost_machine->command_line);
	char *at = skip_spaces(line);
	char *name, *value;

	while (*at) {
		at = next_arg(at, &name, &value);
		each(name, value);
	}
	kfree(line);
}

static void start_early(char *name, char *value)
{
	set_up(name, value, true);
}

static void start_one(char *name, char *value)
{
	bool is_taken = set_up(name, value, false);

	set_param(name, value, -1, -1, &is_taken);
}

static void start_of_initcalls(char *name, char *value)
{
	bool is_taken = true;

	set_param(name, value, 0, S16_MAX, &is_taken);
}

void khost_parse_command_line(void)
{
	for_each_argument(start_early);
	for_each_argument(start_one);
}

void khost_parse_for_initcalls(void)
{
	for_each_argument(start_of_initcalls);
}

/* Returns the name of an argument that the kernel knows; NULL after the last. */
const char *khost_known_argument(unsigned long index)
{
	size_t params = __stop___param - __start___param;

	if (index < params)
		return __start___param[index].name;
	index -= params;
	return index < __stop_khost_setup - __start_khost_setup ? __start_khost_setup[index].str : NULL;
}
