// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The part of an image that is not the governor: kernel functions that are more than a load, and
 * the table in which the host finds everything else.
 *
 * An image links against nothing, not even libc. So it loads quickly, and a governor that calls a
 * function that no kernel has does not link.
 */
#include <linux/cpuidle.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/tick.h>

#define __hidden	__attribute__((visibility("hidden")))
#define __in(name)	__attribute__((section(name), used))

__in("torpor_kapi") struct kapi_host kapi_host;
__in("torpor_kapi") bool tick_nohz_enabled = true;

/* One entry creates each section, even if the governor adds none. */
static __in("torpor_percpu") u64 percpu_anchor;
static __in("torpor_init") const initcall_t no_initcall = NULL;
static __in("torpor_param") __aligned(8) const struct kapi_param no_param = { };

extern __hidden const initcall_t __start_torpor_init[], __stop_torpor_init[];
extern __hidden const struct kapi_param __start_torpor_param[], __stop_torpor_param[];

#if KAPI_BEFORE(5, 5)
#include <torpor/old_governors.h>
#else
static struct kapi_governor *as_host_calls_it(struct cpuidle_governor *gov)
{
	return gov;
}
#endif

__hidden int cpuidle_register_governor(struct cpuidle_governor *gov)
{
	if (!gov || !gov->select)
		return -EINVAL;
	if (kapi_host.nr_governors == ARRAY_SIZE(kapi_host.governors))
		return -ENOSPC;
	kapi_host.governors[kapi_host.nr_governors] = as_host_calls_it(gov);
	kapi_host.nr_governors++;
	return 0;
}

/* Returns the entry of a timer among the armed ones of its CPU, or NULL. */
static struct kapi_timer *find_timer(const struct hrtimer *timer)
{
	for (unsigned int i = 0; timer->cpu && i < timer->cpu->nr_timers; i++) {
		if (timer->cpu->timers[i].timer == timer)
			return &timer->cpu->timers[i];
	}
	return NULL;
}

static void disarm(struct kapi_cpu *cpu, struct kapi_timer *place)
{
	*place = cpu->timers[--cpu->nr_timers];
}

__hidden bool hrtimer_active(const struct hrtimer *timer)
{
	return find_timer(timer);
}

__hidden int hrtimer_try_to_cancel(struct hrtimer *timer)
{
	struct kapi_timer *place = find_timer(timer);

	if (place)
		disarm(timer->cpu, place);
	return place != NULL;
}

__hidden void hrtimer_start_range_ns(struct hrtimer *timer, ktime_t time, u64 slack_ns,
				     const enum hrtimer_mode mode)
{
	struct kapi_cpu *cpu = kapi_host.cpu;

	hrtimer_try_to_cancel(timer);
	if (!timer->function)
		kapi_bug("start of a timer without a function", 0);
	if (cpu->nr_timers >= KAPI_TIMERS_MAX)
		kapi_bug("more timers than a CPU can have", KAPI_TIMERS_MAX);
	/* As in a kernel, the sum saturates at KTIME_MAX. */
	if (mode & HRTIMER_MODE_REL && __builtin_add_overflow(time, cpu->now_ns, &time))
		time = KTIME_MAX;
	timer->_softexpires = time;
	timer->cpu = cpu;
	cpu->timer_starts++;
	cpu->timers[cpu->nr_timers++] = (struct kapi_timer) { timer, time };
}

/* Runs the callback of the CPU's earliest timer that is due; returns 0 if there is none. */
static int fire_timer(void)
{
	struct kapi_cpu *cpu = kapi_host.cpu;
	struct kapi_timer *due = NULL;
	struct hrtimer *timer;

	for (unsigned int i = 0; i < cpu->nr_timers; i++) {
		struct kapi_timer *place = &cpu->timers[i];

		if (place->expires_ns <= (s64)cpu->now_ns &&
		    (!due || place->expires_ns < due->expires_ns))
			due = place;
	}
	if (!due)
		return 0;
	timer = due->timer;
	disarm(cpu, due);
	timer->function(timer);
	return 1;
}

void kapi_warn(const char *file, unsigned int line)
{
	if (!kapi_host.warn_count++) {
		kapi_host.warn_file = file;
		kapi_host.warn_line = line;
	}
}

/* A program has a C library and its own way to exit. */
#ifndef TORPOR_PROGRAM
void kapi_bug(const char *file, unsigned int line)
{
	kapi_host.bug_file = file;
	kapi_host.bug_line = line;
	__builtin_trap();
}

/* Without the barriers the compiler would turn each loop into a call of its own function. */
__hidden void *memset(void *dst, int byte, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		((char *)dst)[i] = byte;
		barrier();
	}
	return dst;
}

__hidden void *memcpy(void *dst, const void *src, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		((char *)dst)[i] = ((const char *)src)[i];
		barrier();
	}
	return dst;
}

__hidden void *memmove(void *dst, const void *src, size_t count)
{
	if (dst <= src)
		return memcpy(dst, src, count);
	while (count--) {
		((char *)dst)[count] = ((const char *)src)[count];
		barrier();
	}
	return dst;
}

__hidden int memcmp(const void *a, const void *b, size_t count)
{
	const unsigned char *x = a, *y = b;

	for (size_t i = 0; i < count; i++) {
		if (x[i] != y[i])
			return x[i] - y[i];
		barrier();
	}
	return 0;
}

__hidden size_t strlen(const char *s)
{
	size_t len = 0;

	while (s[len]) {
		len++;
		barrier();
	}
	return len;
}

__hidden int strncmp(const char *a, const char *b, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (a[i] != b[i] || !a[i])
			return (unsigned char)a[i] - (unsigned char)b[i];
	}
	return 0;
}

__hidden int strcmp(const char *a, const char *b)
{
	return strncmp(a, b, SIZE_MAX);
}
#endif /* !TORPOR_PROGRAM */

/* Excludes per-CPU data, which counts as the governor's. */
static u64 kapi_drawn[NR_CPUS + 1];

/* SplitMix64 (Steele, Lea, Flood 2014), with a seed for each CPU. */
__hidden u64 kapi_random(void)
{
	struct kapi_cpu *cpu = kapi_host.cpu;
	unsigned int stream = cpu ? cpu->cpu_id + 1 : 0;
	u64 z = ((u64)stream << 32) + ++kapi_drawn[stream % (NR_CPUS + 1)];

	z *= 0x9e3779b97f4a7c15ULL;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

#define EMIT_MAX	4095

static int emit_char(char *page, int len, char c)
{
	if (len < EMIT_MAX)
		page[len++] = c;
	return len;
}

static int emit_number(char *page, int len, u64 number, unsigned int base)
{
	char digits[20];
	int n = 0;

	do {
		digits[n++] = "0123456789abcdef"[number % base];
		number /= base;
	} while (number);
	while (n)
		len = emit_char(page, len, digits[--n]);
	return len;
}

static int emit(char *page, int len, const char *format, __builtin_va_list args)
{
	for (; *format; format++) {
		const char *start = format;
		int longs = 0;
		s64 number;

		if (*format != '%') {
			len = emit_char(page, len, *format);
			continue;
		}
		while (*++format == 'l')
			longs++;
		switch (*format) {
		case 's':
			for (const char *s = __builtin_va_arg(args, const char *); *s; s++)
				len = emit_char(page, len, *s);
			break;
		case 'c':
			len = emit_char(page, len, __builtin_va_arg(args, int));
			break;
		case 'd':
		case 'i':
			number = longs ? __builtin_va_arg(args, long) : __builtin_va_arg(args, int);
			if (number < 0)
				len = emit_char(page, len, '-');
			len = emit_number(page, len, number < 0 ? -(u64)number : number, 10);
			break;
		case 'u':
		case 'x':
			number = longs ? __builtin_va_arg(args, unsigned long) :
					 __builtin_va_arg(args, unsigned int);
			len = emit_number(page, len, number, *format == 'x' ? 16 : 10);
			break;
		default:
			format = start;
			len = emit_char(page, len, '%');
		}
	}
	page[len] = 0;
	return len;
}

__hidden int sysfs_emit(char *page, const char *format, ...)
{
	__builtin_va_list args;
	int len;

	__builtin_va_start(args, format);
	len = emit(page, 0, format, args);
	__builtin_va_end(args);
	return len;
}

__hidden int sysfs_emit_at(char *page, int at, const char *format, ...)
{
	__builtin_va_list args;
	int len;

	__builtin_va_start(args, format);
	len = emit(page, at, format, args);
	__builtin_va_end(args);
	return len - at;
}

/* Runs the initcalls; returns the first error. */
static int run_initcalls(void)
{
	for (const initcall_t *call = __start_torpor_init; call < __stop_torpor_init; call++) {
		int ret = *call ? (*call)() : 0;

		if (ret)
			return ret;
	}
	return 0;
}

struct torpor_image {
	u32 abi;
	u32 hz;
	u32 kapi_cpu_size;
	u32 kapi_host_size;
	u32 device_size;
	u32 driver_size;
	u32 param_size;
	u32 reserved;
	struct kapi_host *host;
	const struct kapi_param *params_start, *params_end;
	int (*init)(void);
	int (*fire_timer)(void);
};

__attribute__((visibility("default"), used)) const struct torpor_image torpor_image = {
	.abi = TORPOR_IMAGE_ABI,
	.hz = HZ,
	.kapi_cpu_size = sizeof(struct kapi_cpu),
	.kapi_host_size = sizeof(struct kapi_host),
	.device_size = sizeof(struct cpuidle_device),
	.driver_size = sizeof(struct cpuidle_driver),
	.param_size = sizeof(struct kapi_param),
	.host = &kapi_host,
	.params_start = __start_torpor_param,
	.params_end = __stop_torpor_param,
	.init = run_initcalls,
	.fire_timer = fire_timer,
};
