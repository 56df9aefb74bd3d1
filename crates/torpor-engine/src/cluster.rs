// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Energy that a cluster takes in addition to its CPUs while not all of them are in their deepest
//! state.

use crate::input::CpuInput;
use crate::options::Others;
use torpor_machine::platform::Cluster;
use torpor_machine::units::{Energy, Instant, Power};
use torpor_result::DeepTimes;

/// Returns true if the cluster consumes power of its own.
pub fn has_static_power(cluster: &Cluster) -> bool {
    cluster.opps.iter().any(|opp| opp.static_power > Power::ZERO)
}

/// Returns the cluster's own energy over the replayed span. Each moment is weighted by the share of
/// its CPUs that are observed, as the energy of the CPUs is known for that time only.
///
/// `others` states what the unrecorded CPUs do. CPUs in a sleep that the recording cuts count as
/// resting in their deepest state.
pub fn static_energy(
    cluster: &Cluster,
    inputs: &[&CpuInput],
    deep: &[&DeepTimes],
    others: Others,
    span: (Instant, Instant),
) -> Energy {
    let end = span.1;
    let can_rest = can_rest(cluster, inputs.len(), others);
    let mut powers = static_powers(cluster, inputs, span).into_iter().peekable();
    let of_cpu = |(input, deep): (&&CpuInput, &&DeepTimes)| {
        rests(input, deep, span).flat_map(|(from, to)| [(from, 1), (to, -1)]).collect::<Vec<_>>()
    };
    let mut changes: Vec<(Instant, i32)> = inputs.iter().zip(deep).flat_map(of_cpu).collect();
    changes.sort_by_key(|(at, _)| *at);
    let (mut energy, mut resting, mut since) = (Energy::ZERO, 0, span.0);
    for (upto, change) in changes.into_iter().chain([(end, 0)]) {
        while since < upto {
            let (_, to, power) = *powers.peek().expect("there is a power for the whole span");
            let until = to.min(upto);
            if !can_rest || resting < deep.len() as i32 {
                energy += power.over(until.since(since));
            }
            since = until;
            powers.next_if(|(_, to, _)| *to <= since);
        }
        resting += change;
    }
    energy
}

/// Returns true if the cluster can rest at all, given that `recorded` of its CPUs are in the
/// recording.
pub(crate) fn can_rest(cluster: &Cluster, recorded: usize, others: Others) -> bool {
    others == Others::Idle || recorded >= cluster.cpus.len()
}

/// Returns the power of a cluster that does not rest, in pieces over the whole span, weighted by
/// the share of its CPUs that are observed. All CPUs share the clock, so the first CPU's frequency
/// is the cluster's.
pub(crate) fn static_powers(
    cluster: &Cluster,
    inputs: &[&CpuInput],
    span: (Instant, Instant),
) -> Vec<(Instant, Instant, Power)> {
    let (start, end) = span;
    let cuts = inputs.iter().flat_map(|input| input.cut.within(span));
    let cuts: Vec<(Instant, Instant)> = cuts.filter(|(from, to)| from < to).collect();
    let changes = inputs[0].spans.windows(2).filter(|pair| pair[0].opp != pair[1].opp);
    let changes = changes.map(|pair| pair[1].start.clamp(start, end));
    let mut edges: Vec<Instant> =
        changes.chain(cuts.iter().flat_map(|&(from, to)| [from, to])).chain([end]).collect();
    edges.sort_unstable();
    let (mut from, mut next) = (start, 1);
    let mut powers: Vec<(Instant, Instant, Power)> = Vec::new();
    for to in edges {
        if to <= from {
            continue;
        }
        while inputs[0].spans.get(next).is_some_and(|span| span.start <= from) {
            next += 1;
        }
        let opp = usize::from(inputs[0].spans[next - 1].opp);
        let cut = cuts.iter().filter(|(began, ended)| *began <= from && to <= *ended).count();
        let observed = (inputs.len() - cut) as i64;
        let power = Power(cluster.opps[opp].static_power.0 * observed / inputs.len() as i64);
        match powers.last_mut() {
            Some((_, until, last)) if *last == power => *until = to,
            _ => powers.push((from, to, power)),
        }
        from = to;
    }
    powers
}

/// Returns the times in which a CPU rests: in its deepest state, or in a sleep that the recording
/// cuts.
pub(crate) fn rests(
    input: &CpuInput,
    deep: &DeepTimes,
    span: (Instant, Instant),
) -> impl Iterator<Item = (Instant, Instant)> {
    let [before, after] = cut_sleeps(input, deep, span);
    let times = std::iter::once(before).chain(deep.iter()).chain([after]);
    times.map(move |(from, to)| (from.clamp(span.0, span.1), to.clamp(span.0, span.1)))
}

/// Returns the parts of cut sleeps that overlap no replayed sleep: a replayed sleep may end later
/// than the recorded one.
fn cut_sleeps(
    input: &CpuInput,
    deep: &DeepTimes,
    span: (Instant, Instant),
) -> [(Instant, Instant); 2] {
    let [before, (from, to)] = input.cut.within(span);
    let replayed_to = deep.end().unwrap_or(from);
    [before, (from.max(replayed_to).min(to), to)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::CutSleeps;
    use crate::testing;
    use torpor_machine::units::CpuId;

    #[test]
    fn cluster_rests_while_all_cpus_do() {
        // 1 mW of its own. Two CPUs over 10 ms: deep in 2..8 and 5..9, so both in 5..8.
        let mut cluster = testing::two_state_cluster();
        cluster.opps[0].static_power = Power::from_mw(1.0);
        let spans = testing::spans(&[(10_000, 0)]);
        let input = CpuInput { cpu: CpuId(0), spans, cut: Default::default() };
        let ms = |n: i64| Instant(n * 1_000_000);
        let deep = [(2, 8), (5, 9)].map(|(from, to)| {
            let mut times = DeepTimes::default();
            times.push(ms(from), ms(to));
            times
        });
        let energy = |inputs: [&CpuInput; 2], span| {
            static_energy(&cluster, &inputs, &deep.each_ref(), Others::Idle, span)
        };
        assert_eq!(energy([&input, &input], (ms(0), ms(10))).as_uj_f64(), 7.0);
        // Nothing is known of the last 2 of 12 ms: no CPU rests in them.
        assert_eq!(energy([&input, &input], (ms(0), ms(12))).as_uj_f64(), 9.0);
        // Both fell asleep at 11 ms and are still asleep when the recording ends.
        let cut = CutSleeps { until: None, from: Some(ms(11)) };
        let asleep = CpuInput { cut, ..input.clone() };
        assert_eq!(energy([&asleep, &asleep], (ms(0), ms(12))).as_uj_f64(), 8.0);
        // One CPU fell asleep: half of the cluster is observed in the last millisecond.
        assert_eq!(energy([&input, &asleep], (ms(0), ms(12))).as_uj_f64(), 8.5);
        // A third CPU is not recorded and counts as busy, if the cluster has it.
        let busy = |cluster: &Cluster| {
            let inputs = [&asleep, &asleep];
            static_energy(cluster, &inputs, &deep.each_ref(), Others::Busy, (ms(0), ms(12)))
                .as_uj_f64()
        };
        cluster.cpus = (0..2).map(CpuId).collect();
        assert_eq!(busy(&cluster), 8.0);
        cluster.cpus.push(CpuId(2));
        // The last millisecond is not observed.
        assert_eq!(busy(&cluster), 11.0);
    }
}
