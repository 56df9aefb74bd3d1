// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What a cluster takes in addition to its CPUs, unless all of them rest in their deepest state.

use crate::input::CpuInput;
use torpor_platform::Cluster;
use torpor_result::DeepTimes;
use torpor_units::{Duration, Energy, Instant, Power};

/// Whether anything is to be counted for a cluster.
pub fn has_static_power(cluster: &Cluster) -> bool {
    cluster.opps.iter().any(|opp| opp.static_power > Power::ZERO)
}

/// The cluster's own energy over the replayed span, each moment of it weighed by the share of its
/// CPUs that are observed: that of its CPUs is known for the same time only.
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
    let (mut current, mut coming) = (&inputs[0].spans[0], inputs[0].spans[1..].iter().peekable());
    let of_cpus = inputs.iter().zip(deep).flat_map(|(input, deep)| changes(input, deep, span));
    let mut changes: Vec<_> = of_cpus.map(Iterator::peekable).collect();
    let (mut energy, mut resting, mut cut, mut since) = (Energy::ZERO, 0, 0, start);
    let count = deep.len() as i64;
    loop {
        let next = changes.iter_mut().filter_map(|own| Some((own.peek()?.at, own)));
        let next = next.min_by_key(|(at, _)| *at);
        let upto = next.as_ref().map_or(end, |(at, _)| (*at).clamp(start, end));
        while since < upto {
            let until = coming.peek().map_or(upto, |span| span.start.clamp(since, upto));
            if resting < count {
                let power = cluster.opps[current.opp as usize].static_power;
                energy += power.over(Duration(until.since(since).0 * (count - cut) / count));
            }
            since = until;
            if let Some(span) = coming.next_if(|span| span.start <= since) {
                current = span;
            }
        }
        let Some(change) = next.and_then(|(_, own)| own.next()) else { return energy };
        resting += change.resting;
        cut += change.cut;
    }
}

/// One CPU begins or ends to rest, or a sleep that the recording cuts.
struct Change {
    at: Instant,
    resting: i64,
    cut: i64,
}

/// A CPU's rests, and its sleeps that the recording cuts, each in order of time.
fn changes<'a>(
    input: &CpuInput,
    deep: &'a DeepTimes,
    span: (Instant, Instant),
) -> [Box<dyn Iterator<Item = Change> + 'a>; 2] {
    let [before, after] = cut_sleeps(input, deep, span);
    let rests = std::iter::once(before).chain(deep.iter()).chain([after]);
    let change = |at, resting, cut| Change { at, resting, cut };
    let rests = rests.flat_map(move |(from, to)| [change(from, 1, 0), change(to, -1, 0)]);
    let cuts = input.cut.within(span).into_iter();
    let cuts = cuts.flat_map(move |(from, to)| [change(from, 0, 1), change(to, 0, -1)]);
    [Box::new(rests), Box::new(cuts)]
}

/// What of the sleeps that the recording cuts does not overlap one that was replayed: that may
/// have ended later than the recorded one.
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
    use torpor_units::CpuId;

    #[test]
    fn a_cluster_rests_only_while_all_its_cpus_do() {
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
        let energy = |inputs: [&CpuInput; 2], span| static_energy(&cluster, &inputs, &deep, span);
        assert_eq!(energy([&input, &input], (ms(0), ms(10))).as_uj_f64(), 7.0);
        // Over 12 ms, of whose last 2 nothing is known: nobody rests in them.
        assert_eq!(energy([&input, &input], (ms(0), ms(12))).as_uj_f64(), 9.0);
        // Both fell asleep at 11 ms, for longer than the recording goes on.
        let cut = CutSleeps { until: None, from: Some(ms(11)) };
        let asleep = CpuInput { cut, ..input.clone() };
        assert_eq!(energy([&asleep, &asleep], (ms(0), ms(12))).as_uj_f64(), 8.0);
        // One did: of the last millisecond, half of the cluster is observed.
        assert_eq!(energy([&input, &asleep], (ms(0), ms(12))).as_uj_f64(), 8.5);
    }
}
