// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The report's strips: the first sleeps of every CPU under every governor, up to a limit.

use crate::decision::Decision;
use std::cmp::Reverse;
use torpor_machine::units::{CpuId, Instant};
use torpor_result::record::{Strip, StripRow};

/// Most sleeps of the busiest CPU under one governor, and of all the others together, so that
/// results stay small on any machine.
const SLEEPS: usize = 20_000;

/// Most sleeps of the busiest CPU under all governors together: a page has no space for more.
const SLEEPS_OF_ALL: usize = 10 * SLEEPS;

/// Sleeps that a CPU may keep, relative to those expected, before the rest goes to a busier CPU: a
/// factor and an addend, as ticks and poll time-outs add sleeps.
const MORE: (usize, usize) = (2, 64);

/// One CPU of the strips.
pub struct Lane {
    pub cpu: CpuId,
    pub window: (Instant, Instant),
    expected: usize,
    /// Most sleeps to show for each governor.
    pub most: usize,
}

/// One sleep of a lane.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Slept {
    pub lane: usize,
    pub from: Instant,
    pub to: Instant,
    pub state: u8,
}

impl From<&Decision> for Slept {
    /// Converts a decision; its slot is the lane.
    fn from(decision: &Decision) -> Slept {
        let Decision { slot, from, resume, state, .. } = *decision;
        Slept { lane: slot, from, to: resume, state }
    }
}

/// Returns the most sleeps of a CPU for each of so many governors.
pub fn most(governors: usize) -> usize {
    SLEEPS.min(SLEEPS_OF_ALL / governors.max(1))
}

/// Returns the lanes of CPUs, given the expected number of sleeps of each and the number of
/// governors.
pub fn lanes(
    cpus: impl IntoIterator<Item = (CpuId, (Instant, Instant), u64)>,
    governors: usize,
) -> Vec<Lane> {
    let sleeps = most(governors);
    let mut lanes: Vec<Lane> = cpus
        .into_iter()
        .map(|(cpu, window, expected)| Lane {
            cpu,
            window,
            expected: expected as usize,
            most: sleeps,
        })
        .collect();
    let mut order: Vec<usize> = (0..lanes.len()).collect();
    order.sort_by_key(|&lane| (lanes[lane].expected, Reverse(lane)));
    order.pop();
    let mut left = sleeps;
    for (done, &lane) in order.iter().enumerate() {
        let needed = lanes[lane].expected.saturating_mul(MORE.0).saturating_add(MORE.1);
        lanes[lane].most = needed.min(left / (order.len() - done));
        left -= lanes[lane].most;
    }
    // Another governor may sleep far more often than expected.
    let share = left / order.len().max(1);
    order.iter().for_each(|&lane| lanes[lane].most += share);
    lanes
}

/// Returns the busiest lane, whose strip is the first.
fn busiest(lanes: &[Lane]) -> Option<usize> {
    (0..lanes.len()).max_by_key(|&lane| (lanes[lane].expected, Reverse(lane)))
}

/// Returns the strips of the lanes, the busiest first. Sleeps of a lane are in the order of time; a
/// failed run has none.
///
/// Each strip ends where the known sleeps of any governor end.
pub fn strips<S: IntoIterator<Item = Slept>>(
    lanes: &[Lane],
    runs: impl IntoIterator<Item = (String, Option<S>)>,
) -> Vec<Strip> {
    let mut by_lane: Vec<Vec<(String, Vec<Slept>)>> = lanes.iter().map(|_| Vec::new()).collect();
    for (governor, sleeps) in runs {
        let Some(sleeps) = sleeps else { continue };
        by_lane.iter_mut().for_each(|rows| rows.push((governor.clone(), Vec::new())));
        for slept in sleeps {
            let kept = &mut by_lane[slept.lane].last_mut().expect("it was pushed").1;
            // One more than shown, to mark the strip's end.
            if kept.len() <= lanes[slept.lane].most {
                kept.push(slept);
            }
        }
    }
    let first = busiest(lanes);
    let order = first.into_iter().chain((0..lanes.len()).filter(|&lane| Some(lane) != first));
    order.map(|lane| strip(&lanes[lane], &by_lane[lane])).collect()
}

fn strip(lane: &Lane, rows: &[(String, Vec<Slept>)]) -> Strip {
    let (start, end) = lane.window;
    let cuts = rows.iter().filter_map(|(_, kept)| kept.get(lane.most)).map(|slept| slept.from);
    let shown = cuts.min().unwrap_or(end);
    let row = |(governor, kept): &(String, Vec<Slept>)| {
        let kept = kept.iter().filter(|slept| slept.from < shown);
        let segments = kept.map(|slept| (slept.from.0, slept.to.0, slept.state)).collect();
        StripRow { governor: governor.clone(), segments }
    };
    Strip {
        cpu: lane.cpu.0,
        start_ns: start.0,
        end_ns: shown.0,
        truncated: shown < end,
        rows: rows.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Lane, SLEEPS, lanes};
    use torpor_machine::units::{CpuId, Instant};

    fn most_of(sleeps: &[u64], governors: usize) -> Vec<usize> {
        let cpus = sleeps.iter().enumerate();
        let cpus = cpus.map(|(n, &s)| (CpuId(n as u32), (Instant(0), Instant(1)), s));
        let all = lanes(cpus, governors);
        all.iter().map(|lane: &Lane| lane.most).collect()
    }

    fn most(sleeps: &[u64]) -> Vec<usize> {
        most_of(sleeps, 1)
    }

    #[test]
    fn many_governors_share_the_sleeps_of_ten() {
        assert_eq!(most_of(&[90_000, 90_000], 10), [SLEEPS, SLEEPS]);
        assert_eq!(most_of(&[90_000, 90_000], 100), [SLEEPS / 10, SLEEPS / 10]);
        assert_eq!(most_of(&[90_000], 1_000_000), [0]);
    }

    #[test]
    fn busiest_cpu_has_its_own_share_of_strip() {
        assert!(most(&[]).is_empty());
        assert_eq!(most(&[7]), [SLEEPS]);
        // The quiet one needs 2 * 100 + 64; the other two get equal parts of the rest.
        assert_eq!(most(&[50_000, 100, 90_000, 40_000]), [9_868, 264, SLEEPS, 9_868]);
        // All have what they need; each gets a third of the remaining 19,608.
        assert_eq!(most(&[0, 90_000, 100, 0]), [64 + 6_536, SLEEPS, 264 + 6_536, 64 + 6_536]);
        let server = most(&[5_000; 64]);
        assert_eq!(server[0], SLEEPS);
        assert!(server[1..].iter().sum::<usize>() <= SLEEPS && server[63] >= 317);
    }
}
