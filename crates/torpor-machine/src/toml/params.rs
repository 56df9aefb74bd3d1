// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `NAME,path=number`: a file's text with numbers replaced, as a governor's parameters are.

use crate::toml::keys::{Kind, Shape};
use crate::units::closest;
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Comment after a number that the file did not have; such a number needs no source.
pub(crate) const GIVEN: &str = " # given with the name";

/// A path into the file, and the number to put there.
pub type Param<'a> = (&'a str, &'a str);

/// Splits what a user typed: a name or path, and the numbers after it.
pub fn split_params(typed: &str) -> Result<(&str, Vec<Param<'_>>), String> {
    // A comma may be part of a path.
    let end = match typed.find(".toml,") {
        Some(start) => start.saturating_add(".toml".len()),
        None if typed.contains('/') || typed.ends_with(".toml") => typed.len(),
        None => typed.find(',').unwrap_or(typed.len()),
    };
    let (base, rest) = typed.split_at(end);
    let mut params: Vec<Param<'_>> = Vec::new();
    for part in rest.split(',').skip(1) {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| format!("`{part}` has no `=`: expected KEY=NUMBER"))?;
        if !is_number(value) {
            return Err(format!("{key}: `{value}` is not a number"));
        }
        if params.iter().any(|(other, _)| *other == key) {
            return Err(format!("`{key}` is given twice"));
        }
        params.push((key, value));
    }
    Ok((base, params))
}

fn is_number(text: &str) -> bool {
    let line = format!("x = {text}");
    let is_one_word = !text.contains(|c: char| c.is_whitespace() || c == '#');
    is_one_word
        && DeTable::parse(&line).is_ok_and(|table| {
            let mut values = table.get_ref().values();
            values.next().is_some_and(|value| as_number(value).is_some())
        })
}

fn as_number(value: &Spanned<DeValue<'_>>) -> Option<Range<usize>> {
    matches!(value.get_ref(), DeValue::Integer(_) | DeValue::Float(_)).then(|| value.span())
}

/// The file's text with these numbers in it.
///
/// A path is the keys from the file's root, with an entry of an array by its `name` or its index:
/// `cluster.big.idle_state.1.exit_latency_us`. It may omit keys as long as one number of the file
/// matches; after `*.` it means all that match. A whole path may also name a number that the file
/// leaves out.
pub fn fill_params(
    text: &str,
    params: &[Param<'_>],
    shape: &'static Shape,
) -> Result<String, String> {
    let mut filled = text.to_owned();
    for (path, value) in params {
        if let Some(path) = path.strip_prefix("*.") {
            for place in find_all(&filled, path)? {
                filled.replace_range(place, value);
            }
            continue;
        }
        let (place, new) = find(&filled, path, value, shape)?;
        filled.replace_range(place, &new);
    }
    Ok(filled)
}

/// A number of the file: the path to it, with name and index of each entry of an array, and its
/// place.
struct Leaf {
    keys: Vec<[String; 2]>,
    span: Range<usize>,
}

impl Leaf {
    fn is_whole(&self, path: &[&str]) -> bool {
        self.keys.len() == path.len()
            && self.keys.iter().zip(path).all(|(key, part)| key.iter().any(|k| k == part))
    }

    /// Whether the path is this one's with keys left out.
    fn fits(&self, path: &[&str]) -> bool {
        let mut keys = self.keys.iter();
        let is_last = |key: Option<&[String; 2]>, part: &str| {
            key.is_some_and(|key| key.iter().any(|k| k == part))
        };
        path.last().is_some_and(|part| is_last(self.keys.last(), part))
            && path.iter().all(|part| keys.any(|key| key.iter().any(|k| k == part)))
    }

    fn shown(&self) -> String {
        self.keys.iter().map(|[key, _]| key.as_str()).collect::<Vec<_>>().join(".")
    }
}

fn find(
    text: &str,
    path: &str,
    value: &str,
    shape: &'static Shape,
) -> Result<(Range<usize>, String), String> {
    // Errors of the file itself are reported by the full read.
    let Ok(file) = DeTable::parse(text) else { return Ok((0..0, String::new())) };
    let parts: Vec<&str> = path.split('.').collect();
    let mut leaves = Vec::new();
    collect(file.get_ref(), &mut Vec::new(), &mut leaves);
    let whole: Vec<&Leaf> = leaves.iter().filter(|leaf| leaf.is_whole(&parts)).collect();
    let fitting: Vec<&Leaf> = leaves.iter().filter(|leaf| leaf.fits(&parts)).collect();
    if let [leaf] = whole[..] {
        return Ok((leaf.span.clone(), value.to_owned()));
    }
    match fitting[..] {
        [leaf] => Ok((leaf.span.clone(), value.to_owned())),
        [] => match absent(text, file.get_ref(), &parts, shape) {
            Some((at, before, after)) => Ok((at..at, format!("{before}{value}{after}"))),
            None => Err(unknown(path, &leaves)),
        },
        _ => {
            let shown: Vec<String> = fitting.iter().take(8).map(|leaf| leaf.shown()).collect();
            let more = if fitting.len() > shown.len() { ", ..." } else { "" };
            let count = fitting.len();
            let shown = shown.join(", ");
            Err(format!("`{path}` occurs {count} times in its file: expected one of {shown}{more}"))
        }
    }
}

/// The places of all numbers that fit, the last one first.
fn find_all(text: &str, path: &str) -> Result<Vec<Range<usize>>, String> {
    let Ok(file) = DeTable::parse(text) else { return Ok(Vec::new()) };
    let parts: Vec<&str> = path.split('.').collect();
    let mut leaves = Vec::new();
    collect(file.get_ref(), &mut Vec::new(), &mut leaves);
    let fitting = leaves.iter().filter(|leaf| leaf.fits(&parts));
    let mut places: Vec<Range<usize>> = fitting.map(|leaf| leaf.span.clone()).collect();
    if places.is_empty() {
        return Err(unknown(path, &leaves));
    }
    places.sort_by_key(|place| std::cmp::Reverse(place.start));
    Ok(places)
}

fn unknown(path: &str, leaves: &[Leaf]) -> String {
    let last = path.rsplit('.').next().unwrap_or(path);
    let keys = leaves.iter().filter_map(|leaf| leaf.keys.last()).map(|[key, _]| key.as_str());
    // Not the indices of arrays.
    let names: BTreeSet<&str> = keys.filter(|key| key.parse::<usize>().is_err()).collect();
    if names.contains(last) {
        let of_that_name = leaves.iter().filter(|leaf| leaf.fits(&[last]));
        let shown: Vec<String> = of_that_name.take(8).map(Leaf::shown).collect();
        return format!("`{path}` is not in its file; expected one of {}", shown.join(", "));
    }
    let hint = closest(last, names.iter().copied())
        .map_or(String::new(), |near| format!("\nhint: did you mean `{near}`?"));
    let shown: Vec<&str> = names.into_iter().collect();
    format!("`{path}` is not a number of its file; expected one of {}{hint}", shown.join(", "))
}

fn collect(table: &DeTable<'_>, keys: &mut Vec<[String; 2]>, leaves: &mut Vec<Leaf>) {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let name = key.get_ref().to_string();
        keys.push([name.clone(), name]);
        collect_value(value, keys, leaves);
        keys.pop();
    }
}

fn collect_value(
    value: &Spanned<DeValue<'_>>,
    keys: &mut Vec<[String; 2]>,
    leaves: &mut Vec<Leaf>,
) {
    match value.get_ref() {
        DeValue::Table(table) => collect(table, keys, leaves),
        DeValue::Array(array) => {
            for (idx, item) in array.iter().enumerate() {
                let idx = idx.to_string();
                keys.push([name_of(item).unwrap_or_else(|| idx.clone()), idx]);
                collect_value(item, keys, leaves);
                keys.pop();
            }
        }
        _ => leaves.extend(as_number(value).map(|span| Leaf { keys: keys.clone(), span })),
    }
}

fn name_of(item: &Spanned<DeValue<'_>>) -> Option<String> {
    let DeValue::Table(table) = item.get_ref() else { return None };
    match table.get("name")?.get_ref() {
        DeValue::String(name) => Some(name.to_string()),
        _ => None,
    }
}

/// Returns the place for an absent number that the file may have, and its surroundings.
fn absent(
    text: &str,
    file: &DeTable<'_>,
    parts: &[&str],
    shape: &'static Shape,
) -> Option<(usize, String, String)> {
    let (last, above) = parts.split_last()?;
    let (mut table, mut shape, mut at) = (file, shape, None);
    let mut above = above.iter();
    while let Some(part) = above.next() {
        let key = shape.keys.iter().find(|key| key.name == *part)?;
        let value = table.iter().find(|(k, _)| k.get_ref() == *part)?.1;
        let (inner, item) = match (key.kind, value.get_ref()) {
            (Kind::Tables(inner), DeValue::Array(array)) => {
                let wanted = above.next()?;
                let is_wanted = |(idx, item): &(usize, &Spanned<DeValue<'_>>)| {
                    idx.to_string() == **wanted || name_of(item).as_deref() == Some(*wanted)
                };
                (inner, array.iter().enumerate().find(is_wanted)?.1)
            }
            (Kind::NumberOr { shape, .. }, DeValue::Table(_)) => (shape, value),
            _ => return None,
        };
        let DeValue::Table(content) = item.get_ref() else { return None };
        (table, shape, at) = (content, inner, Some(item.span()));
    }
    let key = shape.keys.iter().find(|key| key.name == *last)?;
    let is_number = matches!(
        key.kind,
        Kind::Number { .. } | Kind::Integer { .. } | Kind::Hz | Kind::NumberOr { .. }
    );
    if !is_number || table.keys().any(|k| k.get_ref() == *last) {
        return None;
    }
    let Some(span) = at else { return Some((0, format!("{last} = "), format!("{GIVEN}\n"))) };
    if text.get(span.start..)?.starts_with('{') {
        let comma = if table.is_empty() { "" } else { "," };
        return Some((span.start.checked_add(1)?, format!(" {last} = "), comma.to_owned()));
    }
    let end =
        text.get(span.start..)?.find('\n').map_or(text.len(), |n| span.start.saturating_add(n));
    Some((end, format!("\n{last} = "), GIVEN.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toml::{optional, required};

    const NUMBER: Kind = Kind::Number { max: 100.0 };
    static MEAN: Shape =
        Shape { keys: &[optional("mean", NUMBER, ""), optional("sd", NUMBER, "")] };
    static STATE: Shape = Shape {
        keys: &[
            required("name", Kind::Word, ""),
            optional("exit_us", NUMBER, ""),
            optional("entry_us", NUMBER, ""),
            optional("run_us", Kind::NumberOr { max: 9.0, shape: &MEAN }, ""),
        ],
    };
    static FILE: Shape = Shape {
        keys: &[
            optional("hz", Kind::Hz, ""),
            optional("floor", NUMBER, ""),
            optional("state", Kind::Tables(&STATE), ""),
        ],
    };
    const TEXT: &str = "hz = 250 # ticks
[[state]]
name = \"a\"
exit_us = 1
[[state]]
name = \"b\"
exit_us = 2
run_us = { mean = 3 }
";

    fn filled(path: &str, value: &str) -> Result<String, String> {
        fill_params(TEXT, &[(path, value)], &FILE)
    }

    #[test]
    fn number_is_found_by_path_index_or_part() {
        let wanted = TEXT.replace("exit_us = 2", "exit_us = 7.5");
        for path in ["state.b.exit_us", "state.1.exit_us", "b.exit_us"] {
            assert_eq!(filled(path, "7.5").as_ref(), Ok(&wanted), "{path}");
        }
        assert_eq!(filled("hz", "100"), Ok(TEXT.replace("250", "100")));
        assert_eq!(filled("run_us.mean", "4"), Ok(TEXT.replace("mean = 3", "mean = 4")));
        assert_eq!(filled("mean", "4"), Ok(TEXT.replace("mean = 3", "mean = 4")));
    }

    #[test]
    fn a_star_means_all_that_fit() {
        let both =
            TEXT.replace("exit_us = 1", "exit_us = 25").replace("exit_us = 2\n", "exit_us = 25\n");
        assert_eq!(filled("*.exit_us", "25"), Ok(both));
        assert_eq!(filled("*.state.b.exit_us", "3"), filled("state.b.exit_us", "3"));
        assert!(filled("*.exit", "1").unwrap_err().contains("did you mean `exit_us`?"));
    }

    #[test]
    fn absent_number_is_inserted_at_its_place() {
        assert_eq!(filled("floor", "1"), Ok(format!("floor = 1{GIVEN}\n{TEXT}")));
        let sd = TEXT.replace("{ mean = 3", "{ sd = 1, mean = 3");
        assert_eq!(filled("state.b.run_us.sd", "1"), Ok(sd));
        let (first, rest) = TEXT.split_once("[[state]]").unwrap();
        let entry = format!("{first}[[state]]\nentry_us = 5{GIVEN}{rest}");
        assert_eq!(filled("state.a.entry_us", "5"), Ok(entry));
    }

    #[test]
    fn unmatched_path_lists_the_valid_ones() {
        let says = |path: &str, text: &str| {
            let error = filled(path, "1").unwrap_err();
            assert!(error.contains(text), "{error}");
        };
        says("exit_us", "`exit_us` occurs 2 times in its file: expected one of state.a.exit_us, ");
        says("c.exit_us", "`c.exit_us` is not in its file; expected one of state.a.exit_us, ");
        says("state.a.name", "is not a number of its file; expected one of exit_us, hz, mean");
        says("exitus", "did you mean `exit_us`?");
        says("state", "`state` is not a number");
        says("", "`` is not a number");
    }

    #[test]
    fn only_toml_numbers_are_numbers() {
        for (text, is_one) in [
            ("2e3", true),
            ("7", true),
            ("0.5", true),
            (".5", false),
            ("1 # x", false),
            ("x", false),
            ("1\ny=2", false),
        ] {
            assert_eq!(is_number(text), is_one, "{text}");
        }
    }
}
