// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Objective of the oracle: energy, energy and the price of delay, or energy within a delay.

use torpor_machine::units::{Duration, Power, parse_duration};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aim {
    #[default]
    Energy,
    /// A delay costs this power for its duration.
    Price(Power),
    /// The mean delay of events must be at most this.
    Within(Duration),
}

/// A megawatt: more than any state.
const PRICE_MAX: Power = Power(1_000_000_000_000);

/// Precision of a price that is searched: one part in so many.
const PRICE_PARTS: i64 = 1_000;

impl Aim {
    /// Parses the parameters after the oracle's name.
    pub fn parse(params: &[(String, String)]) -> Result<Aim, String> {
        match params {
            [] => Ok(Aim::Energy),
            [(name, value)] if name == "price" => parse_price(value).map(Aim::Price),
            [(name, value)] if name == "latency" => {
                let latency = parse_duration(value).map_err(|error| error.to_string())?;
                if latency < Duration::ZERO {
                    return Err(format!("latency={value}: expected 0us or more"));
                }
                Ok(Aim::Within(latency))
            }
            [(name, _)] => Err(format!("it has no parameter `{name}`")),
            _ => Err("at most one parameter is allowed".to_owned()),
        }
    }
}

fn parse_price(text: &str) -> Result<Power, String> {
    let error = || {
        let allowed = "expected a power up to 1000000W, such as 20mW (units: uW, mW, W)";
        format!("price={text}: {allowed}")
    };
    let at = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(error)?;
    let (number, unit) = text.split_at(at);
    let mw = match unit {
        "uW" | "µW" => 1e-3,
        "mW" => 1.0,
        "W" => 1e3,
        _ => return Err(error()),
    };
    let number: f64 = number.parse().map_err(|_| error())?;
    let price = Power::from_mw(number * mw);
    if price > PRICE_MAX { Err(error()) } else { Ok(price) }
}

/// Returns the least price of delay at which the mean delay is at most `latency`, to a thousandth.
/// `delay_at` returns the mean delay of the cheapest decisions at a price, in ns, which falls as
/// the price rises, or `None` if cancelled. `Some(Err)` is the least possible delay.
///
/// No decisions with as little mean delay take less energy than those at this price: they would be
/// cheaper at this price.
pub fn price_within(
    latency: Duration,
    delay_at: &mut dyn FnMut(Power) -> Option<f64>,
) -> Option<Result<Power, f64>> {
    let most = latency.0 as f64;
    let (mut low, mut high) = (Power::ZERO, Power(1_000));
    if delay_at(low)? <= most {
        return Some(Ok(low));
    }
    loop {
        let least = delay_at(high)?;
        if least <= most {
            break;
        }
        if high >= PRICE_MAX {
            return Some(Err(least));
        }
        low = high;
        high = Power((high.0 * 16).min(PRICE_MAX.0));
    }
    while high.0 - low.0 > (high.0 / PRICE_PARTS).max(1) {
        let middle = Power(low.0 + (high.0 - low.0) / 2);
        if delay_at(middle)? <= most {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(Ok(high))
}

/// Returns the error for a `latency` that no decisions can meet; `least_ns` is the least mean
/// delay.
pub fn too_tight(latency: Duration, least_ns: f64) -> String {
    let least = Duration(least_ns.ceil() as i64);
    format!("no decisions delay events by {latency} or less in the mean: {least} is the least")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str, value: &str) -> Result<Aim, String> {
        Aim::parse(&[(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn invalid_aims_list_the_valid_ones() {
        assert_eq!(Aim::parse(&[]), Ok(Aim::Energy));
        assert_eq!(parsed("price", "1.5W"), Ok(Aim::Price(Power(1_500_000))));
        assert_eq!(parsed("price", "20mW"), Ok(Aim::Price(Power(20_000))));
        assert_eq!(parsed("latency", "50us"), Ok(Aim::Within(Duration(50_000))));
        for (name, value, part) in [
            ("price", "20", "units: uW"),
            ("price", "-1mW", "expected a power"),
            ("price", "1e9W", "expected a power"),
            ("price", "9999999W", "expected a power"),
            ("latency", "50", "such as 50us"),
            ("latency", "-1us", "0us or more"),
            ("speed", "1", "no parameter `speed`"),
        ] {
            let error = parsed(name, value).unwrap_err();
            assert!(error.contains(part), "{name}={value}: {error}");
        }
    }

    #[test]
    fn least_price_within_the_delay_is_found() {
        // The delay drops from 9 to 5 at 12,345 uW, and to 1 at ten times that.
        let delay = |price: Power| match price.0 {
            ..12_345 => 9.0,
            12_345..123_450 => 5.0,
            _ => 1.0,
        };
        let found = |ns| price_within(Duration(ns), &mut |price| Some(delay(price))).unwrap();
        assert_eq!(found(9), Ok(Power::ZERO));
        for (ns, price) in [(8, 12_345), (5, 12_345), (4, 123_450)] {
            let Power(at) = found(ns).unwrap();
            assert!((price..=price + price / 1_000 + 1).contains(&at), "{ns}: {at}");
        }
        assert_eq!(found(0), Err(1.0));
        assert!(price_within(Duration(1), &mut |_| None).is_none());
    }
}
