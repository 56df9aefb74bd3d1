// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Metrics and their catalogues: each is declared once, with its unit, its direction and the places
//! in which it leads. Tables, sentences, pages and defaults are queries of these declarations.

use crate::idle::{self, Sums};
use crate::{elsewhere, work};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Direction in which a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Lower,
    Higher,
    None,
}

/// Kind of a value, which determines column types and formatting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Count, an integer unless it is a mean.
    Count,
    /// Count per second.
    Rate,
    /// Percentage; its changes are in percentage points.
    Share,
    Time,
    Power,
    Energy,
    Frequency,
    /// Number without a unit: a ratio, or one from a program's output.
    Figure,
}

/// Description of a metric for readers of results.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Info {
    pub key: Cow<'static, str>,
    pub title: Cow<'static, str>,
    /// Unit in ASCII; empty for a count or a ratio.
    pub unit: Cow<'static, str>,
    pub kind: Kind,
    pub direction: Direction,
    #[serde(default)]
    pub definition: Cow<'static, str>,
    /// Whether tables omit it if it is 0 or unknown in every column.
    #[serde(default)]
    pub is_optional: bool,
    /// Not a part of results: a later version may lead with other metrics.
    #[serde(skip)]
    pub lead: Lead,
}

/// Something that has room for a few metrics, and has the most important ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Power that a governor costs: sentences, pictures and defaults have the first known one.
    Cost,
    /// Sentences on differences, and on the number of draws that would show one.
    Sentence,
    /// The line of a recording among many.
    Line,
    /// Shadows of many machines.
    Shadow,
    // Groups of a page's summary.
    Work,
    Power,
    Delay,
    Depth,
    Wakeups,
}

/// Where a metric leads, and how sentences use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lead {
    /// Places with the metric's rank in each, 1 being the first.
    #[serde(serialize_with = "as_map")]
    pub places: &'static [(Place, u8)],
    /// What a sentence calls it, if not the beginning of its title.
    #[serde(skip)]
    pub noun: Option<&'static str>,
    /// Key of the energy whose distance to the oracle it is.
    pub over: Option<&'static str>,
    /// Key of the same metric in other catalogues.
    pub same_as: Option<&'static str>,
    /// Whether it is a sum over the run that another metric has as a rate or a mean.
    pub is_sum: bool,
    /// Whether it is defined only in a replay, relative to the recording.
    #[serde(skip)]
    pub is_of_replay_only: bool,
}

fn as_map<S: serde::Serializer>(places: &&[(Place, u8)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(places.iter().copied())
}

/// A metric and the function that computes it.
pub struct Metric {
    pub info: Info,
    /// Computes the value; `None` means unknown.
    pub of: fn(&Sums) -> Option<f64>,
}

/// Metrics of a run by key.
pub type Values = BTreeMap<&'static str, Option<f64>>;

pub(crate) const fn info(
    key: &'static str,
    title: &'static str,
    (kind, unit): (Kind, &'static str),
    direction: Direction,
    definition: &'static str,
) -> Info {
    Info {
        key: Cow::Borrowed(key),
        title: Cow::Borrowed(title),
        unit: Cow::Borrowed(unit),
        kind,
        direction,
        definition: Cow::Borrowed(definition),
        is_optional: false,
        lead: Lead {
            places: &[],
            noun: None,
            over: None,
            same_as: None,
            is_sum: false,
            is_of_replay_only: false,
        },
    }
}

/// Declares metrics: key, what holds for it (methods of [`Info`] with their arguments), kind, better
/// direction, title, definition, and the value.
macro_rules! metrics {
    ($($key:ident $($is:ident $(($($with:expr),*))?)*: $kind:expr, $better:expr, $title:expr,
        $doc:expr, $of:expr;)*) => {
        &[$($crate::metric::Metric {
            info: $crate::metric::info(stringify!($key), $title, $kind, $better, $doc)
                $(.$is($($($with),*)?))*,
            of: $of,
        }),*]
    };
}
pub(crate) use metrics;

/// Declares metrics without a function that computes them.
macro_rules! infos {
    ($($key:ident $($is:ident $(($($with:expr),*))?)*: $kind:expr, $better:expr, $title:expr,
        $doc:expr;)*) => {
        &[$($crate::metric::info(stringify!($key), $title, $kind, $better, $doc)
            $(.$is($($($with),*)?))*),*]
    };
}
pub(crate) use infos;

impl Info {
    pub(crate) const fn optional(mut self) -> Info {
        self.is_optional = true;
        self
    }

    /// Defined only in a replay, relative to the recording.
    pub(crate) const fn of_replay_only(mut self) -> Info {
        self.lead.is_of_replay_only = true;
        self
    }

    pub(crate) const fn leads(mut self, places: &'static [(Place, u8)]) -> Info {
        self.lead.places = places;
        self
    }

    pub(crate) const fn called(mut self, noun: &'static str) -> Info {
        self.lead.noun = Some(noun);
        self
    }

    pub(crate) const fn over(mut self, energy: &'static str) -> Info {
        self.lead.over = Some(energy);
        self
    }

    pub(crate) const fn same_as(mut self, key: &'static str) -> Info {
        self.lead.same_as = Some(key);
        self
    }

    pub(crate) const fn sum(mut self) -> Info {
        self.lead.is_sum = true;
        self
    }

    /// Returns what a sentence calls the metric.
    pub fn noun(&self) -> &str {
        self.lead.noun.unwrap_or(&self.title)
    }

    /// Returns the key of a metric of the catalogue.
    pub(crate) fn key(&self) -> &'static str {
        match &self.key {
            Cow::Borrowed(key) => key,
            Cow::Owned(_) => unreachable!("`info` borrows"),
        }
    }
}

/// The metrics of a replay, in the order of the table.
pub fn of_replay() -> &'static [Info] {
    static ALL: LazyLock<Vec<Info>> =
        LazyLock::new(|| idle::METRICS.iter().map(|m| m.info.clone()).collect());
    &ALL
}

/// Returns the metrics of a simulation: of its work, and those of a replay that hold here.
pub fn of_simulation() -> &'static [Info] {
    static ALL: LazyLock<Vec<Info>> = LazyLock::new(|| {
        let idle = idle::METRICS.iter().filter(|m| !m.info.lead.is_of_replay_only);
        work::METRICS.iter().chain(idle).map(|m| m.info.clone()).collect()
    });
    &ALL
}

/// Returns all catalogues by name, with what holds for each metric's place and name.
pub fn catalogues() -> serde_json::Value {
    let with_lead = |info: &Info| {
        let mut one = json!(info);
        one["noun"] = info.noun().into();
        one["lead"] = json!(info.lead);
        one
    };
    let of = |all: &[Info]| all.iter().map(with_lead).collect::<Vec<_>>();
    json!({
        "replay": of(of_replay()),
        "simulation": of(of_simulation()),
        "fidelity": of(elsewhere::FIDELITY),
        "ab": of(elsewhere::AB),
        "shadow": of(elsewhere::SHADOW),
    })
}

/// The values of one run: of a simulation if it has [`Sums::work`], else of a replay.
pub fn values(sums: &Sums) -> Values {
    let work = work::METRICS.iter().filter(|_| sums.work.is_some());
    let idle =
        idle::METRICS.iter().filter(|m| !m.info.lead.is_of_replay_only || sums.work.is_none());
    work.chain(idle).map(|m| (m.info.key(), (m.of)(sums))).collect()
}

/// Metrics of a run, for the schema of a record.
pub fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "$ref": "#/$defs/Metrics" })
}

/// Returns the schema of every metric of the catalogues.
pub fn definition() -> Schema {
    let all = work::METRICS.iter().chain(idle::METRICS).map(|metric| {
        let Info { title, unit, definition, .. } = &metric.info;
        let value = json_schema!({
            "type": ["number", "null"],
            "title": title,
            "description": definition,
            "unit": unit,
        });
        (metric.info.key().to_owned(), value.to_value())
    });
    json_schema!({
        "type": "object",
        "description": "A run's metrics by key; null is not known.",
        "properties": all.collect::<serde_json::Map<_, _>>(),
        "additionalProperties": false,
    })
}

/// The values of a run that failed.
pub fn unknown(catalogue: &'static [Info]) -> Values {
    catalogue.iter().map(|info| (info.key(), None)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_metrics_have_one_rank_in_a_place() {
        let infos = || idle::METRICS.iter().chain(work::METRICS).map(|m| &m.info);
        let ab = elsewhere::AB.iter().filter(|info| infos().all(|other| other.key != info.key));
        let mut taken = BTreeSet::new();
        for info in infos().chain(ab).chain(elsewhere::SHADOW) {
            for place in info.lead.places {
                assert!(taken.insert(place), "{} is not alone at {place:?}", info.key);
            }
        }
    }

    #[test]
    fn keys_are_unique_and_say_their_unit() {
        let units = [
            ("%", "_pct"),
            ("us", "_us"),
            ("ns", "_ns"),
            ("mW", "_mw"),
            ("uJ", "_uj"),
            ("kHz", "_khz"),
        ];
        let mut seen = BTreeSet::new();
        for info in idle::METRICS.iter().chain(work::METRICS.iter()).map(|m| &m.info) {
            assert!(seen.insert(info.key.clone()), "{} twice", info.key);
            let is_bare = matches!(info.kind, Kind::Count | Kind::Figure);
            assert_eq!(is_bare, info.unit.is_empty(), "{}", info.key);
            for (unit, ending) in units {
                assert_eq!(info.unit == unit, info.key.ends_with(ending), "{}", info.key);
            }
            assert!(info.definition.ends_with('.'), "{}", info.key);
        }
    }

    #[test]
    fn replay_and_simulation_have_their_own_metrics() {
        let has = |all: &[Info], key: &str| all.iter().any(|info| info.key == key);
        assert!(has(of_replay(), "delay_total_us") && !has(of_replay(), "throughput"));
        assert!(has(of_simulation(), "throughput") && !has(of_simulation(), "delay_total_us"));
    }
}
