// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Lengths of time that are drawn: a number, or a table that names a distribution.

use crate::toml::{Finding, Kind, Report, Shape, Table, optional, required};

/// An hour.
const LENGTH_MAX_US: f64 = 3.6e9;
const LENGTH: Kind = Kind::Number { max: LENGTH_MAX_US };

/// The kind of a key whose value is a length in us, constant or drawn.
pub const LENGTH_OR_DISTRIBUTION: Kind =
    Kind::NumberOr { max: LENGTH_MAX_US, shape: &DISTRIBUTION };

const NAMES: &[&str] = &["uniform", "exponential", "lognormal", "gamma", "empirical"];

static DISTRIBUTION: Shape = Shape {
    keys: &[
        required("dist", Kind::Choice(NAMES), "Which distribution."),
        optional("mean", LENGTH, "Of exponential, lognormal and gamma, in us."),
        optional("sd", LENGTH, "Standard deviation of lognormal and gamma, in us."),
        optional("min", LENGTH, "Of uniform, in us."),
        optional("max", LENGTH, "Of uniform, in us."),
        optional("values", Kind::Numbers { max: LENGTH_MAX_US }, "Of empirical, in us."),
        optional(
            "weights",
            Kind::Numbers { max: 1e15 },
            "Of empirical, one a value; like by default.",
        ),
    ],
};

/// A distribution of lengths as a file has it, checked. Numbers are in us.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    Constant(f64),
    Uniform {
        min: f64,
        max: f64,
    },
    Exponential {
        mean: f64,
    },
    LogNormal {
        mean: f64,
        sd: f64,
    },
    Gamma {
        mean: f64,
        sd: f64,
    },
    /// One weight per value, none negative, and not all 0.
    Empirical {
        values: Vec<f64>,
        weights: Vec<f64>,
    },
}

impl Distribution {
    /// Returns the mean of its draws, in us.
    pub fn mean(&self) -> f64 {
        match self {
            Distribution::Constant(us) => *us,
            Distribution::Uniform { min, max } => (min + max) / 2.0,
            Distribution::Exponential { mean }
            | Distribution::LogNormal { mean, .. }
            | Distribution::Gamma { mean, .. } => *mean,
            Distribution::Empirical { values, weights } => {
                let sum: f64 = values.iter().zip(weights).map(|(us, weight)| us * weight).sum();
                sum / weights.iter().sum::<f64>()
            }
        }
    }
}

impl Table {
    /// The value of a key of kind [`LENGTH_OR_DISTRIBUTION`]; what is wrong with it is reported.
    pub fn distribution(&self, report: &mut Report, key: &str) -> Option<Distribution> {
        match self.number(key) {
            Some(us) => Some(Distribution::Constant(us)),
            None => read(report, self.tables(key).first()?),
        }
    }
}

fn read(report: &mut Report, table: &Table) -> Option<Distribution> {
    let name = table.text("dist")?;
    let needed: &[&str] = match name {
        "uniform" => &["min", "max"],
        "exponential" => &["mean"],
        "empirical" => &["values"],
        _ => &["mean", "sd"],
    };
    let mut is_sound = true;
    let mut complain = |report: &mut Report, key: &str, message: String| {
        let allowed = Some(format!("{name} requires {}", needed.join(" and ")));
        report.push(Finding { allowed, ..table.finding(key, message) });
        is_sound = false;
    };
    for key in ["mean", "sd", "min", "max", "values", "weights"] {
        let is_taken = needed.contains(&key) || (name == "empirical" && key == "weights");
        if table.has(key) && !is_taken {
            complain(report, key, "this distribution does not have it".to_owned());
        } else if !table.has(key) && needed.contains(&key) {
            complain(report, key, "this key is missing".to_owned());
        }
    }
    for key in ["mean", "sd"] {
        if table.number(key) == Some(0.0) {
            complain(report, key, "a distribution without width or place".to_owned());
        }
    }
    let (values, weights) = (table.numbers("values"), table.numbers("weights"));
    if let Some(values) = values {
        if values.is_empty() {
            complain(report, "values", "there is nothing to draw from".to_owned());
        }
        if let Some(weights) = weights {
            if weights.len() != values.len() || weights.iter().sum::<f64>() <= 0.0 {
                complain(report, "weights", format!("{} values", values.len()));
            }
        }
    }
    let number = |key| table.number(key).unwrap_or(0.0);
    if name == "uniform" && number("min") > number("max") {
        complain(report, "max", "this is below `min`".to_owned());
    }
    if !is_sound {
        return None;
    }
    Some(match name {
        "uniform" => Distribution::Uniform { min: number("min"), max: number("max") },
        "exponential" => Distribution::Exponential { mean: number("mean") },
        "lognormal" => Distribution::LogNormal { mean: number("mean"), sd: number("sd") },
        "gamma" => Distribution::Gamma { mean: number("mean"), sd: number("sd") },
        _ => {
            let values = values?.to_vec();
            let weights = weights.map_or_else(|| vec![1.0; values.len()], <[f64]>::to_vec);
            Distribution::Empirical { values, weights }
        }
    })
}
