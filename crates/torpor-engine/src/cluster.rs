// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What a cluster takes beside its CPUs, unless all of them rest in their deepest state.

use crate::input::CpuInput;
use torpor_platform::Cluster;
use torpor_units::{Duration, Energy, Instant, Power};

/// When one CPU was in its deepest state: intervals in order, none overlapping.
pub type DeepTimes = Vec<(Instant, Instant)>;

/// Whether anything is to be counted for a cluster.
pub fn has_static_power(cluster: &Cluster) -> bool {
    cluster.opps.iter().any(|opp| opp.static_power > Power::ZERO)
}

/// The cluster's own energy over its CPUs' common time, and that time.
///
/// CPUs that the recording does not show count as resting in their deepest state: they had
/// nothing to do.
pub fn static_energy(
    cluster: &Cluster,
    inputs: &[&CpuInput],
    deep: &[DeepTimes],
) -> (Energy, Duration) {
    let start = inputs.iter().map(|i| i.window().0).max().unwrap_or(Instant(0));
    let end = inputs.iter().map(|i| i.window().1).min().unwrap_or(Instant(0));
    if end <= start {
        return (Energy::ZERO, Duration::ZERO);
    }
    // All CPUs share the clock, so the first one's frequency is the cluster's.
    let opps: Vec<(Instant, u16)> = inputs[0].spans.iter().map(|s| (s.start, s.opp)).collect();
    let power_at = |time: Instant| {
        let next = opps.partition_point(|(from, _)| *from <= time);
        let (_, opp) = opps[next.saturating_sub(1)];
        cluster.opps[opp as usize].static_power
    };
    let mut changes: Vec<(Instant, i32)> = deep
        .iter()
        .flatten()
        .flat_map(|&(from, to)| [(from.clamp(start, end), 1), (to.clamp(start, end), -1)])
        .chain(opps.iter().map(|&(from, _)| (from.clamp(start, end), 0)))
        .chain([(end, 0)])
        .collect();
    changes.sort_unstable();
    let (mut energy, mut resting, mut since) = (Energy::ZERO, 0, start);
    for (at, change) in changes {
        if resting < deep.len() as i32 {
            energy += power_at(since).over(at.since(since));
        }
        resting += change;
        since = at;
    }
    (energy, end.since(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use torpor_units::CpuId;

    #[test]
    fn a_cluster_rests_only_while_all_its_cpus_do() {
        // 1 mW of its own. Two CPUs over 10 ms: deep in 2..8 and 5..9, so both in 5..8.
        let mut cluster = testing::two_state_cluster();
        cluster.opps[0].static_power = Power::from_mw(1.0);
        let spans = testing::spans(&[(10_000, 0)]);
        let input = CpuInput { cpu: CpuId(0), spans };
        let ms = |n: i64| Instant(n * 1_000_000);
        let deep = [vec![(ms(2), ms(8))], vec![(ms(5), ms(9))]];
        let (energy, time) = static_energy(&cluster, &[&input, &input], &deep);
        assert_eq!(time, Duration::from_us(10_000));
        assert_eq!(energy.as_uj_f64(), 7.0);
    }
}
