// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Every key a platform file may hold. The reader's checks and the JSON Schema both come from
//! this list, so they agree.

use super::state_keys::IDLE_STATE;
use crate::shape;
use crate::toml::{Kind, LENGTH_OR_DISTRIBUTION, Shape};

/// Device-tree cells and sysfs counters are 32 bits wide.
pub(super) const TIME: Kind = Kind::Number { max: u32::MAX as f64 };
/// A megawatt; an error of unit is larger than that sooner or later.
pub(super) const POWER_MAX_MW: f64 = 1e9;
pub(super) const POWER: Kind = Kind::Number { max: POWER_MAX_MW };
/// A joule: a second of a whole server's socket is a hundred.
pub(super) const ENERGY: Kind = Kind::Number { max: 1e6 };

/// In the order of [`crate::platform::CpufreqGovernor`].
pub(crate) const CPUFREQ_GOVERNORS: &[&str] = &["performance", "powersave", "schedutil"];

/// Parts of a machine whose power its numbers can contain.
const POWER_PARTS: &[&str] = &["cpu", "cluster", "uncore", "package", "dram", "machine"];

pub(crate) static PLATFORM: Shape = shape! {
    required name: Kind::Word, "Short name, as typed after `--platform`.";
    required title: Kind::Text, "The machine in words.";
    required source: Kind::Texts, "Where the machine's layout comes from.";
    required hz: Kind::Hz, "Tick rate (`CONFIG_HZ`) its kernels are usually built with.";
    optional tick_handling_us: TIME, "Time that the CPU is busy with a tick interrupt that wakes \
        it from idle. Default: 3.";
    optional tick_handling_source: Kind::Texts, "Where `tick_handling_us` comes from.";
    optional timer_start_us: TIME, "Time that an idle governor needs to start and to cancel a \
        timer of its own. Default: 0.5.";
    optional timer_start_source: Kind::Texts, "Where `timer_start_us` comes from.";
    optional context_switch_us: TIME, "Time to switch from one task to another, for simulations. \
        Default: 0.";
    optional ipi_send_us: TIME, "Time a CPU spends on sending a reschedule IPI. Simulations only. \
        Default: 0.";
    optional ipi_delivery_us: TIME, "From the sending of a reschedule IPI to the interrupt. \
        Simulations only. Default: 0.";
    optional ipi_handling_us: TIME, "From the end of an idle state, or from the work, to the \
        switch that a reschedule IPI requests. Simulations only. Default: 0.";
    optional virt_exit_us: TIME, "In a virtual machine: the additional cost of sending an IPI, \
        because it exits to the hypervisor. Default: 0.";
    optional overhead_source: Kind::Texts, "Where these five come from.";
    optional power_includes: Kind::Choices(POWER_PARTS), "Parts of the machine whose power its \
        numbers include: `cpu`, the cores with their own caches; `cluster`, the parts that its \
        CPUs share; `uncore`, the parts that all CPUs share; `package`, everything that the chip's \
        energy counter counts; `dram`; `machine`, the whole at its plug.";
    optional power_missing: Kind::Texts, "Power that the numbers lack, or that nobody has \
        published.";
    optional package_floor_power_mw: POWER, "Power of the package with every CPU in its deepest \
        state, in addition to the CPUs' own power. Default: 0.";
    optional package_floor_power_source: Kind::Texts, "Where `package_floor_power_mw` comes from.";
    optional package_awake_power_mw: POWER, "Power of the package in addition to its CPUs while \
        any of them works or polls. Simulations only. Default: 0.";
    optional package_awake_power_source: Kind::Texts, "Where `package_awake_power_mw` comes from.";
    optional package_awake_rise_us: TIME, "Time in which `package_awake_power_mw` rises from 0 to \
        its full value while the package is awake, and falls while it is not. Default: 0, at once.";
    optional package_awake_rise_source: Kind::Texts, "Where `package_awake_rise_us` comes from.";
    optional cpufreq_governor: Kind::Choice(CPUFREQ_GOVERNORS), "The governor that sets \
        frequencies in a simulation. Default: `performance`.";
    required cluster: Kind::Tables(&CLUSTER), "CPUs with the same clock, idle states and power.";
    optional io_device: Kind::Tables(&IO_DEVICE), "Devices for a workload's IO.";
};

pub(crate) static IO_DEVICE: Shape = shape! {
    required name: Kind::Word, "The device's name, as a workload gives it.";
    required source: Kind::Texts, "Where its numbers come from, or that they are chosen.";
    optional nr_hw_queues: Kind::Integer { max: 8192.0 }, "Hardware queues (block layer's \
        `nr_hw_queues`). Default: one for each CPU.";
    optional queue_depth: Kind::Integer { max: 65536.0 }, "Number of requests in each hardware \
        queue. Those beyond wait in the kernel until a completion has been handled.";
    optional command_queue: Kind::Bool, "False: the device takes one request at a time, and gets \
        the next one after the CPU has handled the last. Default: true.";
    optional parallelism: Kind::Integer { max: 65536.0 }, "Requests that the device serves at a \
        time. Default: 1.";
    optional dies: Kind::Integer { max: 65536.0 }, "Instead of `parallelism`: flash dies, of \
        which each has up to 32 KiB of a request, by its address. A read works on them for \
        `read_us`; each does one thing at a time.";
    optional channels: Kind::Integer { max: 65536.0 }, "With `dies`: data read leave over the \
        die's channel, one request at a time, while the die waits. Default: one per die.";
    optional channel_per_kib_us: TIME, "With `dies`: time on the channel for each KiB. Default: 0.";
    optional program_us: TIME, "With `dies`: a write is done when the buffer has it, after \
        `write_us`; a die then takes this long to program up to 32 KiB of it, and a flush waits for \
        that. Default: 0.";
    optional buffer_kib: Kind::Integer { max: 4_194_304.0 }, "With `program_us`: the size of the \
        buffer. A write that finds no space waits. Default: all.";
    required read_us: LENGTH_OR_DISTRIBUTION, "Time of the device for a read, of any size: a \
        number or a distribution.";
    optional read_per_kib_us: TIME, "Additional time for each KiB of a read, on the link that all \
        requests share. Default: 0.";
    required write_us: LENGTH_OR_DISTRIBUTION, "As `read_us`, of a write.";
    optional write_per_kib_us: TIME, "As `read_per_kib_us`, of a write.";
    optional flush_us: LENGTH_OR_DISTRIBUTION, "Time of a cache flush, which `fsync` requests. \
        Default: 0: a device without a volatile cache.";
    optional idle_after_us: TIME, "Time after its last request at which a device that was written \
        to starts background work, such as emptying its cache. Default: never.";
    optional idle_work_us: LENGTH_OR_DISTRIBUTION, "With `idle_after_us`: the length of that work. \
        Requests that arrive during it wait.";
    optional irq_cpu: Kind::Cpus, "The CPU that takes its interrupts. Default: each queue's own \
        CPU.";
    optional completion: Kind::Choice(&["irq", "threaded", "worker"]), "Where the driver completes \
        a request: in the interrupt or the softirq that it raises; in an interrupt thread, with \
        Linux's policy and priority (SCHED_FIFO, 50), which also does the work of `irq_us`; or in \
        a work item with WQ_HIGHPRI, which does the work of `softirq_us` wherever the request came \
        from. Threads and workers stay on the interrupt's CPU. Default: irq.";
    optional interrupts_per_io: Kind::Integer { max: 16.0 }, "Interrupts of one request. The last \
        one comes when the device has served it; each earlier one answers a command of the driver, \
        and its handler sends the next command. Default: 1.";
    optional irq_us: TIME, "Work of the driver's interrupt handler, in addition to that of any \
        interrupt: time on the biggest CPU at its highest frequency. Default: 0.";
    optional softirq_us: TIME, "Work of completing one request after the interrupt handler. \
        Default: 0.";
    optional work_ratio: Kind::Number { max: 1000.0 }, "Factor on the CPU work for a request: on \
        `irq_us`, `softirq_us` and the default work of a `fio` job. Default: 1.";
};

pub(crate) static CLUSTER: Shape = shape! {
    required name: Kind::Text, "Name of the cluster, such as `little`.";
    required cpus: Kind::Cpus, "Its CPUs as the kernel lists them, such as `0-3,7`.";
    required capacity: Kind::Integer { max: 1024.0 }, "`cpu_capacity` in sysfs; 1024 for the \
        machine's biggest CPU.";
    optional capacity_source: Kind::Texts, "Where the capacity comes from.";
    required idle_state_source: Kind::Texts, "Where the idle states come from.";
    optional opp_source: Kind::Texts, "Where the OPPs come from; required with `opp`.";
    optional power_source: Kind::Texts, "Where the cluster's power numbers come from; required \
        with any of them.";
    optional energy_model_source: Kind::Texts, "Where `energy_model_power_mw` comes from; required \
        with it.";
    optional opp: Kind::Tables(&OPP), "Operating points, ascending in frequency.";
    optional clock_latency_ns: TIME, "Longest time a change of frequency takes (device tree \
        `clock-latency-ns`, sysfs `cpuinfo_transition_latency`). Default: 0, not known and at \
        once.";
    optional rate_limit_us: TIME, "The driver's own bound between two changes \
        (`transition_delay_us`). Default: the kernel's rule on `clock_latency_ns`.";
    optional fast_switch: Kind::Bool, "Whether the scheduler itself changes the frequency, at \
        once. Default: a kernel thread does, in `clock_latency_ns`.";
    optional threads_per_core: Kind::Integer { max: 8.0 }, "Hardware threads (CPUs) of a core. \
        Default: 1: a CPU is a core.";
    optional sibling_stride: Kind::Integer { max: 8192.0 }, "From one thread of a core to its \
        next, counted in `cpus`. Default: the number of cores: all first threads come before all \
        second ones. 1: they are neighbours.";
    optional smt_speed_pct: Kind::Integer { max: 100.0 }, "Speed of a thread while another thread \
        of its core works, in percent of its speed alone. Simulations only. Default: 100.";
    optional smt_source: Kind::Texts, "Where `smt_speed_pct` comes from; required with it.";
    required idle_state: Kind::Tables(&IDLE_STATE), "1 to 10 states, shallowest first.";
};

pub(crate) static OPP: Shape = shape! {
    required freq_khz: Kind::Integer { max: u32::MAX as f64 }, "Frequency, as in cpufreq.";
    optional active_power_mw: POWER, "Power of one busy CPU.";
    optional energy_model_power_mw: POWER, "Power in the kernel's energy model, by which it places \
        tasks. Simulations only. Default: `active_power_mw`.";
    optional static_power_mw: POWER, "Power of the cluster, on top of its CPUs', unless all of \
        them are in their deepest state. Default: 0.";
};
