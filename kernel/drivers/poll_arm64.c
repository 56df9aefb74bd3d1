// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: torpor_poll_arm64 - waits for work without going to sleep, on arm64
 *
 * Two states. In WFE the CPU watches its own need_resched flag: it waits for an event, which a
 * write to the flag, an interrupt, or the event stream of the timer raises, and wakes up without
 * the cost of an interrupt. After poll_limit_us it gives up (dev->poll_time_limit), and the
 * governor is asked again. WFI is the state that every arm64 CPU has; it pays off for sleeps of
 * poll_limit_us and more.
 *
 * Without the event stream a CPU could wait in WFE for ever, so the driver refuses to load where
 * there is none. The stream ticks at 10 kHz or so: a poll can outlast its limit by 100 us.
 *
 * Where the kernel has no TIF_POLLING_NRFLAG for arm64, as in 6.1 and 6.12, whoever wakes a
 * polling CPU sends it an interrupt all the same. Then only the way out of WFI is saved.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/cpufeature.h>
#include <linux/cpuhotplug.h>
#include <linux/cpuidle.h>
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

/* In the benchmarks of the first such driver, longer limits gained nothing beyond it. */
static unsigned int poll_limit_us = 100;
module_param(poll_limit_us, uint, 0444);
MODULE_PARM_DESC(poll_limit_us, "how long to poll, in microseconds");

static struct cpuidle_device __percpu *poll_devices;
static enum cpuhp_state poll_hotplug_state;

static __cpuidle int poll_enter_wfe(struct cpuidle_device *dev, struct cpuidle_driver *drv,
				    int index)
{
	u64 limit_ns = dev->poll_limit_ns ?: (u64)poll_limit_us * NSEC_PER_USEC;
	u64 limit_cycles = div_u64(limit_ns * torpor_cycles_khz(), NSEC_PER_MSEC);
	u64 start = torpor_cycles();

	dev->poll_time_limit = false;

	raw_local_irq_enable();
	if (!current_set_polling_and_test()) {
		unsigned long *flags = &current_thread_info()->flags;
		unsigned long seen;

		while (!((seen = READ_ONCE(*flags)) & _TIF_NEED_RESCHED)) {
			if (torpor_cycles() - start > limit_cycles) {
				dev->poll_time_limit = true;
				break;
			}
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
			.exit_latency =	1,
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

static int __init poll_init(void)
{
	int ret;

	if (!poll_limit_us || poll_limit_us > USEC_PER_SEC) {
		pr_err("poll_limit_us: %u is not within 1 and %lu\n", poll_limit_us, USEC_PER_SEC);
		return -EINVAL;
	}
	if (!cpu_have_named_feature(EVTSTRM)) {
		pr_err("this machine's timer has no event stream (CONFIG_ARM_ARCH_TIMER_EVTSTREAM)\n");
		return -ENODEV;
	}

	poll_driver.states[STATE_WFI].target_residency = poll_limit_us;
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

	/* Where a CPU fails, those before it are taken back. */
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "cpuidle/torpor_poll:online",
				poll_cpu_online, poll_cpu_offline);
	if (ret < 0)
		goto free_devices;
	poll_hotplug_state = ret;
	pr_info("polls up to %u us\n", poll_limit_us);
	return 0;

free_devices:
	free_percpu(poll_devices);
unregister_driver:
	cpuidle_unregister_driver(&poll_driver);
	return ret;
}

static void __exit poll_exit(void)
{
	cpuhp_remove_state(poll_hotplug_state);
	cpuidle_unregister_driver(&poll_driver);
	free_percpu(poll_devices);
}

module_init(poll_init);
module_exit(poll_exit);

MODULE_DESCRIPTION("Polling idle driver for arm64");
MODULE_VERSION(TORPOR_VERSION);
MODULE_LICENSE("GPL");
