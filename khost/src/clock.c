// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Clocks of the simulated machine: a counter in ns, and a clock event device for each CPU. */
#include <linux/clockchips.h>
#include <linux/clocksource.h>
#include <linux/sched/clock.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include "host.h"

#define CLOCK_SHIFT 24

/* Limits of the event device, in ns; the minimum is that of x86's TSC deadline timer. */
#define DELTA_MIN_NS 15
#define DELTA_MAX_NS (~0UL >> 8)

u64 khost_now_ns;

/*
 * Uptime at the start of the kernel. The scheduler takes a load average at time 0 for one that was
 * never updated.
 */
#define ON_BEFORE_NS NSEC_PER_SEC

/*
 * DOC: Time that the kernel's work takes
 *
 * A call from the simulator starts and ends at one time of the machine. For the kernel, time passes
 * during the call: the CPU's own clock runs ahead of the machine's by the work of the CPU, and the
 * simulator starts nothing else on it before the machine's clock has caught up.
 *
 * There are two sources for the time of that work. The platform gives the time of whole paths: an
 * interrupt, a context switch, an IPI. And the host counts steps of the kernel: finding the data of
 * a CPU by its number (more for another CPU, whose cache has the data), and taking a lock. A path
 * with few steps takes the platform's time; one with many, such as a search over all CPUs, takes the
 * time of its steps. So nothing counts twice.
 *
 * Steps are counted in the source, so their number does not depend on the compiler.
 *
 * Timers use the same clock. Another CPU can read a time that is earlier by as much as this CPU has
 * run ahead. The kernel expects this of clocks and never sets its own time back.
 */
u64 khost_local_ns(void)
{
	u64 counted_ns = khost_cpu->counted_ps / 1000;

	return max(khost_now_ns, khost_cpu->busy_until_ns) + max(khost_cpu->figured_ns, counted_ns);
}

notrace unsigned long long sched_clock(void)
{
	return khost_local_ns() + ON_BEFORE_NS;
}

static u64 read_clock(struct clocksource *source)
{
	return khost_local_ns();
}

static struct clocksource clock = {
	.name	= "khost",
	.rating	= 400,
	.read	= read_clock,
	.mask	= CLOCKSOURCE_MASK(64),
	.mult	= 1 << CLOCK_SHIFT,
	.shift	= CLOCK_SHIFT,
	.max_idle_ns = ~0ULL >> 2,
	.max_cycles = ~0ULL >> 2,
	.flags	= CLOCK_SOURCE_IS_CONTINUOUS | CLOCK_SOURCE_VALID_FOR_HRES,
};

struct clocksource *__init clocksource_default_clock(void)
{
	return &clock;
}

/* Without this the kernel switches to jiffies after the start. */
void khost_register_clock(void)
{
	if (__clocksource_register(&clock))
		khost_trouble(KHOST_PANIC, "no clock source");
}

static DEFINE_PER_CPU(struct clock_event_device, event_device);

static int set_next_event(unsigned long delta, struct clock_event_device *device)
{
	khost_cpu->timer_ns = khost_local_ns() + delta;
	khost_cpu->timer_programmings++;
	khost_cpu->figured_ns += khost_cpu->timer_programming_ns;
	khost_touch(khost_cpu_number);
	return 0;
}

static int stop(struct clock_event_device *device)
{
	khost_cpu->timer_ns = ~0ULL;
	return 0;
}

void khost_start_clock_event(int cpu)
{
	struct clock_event_device *device = &per_cpu(event_device, cpu);

	device->name = "khost";
	device->rating = 400;
	device->features = CLOCK_EVT_FEAT_ONESHOT;
	device->cpumask = cpumask_of(cpu);
	device->set_next_event = set_next_event;
	device->set_state_shutdown = stop;
	device->set_state_oneshot_stopped = stop;
	khost_cpu->timer_ns = ~0ULL;
	clockevents_config_and_register(device, NSEC_PER_SEC, DELTA_MIN_NS, DELTA_MAX_NS);
}

void khost_clock_event(int cpu)
{
	struct clock_event_device *device = &per_cpu(event_device, cpu);

	device->event_handler(device);
}
