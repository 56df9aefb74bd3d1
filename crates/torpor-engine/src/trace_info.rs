// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Description of a recording.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use torpor_trace::{Carries, Loss, Trace};

/// Contents of a recording, for `torpor trace info`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TraceInfo {
    pub path: String,
    pub sha256: String,
    pub format: String,
    pub clock: String,
    pub kernel_release: Option<String>,
    pub machine: Option<String>,
    pub arch: Option<String>,
    pub cpu_count: u32,
    pub duration_ns: i64,
    #[serde(serialize_with = "carries")]
    #[schemars(with = "BTreeMap<String, bool>")]
    pub carries: Carries,
    pub event_counts: BTreeMap<String, u64>,
    pub losses: Vec<LossInfo>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LossInfo {
    pub key: String,
    pub severity: &'static str,
    pub count: u64,
    pub advice: String,
}

impl From<&Loss> for LossInfo {
    fn from(loss: &Loss) -> LossInfo {
        LossInfo {
            key: loss.key.clone(),
            severity: loss.severity.name(),
            count: loss.count,
            advice: loss.advice.clone(),
        }
    }
}

impl TraceInfo {
    pub fn new(path: &str, trace: &Trace) -> TraceInfo {
        let duration_ns = trace.window.map_or(0, |(first, last)| last.since(first).0);
        let meta = &trace.meta;
        TraceInfo {
            path: path.to_owned(),
            sha256: meta.sha256.clone(),
            format: meta.format.clone(),
            clock: meta.clock.clone(),
            kernel_release: meta.kernel_release.clone(),
            machine: meta.machine.clone(),
            arch: meta.arch.clone(),
            cpu_count: meta.cpu_count,
            duration_ns,
            carries: trace.carries,
            event_counts: trace.event_counts.clone(),
            losses: trace.losses.iter().map(LossInfo::from).collect(),
        }
    }
}

fn carries<S: Serializer>(carries: &Carries, serializer: S) -> Result<S::Ok, S::Error> {
    let all = [
        ("cpu_idle", carries.cpu_idle),
        ("cpu_idle_miss", carries.cpu_idle_miss),
        ("frequency", carries.frequency),
        ("switches", carries.switches),
        ("wakings", carries.wakings),
        ("hrtimers", carries.hrtimers),
        ("wheel_timers", carries.wheel_timers),
        ("tick_stop", carries.tick_stop),
        ("interrupts", carries.interrupts),
        ("ipis", carries.ipis),
        ("softirqs", carries.softirqs),
        ("probes", carries.probes),
    ];
    serializer.collect_map(all)
}
