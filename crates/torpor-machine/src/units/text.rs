// SPDX-License-Identifier: MIT OR GPL-2.0-only
use crate::units::Duration;
use std::fmt;

/// Why a text is no duration. The message says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDurationError {
    text: String,
}

impl fmt::Display for ParseDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a duration: expected a number and a unit (ns, us, ms, s), such as 50us",
            self.text
        )
    }
}

impl std::error::Error for ParseDurationError {}

/// Parses `50us`, `1.5ms`, `2s`, `800ns`. A bare number is refused: a value carries its unit.
pub fn parse_duration(text: &str) -> Result<Duration, ParseDurationError> {
    let error = || ParseDurationError { text: text.to_owned() };
    let trimmed = text.trim();
    let split =
        trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')).ok_or_else(error)?;
    let (number, unit) = trimmed.split_at(split);
    let scale = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(error()),
    };
    let value: f64 = number.parse().map_err(|_| error())?;
    let ns = value * scale;
    if !ns.is_finite() || ns.abs() >= i64::MAX as f64 {
        return Err(error());
    }
    Ok(Duration(ns.round() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_carries_its_unit() {
        assert_eq!(parse_duration("50us"), Ok(Duration(50_000)));
        assert_eq!(parse_duration("1.5ms"), Ok(Duration(1_500_000)));
        assert!(parse_duration("50").is_err());
        assert!(parse_duration("fast").is_err());
    }
}
