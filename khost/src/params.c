// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Module parameters of the types that governors use. This replaces kernel/params.c, which needs
 * sysfs.
 */
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/moduleparam.h>
#include <asm/page.h>
#include <linux/string.h>
#include "host.h"

#define PARAM(name, type, parse, format)						\
int param_set_##name(const char *text, const struct kernel_param *param)		\
{											\
	return parse(text, 0, (type *)param->arg);					\
}											\
int param_get_##name(char *page, const struct kernel_param *param)			\
{											\
	return scnprintf(page, PAGE_SIZE, format "\n", *(type *)param->arg);		\
}											\
const struct kernel_param_ops param_ops_##name = {					\
	.set = param_set_##name,							\
	.get = param_get_##name,							\
};

PARAM(byte, unsigned char, kstrtou8, "%hhu")
PARAM(short, short, kstrtos16, "%hi")
PARAM(ushort, unsigned short, kstrtou16, "%hu")
PARAM(int, int, kstrtoint, "%i")
PARAM(uint, unsigned int, kstrtouint, "%u")
PARAM(long, long, kstrtol, "%li")
PARAM(ulong, unsigned long, kstrtoul, "%lu")
PARAM(ullong, unsigned long long, kstrtoull, "%llu")
PARAM(hexint, unsigned int, kstrtouint, "%#08x")

int param_set_bool(const char *text, const struct kernel_param *param)
{
	return kstrtobool(text, param->arg);
}

int param_get_bool(char *page, const struct kernel_param *param)
{
	return scnprintf(page, PAGE_SIZE, "%c\n", *(bool *)param->arg ? 'Y' : 'N');
}

const struct kernel_param_ops param_ops_bool = {
	.set = param_set_bool,
	.get = param_get_bool,
};

int param_set_copystring(const char *text, const struct kernel_param *param)
{
	return strscpy(param->str->string, text, param->str->maxlen) < 0 ? -ENOSPC : 0;
}

int param_get_string(char *page, const struct kernel_param *param)
{
	return scnprintf(page, PAGE_SIZE, "%s\n", param->str->string);
}

const struct kernel_param_ops param_ops_string = {
	.set = param_set_copystring,
	.get = param_get_string,
};

/* Foreign policies have a prefix, since the tree can have one with the same name. */
static const char *shown(const char *name)
{
	return name + strspn(name, "+=");
}

void khost_set_param(const struct khost_param *given)
{
	size_t prefix = strchr(given->name, '.') + 1 - given->name;
	const struct kernel_param *at;
	char known[256] = "";
	size_t len = 0;

	for (at = __start___param; at < __stop___param; at++) {
		if (strncmp(at->name, given->name, prefix))
			continue;
		if (!strcmp(at->name, given->name)) {
			if (at->ops->set && !at->ops->set(given->value, at))
				return;
			khost_trouble(KHOST_REFUSED, "`%s` is not a value for %s", given->value,
				      shown(given->name));
		}
		len += scnprintf(known + len, sizeof(known) - len, "%s%s", len ? ", " : "",
				 at->name + prefix);
	}
	khost_trouble(KHOST_REFUSED, "it has no parameter %s; the governor has %s",
		      shown(given->name), len ? known : "none");
}

/* As parse_args() does before the first initcall. */
void khost_set_params(void)
{
	for (unsigned int i = 0; i < khost_machine->params; i++)
		khost_set_param(&khost_machine->param[i]);
}
