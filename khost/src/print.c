// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The kernel's log, and the ends of a run: BUG, WARN, panic, a missing function. */
#include <linux/dev_printk.h>
#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/printk.h>
#include <linux/ratelimit.h>
#include <linux/refcount.h>
#include <linux/timekeeping.h>
#include <linux/notifier.h>
#include <linux/panic_notifier.h>
#include <trace/events/timer.h>
#include "host.h"

bool khost_is_dead;
int oops_in_progress;
ATOMIC_NOTIFIER_HEAD(panic_notifier_list);

static char text[1024];

static void emit(const char *fmt, va_list args)
{
	int len = vscnprintf(text, sizeof(text), fmt, args);

	khost_host->log(khost_host->context, text, len);
}

int _printk(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	emit(fmt, args);
	va_end(args);
	return 0;
}

int _printk_deferred(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	emit(fmt, args);
	va_end(args);
	return 0;
}

void khost_traced(enum khost_traced kind, const void *timer, const void *function,
		  unsigned long long expires_ns, unsigned long long softexpires_ns)
{
	struct khost_event event;

	if (!khost_machine->records)
		return;
	event = (struct khost_event) {
		.kind = kind,
		.cpu = khost_cpu_number,
		.switches = khost_cpu->switches,
		.timer = timer,
		.function = function,
		.expires_ns = expires_ns,
		.softexpires_ns = softexpires_ns,
	};
	khost_host->traced(khost_host->context, &event);
}

/* Defined by the linker script. */
extern const char khost_governors_start[], khost_governors_end[];

static bool is_of_a_governor(const void *function)
{
	const char *text = function;

	return text >= khost_governors_start && text < khost_governors_end;
}

void khost_starts(const void *timer, const void *function, unsigned long long expires_ns,
		  unsigned long long softexpires_ns)
{
	if (is_of_a_governor(function)) {
		khost_cpu->governor_starts++;
		khost_cpu->figured_ns += khost_cpu->governor_timer_ns;
	}
	khost_traced(KHOST_HRTIMER_START, timer, function, expires_ns, softexpires_ns);
}

void khost_expires(const void *timer, const void *function, unsigned long long now_ns)
{
	if (is_of_a_governor(function))
		khost_cpu->governor_timers++;
	khost_traced(KHOST_HRTIMER_EXPIRE_ENTRY, timer, function, now_ns, 0);
}

/* Task 0 is one of the kernel's own. */
void khost_traced_task(enum khost_traced kind, unsigned int task, unsigned int target)
{
	struct khost_event event = {
		.kind = kind,
		.cpu = khost_cpu_number,
		.task = task,
		.target = target,
		.switches = khost_cpu->switches,
	};

	if (task)
		khost_host->traced(khost_host->context, &event);
}

/* A compiler for aarch64 can sign return addresses in the bits above 48. */
#define ADDRESS_MASK GENMASK(47, 0)

/* Uses frame pointers, with which all hosted files are compiled. */
static int trace_back(void **trace, int most)
{
	void **frame = __builtin_frame_address(0);
	void **end = (void **)((char *)frame + KHOST_STACK_SIZE);
	int depth = 0;

	while (depth < most) {
		void **outer = frame[0];

		trace[depth++] = (void *)((unsigned long)frame[1] & ADDRESS_MASK);
		if (outer <= frame || outer >= end)
			break;
		frame = outer;
	}
	return depth;
}

static void __noreturn trouble(enum khost_trouble kind, const char *fmt, va_list args)
{
	void *trace[KHOST_TRACE_MAX];
	int len = vscnprintf(text, sizeof(text), fmt, args);

	khost_is_dead = true;
	khost_host->trouble(khost_host->context, kind, text, len, trace,
			    trace_back(trace, ARRAY_SIZE(trace)));
	/* The call from the simulator ends here, whichever stack it runs on. */
	khost_end_call();
}

void khost_trouble(enum khost_trouble kind, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	trouble(kind, fmt, args);
}

void __noreturn khost_unreached(const char *name)
{
	khost_trouble(KHOST_UNREACHED, "%s", name);
}

void panic(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	trouble(KHOST_PANIC, fmt, args);
}

void khost_bug(const char *file, int line)
{
	khost_trouble(KHOST_BUG, "%s:%d", file, line);
}

void warn_slowpath_fmt(const char *file, const int line, unsigned int taint, const char *fmt, ...)
{
	struct va_format vaf = { .fmt = fmt };
	va_list args;

	if (!fmt)
		khost_trouble(KHOST_WARN, "%s:%d", file, line);
	va_start(args, fmt);
	vaf.va = &args;
	khost_trouble(KHOST_WARN, "%s:%d: %pV", file, line, &vaf);
}

void refcount_warn_saturate(refcount_t *count, enum refcount_saturation_type type)
{
	khost_trouble(KHOST_WARN, "a reference count of %d saturates", refcount_read(count));
}

void _dev_err(const struct device *device, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	emit(fmt, args);
	va_end(args);
}

void _dev_warn(const struct device *device, const char *fmt, ...) __alias(_dev_err);
void _dev_info(const struct device *device, const char *fmt, ...) __alias(_dev_err);

int ___ratelimit(struct ratelimit_state *state, const char *function)
{
	return 1;
}

int __printk_ratelimit(const char *function)
{
	return 1;
}
