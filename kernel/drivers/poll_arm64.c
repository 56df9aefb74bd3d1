// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: torpor_poll_arm64 - waits for work without sleeping, on arm64
 *
 * It has two states, like the driver posted in April 2024 (linux-pm, "arm64: cpuidle: Add
 * arm_poll_idle"). In WFE the CPU monitors its own need_resched flag: it waits for an event, such as
 * a write to the flag or an interrupt, and wakes up without the cost of an interrupt. After
 * poll_limit it gives up (dev->poll_time_limit), and the governor selects again. WFI is the state of
 * all arm64 CPUs. Its latency and target residency are poll_limit, because cpuidle_poll_time()
 * reads the limit there.
 *
 * If no event comes, one of these ends the wait:
 *
 *  - WFET, if all CPUs have it (FEAT_WFxT): its operand is the deadline, and the limit is exact.
 *  - The timer's event stream otherwise. It ticks at about 10 kHz, so a poll can exceed its limit by
 *    100 us.
 *
 * Without both a CPU could wait forever, so the driver does not load if the CPUs lack WFET and the
 * stream is not built in or is off (clocksource.arm_arch_timer.evtstrm=0).
 *
 * A hypervisor can trap WFE and WFET. Then each poll exits to the host and can lose the CPU; KVM
 * traps them if other tasks wait for the CPU.
 *
 * Kernels without TIF_POLLING_NRFLAG for arm64, such as 6.1 and 6.12, send an interrupt even to a
 * polling CPU. Then polling saves only the exit from WFI.
 *
 * CPUs whose device tree has a thermal-idle node get an idle cooling device, as with the kernel's
 * own drivers. The kernel cannot remove it: it stays after the module is unloaded.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/cpufeature.h>
#include <linux/cpuhotplug.h>
#include <linux/cpuidle.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/kprobes.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/idle.h>
#include <linux/thread_info.h>
#include <linux/time64.h>

#include <asm/cmpxchg.h>
#include <asm/hwcap.h>

#include "cpu.h"

#define STATE_WFE	0
#define STATE_WFI	1

/* Limits of poll_limit_ns in drivers/cpuidle/cpuidle.c, which no header has. */
#define POLL_MIN_NS	(10 * NSEC_PER_USEC)
#define POLL_MAX_NS	(TICK_NSEC / 16)

/* In the benchmarks of the first such driver, longer limits had no benefit. */
static unsigned int poll_limit = 100;
module_param(poll_limit, uint, 0444);
MODULE_PARM_DESC(poll_limit, "how long to poll, in microseconds");

static bool has_wfet __read_mostly;

static struct cpuidle_device __percpu *poll_devices;
static enum cpuhp_state poll_hotplug_state;

/*
 * cpuidle_poll_time(), which is not exported: the governor's own limit, else the target residency
 * of the first enabled state that is long enough.
 */
static __cpuidle u64 poll_time_ns(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	u64 residency_ns = drv->states[STATE_WFI].target_residency_ns;

	if (!dev->poll_limit_ns) {
		dev->poll_limit_ns = POLL_MAX_NS;
		if (!dev->states_usage[STATE_WFI].disable && residency_ns >= POLL_MIN_NS)
			dev->poll_limit_ns = min_t(u64, residency_ns, POLL_MAX_NS);
	}
	return dev->poll_limit_ns;
}

/*
 * Waits until *@flags differs from @seen, an event comes, or the counter reaches @deadline.
 *
 * First consumes the pending event; then the exclusive load makes a write to *@flags the next one.
 * WFET is encoded as a number, since older assemblers do not know it.
 */
static __always_inline void poll_wait_until(unsigned long *flags, unsigned long seen, u64 deadline)
{
	unsigned long now;

	asm volatile("	sevl\n"
		     "	wfe\n"
		     "	ldxr	%0, %1\n"
		     "	cmp	%0, %2\n"
		     "	b.ne	1f\n"
		     "	msr	s0_3_c1_c0_0, %3\n"
		     "1:"
		     : "=&r" (now), "+Q" (*flags)
		     : "r" (seen), "r" (deadline)
		     : "cc", "memory");
}

static __cpuidle int poll_enter_wfe(struct cpuidle_device *dev, struct cpuidle_driver *drv,
				    int index)
{
	u64 start = torpor_cycles();
	u64 limit = div_u64(poll_time_ns(drv, dev) * torpor_cycles_khz(), NSEC_PER_MSEC);

	dev->poll_time_limit = false;

	raw_local_irq_enable();
	if (!current_set_polling_and_test()) {
		unsigned long *flags = &current_thread_info()->flags;
		unsigned long seen;

		while (!((seen = READ_ONCE(*flags)) & _TIF_NEED_RESCHED)) {
			if (torpor_cycles() - start >= limit) {
				dev->poll_time_limit = true;
				break;
			}
			if (has_wfet)
				poll_wait_until(flags, seen, start + limit);
			else
				__cmpwait_relaxed(flags, seen);
		}
	}
	raw_local_irq_disable();

	current_clr_polling();

	return index;
}

static __cpuidle int poll_enter_wfi(struct cpuidle_device *dev, struct cpuidle_driver *drv,
				    int index)
{
	if (!current_clr_polling_and_test())
		torpor_wait_for_interrupt();
	return index;
}

static struct cpuidle_driver poll_driver = {
	.name =	"torpor_poll_arm64",
	.states = {
		[STATE_WFE] = {
			.name =		"WFE",
			.desc =		"polling, waiting for events",
			.flags =	CPUIDLE_FLAG_POLLING,
			.enter =	poll_enter_wfe,
		},
		[STATE_WFI] = {
			.name =		"WFI",
			.desc =		"waiting for an interrupt",
			.enter =	poll_enter_wfi,
		},
	},
	.state_count = 2,
};

static int poll_cpu_online(unsigned int cpu)
{
	struct cpuidle_device *dev = per_cpu_ptr(poll_devices, cpu);

	dev->cpu = cpu;
	return cpuidle_register_device(dev);
}

static int poll_cpu_offline(unsigned int cpu)
{
	cpuidle_unregister_device(per_cpu_ptr(poll_devices, cpu));
	return 0;
}

/* Linux detects WFET since 5.19. */
static bool __init poll_finds_wfet(void)
{
#ifdef KERNEL_HWCAP_WFXT
	return cpu_have_named_feature(WFXT);
#else
	return false;
#endif
}

/* Not exported: a kprobe finds its address, in kernels with CONFIG_CPU_IDLE_THERMAL. */
static void __init poll_register_cooling(void)
{
	struct kprobe probe = { .symbol_name = "cpuidle_cooling_register" };
	void (*cooling_register)(struct cpuidle_driver *drv);

	if (register_kprobe(&probe)) {
		pr_debug("this kernel has no idle cooling\n");
		return;
	}
	cooling_register = (typeof(cooling_register))probe.addr;
	unregister_kprobe(&probe);
	cooling_register(&poll_driver);
}

static int __init poll_init(void)
{
	int ret;

	if (!poll_limit || poll_limit > USEC_PER_SEC) {
		pr_err("poll_limit: %u is not within 1 and %lu\n", poll_limit, USEC_PER_SEC);
		return -EINVAL;
	}
	has_wfet = poll_finds_wfet();
	if (!has_wfet && !cpu_have_named_feature(EVTSTRM)) {
		pr_err("these CPUs have no WFET, and their timer no event stream (CONFIG_ARM_ARCH_TIMER_EVTSTREAM, clocksource.arm_arch_timer.evtstrm)\n");
		return -ENODEV;
	}

	poll_driver.states[STATE_WFI].exit_latency = poll_limit;
	poll_driver.states[STATE_WFI].target_residency = poll_limit;
	ret = cpuidle_register_driver(&poll_driver);
	if (ret) {
		if (ret == -EBUSY)
			pr_err("this machine has an idle driver, %s\n", cpuidle_get_driver()->name);
		return ret;
	}

	poll_devices = alloc_percpu(struct cpuidle_device);
	if (!poll_devices) {
		ret = -ENOMEM;
		goto unregister_driver;
	}

	/* If a CPU fails, unregister those before it. */
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "cpuidle/torpor_poll:online",
				poll_cpu_online, poll_cpu_offline);
	if (ret < 0)
		goto free_devices;
	poll_hotplug_state = ret;
	poll_register_cooling();
	pr_info("polls up to %u us, by %s\n", poll_limit, has_wfet ? "WFET" : "the event stream");
	return 0;

free_devices:
	torpor_wait_until_left();
	free_percpu(poll_devices);
unregister_driver:
	cpuidle_unregister_driver(&poll_driver);
	return ret;
}

static void __exit poll_exit(void)
{
	cpuhp_remove_state(poll_hotplug_state);
	torpor_wait_until_left();
	cpuidle_unregister_driver(&poll_driver);
	free_percpu(poll_devices);
}

module_init(poll_init);
module_exit(poll_exit);

MODULE_DESCRIPTION("Polling idle driver for arm64");
MODULE_VERSION(TORPOR_VERSION);
MODULE_LICENSE("GPL");
