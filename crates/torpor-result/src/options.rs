// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Options: one struct per command, which reads the user's options and writes the resolved ones.
//!
//! They are declared in `python/torpor/run/options.py`, with their defaults and descriptions. A
//! field here has the name of the library's keyword. It reads values as people write them
//! (`"50us"`, `"0-3,7"`) and writes them with the unit in the name (`latency_limit_ns`), so that
//! results can contain the struct. Options that do not affect results are not written.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use torpor_machine::units::{CpuId, Duration, Hz, parse_duration};

/// Options as the user gave them.
pub type Given = Map<String, Value>;

/// Reads a JSON object of options.
///
/// # Errors
/// The first option that is wrong, with its value and what is allowed.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let given: Given = serde_json::from_str(text).map_err(|e| format!("options: {e}"))?;
    let parse = |given: Given| T::deserialize(Value::Object(given));
    parse(given.clone()).map_err(|whole| {
        let alone = |(key, value): (String, Value)| {
            let error = parse(Given::from_iter([(key.clone(), value)])).err()?;
            Some(format!("option `{key}`: {}", plain(&error.to_string())))
        };
        given.into_iter().find_map(alone).unwrap_or(format!("options: {whole}"))
    })
}

/// Returns serde's message without names of types.
fn plain(error: &str) -> String {
    const WORDS: [(&str, &str); 6] = [
        ("invalid type: ", "found "),
        ("invalid value: ", "found "),
        ("unknown variant ", "found "),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number from 0 to 18446744073709551615"),
        ("expected usize", "expected a whole number that is not negative"),
    ];
    WORDS.iter().fold(error.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Reads a time with its unit: `"50us"`.
pub fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let given = Value::deserialize(from)?;
    let Value::String(text) = &given else {
        return Err(D::Error::custom(format!(
            "{given}: expected a text with a unit, such as 50us"
        )));
    };
    match parse_duration(text).map_err(D::Error::custom)? {
        negative if negative.is_negative() => {
            Err(D::Error::custom(format!("`{text}` is negative")))
        }
        duration => Ok(duration),
    }
}

pub fn some_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

/// Latency limits of PM QoS: of all CPUs, and of single ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyLimits {
    pub all: Option<Duration>,
    pub of_cpus: BTreeMap<CpuId, Duration>,
}

impl LatencyLimits {
    /// Returns the limit that holds on a CPU, as `cpuidle_governor_latency_req()` does.
    pub fn of(&self, cpu: CpuId) -> Duration {
        let own = self.of_cpus.get(&cpu).copied().unwrap_or(Duration::MAX);
        own.min(self.all.unwrap_or(Duration::MAX))
    }

    /// Returns the last CPU that has a limit of its own, if the machine lacks it.
    pub fn beyond(&self, cpus: usize) -> Option<CpuId> {
        self.of_cpus.keys().next_back().copied().filter(|cpu| cpu.index() >= cpus)
    }
}

impl From<Option<Duration>> for LatencyLimits {
    fn from(all: Option<Duration>) -> LatencyLimits {
        LatencyLimits { all, ..LatencyLimits::default() }
    }
}

impl From<Duration> for LatencyLimits {
    fn from(all: Duration) -> LatencyLimits {
        LatencyLimits { all: Some(all), ..LatencyLimits::default() }
    }
}

/// Results have the limit of all CPUs as a number; what was given has the others.
impl Serialize for LatencyLimits {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.all.serialize(to)
    }
}

/// Reads `TIME` and `CPUS:TIME`, one text with commas or several.
impl<'de> Deserialize<'de> for LatencyLimits {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<LatencyLimits, D::Error> {
        let given = Value::deserialize(from)?;
        if given.is_number() {
            let message = format!("{given} has no unit; expected a time such as 50us");
            return Err(D::Error::custom(message));
        }
        let given: Vec<String> = texts(given).map_err(D::Error::custom)?;
        let mut limits = LatencyLimits::default();
        for part in given.iter().flat_map(|text| text.split(',')) {
            limits.add(part).map_err(D::Error::custom)?;
        }
        Ok(limits)
    }
}

impl LatencyLimits {
    fn add(&mut self, part: &str) -> Result<(), String> {
        let time = |text: &str| match parse_duration(text) {
            Ok(negative) if negative.is_negative() => Err(format!("`{text}` is negative")),
            Ok(time) => Ok(time),
            Err(error) => Err(error.to_string()),
        };
        let Some((cpus, limit)) = part.split_once(':') else {
            self.all = Some(time(part)?);
            return Ok(());
        };
        let cpus = torpor_machine::toml::parse_cpu_list(cpus).map_err(|reason| {
            format!(
                "`{cpus}` in `{part}` is not a list of CPUs: {reason}; expected TIME or CPU:TIME"
            )
        })?;
        let limit = time(limit)?;
        self.of_cpus.extend(cpus.into_iter().map(|cpu| (cpu, limit)));
        Ok(())
    }
}

/// Reads a tick rate that a kernel can be built with.
pub fn some_hz<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Hz>, D::Error> {
    let given = Value::deserialize(from)?;
    let known = given.as_u64().and_then(|hz| Hz::from_u32(hz.try_into().ok()?));
    known.map(Some).ok_or_else(|| D::Error::custom(no_hz(&given)))
}

/// Returns the message for a number that is not a tick rate.
pub fn no_hz(given: impl Display) -> String {
    let known = Hz::ALL.map(|hz| hz.get().to_string()).join(", ");
    format!("{given} is not a tick rate of a kernel: expected one of {known}")
}

/// Reads one text or a list of texts, and parses each.
pub fn texts<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let given = match Value::deserialize(from)? {
        Value::String(one) => vec![one],
        others => Vec::deserialize(others).map_err(D::Error::custom)?,
    };
    given.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}

/// Reads a CPU list as the kernel writes it, `"0-3,7"`, or a list of numbers.
pub fn some_cpus<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<CpuId>>, D::Error> {
    match Value::deserialize(from)? {
        Value::String(text) => torpor_machine::toml::parse_cpu_list(&text).map_err(|reason| {
            format!(
                "`{text}` is not a list of CPUs: {reason}; expected numbers and ranges, such as \
                 0-3,7"
            )
        }),
        numbers => Vec::deserialize(numbers).map_err(|error| error.to_string()),
    }
    .map(Some)
    .map_err(D::Error::custom)
}

/// Reads pairs of CPUs: `"0:4,1:5"` or an object.
pub fn cpu_pairs<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<CpuId, CpuId>, D::Error> {
    let text = match Value::deserialize(from)? {
        Value::String(text) => text,
        pairs => return BTreeMap::deserialize(pairs).map_err(D::Error::custom),
    };
    let mut pairs = BTreeMap::new();
    for part in text.split(',') {
        let pair = part.split_once(':').and_then(|(a, b)| Some((index(a)?, index(b)?)));
        let Some((from, to)) = pair else {
            let expected = "expected RECORDED:CPU, such as 0:4,1:5";
            return Err(D::Error::custom(format!("`{part}` is not a pair of CPUs: {expected}")));
        };
        if pairs.insert(CpuId(from), CpuId(to)).is_some() {
            return Err(D::Error::custom(format!("recorded CPU {from} is mapped twice")));
        }
    }
    Ok(pairs)
}

/// Parses a number without sign or space.
pub fn index<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    #[derive(Debug, Default, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Some {
        #[serde(rename(serialize = "limit_ns"), deserialize_with = "some_duration")]
        limit: Option<Duration>,
        #[serde(deserialize_with = "some_cpus")]
        cpus: Option<Vec<CpuId>>,
        #[serde(deserialize_with = "cpu_pairs")]
        cpu_map: BTreeMap<CpuId, CpuId>,
        #[serde(skip_serializing)]
        threads: Option<usize>,
        given: Given,
    }

    #[test]
    fn options_are_kept_as_given_and_as_resolved() {
        let text = r#"{"limit": "50us", "cpus": "0-1", "cpu_map": {"1": 4}, "threads": 2,
            "given": {"limit": "50us"}}"#;
        let written = serde_json::to_value(read::<Some>(text).unwrap()).unwrap();
        let expected = serde_json::json!({
            "limit_ns": 50_000, "cpus": [0, 1], "cpu_map": {"1": 4}, "given": {"limit": "50us"},
        });
        assert_eq!(written, expected);
    }

    #[test]
    fn error_names_option_and_allowed_values() {
        let refused = |text: &str| read::<Some>(text).unwrap_err();
        let error = refused(r#"{"cpus": [0], "limit": 50}"#);
        assert_eq!(error, "option `limit`: 50: expected a text with a unit, such as 50us");
        assert!(refused(r#"{"limit": "-1us"}"#).contains("negative"));
        assert!(refused(r#"{"cpu_map": "0:1,0:2"}"#).contains("CPU 0 is mapped twice"));
        assert!(refused(r#"{"cpu_map": "0:+1"}"#).contains("such as 0:4"));
        assert!(refused(r#"{"cpus": "x"}"#).contains("such as 0-3,7"));
        assert!(refused(r#"{"limits": "1us"}"#).contains("`limit`"));
    }
}
