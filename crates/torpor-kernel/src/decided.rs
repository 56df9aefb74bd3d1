// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What a kernel has decided, and what it went by: for whoever holds another scheduler against it.

use crate::abi;
use crate::sim::TaskId;
use torpor_units::CpuId;

pub use crate::abi::SeenCpu;

#[derive(Clone, Debug)]
pub enum Decided {
    /// A task wakes; it is about to be placed.
    Waking {
        task: TaskId,
        /// The CPU that wakes it, and the one that it was on.
        by: CpuId,
        prev: CpuId,
        /// Of its last CPUs, the one before `prev`.
        recent: CpuId,
        util_avg: u32,
        runnable_avg: u32,
        util_est: u32,
        /// It has never left its queue, and is not placed.
        is_queued: bool,
        is_overutilized: bool,
        cpus: Vec<SeenCpu>,
    },
    /// It is on a queue.
    Woken {
        task: TaskId,
        on: CpuId,
        /// Another fair task has that CPU.
        contest: Option<Contest>,
    },
    /// A CPU's clock goes to another frequency.
    Frequency { cpu: CpuId, khz: u32, cpus: Vec<SeenCpu> },
}

#[derive(Clone, Copy, Debug)]
pub struct Contest {
    /// The CPU's task is to make way for it, or for a third one.
    pub preempts: bool,
    pub vruntime: i64,
    pub deadline: i64,
    pub weight: u32,
    pub curr_vruntime: i64,
    pub curr_deadline: i64,
    pub curr_weight: u32,
    /// It is in the slice that it was picked for.
    pub is_protected: bool,
    /// Of the first of those that wait, if that is another; else its weight is 0.
    pub first_vruntime: i64,
    pub first_deadline: i64,
    pub first_weight: u32,
    pub virtual_time: i64,
    pub queue_weight: u64,
}

impl Decided {
    /// # Safety
    /// `cpus` is null, or has as many entries.
    pub(crate) unsafe fn of(given: &abi::Decision, count: usize) -> Decided {
        let task = || TaskId(given.task as usize - 1);
        let cpus = || {
            assert!(!given.cpus.is_null(), "the kernel shows its CPUs");
            // SAFETY: as the caller promises.
            unsafe { std::slice::from_raw_parts(given.cpus, count) }.to_vec()
        };
        match given.kind {
            abi::WAKING => Decided::Waking {
                task: task(),
                by: CpuId(given.cpu),
                prev: CpuId(given.target),
                recent: CpuId(given.recent_cpu),
                util_avg: given.util_avg,
                runnable_avg: given.runnable_avg,
                util_est: given.util_est,
                is_queued: given.is_queued != 0,
                is_overutilized: given.overutilized != 0,
                cpus: cpus(),
            },
            abi::WOKEN => Decided::Woken {
                task: task(),
                on: CpuId(given.target),
                contest: (given.is_contended != 0).then_some(Contest {
                    preempts: given.preempts != 0,
                    vruntime: given.vruntime,
                    deadline: given.deadline,
                    weight: given.weight,
                    curr_vruntime: given.curr_vruntime,
                    curr_deadline: given.curr_deadline,
                    curr_weight: given.curr_weight,
                    is_protected: given.is_protected != 0,
                    first_vruntime: given.first_vruntime,
                    first_deadline: given.first_deadline,
                    first_weight: given.first_weight,
                    virtual_time: given.virtual_time,
                    queue_weight: given.queue_weight,
                }),
            },
            abi::FREQUENCY => {
                Decided::Frequency { cpu: CpuId(given.target), khz: given.khz, cpus: cpus() }
            }
            kind => unreachable!("the kernel decides nothing of kind {kind}"),
        }
    }
}
