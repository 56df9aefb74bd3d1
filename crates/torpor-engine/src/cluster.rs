// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What a cluster takes beside its CPUs, unless all of them rest in their deepest state.

use crate::input::CpuInput;
use torpor_platform::Cluster;
use torpor_units::{Energy, Instant, Power};

/// When one CPU was in its deepest state: intervals in order, none overlapping.
pub type DeepTimes = Vec<(Instant, Instant)>;

/// Whether anything is to be counted for a cluster.
pub fn has_static_power(cluster: &Cluster) -> bool {
    cluster.opps.iter().any(|opp| opp.static_power > Power::ZERO)
}

/// The cluster's own energy over the replayed span.
///
/// CPUs that the recording does not show count as resting in their deepest state: they had
/// nothing to do. So do those in a sleep that the recording cuts.
pub fn static_energy(
    cluster: &Cluster,
    inputs: &[&CpuInput],
    deep: &[DeepTimes],
    span: (Instant, Instant),
) -> Energy {
    let (start, end) = span;
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
        .copied()
        .chain(inputs.iter().zip(deep).flat_map(|(input, deep)| cut_sleeps(input, deep, span)))
        .flat_map(|(from, to)| [(from.clamp(start, end), 1), (to.clamp(start, end), -1)])
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
    energy
}

/// What of the sleeps that the recording cuts does not overlap one that was replayed: that may
/// have ended later than the recorded one.
fn cut_sleeps(
    input: &CpuInput,
    deep: &[(Instant, Instant)],
    span: (Instant, Instant),
) -> [(Instant, Instant); 2] {
    let [before, (from, to)] = input.cut.within(span);
    let replayed_to = deep.last().map_or(from, |(_, to)| *to);
    [before, (from.max(replayed_to).min(to), to)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::CutSleeps;
    use crate::testing;
    use torpor_units::CpuId;

    #[test]
    fn a_cluster_rests_only_while_all_its_cpus_do() {
        // 1 mW of its own. Two CPUs over 10 ms: deep in 2..8 and 5..9, so both in 5..8.
        let mut cluster = testing::two_state_cluster();
        cluster.opps[0].static_power = Power::from_mw(1.0);
        let spans = testing::spans(&[(10_000, 0)]);
        let input = CpuInput { cpu: CpuId(0), spans, cut: Default::default() };
        let ms = |n: i64| Instant(n * 1_000_000);
        let deep = [vec![(ms(2), ms(8))], vec![(ms(5), ms(9))]];
        let energy = |inputs: [&CpuInput; 2], span| static_energy(&cluster, &inputs, &deep, span);
        assert_eq!(energy([&input, &input], (ms(0), ms(10))).as_uj_f64(), 7.0);
        // Over 12 ms, of whose last 2 nothing is known: nobody rests in them.
        assert_eq!(energy([&input, &input], (ms(0), ms(12))).as_uj_f64(), 9.0);
        // Both fell asleep at 11 ms, for longer than the recording goes on.
        let cut = CutSleeps { until: None, from: Some(ms(11)) };
        let asleep = CpuInput { cut, ..input };
        assert_eq!(energy([&asleep, &asleep], (ms(0), ms(12))).as_uj_f64(), 8.0);
    }
}
