// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The kernel options that a source tests, and their values.
//!
//! The kapi sets a few options, the user can set any, and the rest are not set. The compiler
//! silently omits code under an option that is not set, so results list each option.

use crate::builtin::KAPI;
use crate::tree::Sources;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use torpor_machine::units::Hz;

/// Header with the options, included after the kapi's own.
pub(crate) const HEADER: &str = "hosted-config.h";

/// Returns the text of [`HEADER`]: the release and the user's options.
pub(crate) fn header(sources: &Sources) -> String {
    let line = |(name, value): &(String, String)| {
        let define = match value.as_str() {
            "n" => String::new(),
            "y" => format!("#define {name} 1\n"),
            number => format!("#define {name} {number}\n"),
        };
        format!("#undef {name}\n{define}")
    };
    sources.release.define() + &sources.config.iter().map(line).collect::<String>()
}

/// Returns each option that the files test, with its value: `y`, `n` if it is not set, or its
/// definition.
pub(crate) fn asked(sources: &Sources, hz: Hz) -> BTreeMap<String, String> {
    values(&names(sources.files.values().map(Vec::as_slice)), &sources.config, hz)
}

/// Returns the options that texts test.
pub(crate) fn names<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for text in texts {
        symbols(&without_comments(&String::from_utf8_lossy(text)), &mut names);
    }
    names
}

/// Returns the values of options, given those that are chosen.
pub(crate) fn values(
    names: &BTreeSet<String>,
    chosen: &[(String, String)],
    hz: Hz,
) -> BTreeMap<String, String> {
    static DEFAULTS: LazyLock<BTreeMap<String, String>> = LazyLock::new(defaults);
    let value = |name: &str| {
        let chosen = chosen.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        let rate = || match name.strip_prefix("CONFIG_HZ")? {
            "" => Some(hz.get().to_string()),
            _ => None,
        };
        let value = chosen.or_else(rate).or_else(|| DEFAULTS.get(name).cloned());
        value.unwrap_or_else(|| "n".to_owned())
    };
    names.iter().map(|name| (name.clone(), value(name))).collect()
}

/// Returns the options that the kapi's configuration sets.
fn defaults() -> BTreeMap<String, String> {
    let text = KAPI.iter().find(|(name, _)| *name == "include/linux/kconfig.h").map(|(_, t)| *t);
    let define = |line: &str| {
        let (name, value) =
            line.strip_prefix("#define ")?.trim().split_once(char::is_whitespace)?;
        let value = if value.trim() == "1" { "y" } else { value.trim() };
        name.starts_with("CONFIG_").then(|| (name.to_owned(), value.to_owned()))
    };
    text.unwrap_or_default().lines().filter_map(define).collect()
}

fn symbols(text: &str, found: &mut BTreeSet<String>) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for word in text.split(|c: char| !is_part(c)) {
        // IS_MODULE() and IS_ENABLED() test this name.
        let name = word.strip_suffix("_MODULE").unwrap_or(word);
        if name.len() > "CONFIG_".len() && name.starts_with("CONFIG_") {
            found.insert(name.to_owned());
        }
    }
}

/// Returns C code without comments and literals.
pub(crate) fn without_comments(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"', '\'']) {
        let (before, tail) = rest.split_at(at);
        code.push_str(before);
        let end = match tail.as_bytes() {
            [b'/', b'*', ..] => tail[2..].find("*/").map_or(tail.len(), |end| end + 4),
            [b'/', b'/', ..] => tail.find('\n').unwrap_or(tail.len()),
            [b'/', ..] => 1,
            [quote, ..] => literal_len(tail, *quote),
            [] => 0,
        };
        code.push(' ');
        rest = &tail[end..];
    }
    code + rest
}

fn literal_len(text: &str, quote: u8) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            // Unterminated: a literal ends with its line.
            b'\n' => return at,
            byte if byte == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_in_comments_are_not_found() {
        let text = "#ifdef CONFIG_A /* CONFIG_NO */\n// CONFIG_NO\n#if IS_ENABLED(CONFIG_B) || \
                    CONFIG_HZ > 100\nchar *s = \"CONFIG_NO \\\" CONFIG_NO\"; int q = '\"';\n\
                    a / CONFIG_C; #ifdef CONFIG_SMP\n MY_CONFIG_NO CONFIG_ CONFIG_D_MODULE /* CONFIG_NO";
        let mut sources = crate::tree::from_text("mine", text);
        sources.config = vec![("CONFIG_B".into(), "y".into()), ("CONFIG_C".into(), "7".into())];
        let asked = asked(&sources, Hz::H300);
        let asked: Vec<_> = asked.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let expected = [
            ("CONFIG_A", "n"),
            ("CONFIG_B", "y"),
            ("CONFIG_C", "7"),
            ("CONFIG_D", "n"),
            ("CONFIG_HZ", "300"),
            ("CONFIG_SMP", "y"),
        ];
        assert_eq!(asked, expected);
    }
}
