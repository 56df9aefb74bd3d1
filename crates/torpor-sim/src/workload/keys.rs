// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Every key a workload file may hold, but for those of phases.

use super::attributes::POLICIES;
use super::change::CHANGE;
use super::fio::{ENGINES, IODEPTH_MAX};
use super::program::PHASE;
use super::section::SECTION;
use torpor_machine::shape;
use torpor_machine::toml::{Kind, LENGTH_OR_DISTRIBUTION, Shape};

/// An hour in us.
const TIME_MAX_US: f64 = 3.6e9;
pub(super) const TIME: Kind = Kind::Number { max: TIME_MAX_US };
pub(super) const DIST: Kind = LENGTH_OR_DISTRIBUTION;
/// `SCHED_CAPACITY_SCALE`.
const CLAMP: Kind = Kind::Integer { max: 1024.0 };
const COUNT_MAX: f64 = 1e6;
pub(super) const COUNT: Kind = Kind::Integer { max: COUNT_MAX };

/// Passes through phases: benchmarks go round millions of times.
pub(super) const REPEAT: Kind = Kind::Integer { max: 1e12 };

pub(super) const DIRECTIONS: &[&str] = &["randread", "randwrite", "read", "write"];
const MIXED_DIRECTIONS: &[&str] =
    &["randread", "randwrite", "read", "write", "randrw", "rw", "readwrite"];

pub(super) static WORKLOAD: Shape = shape! {
    required name: Kind::Word, "Short name, as typed after `torpor simulate`.";
    required title: Kind::Text, "A description in one line.";
    required source: Kind::Texts, "The source of its numbers, or a statement that they are chosen.";
    optional task: Kind::Tables(&TASK), "Tasks. A workload has at least one `task` or `fio`.";
    optional fio: Kind::Tables(&FIO), "Tasks that do IO, described as fio jobs.";
    optional interrupt: Kind::Tables(&INTERRUPT), "Sources of interrupts.";
    optional activity: Kind::Tables(&ACTIVITY), "Periods in which the sleeps of tasks and \
        interrupts are longer or shorter together.";
    optional device: Kind::Tables(&DEVICE), "Devices of this workload.";
    optional cgroup: Kind::Tables(&CGROUP), "Control groups, which `cgroup` of tasks and jobs \
        names.";
    optional flow: Kind::Tables(&FLOW), "Deadlines and targets of flows, which `begin` and `end` \
        of phases name.";
    optional section: Kind::Tables(&SECTION), "Sections of the load, which follow one another and \
        repeat: `during` names those in which a task or an interrupt is there.";
    optional change: Kind::Tables(&CHANGE), "Changes to the kernel's settings while it runs.";
    optional note: Kind::Texts, "Notes that every result repeats.";
};

const CPU_NUMBER: Kind = Kind::Integer { max: 1023.0 };
const PARENT_CPU: &str = "CPU of the process that starts the tasks, near which the kernel places \
     them at first. Default: of the n-th task, CPU n.";

const CGROUP_OF: &str = "The `cgroup` that it is born in. Default: the root.";

const UCLAMP_MIN: &str = "The lowest utilization that frequency and placement assume for a runnable \
     task. Default: 0; of a realtime task 1024, as the kernel's `sched_util_clamp_min_rt_default`.";
const UCLAMP_MAX: &str = "The highest one, at least `uclamp_min`. Default: 1024.";

static TASK: Shape = shape! {
    required name: Kind::Word, "The task's name.";
    optional count: COUNT, "Number of tasks at the start. Default: 1.";
    optional group: COUNT, "Number of consecutive tasks that share channels; each group has its \
        own. Default: all.";
    optional cpus: Kind::Cpus, "CPU affinity. Default: all CPUs.";
    optional each_cpu: Kind::Bool, "Instead of `cpus` and `count`: one task per CPU, bound to it, \
        as per-CPU kernel threads are. Default: false.";
    optional parent_cpu: CPU_NUMBER, PARENT_CPU;
    optional start_us: TIME, "Start of the first task. Default: 0.";
    optional stagger_us: TIME, "Delay between the starts of two tasks. Default: 0.";
    optional timer_slack_us: TIME, "Slack of its timers: they expire this much later unless \
        another timer's interrupt expires them earlier. Default: 50, as in the kernel. A realtime \
        task's timers have none.";
    optional weight: Kind::Integer { max: 88_761.0 }, "Load weight on its runqueue. Default: 1024, \
        the weight of nice 0.";
    optional policy: Kind::Choice(POLICIES), "Scheduling policy. Default: normal.";
    optional rt_priority: Kind::Integer { max: 99.0 }, "Priority of the policies fifo and rr, \
        which need one: 1 to 99.";
    optional slice_us: TIME, "Slice requested with `sched_setattr()`, from which EEVDF derives \
        deadlines: 100 to 100000. Default: the scheduler's own.";
    optional activity: Kind::Word, "The `activity` that its `sleep_us` follow. Default: none.";
    optional during: Kind::Texts, "The sections in which its passes begin. Default: all.";
    optional cgroup: Kind::Text, CGROUP_OF;
    optional uclamp_min: CLAMP, UCLAMP_MIN;
    optional uclamp_max: CLAMP, UCLAMP_MAX;
    optional repeat: REPEAT, "Number of passes through its phases. Default: endless.";
    required phase: Kind::Tables(&PHASE), "Its steps, in order.";
};

static FIO: Shape = shape! {
    required name: Kind::Word, "The job's name.";
    optional device: Kind::Word, "The device: one of `device`, of the platform's `io_device`, or a \
        shipped one (emmc, nvme, sd, ufs).";
    optional filename: Kind::Text, "Instead of `device`: a file. It is on the device that \
        `--device` names, by default the platform's only one; the name of a device is that device.";
    optional ioengine: Kind::Choice(ENGINES), "IO engine. psync waits in `io_schedule()`, libaio \
        outside of iowait, io_uring according to `iowait`. Default: psync.";
    optional direct: Kind::Bool, "False: through the page cache. Sequential reads are read ahead, \
        writes are copied, and libaio waits in its submission. Default: true (`O_DIRECT`).";
    optional size_mib: Kind::Integer { max: 1e9 }, "With `direct = false`: size of the file that \
        these jobs share. A job reads each block once before it repeats one. Default: no block is \
        read twice.";
    optional numjobs: COUNT, "Number of jobs. Default: 1.";
    optional iodepth: Kind::Integer { max: IODEPTH_MAX }, "Requests in flight per job. Default: 1, \
        the only value for psync.";
    optional bs: Kind::Text, "Size of a request, such as `4k`. Default: 4k.";
    optional rw: Kind::Choice(MIXED_DIRECTIONS), "The operation of a request. Default: randread. \
        The service time depends on direction and size, not on the address.";
    optional rwmixread: Kind::Integer { max: 100.0 }, "With rw, readwrite and randrw: percentage \
        of reads. Default: 50.";
    optional fsync: COUNT, "Flushes the device's cache after this many requests, and waits for it. \
        Default: 0, never.";
    optional number_ios: Kind::Integer { max: 1e12 }, "Number of requests after which the job \
        ends. Default: endless.";
    optional rate_iops: Kind::Number { max: 1e7 }, "Limit of requests per second; a late job may \
        catch up. Default: unlimited.";
    optional startdelay: Kind::Number { max: 3600.0 }, "Start of the job, in seconds. Default: 0.";
    optional runtime: Kind::Number { max: 3600.0 }, "Seconds after which the job ends. Default: \
        endless.";
    optional thinktime_us: TIME, "Sleep after each request. Default: 0.";
    optional cpus_allowed: Kind::Cpus, "CPU affinity. Default: all CPUs.";
    optional parent_cpu: CPU_NUMBER, PARENT_CPU;
    optional cgroup: Kind::Text, CGROUP_OF;
    optional uclamp_min: CLAMP, UCLAMP_MIN;
    optional uclamp_max: CLAMP, UCLAMP_MAX;
    optional submit_us: DIST, "CPU time of a submission. Default: the engine's, as measured.";
    optional complete_us: DIST, "CPU time of reaping a result. Default: the engine's, as measured.";
    optional iowait: Kind::Bool, "With io_uring: its waits count as iowait, as since Linux 6.5. \
        False models an older kernel, or `IORING_ENTER_NO_IOWAIT` of 6.15. Default: true.";
};

static INTERRUPT: Shape = shape! {
    required name: Kind::Word, "The interrupt's name.";
    optional interval_us: DIST, "Time between two interrupts; a number is periodic, exponential is \
        Poisson.";
    optional at_us: Kind::Numbers { max: TIME_MAX_US }, "Instead of `interval_us`: the times of \
        the interrupts, ascending.";
    optional cpus: Kind::Cpus, "CPUs that take the interrupts in turn. Default: CPU 0.";
    optional each_cpu_us: TIME, "Instead of `cpus`: every CPU has this interrupt, each with this \
        delay to the previous CPU.";
    optional activity: Kind::Word, "The `activity` that `interval_us` and `burst_gap_us` follow. \
        Default: none.";
    optional during: Kind::Texts, "The sections in which its time passes. Default: all.";
    optional burst: COUNT, "Interrupts per burst. Default: 1.";
    optional burst_gap_us: DIST, "Time between the interrupts of a burst. Default: 0.";
    optional start_us: TIME, "Start of the first interval. Default: 0.";
    optional max: COUNT, "The highest number of interrupts. Default: endless.";
    optional handling_us: DIST, "Duration of its handler, in addition to the platform's interrupt \
        cost. Default: 0.";
    optional wake: Kind::Word, "The channel that its handler wakes.";
    optional spawn: Kind::Word, "The task that its handler starts.";
    optional count: COUNT, "With `wake` and `spawn`: the number. Default: 1.";
};

static ACTIVITY: Shape = shape! {
    required name: Kind::Word, "The name that tasks and interrupts refer to.";
    required mean_us: TIME, "Mean length of a run, which is exponentially distributed.";
    required sd: Kind::Number { max: 5.0 }, "Standard deviation of the natural logarithm of a \
        run's factor on lengths. The mean rate stays the same.";
};

/// Keys are the names of the kernel's files of cgroup v2, and so are the values.
static CGROUP: Shape = shape! {
    required name: Kind::Text, "Its path from the root: `top-app`, `system.slice/web`. Groups above \
        it need no table of their own.";
    optional cpu_weight: Kind::Integer { max: 10_000.0 }, "`cpu.weight`: its share beside its \
        siblings, 1 to 10000. Default: 100.";
    optional cpu_idle: Kind::Bool, "`cpu.idle`: its tasks run only when no other task wants to, as \
        those of `SCHED_IDLE`. Default: false.";
    optional cpu_max: Kind::Text, "`cpu.max`: quota and period in us, such as `50000 100000` for \
        half a CPU in every 100 ms. Default: `max 100000`, no limit.";
    optional cpu_max_burst_us: Kind::Integer { max: 1e6 }, "`cpu.max.burst`: unused quota that it \
        may keep for later periods, at most its quota. Default: 0.";
    optional cpu_uclamp_min: Kind::Number { max: 100.0 }, "`cpu.uclamp.min`: the lowest utilization \
        that frequency and placement assume for its runnable tasks, in percent of the biggest CPU. \
        Default: 0.";
    optional cpu_uclamp_max: Kind::Number { max: 100.0 }, "`cpu.uclamp.max`: the highest one. A \
        group's values cap those of the groups in it. Default: 100.";
};

static FLOW: Shape = shape! {
    required name: Kind::Word, "The name that phases refer to.";
    optional deadline_us: TIME, "A flow that takes longer is late: for a frame, jank.";
    optional deadline_after_late_us: TIME, "With `deadline_us`: the deadline after a late flow, \
        until a flow is late again. A display with one more buffer gives the next frames one more \
        period, until a frame uses it up. Default: `deadline_us`.";
    optional target_us: TIME, "Steers the `uclamp_min` of the tasks in `boosts` so that the flow \
        takes this long, as Android's performance hint sessions do.";
    optional boosts: Kind::Texts, "With `target_us`: the names of those tasks.";
};

static DEVICE: Shape = shape! {
    required name: Kind::Word, "The device's name.";
    required service_us: DIST, "Time for a request.";
    optional servers: COUNT, "Requests served in parallel. Default: 1.";
    optional cpu: Kind::Cpus, "Affinity of its interrupt. Default: the submitting CPU.";
};
