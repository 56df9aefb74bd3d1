// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Metrics that are not computed from counters of idle CPUs: those of a verification, and those of
//! a running machine, whose counters Python reads.

use crate::idle::{SHARE, TIME};
use crate::metric::Direction::{Higher, Lower, None as Neither};
use crate::metric::{Info, Kind, info};
use crate::work::RATE;

const WATT: (Kind, &str) = (Kind::Power, "W");
const JOULE: (Kind, &str) = (Kind::Energy, "J");

/// Metrics of governors on a running machine. A run omits those that it does not have.
pub static AB: &[Info] = &[
    info(
        "figure",
        "figure",
        (Kind::Figure, ""),
        Neither,
        "The command's own: of the last match of `--metric`, else the last number it printed.",
    ),
    info("wall_s", "wall time", (TIME.0, "s"), Neither, "From the command's start to its end."),
    info("wakeups_per_s", "wake-ups", RATE, Neither, "Sleeps of all CPUs, each second."),
    info(
        "above_pct",
        "too deep (above)",
        SHARE,
        Lower,
        "Sleeps shorter than their state's target residency, of all sleeps, as sysfs counts them.",
    ),
    info(
        "below_pct",
        "too shallow (below)",
        SHARE,
        Lower,
        "Sleeps for which a deeper state would have done, of all sleeps, as sysfs counts them.",
    ),
    info("deepest_pct", "time in the deepest state", SHARE, Neither, "Of all CPUs' time."),
    info("idle_pct", "time in all idle states", SHARE, Neither, "Of all CPUs' time."),
    info("package_w", "package power", WATT, Lower, "`package_j` over the wall time."),
    info("package_j", "package energy", JOULE, Lower, "Of all packages, by RAPL."),
    info("dram_w", "dram power", WATT, Lower, "`dram_j` over the wall time."),
    info("dram_j", "dram energy", JOULE, Lower, "Of all memory, by RAPL."),
    info("platform_w", "platform power", WATT, Lower, "`platform_j` over the wall time."),
    info("platform_j", "platform energy", JOULE, Lower, "Of the whole machine, by RAPL."),
];

/// Metrics of a comparison with the recorded governor.
pub static FIDELITY: &[Info] = &[
    info(
        "agreement_pct",
        "agreement",
        SHARE,
        Higher,
        "Decisions in which the governor chose the recorded state, of those compared.",
    ),
    info(
        "history_agreement_pct",
        "agreement with history",
        SHARE,
        Higher,
        "The same with the recording itself for the history before it; not known where the \
         governor was reset.",
    )
    .optional(),
    info(
        "tick_agreement_pct",
        "tick agreement",
        SHARE,
        Higher,
        "Decisions on the tick made as recorded, of those with the tick running.",
    ),
];
