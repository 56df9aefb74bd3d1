// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The workloads that ship, and their schema.

use crate::support;

use crate::support::{count, request};
use proptest::prelude::*;
use torpor_engine::decision::Unobserved;
use torpor_governor::Catalog;
use torpor_machine::platform::Platform;
use torpor_sim::Session;
use torpor_sim::workload::{builtins, from_toml, json_schema};

#[test]
fn shipped_files_validate_and_match_their_names() {
    let schema = serde_json::from_str(&json_schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for builtin in builtins() {
        assert_eq!(builtin.name, builtin.workload.name);
        let file: toml::Table = toml::from_str(builtin.text).unwrap();
        let file = serde_json::to_value(file).unwrap();
        let errors: Vec<String> = validator.iter_errors(&file).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", builtin.name);
    }
}

#[test]
fn schema_and_reader_refuse_the_same() {
    let schema = serde_json::from_str(&json_schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let text = builtins().iter().find(|b| b.name == "idle-predict").unwrap().text;
    for (from, to) in [
        ("run_us = 5", "run_us = -5"),
        ("sleep_us = 20 }", "sleeps_us = 20 }"),
        ("run_us = 5", "run_us = { dist = \"normal\", mean = 5 }"),
        ("count = 8", "count = 1.5"),
    ] {
        let broken = text.replacen(from, to, 1);
        assert_ne!(broken, text, "nothing to replace: {from}");
        assert!(from_toml("t", &broken).is_err(), "the reader takes `{to}`");
        let file: toml::Table = toml::from_str(&broken).unwrap();
        let file = serde_json::to_value(file).unwrap();
        assert!(!validator.is_valid(&file), "the schema takes `{to}`");
    }
}

#[test]
fn shipped_workloads_run_on_phone_and_desktop() {
    for builtin in builtins() {
        // A background wakes up seldom.
        let ms = if builtin.name.starts_with("background-") { 10_000 } else { 300 };
        for platform in ["pixel6", "i5-10600k"] {
            let platform = Platform::resolve(platform).unwrap();
            let counted = count(&request(platform, builtin.workload.clone(), &["menu"], ms));
            let counted = counted.unwrap_or_else(|e| panic!("{}: {e}", builtin.name));
            let wakeups: u64 = counted.kinds.iter().map(|k| k.wakeups).sum();
            assert!(wakeups > 10, "{}: {wakeups}", builtin.name);
        }
    }
}

/// A shipped file with a line taken out, or a number made another one.
fn slip() -> impl Strategy<Value = String> {
    let texts: Vec<&str> = builtins().iter().map(|b| b.text).collect();
    let number = prop::sample::select(vec!["0", "1", "7", "3600000000", "1e9", "0.0001", "-1"]);
    let place = any::<prop::sample::Index>;
    (prop::sample::select(texts), place(), place(), number, any::<bool>()).prop_map(
        |(text, line, digit, number, takes_out)| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if takes_out {
                lines.remove(line.index(lines.len()));
                return lines.join("\n");
            }
            let numbers: Vec<(usize, usize)> = text
                .char_indices()
                .filter(|(at, c)| {
                    c.is_ascii_digit() && !text[..*at].ends_with(|b: char| b.is_ascii_digit())
                })
                .map(|(at, _)| {
                    let rest = &text[at..];
                    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                    (at, at + end)
                })
                .collect();
            let (from, to) = numbers[digit.index(numbers.len())];
            format!("{}{number}{}", &text[..from], &text[to..])
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn typo_is_an_error_or_runs(text in slip()) {
        let Ok(workload) = from_toml("slip.toml", &text) else { return Ok(()) };
        let request = request(support::big_little(), workload, &["teo"], 20);
        // Stuck, or for CPUs that the machine does not have: answers, too.
        if let Ok(session) = Session::new(&request, &Catalog::new(Default::default())) {
            let _ = session.simulate(0, 1, Unobserved, &mut |_| true);
        }
    }
}
