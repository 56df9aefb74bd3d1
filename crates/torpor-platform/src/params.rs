// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `NAME,key=number`: a machine with numbers of its file replaced, as a governor's parameters are.

use crate::PlatformError;

/// What to type in place of a number of the file.
type Param<'a> = (&'a str, &'a str);

/// A machine as typed: its name or path, and the numbers that stand behind it.
pub(crate) fn split(typed: &str) -> Result<(&str, Vec<Param<'_>>), PlatformError> {
    // A comma may be part of a path.
    let end = match typed.find(".toml,") {
        Some(start) => start.saturating_add(".toml".len()),
        None if typed.contains('/') || typed.ends_with(".toml") => typed.len(),
        None => typed.find(',').unwrap_or(typed.len()),
    };
    let (base, rest) = typed.split_at(end);
    let mut params: Vec<Param<'_>> = Vec::new();
    for part in rest.split(',').skip(1) {
        let error = |reason: String| PlatformError::Param { typed: typed.to_owned(), reason };
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| error(format!("`{part}` has no `=`: expected KEY=NUMBER")))?;
        if value.parse::<f64>().is_err() {
            return Err(error(format!("{key}: `{value}` is not a number")));
        }
        if params.iter().any(|(other, _)| *other == key) {
            return Err(error(format!("`{key}` is given twice")));
        }
        params.push((key, value));
    }
    Ok((base, params))
}

/// The file's text with these numbers in place of its own. Each must stand in it once, so that
/// there is no doubt which one is meant.
pub(crate) fn fill(typed: &str, text: &str, params: &[Param<'_>]) -> Result<String, PlatformError> {
    if params.is_empty() {
        // Not even a line's end changes: the text is what the machine's hash is of.
        return Ok(text.to_owned());
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (key, value) in params {
        let places: Vec<usize> =
            (0..lines.len()).filter(|&n| number_key(&lines[n]) == Some(key)).collect();
        let [place] = places[..] else {
            let found = match places.len() {
                0 => "is not in its file".to_owned(),
                count => format!("occurs {count} times in its file"),
            };
            let reason = format!("`{key}` {found}; expected one of {}", settable(&lines));
            return Err(PlatformError::Param { typed: typed.to_owned(), reason });
        };
        lines[place] = format!("{key} = {value}");
    }
    Ok(lines.join("\n"))
}

/// The key of a line that gives a number to one.
fn number_key(line: &str) -> Option<&str> {
    let (key, value) = line.split_once('=')?;
    value.split('#').next()?.trim().parse::<f64>().ok()?;
    Some(key.trim())
}

fn settable(lines: &[String]) -> String {
    let keys: Vec<&str> = lines.iter().filter_map(|line| number_key(line)).collect();
    let once = keys.iter().filter(|key| keys.iter().filter(|other| other == key).count() == 1);
    once.copied().collect::<Vec<_>>().join(", ")
}
