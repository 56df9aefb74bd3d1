// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What a simulation compares: each governor, under each frequency policy, with each IO boost.

use crate::cpufreq::Cpufreq;
use crate::options::Request;
use crate::outcome::{IoBoostInfo, Policies};
use torpor_engine::describe_governor;
use torpor_governor::{Catalog, Governor, GovernorError, GovernorSpec, IoBoost, IoBoostSpec};
use torpor_result::record::Described;
use torpor_units::Hz;

/// What schedutil does of itself in the kernels that are simulated.
const MAINLINE: &str = "iowait";
const NO_BOOST: &str = "none";

pub struct Column {
    /// What varies beside the governor stands behind it.
    pub label: String,
    pub governor: Governor,
    spec: GovernorSpec,
    pub cpufreq: Cpufreq,
    pub boost: Option<Boost>,
}

#[derive(Clone)]
pub struct Boost {
    spec: IoBoostSpec,
    pub policy: IoBoost,
}

/// The governors come first: the first column's boost and policy are those of the second, too.
pub fn columns(request: &Request, catalog: &Catalog, hz: Hz) -> Result<Vec<Column>, GovernorError> {
    let governors = request.governors.iter();
    let governors =
        governors.map(|spec| catalog.resolve(spec, hz).map(|governor| (spec, governor)));
    let governors: Vec<(&GovernorSpec, Governor)> = governors.collect::<Result<_, _>>()?;
    let asked = &request.options.io_boosts;
    let boosts = asked.iter().map(|spec| boost(spec, catalog, hz));
    let boosts: Vec<Boost> = boosts.collect::<Result<_, _>>()?;
    let cpufreq = cpufreq(request);
    let mut columns = Vec::new();
    for &policy in &cpufreq {
        let boosts = match &boosts[..] {
            [] if policy.is_schedutil() => vec![Some(boost(&MAINLINE.parse()?, catalog, hz)?)],
            [] => vec![None],
            boosts => boosts.iter().cloned().map(Some).collect(),
        };
        for boost in boosts {
            columns.extend(governors.iter().map(|(spec, governor)| {
                let mut label = spec.to_string();
                if cpufreq.len() > 1 {
                    label += &format!(" + {policy}");
                }
                if let Some(boost) = boost.as_ref().filter(|_| asked.len() > 1) {
                    label += &format!(" + {}", boost.spec);
                }
                Column {
                    label,
                    governor: governor.clone(),
                    spec: (*spec).clone(),
                    cpufreq: policy,
                    boost: boost.clone(),
                }
            }));
        }
    }
    Ok(columns)
}

/// The frequency policies that are asked for, else the machine's own.
pub fn cpufreq(request: &Request) -> Vec<Cpufreq> {
    match &request.options.cpufreq[..] {
        [] => vec![request.platform.cpufreq_governor.into()],
        asked => asked.to_vec(),
    }
}

fn boost(spec: &IoBoostSpec, catalog: &Catalog, hz: Hz) -> Result<Boost, GovernorError> {
    Ok(Boost { spec: spec.clone(), policy: catalog.resolve_ioboost(spec, hz)? })
}

/// The IO boosts of all columns, each once.
pub fn io_boosts(columns: &[Column]) -> Vec<IoBoostInfo> {
    let mut all: Vec<IoBoostInfo> = Vec::new();
    for boost in columns.iter().filter_map(|column| column.boost.as_ref()) {
        let info = boost.describe();
        if !all.iter().any(|known| known.io_boost == info.io_boost) {
            all.push(info);
        }
    }
    all
}

impl Column {
    pub fn describe(&self) -> Described {
        Described { label: self.label.clone(), ..describe_governor(&self.spec, &self.governor) }
    }

    pub fn policies(&self) -> Policies {
        let boost = self.boost.as_ref();
        Policies {
            cpufreq: self.cpufreq.to_string(),
            io_boost: boost.map_or(NO_BOOST.to_owned(), |boost| boost.spec.to_string()),
        }
    }
}

impl Boost {
    fn describe(&self) -> IoBoostInfo {
        IoBoostInfo {
            io_boost: self.spec.to_string(),
            source_sha256: self.policy.source_sha256().to_owned(),
            params: self.policy.param_settings().into_iter().collect(),
        }
    }
}
