// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Files of /proc/sys. This replaces kernel/sysctl.c, most of which is a table of other files'
 * settings.
 */
/* Prototypes differ between releases; callers pass the same arguments. */
#define __register_sysctl_init kernels_register_sysctl_init
#define register_sysctl kernels_register_sysctl
#define register_sysctl_sz kernels_register_sysctl_sz
#define proc_dointvec kernels_dointvec
#define proc_dointvec_minmax kernels_dointvec_minmax
#define proc_douintvec kernels_douintvec
#define proc_douintvec_minmax kernels_douintvec_minmax
#define proc_doulongvec_minmax kernels_doulongvec_minmax
#define sysctl_vals kernels_sysctl_vals
#define sysctl_long_vals kernels_sysctl_long_vals
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysctl.h>
#undef __register_sysctl_init
#undef register_sysctl
#undef register_sysctl_sz
#undef proc_dointvec
#undef proc_dointvec_minmax
#undef proc_douintvec
#undef proc_douintvec_minmax
#undef proc_doulongvec_minmax
#undef sysctl_vals
#undef sysctl_long_vals
#include "host.h"

typedef int (*handler_t)(const struct ctl_table *table, int write, void *buffer, size_t *lenp,
			 loff_t *ppos);

/* What SYSCTL_ZERO and its kind point to. */
int sysctl_vals[16];
unsigned long sysctl_long_vals[4] = { 0, 1, LONG_MAX };

/* Before any file is written. The macros have the order of the release. */
void khost_set_sysctl_values(void)
{
	*(int *)SYSCTL_ONE = 1;
	*(int *)SYSCTL_TWO = 2;
	*(int *)SYSCTL_THREE = 3;
	*(int *)SYSCTL_FOUR = 4;
	*(int *)SYSCTL_ONE_HUNDRED = 100;
	*(int *)SYSCTL_TWO_HUNDRED = 200;
	*(int *)SYSCTL_ONE_THOUSAND = 1000;
	*(int *)SYSCTL_THREE_THOUSAND = 3000;
	*(int *)SYSCTL_INT_MAX = INT_MAX;
	*(int *)SYSCTL_NEG_ONE = -1;
}

/* Reads one number; a file with several is not among those of hosted files. */
static int read_number(const struct ctl_table *table, const char *text, long long least,
		       long long most, long long *value)
{
	int result = kstrtoll(text, 0, value);

	if (result)
		return result;
	return *value < least || *value > most ? -EINVAL : 0;
}

static int store_int(const struct ctl_table *table, const char *text, const int *least,
		     const int *most)
{
	long long value;
	int result = read_number(table, text, least ? *least : INT_MIN, most ? *most : INT_MAX,
				 &value);

	if (!result)
		*(int *)table->data = value;
	return result;
}

static int store_uint(const struct ctl_table *table, const char *text, const unsigned int *least,
		      const unsigned int *most)
{
	long long value;
	int result = read_number(table, text, least ? *least : 0, most ? *most : UINT_MAX, &value);

	if (!result)
		*(unsigned int *)table->data = value;
	return result;
}

int proc_dointvec(const struct ctl_table *table, int write, void *buffer, size_t *lenp,
		  loff_t *ppos)
{
	return store_int(table, buffer, NULL, NULL);
}

int proc_dointvec_minmax(const struct ctl_table *table, int write, void *buffer, size_t *lenp,
			 loff_t *ppos)
{
	return store_int(table, buffer, table->extra1, table->extra2);
}

int proc_douintvec(const struct ctl_table *table, int write, void *buffer, size_t *lenp,
		   loff_t *ppos)
{
	return store_uint(table, buffer, NULL, NULL);
}

int proc_douintvec_minmax(const struct ctl_table *table, int write, void *buffer, size_t *lenp,
			  loff_t *ppos)
{
	return store_uint(table, buffer, table->extra1, table->extra2);
}

int proc_doulongvec_minmax(const struct ctl_table *table, int write, void *buffer, size_t *lenp,
			   loff_t *ppos)
{
	const unsigned long *least = table->extra1, *most = table->extra2;
	long long value;
	int result = read_number(table, buffer, least ? *least : 0, most ? *most : LONG_MAX, &value);

	if (!result)
		*(unsigned long *)table->data = value;
	return result;
}

static int store(void *data, const char *text, size_t len)
{
	const struct ctl_table *table = data;
	loff_t pos = 0;

	return ((handler_t)table->proc_handler)(table, 1, (void *)text, &len, &pos);
}

/* Older releases have no size, and end a table with an empty entry. */
void __register_sysctl_init(const char *path, const struct ctl_table *table, const char *name,
			    size_t size)
{
#ifndef KHOST_HAS_REGISTER_SYSCTL_SZ
	size = SIZE_MAX;
#endif
	for (size_t i = 0; i < size && table[i].procname; i++) {
		if (table[i].mode & 0222 && table[i].proc_handler)
			khost_register_file(kasprintf(GFP_KERNEL, "/proc/sys/%s/%s", path,
						      table[i].procname),
					    store, (void *)&table[i]);
	}
}

struct ctl_table_header *register_sysctl_sz(const char *path, const struct ctl_table *table,
					    size_t size)
{
	__register_sysctl_init(path, table, NULL, size);
	return NULL;
}

struct ctl_table_header *register_sysctl(const char *path, const struct ctl_table *table)
{
	__register_sysctl_init(path, table, NULL, SIZE_MAX);
	return NULL;
}
