// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Scheduling attributes of tasks, as `sched_setattr()` takes them.

use crate::kernel::Policy;

/// `SCHED_CAPACITY_SCALE`.
const FULL: u16 = 1024;

/// `uclamp_min` and `uclamp_max`, in 1024ths of the biggest CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clamp {
    pub min: u16,
    pub max: u16,
}

impl Clamp {
    pub const NONE: Clamp = Clamp { min: 0, max: FULL };
    /// A realtime task's that requests none (`sched_util_clamp_min_rt_default`).
    pub const REALTIME: Clamp = Clamp { min: FULL, max: FULL };
}

/// Scheduling policies by their names in a workload file: those of the kernel in small letters,
/// without `SCHED_`.
pub(crate) const POLICIES: &[&str] = &["normal", "batch", "idle", "fifo", "rr"];

/// Returns a policy of [`POLICIES`]; the priority counts for the realtime ones.
pub(crate) fn policy_of(name: &str, priority: u32) -> Policy {
    match name {
        "fifo" => Policy::Fifo(priority),
        "rr" => Policy::RoundRobin(priority),
        "batch" => Policy::Batch,
        "idle" => Policy::Idle,
        _ => Policy::Normal,
    }
}

/// Returns whether a policy of [`POLICIES`] has a priority of 1 to 99, not a nice level.
pub(crate) fn is_realtime(name: &str) -> bool {
    ["fifo", "rr"].contains(&name)
}

/// `sched_prio_to_weight`: the weight of each nice level, from -20 on.
pub(crate) const NICE_WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// Returns the nice level with the nearest weight.
pub(crate) fn nice_of(weight: u32) -> i32 {
    let off = |level: &usize| NICE_WEIGHTS[*level].abs_diff(weight);
    (0..NICE_WEIGHTS.len()).min_by_key(off).map_or(0, |level| level as i32 - 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_maps_to_the_nearest_nice_level() {
        assert_eq!([1024, 1000, 15, 1, 88_761, 3_072].map(nice_of), [0, 0, 19, 19, -20, -5]);
    }
}
