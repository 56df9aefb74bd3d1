// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Metrics that do not come from counters of idle CPUs: those of a verification, of a running
//! machine, whose counters Python reads, and of a shadow.

use crate::idle::{SHARE, TIME};
use crate::metric::Direction::{Higher, Lower, None as Neither};
use crate::metric::Place::{Cost, Sentence, Shadow};
use crate::metric::{Info, Kind, infos};
use crate::work::RATE;

const WATT: (Kind, &str) = (Kind::Power, "W");
const JOULE: (Kind, &str) = (Kind::Energy, "J");

/// Metrics of governors on a running machine. A run omits those that it does not have.
pub static AB: &[Info] = infos! {
    figure leads(&[(Sentence, 1)]): (Kind::Figure, ""), Neither, "figure",
        "The command's own figure: the last match of `--metric`, or else the last number that it \
            printed.";
    wall_s: (TIME.0, "s"), Neither, "wall time", "From the command's start to its end.";
    wakeups_per_s: RATE, Neither, "wake-ups", "Sleeps of all CPUs, each second.";
    above_pct: SHARE, Lower, "too deep",
        "Sleeps shorter than their state's target residency, of all sleeps, as sysfs counts them.";
    below_pct: SHARE, Lower, "too shallow",
        "Sleeps long enough for a deeper state, of all sleeps, as sysfs counts them.";
    deepest_pct same_as("deepest_residency_pct"):
        SHARE, Neither, "time in the deepest state", "Of all CPUs' time.";
    idle_pct same_as("idle_residency_pct"):
        SHARE, Neither, "time in all idle states", "Of all CPUs' time.";
    package_w leads(&[(Sentence, 5)]):
        WATT, Lower, "package power", "`package_j` over the wall time.";
    package_j sum leads(&[(Sentence, 6)]):
        JOULE, Lower, "package energy", "Of all packages, by RAPL.";
    dram_w: WATT, Lower, "dram power", "`dram_j` over the wall time.";
    dram_j sum: JOULE, Lower, "dram energy", "Of all memory, by RAPL.";
    platform_w: WATT, Lower, "platform power", "`platform_j` over the wall time.";
    platform_j sum: JOULE, Lower, "platform energy", "Of the whole machine, by RAPL.";
};

/// Metrics of a comparison with the recorded governor.
pub static FIDELITY: &[Info] = infos! {
    agreement_pct: SHARE, Higher, "agreement",
        "Decisions in which the governor chose the recorded state, of those compared.";
    history_agreement_pct optional: SHARE, Higher, "agreement with history", "The same with the \
        recording itself as the history before it; unknown if the governor was reset.";
    tick_agreement_pct: SHARE, Higher, "tick agreement",
        "Decisions that treat the tick as recorded, of those with the tick running.";
};

/// Metrics of a shadow besides those of a replay.
pub static SHADOW: &[Info] = infos! {
    wrong_pct leads(&[(Shadow, 3), (Cost, 4)]) called("share of sleeps of a wrong depth"): SHARE,
        Lower, "wrong depth", "Share of all sleeps that were too deep or too shallow.";
};
