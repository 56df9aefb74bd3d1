// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Every key a workload file may hold.

use super::fio::{ENGINES, IODEPTH_MAX};
use torpor_machine::toml::{Key, Kind, LENGTH_OR_DISTRIBUTION, Shape};

/// An hour in us.
const TIME_MAX_US: f64 = 3.6e9;
const TIME: Kind = Kind::Number { max: TIME_MAX_US };
const DIST: Kind = LENGTH_OR_DISTRIBUTION;
/// `SCHED_CAPACITY_SCALE`.
const CLAMP: Kind = Kind::Integer { max: 1024.0 };
const COUNT_MAX: f64 = 1e6;
const COUNT: Kind = Kind::Integer { max: COUNT_MAX };

/// Passes through phases: benchmarks go round millions of times.
const REPEAT: Kind = Kind::Integer { max: 1e12 };

const DIRECTIONS: &[&str] = &["randread", "randwrite", "read", "write"];
const MIXED_DIRECTIONS: &[&str] =
    &["randread", "randwrite", "read", "write", "randrw", "rw", "readwrite"];

const fn required(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key::required(name, kind, doc)
}

const fn optional(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key::optional(name, kind, doc)
}

pub(super) static WORKLOAD: Shape = Shape {
    keys: &[
        required("name", Kind::Word, "Short name, as typed after `torpor simulate`."),
        required("title", Kind::Text, "The workload in words."),
        required("source", Kind::Texts, "Where its numbers come from, or that they are chosen."),
        optional("task", Kind::Tables(&TASK), "Tasks. One at least of these or of `fio`."),
        optional("fio", Kind::Tables(&FIO), "Tasks that do IO, in the terms of fio's jobs."),
        optional("interrupt", Kind::Tables(&INTERRUPT), "Interrupts from outside."),
        optional(
            "activity",
            Kind::Tables(&ACTIVITY),
            "Runs of time in which everything that names one sleeps longer, or shorter.",
        ),
        optional("device", Kind::Tables(&DEVICE), "Devices of the workload's own."),
        optional(
            "flow",
            Kind::Tables(&FLOW),
            "Deadlines and targets of flows through several tasks; `begin` and `end` name flows.",
        ),
        optional("note", Kind::Texts, "What every result is to say of the workload."),
    ],
};

const UCLAMP_MIN: Key = optional(
    "uclamp_min",
    CLAMP,
    "The lowest utilization that frequency and placement assume while it is runnable. Without \
     it, 0.",
);
const UCLAMP_MAX: Key =
    optional("uclamp_max", CLAMP, "The greatest one, at least `uclamp_min`. Without it, 1024.");

static TASK: Shape = Shape {
    keys: &[
        required("name", Kind::Word, "The task's name."),
        optional("count", COUNT, "How many there are from the start. Without it, 1."),
        optional(
            "group",
            COUNT,
            "So many of them, in the order of their numbers, share channels; the next have their \
             own. Without it, all.",
        ),
        optional("cpus", Kind::Cpus, "Where it may run. Without it, everywhere."),
        optional(
            "each_cpu",
            Kind::Bool,
            "In place of `cpus` and `count`: one on every CPU of the machine, which runs there alone, \
             as kernel threads do. Without it, false.",
        ),
        optional("start_us", TIME, "When the first one starts. Without it, 0."),
        optional("stagger_us", TIME, "How much later each next one starts. Without it, 0."),
        optional(
            "timer_slack_us",
            TIME,
            "Its timers expire this much later, unless another timer's interrupt expires \
             them earlier. Without it, 0; the kernel uses 50 for ordinary tasks.",
        ),
        optional(
            "weight",
            Kind::Integer { max: 88_761.0 },
            "Weight among the tasks of a CPU. Without it, 1024, that of nice 0.",
        ),
        optional(
            "activity",
            Kind::Word,
            "The `activity` that its `sleep_us` follow. Default: none.",
        ),
        UCLAMP_MIN,
        UCLAMP_MAX,
        optional("repeat", REPEAT, "Passes through its phases. Without it, no end."),
        required("phase", Kind::Tables(&PHASE), "What it does, one after another."),
    ],
};

pub(super) static PHASE: Shape = Shape {
    keys: &[
        optional(
            "run_us",
            DIST,
            "Work: time on the machine's biggest CPU at its highest frequency.",
        ),
        optional("sleep_us", DIST, "Sleeps on a timer."),
        optional(
            "until_us",
            TIME,
            "Sleeps until this time of the run. A task that is late for it continues at once, and \
             the pass counts as missed.",
        ),
        optional(
            "period_us",
            TIME,
            "Sleeps until the next multiple of this since the task's start. A task that is late \
             for it continues at once, and the pass counts as missed.",
        ),
        optional("wait", Kind::Word, "Waits on a channel until somebody wakes it."),
        optional("wake", Kind::Word, "Wakes a channel; a wake-up without a waiter is kept."),
        optional("barrier", Kind::Word, "Waits until all tasks with this barrier are there."),
        optional(
            "io",
            Kind::Word,
            "A request to a device (one of `device`, the platform's or one that ships); waits \
             until it is done.",
        ),
        optional("bs", Kind::Text, "With `io`: its size, such as `4k`. Without it, 4k."),
        optional("rw", Kind::Choice(DIRECTIONS), "With `io`: the operation. Default: a read."),
        optional("spawn", Kind::Word, "Starts another task of that name."),
        optional(
            "call",
            Kind::Cpus,
            "Has these CPUs run a function, one after another, and waits in a loop until each has \
             handled its IPI, as `smp_call_function_single()` does: out of its idle state if need \
             be. One that is offline is left out.",
        ),
        optional(
            "handling_us",
            DIST,
            "With `call`: the time of the function there, in addition to the IPI. Default: 0.",
        ),
        optional(
            "asleep",
            Kind::Bool,
            "With `call`: it sleeps until the function wakes it, as reads of another CPU's \
             registers do since Linux 4.17. Without it, false.",
        ),
        optional(
            "begin",
            Kind::Word,
            "Begins a flow, such as a frame: at the event that last woke the task, or at the time \
             that it is late for.",
        ),
        optional(
            "end",
            Kind::Word,
            "Ends the flow of that name that began first and has not ended.",
        ),
        optional("count", COUNT, "With `wait`, `wake` and `spawn`: how many. Without it, 1."),
        optional(
            "not_before_us",
            TIME,
            "With `wait`: a wake-up that is already there is accepted at this time of the run at \
             the earliest.",
        ),
        optional(
            "at_least_us",
            TIME,
            "With `wait`: a wake-up that is already there is accepted after this time at the \
             earliest.",
        ),
        optional(
            "sync",
            Kind::Bool,
            "With `wake`: the waker says that it is about to sleep, as pipes do.",
        ),
        optional("repeat", REPEAT, "Does the phases in `do` so many times."),
        optional("do", Kind::Tables(&PHASE), "With `repeat`: phases."),
    ],
};

static FIO: Shape = Shape {
    keys: &[
        required("name", Kind::Word, "The job's name."),
        required(
            "device",
            Kind::Word,
            "Where its requests go: one of `device`, of the platform's `io_device`, or one that \
             ships (emmc, nvme, sd, ufs).",
        ),
        optional(
            "ioengine",
            Kind::Choice(ENGINES),
            "How it asks and waits: psync in `io_schedule()`, libaio without being counted as \
             waiting for IO, io_uring as `iowait` says. Without it, psync.",
        ),
        optional(
            "direct",
            Kind::Bool,
            "False: through the page cache. Reads in order are read ahead, writes are copied, and \
             libaio waits for each request in its submission. Without it, true: of `O_DIRECT`.",
        ),
        optional(
            "size_mib",
            Kind::Integer { max: 1e9 },
            "With `direct = false`: size of the file that all of these jobs read, each block once \
             before any is read again. Without it, nothing is read twice.",
        ),
        optional("numjobs", COUNT, "How many of these there are. Without it, 1."),
        optional(
            "iodepth",
            Kind::Integer { max: IODEPTH_MAX },
            "Requests that each keeps under way. Without it, 1, and with psync never more.",
        ),
        optional("bs", Kind::Text, "Size of a request, such as `4k`. Without it, 4k."),
        optional(
            "rw",
            Kind::Choice(MIXED_DIRECTIONS),
            "The operation of a request. Default: randread. The time of a device depends on \
             direction and size, wherever it goes.",
        ),
        optional(
            "rwmixread",
            Kind::Integer { max: 100.0 },
            "With rw, readwrite and randrw: how many of 100 requests read. Without it, 50.",
        ),
        optional(
            "fsync",
            COUNT,
            "So many requests later it has the device empty its cache, and waits for that. \
             Without it, or with 0, never.",
        ),
        optional(
            "number_ios",
            Kind::Integer { max: 1e12 },
            "Requests after which it submits no more, and ends. Without it, no end.",
        ),
        optional(
            "rate_iops",
            Kind::Number { max: 1e7 },
            "Requests a second at most; one that is late may catch up. Without it, as fast as they \
             go.",
        ),
        optional(
            "startdelay",
            Kind::Number { max: 3600.0 },
            "Seconds until it starts. Without it, 0.",
        ),
        optional(
            "runtime",
            Kind::Number { max: 3600.0 },
            "Seconds after which it submits no more, and ends. Without it, no end.",
        ),
        optional("thinktime_us", TIME, "Time to sleep after each request. Default: 0."),
        optional("cpus_allowed", Kind::Cpus, "Where it may run. Without it, everywhere."),
        UCLAMP_MIN,
        UCLAMP_MAX,
        optional(
            "submit_us",
            DIST,
            "Work of submitting a request. Without it, the engine's, as measured.",
        ),
        optional(
            "complete_us",
            DIST,
            "Work of taking a result. Without it, the engine's, as measured.",
        ),
        optional(
            "iowait",
            Kind::Bool,
            "With io_uring: whether its wait counts as one for IO, as since Linux 6.5. False is a \
             kernel before, or `IORING_ENTER_NO_IOWAIT` of 6.15. Without it, true.",
        ),
    ],
};

static INTERRUPT: Shape = Shape {
    keys: &[
        required("name", Kind::Word, "The interrupt's name."),
        optional(
            "interval_us",
            DIST,
            "From one to the next; a number is periodic, exponential is Poisson.",
        ),
        optional(
            "at_us",
            Kind::Numbers { max: TIME_MAX_US },
            "In place of `interval_us`: when they come, in rising order.",
        ),
        optional("cpus", Kind::Cpus, "They go round these. Without it, CPU 0."),
        optional(
            "each_cpu_us",
            TIME,
            "In place of `cpus`: the same on every CPU of the machine, on each so much later than \
             on the one before.",
        ),
        optional(
            "activity",
            Kind::Word,
            "The `activity` that `interval_us` and `burst_gap_us` follow. Default: none.",
        ),
        optional("burst", COUNT, "Interrupts that come in one go. Without it, 1."),
        optional("burst_gap_us", DIST, "Between those of a burst. Without it, 0."),
        optional("start_us", TIME, "When the first interval begins. Without it, 0."),
        optional("max", COUNT, "How many there are at most."),
        optional("handling_us", DIST, "Time of its handler. Without it, that of a tick alone."),
        optional("wake", Kind::Word, "The channel that its handler wakes."),
        optional("spawn", Kind::Word, "The task that its handler starts."),
        optional("count", COUNT, "With `wake` and `spawn`: how many. Without it, 1."),
    ],
};

static ACTIVITY: Shape = Shape {
    keys: &[
        required("name", Kind::Word, "Its name, as tasks and interrupts give it."),
        required("mean_us", TIME, "Mean length of a run; they are exponentially distributed."),
        required(
            "sd",
            Kind::Number { max: 5.0 },
            "Standard deviation of the natural logarithm of a run's factor, by which lengths are \
             multiplied. The mean rate stays the same.",
        ),
    ],
};

static FLOW: Shape = Shape {
    keys: &[
        required("name", Kind::Word, "The flow's name, as phases give it."),
        optional("deadline_us", TIME, "A flow that takes longer is late: for a frame, jank."),
        optional(
            "deadline_after_late_us",
            TIME,
            "With `deadline_us`: the deadline of those after a late one, until one is late \
             again. With a buffer more, a display's next frames have a period more, and one that \
             needs more than that costs the buffer. Without it, `deadline_us`.",
        ),
        optional(
            "target_us",
            TIME,
            "Steers the `uclamp_min` of the tasks in `boosts` so that the flow takes this long, as \
             Android's performance hint sessions do.",
        ),
        optional("boosts", Kind::Texts, "With `target_us`: the names of those tasks."),
    ],
};

static DEVICE: Shape = Shape {
    keys: &[
        required("name", Kind::Word, "The device's name."),
        required("service_us", DIST, "Time for a request."),
        optional("servers", COUNT, "Requests it works on at a time. Without it, 1."),
        optional(
            "cpu",
            Kind::Cpus,
            "The CPU its interrupts go to. Without it, the one that asked.",
        ),
    ],
};
