// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Formats numbers with the digits that matter in a comparison.

/// Typographic minus sign.
const MINUS: &str = "\u{2212}";
/// Change from which a factor is shown instead of a percentage.
const FACTOR_FROM: f64 = 10.0;

/// Formats a value: 104086, 2716.4, 187.8, 9.61, 1.00, 0.00123, 0.
pub fn value(value: f64) -> String {
    let magnitude = value.abs();
    let text = if magnitude == 0.0 {
        return "0".to_owned();
    } else if magnitude >= 10_000.0 {
        format!("{value:.0}")
    } else if magnitude >= 100.0 {
        format!("{value:.1}")
    } else if magnitude >= 1.0 {
        format!("{value:.2}")
    } else if magnitude >= 0.1 {
        format!("{value:.3}")
    } else {
        // Three digits that count.
        let decimals = (2.0 - libm::floor(libm::log10(magnitude))).min(300.0);
        let text = format!("{value:.*}", decimals as usize);
        text.trim_end_matches('0').to_owned()
    };
    text.replace('-', MINUS)
}

/// Formats a count or a mean of counts.
pub fn count(n: f64) -> String {
    if n == n.round() { format!("{n:.0}").replace('-', MINUS) } else { value(n) }
}

/// Formats a change relative to `base` with half of its interval: `−10.19 %`, `+1.25 ±0.40 %`,
/// `×30.7`. From a base of 0 there is only an absolute change, in the metric's `unit`: `+5.00 µs`.
pub fn change(base: f64, difference: f64, half: Option<f64>, unit: &str) -> String {
    if base == 0.0 {
        let margin = half.map_or(String::new(), |half| format!(" ±{}", value(half)));
        let sign = if difference < 0.0 { "" } else { "+" };
        let unit = unit.replacen('u', "µ", usize::from(unit.starts_with('u')));
        return format!("{sign}{}{margin} {unit}", value(difference)).trim_end().to_owned();
    }
    let ratio = (base + difference) / base;
    if ratio >= FACTOR_FROM {
        return if ratio < 100.0 { format!("×{ratio:.1}") } else { format!("×{ratio:.0}") };
    }
    let percent = |of: f64| 100.0 * of / base.abs();
    format!("{} %", plus_minus(percent(difference), half.map(percent)))
}

/// Formats a change in percentage points: `−7.03 pp`.
pub fn points(difference: f64, half: Option<f64>) -> String {
    format!("{} pp", plus_minus(difference, half))
}

fn plus_minus(middle: f64, half: Option<f64>) -> String {
    // Digits that the interval makes worth nothing are not shown.
    let digits = match half {
        Some(half) if half >= 100.0 => 0,
        Some(half) if half >= 10.0 => 1,
        _ => 2,
    };
    let margin = half.map_or(String::new(), |half| format!(" ±{half:.digits$}"));
    format!("{middle:+.digits$}{margin}").replace('-', MINUS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_digits_that_count() {
        let values = [104_086.4, 2716.4, 187.83, 9.614, 1.0, 0.00123, 0.0, 0.000_123, -12.345];
        let texts = values.map(value);
        assert_eq!(
            texts,
            ["104086", "2716.4", "187.8", "9.61", "1.00", "0.00123", "0", "0.000123", "−12.35"]
        );
        assert_eq!((count(5019.0), count(2.0 + 2.0 / 3.0)), ("5019".into(), "2.67".into()));
    }

    #[test]
    fn changes_are_relative_factors_or_points() {
        let texts = [
            (209.1, 187.8, "−10.19 %"),
            (100.0, 100.004, "+0.00 %"),
            (1.5, 46.0, "×30.7"),
            (1.0, 10.0, "×10.0"),
            (1.0, 1620.0, "×1620"),
            (0.0, 5.0, "+5.00 µs"),
            (3.0, 0.0, "−100.00 %"),
        ];
        for (base, value, text) in texts {
            assert_eq!(change(base, value - base, None, "us"), text);
        }
        assert_eq!(change(200.0, -20.0, Some(3.0), ""), "−10.00 ±1.50 %");
        assert_eq!(change(200.0, -20.0, Some(30.0), ""), "−10.0 ±15.0 %");
        assert_eq!(change(0.0, 2.0, Some(0.5), ""), "+2.00 ±0.500");
        assert_eq!(points(-7.03, Some(0.5)), "−7.03 ±0.50 pp");
    }
}
