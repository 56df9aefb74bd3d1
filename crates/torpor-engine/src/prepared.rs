// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Inputs of replays, kept with a loaded recording: the next replay of it need not extract them
//! again.

use crate::causes::Causes;
use crate::input::{Recording, Span};
use crate::options::{By, Options};
use crate::outcome::Agreement;
use crate::trace_info::TraceInfo;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration};

/// A recording as inputs of replays on a machine, with what their results say about it.
pub(crate) struct Prepared {
    pub info: TraceInfo,
    /// The name of the recorded machine, if known.
    pub recorded_on: Option<String>,
    pub recording: Recording,
    pub agreement: Option<Agreement>,
    pub causes: Option<Causes>,
}

impl Prepared {
    fn held_bytes(&self) -> usize {
        let spans = self.recording.span_count().saturating_mul(size_of::<Span>());
        spans.saturating_add(self.causes.as_ref().map_or(0, Causes::held_bytes))
    }
}

/// The options and the parts of the machine that decide the inputs.
#[derive(Clone, PartialEq)]
pub(crate) struct Key {
    recorded_on: Option<Platform>,
    clusters: Vec<ClusterKey>,
    cpus: Option<Vec<CpuId>>,
    cpu_map: BTreeMap<CpuId, CpuId>,
    start: Option<Duration>,
    end: Option<Duration>,
    by: Option<By>,
}

#[derive(Clone, PartialEq)]
struct ClusterKey {
    cpus: Vec<CpuId>,
    /// Scales the utilization.
    capacity: u32,
    /// Frequencies that spans are bound to.
    opps_khz: Vec<u32>,
}

impl Key {
    pub(crate) fn new(
        platform: &Platform,
        options: &Options,
        recorded_on: Option<&Platform>,
    ) -> Key {
        let clusters = platform.clusters.iter().map(|cluster| ClusterKey {
            cpus: cluster.cpus.clone(),
            capacity: cluster.capacity,
            opps_khz: cluster.opps.iter().map(|opp| opp.freq_khz).collect(),
        });
        Key {
            recorded_on: recorded_on.cloned(),
            clusters: clusters.collect(),
            cpus: options.cpus.clone(),
            cpu_map: options.cpu_map.clone(),
            start: options.start,
            end: options.end,
            by: options.by,
        }
    }
}

/// The inputs of one recording, by what decides them; the most recent ones that fit.
pub(crate) struct Kept {
    max_bytes: usize,
    /// The most recent one is last.
    inputs: Mutex<Vec<(Key, Arc<Prepared>)>>,
}

impl Kept {
    pub(crate) fn new(max_bytes: usize) -> Kept {
        Kept { max_bytes, inputs: Mutex::default() }
    }

    /// Returns the inputs of a key; without them, what `prepare` makes, and keeps it.
    pub(crate) fn get<E>(
        &self,
        key: Key,
        prepare: impl FnOnce() -> Result<Prepared, E>,
    ) -> Result<Arc<Prepared>, E> {
        {
            let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(index) = inputs.iter().position(|(other, _)| *other == key) {
                inputs[index..].rotate_left(1);
                return Ok(inputs[inputs.len() - 1].1.clone());
            }
        }
        // Without the lock: another thread's replay need not wait for this one.
        let prepared = Arc::new(prepare()?);
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        inputs.push((key, prepared.clone()));
        while sum_bytes(&inputs) > self.max_bytes {
            inputs.remove(0);
        }
        Ok(prepared)
    }

    pub(crate) fn held_bytes(&self) -> usize {
        sum_bytes(&self.inputs.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn sum_bytes(inputs: &[(Key, Arc<Prepared>)]) -> usize {
    inputs.iter().map(|(_, prepared)| prepared.held_bytes()).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::CpuInput;
    use crate::testing;

    fn key(start: Duration) -> Key {
        let platform = torpor_machine::platform::resolve("pixel6").unwrap();
        Key::new(&platform, &Options { start: Some(start), ..Options::default() }, None)
    }

    /// Returns the bytes of one span, times `spans`.
    fn bytes(spans: usize) -> usize {
        spans * size_of::<Span>()
    }

    /// Requests the inputs of each start in turn; returns which had to be computed again.
    fn made(kept: &Kept, starts: &[i64]) -> Vec<i64> {
        let mut made = Vec::new();
        for &start in starts {
            let prepare = || {
                made.push(start);
                let spans = testing::spans(&[(100, 10), (200, 10)]);
                let cpu = CpuInput { cpu: CpuId(0), spans, cut: Default::default() };
                let recording = Recording { cpus: vec![cpu], ..Recording::default() };
                let info = TraceInfo::new("made up", &torpor_trace::Trace::default());
                Ok::<_, ()>(Prepared {
                    info,
                    recorded_on: None,
                    recording,
                    agreement: None,
                    causes: None,
                })
            };
            kept.get(key(Duration(start)), prepare).unwrap();
        }
        made
    }

    #[test]
    fn least_recent_inputs_give_way() {
        let kept = Kept::new(bytes(4));
        assert_eq!(made(&kept, &[1, 2, 1, 3, 1, 2]), [1, 2, 3, 2]);
        assert_eq!(kept.held_bytes(), bytes(4));
    }

    #[test]
    fn inputs_beyond_the_memory_limit_are_dropped() {
        let kept = Kept::new(bytes(2) - 1);
        assert_eq!(made(&kept, &[1, 1]), [1, 1]);
        assert_eq!(kept.held_bytes(), 0);
    }
}
