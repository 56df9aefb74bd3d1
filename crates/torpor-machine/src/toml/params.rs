// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `NAME,path=number`: a document with numbers replaced, as a governor's parameters are; or a truth
//! value or one CPU, by its whole path.

use crate::toml::document::{Content, Item, Value};
use crate::toml::keys::{Kind, Shape};
use crate::units::closest;
use std::collections::BTreeSet;
use toml::de::{DeTable, DeValue};

/// A path into the file, and the number, `true` or `false` to put there.
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
        if !is_number(value) && value.parse::<bool>().is_err() {
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
            values.next().is_some_and(|value| {
                matches!(value.get_ref(), DeValue::Integer(_) | DeValue::Float(_))
            })
        })
}

/// Sets these numbers.
///
/// A path is the keys from the file's root, with an entry of an array by its `name` or its index:
/// `cluster.big.idle_state.1.exit_latency_us`. It may omit keys as long as one number of the file
/// matches; after `*.` it means all that match. A whole path may also name a number that the file
/// leaves out.
pub(super) fn set_params(
    content: &mut Content,
    params: &[Param<'_>],
    shape: &'static Shape,
) -> Result<(), String> {
    for (path, value) in params {
        if let Ok(flag) = value.parse::<bool>() {
            set_flag(content, path, flag, shape)?;
            continue;
        }
        let (path, is_all) = match path.strip_prefix("*.") {
            Some(path) => (path, true),
            None => (*path, false),
        };
        set(content, path, is_all, value, shape)?;
    }
    Ok(())
}

/// A number of the file, and the path to it, with name and index of each entry of an array.
struct Leaf<'a> {
    keys: Vec<[String; 2]>,
    item: &'a mut Item,
}

impl Leaf<'_> {
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

fn set(
    content: &mut Content,
    path: &str,
    is_all: bool,
    value: &str,
    shape: &'static Shape,
) -> Result<(), String> {
    let parts: Vec<&str> = path.split('.').collect();
    let given = || Item::from(Value::Number(value.to_owned()));
    let mut leaves = Vec::new();
    collect(content, &mut Vec::new(), &mut leaves);
    let whole: Vec<usize> = (0..leaves.len()).filter(|&n| leaves[n].is_whole(&parts)).collect();
    let fitting: Vec<usize> = (0..leaves.len()).filter(|&n| leaves[n].fits(&parts)).collect();
    let meant = if whole.len() == 1 && !is_all { whole } else { fitting };
    if meant.len() > 1 && !is_all {
        let shown: Vec<String> = meant.iter().take(8).map(|&n| leaves[n].shown()).collect();
        let more = if meant.len() > shown.len() { ", ..." } else { "" };
        let (count, shown) = (meant.len(), shown.join(", "));
        return Err(format!(
            "`{path}` occurs {count} times in its file: expected one of {shown}{more}"
        ));
    }
    for &n in &meant {
        *leaves[n].item = given();
    }
    if meant.is_empty() {
        let error = unknown(path, &leaves);
        if is_all || add(content, &parts, given(), shape).is_none() {
            return Err(error);
        }
    }
    Ok(())
}

/// Sets a truth value that the file has or may have, by its whole path.
fn set_flag(
    content: &mut Content,
    path: &str,
    flag: bool,
    shape: &'static Shape,
) -> Result<(), String> {
    let parts: Vec<&str> = path.split('.').collect();
    add(content, &parts, Item::from(Value::Bool(flag)), shape)
        .ok_or_else(|| format!("`{path}` is not a key of its file that is true or false"))
}

fn unknown(path: &str, leaves: &[Leaf<'_>]) -> String {
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

fn collect<'a>(content: &'a mut Content, keys: &mut Vec<[String; 2]>, leaves: &mut Vec<Leaf<'a>>) {
    for entry in &mut content.entries {
        keys.push([entry.key.clone(), entry.key.clone()]);
        collect_item(&mut entry.item, keys, leaves);
        keys.pop();
    }
}

fn collect_item<'a>(item: &'a mut Item, keys: &mut Vec<[String; 2]>, leaves: &mut Vec<Leaf<'a>>) {
    if let Value::Number(_) = item.value {
        return leaves.push(Leaf { keys: keys.clone(), item });
    }
    match &mut item.value {
        Value::Table(content) => collect(content, keys, leaves),
        Value::Array(items) => {
            for (idx, item) in items.iter_mut().enumerate() {
                let idx = idx.to_string();
                keys.push([item.name().unwrap_or(&idx).to_owned(), idx]);
                collect_item(item, keys, leaves);
                keys.pop();
            }
        }
        _ => {}
    }
}

/// Adds a number that the file leaves out and may have; sets a truth value or a CPU that it may have.
fn add(content: &mut Content, parts: &[&str], given: Item, shape: &'static Shape) -> Option<()> {
    let (last, above) = parts.split_last()?;
    let (mut content, mut shape) = (content, shape);
    let mut above = above.iter();
    while let Some(part) = above.next() {
        let key = shape.keys.iter().find(|key| key.name == *part)?;
        let entry = content.entries.iter_mut().find(|entry| entry.key == *part)?;
        let (inner, item) = match (key.kind, &mut entry.item.value) {
            (Kind::Tables(inner), Value::Array(items)) => {
                let wanted = above.next()?;
                let is_wanted = |(idx, item): &(usize, &mut Item)| {
                    idx.to_string() == **wanted || item.name() == Some(*wanted)
                };
                (inner, &mut items.iter_mut().enumerate().find(is_wanted)?.1.value)
            }
            (Kind::NumberOr { shape, .. }, value) => (shape, value),
            _ => return None,
        };
        let Value::Table(table) = item else { return None };
        (content, shape) = (table, inner);
    }
    let key = shape.keys.iter().find(|key| key.name == *last)?;
    let given = match (key.kind, given.value) {
        (Kind::Bool, flag @ Value::Bool(_)) => flag,
        // A list of CPUs is a text.
        (Kind::Cpus, Value::Number(cpu)) => Value::Text(cpu),
        (
            Kind::Number { .. } | Kind::Integer { .. } | Kind::Hz | Kind::NumberOr { .. },
            number @ Value::Number(_),
        ) if content.get(last).is_none() => number,
        _ => return None,
    };
    content.set(last, given);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toml::{Document, optional, required};

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
            optional("model", Kind::Bool, ""),
            optional("cpus", Kind::Cpus, ""),
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

    /// The file with a number set, as it is printed.
    fn filled(path: &str, value: &str) -> Result<String, String> {
        let mut document = Document::parse("x.toml", TEXT).unwrap();
        set_params(document.content_mut(), &[(path, value)], &FILE)?;
        Ok(document.to_toml().into_owned())
    }

    fn printed(text: &str) -> String {
        let mut document = Document::parse("x.toml", text).unwrap();
        document.content_mut();
        document.to_toml().into_owned()
    }

    #[test]
    fn number_is_found_by_path_index_or_part() {
        let wanted = printed(&TEXT.replace("exit_us = 2", "exit_us = 7.5"));
        for path in ["state.b.exit_us", "state.1.exit_us", "b.exit_us"] {
            assert_eq!(filled(path, "7.5").as_ref(), Ok(&wanted), "{path}");
        }
        assert_eq!(filled("hz", "100"), Ok(printed(&TEXT.replace("250", "100"))));
        assert_eq!(filled("run_us.mean", "4"), Ok(printed(&TEXT.replace("mean = 3", "mean = 4"))));
        assert_eq!(filled("mean", "4"), Ok(printed(&TEXT.replace("mean = 3", "mean = 4"))));
    }

    #[test]
    fn a_star_means_all_that_fit() {
        let both =
            TEXT.replace("exit_us = 1", "exit_us = 25").replace("exit_us = 2\n", "exit_us = 25\n");
        assert_eq!(filled("*.exit_us", "25"), Ok(printed(&both)));
        assert_eq!(filled("*.state.b.exit_us", "3"), filled("state.b.exit_us", "3"));
        assert!(filled("*.exit", "1").unwrap_err().contains("did you mean `exit_us`?"));
    }

    #[test]
    fn absent_number_is_inserted_at_its_place() {
        let floor = TEXT.replace("# ticks", "\nfloor = 1");
        assert_eq!(filled("floor", "1"), Ok(printed(&floor)));
        let sd = TEXT.replace("mean = 3", "mean = 3, sd = 1");
        assert_eq!(filled("state.b.run_us.sd", "1"), Ok(printed(&sd)));
        let entry = TEXT.replace("exit_us = 1", "exit_us = 1\nentry_us = 5");
        assert_eq!(filled("state.a.entry_us", "5"), Ok(printed(&entry)));
    }

    #[test]
    fn truth_value_and_cpu_are_set_by_their_whole_paths() {
        let off = TEXT.replace("# ticks", "\nmodel = false");
        assert_eq!(filled("model", "false"), Ok(printed(&off)));
        let cpu = TEXT.replace("# ticks", "\ncpus = \"6\"");
        assert_eq!(filled("cpus", "6"), Ok(printed(&cpu)));
        assert_eq!(
            filled("floor", "true").unwrap_err(),
            "`floor` is not a key of its file that is true or false"
        );
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
