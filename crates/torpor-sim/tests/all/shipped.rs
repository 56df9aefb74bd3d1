// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The workloads that ship.

use crate::support;

use crate::support::{count, request};
use proptest::prelude::*;
use torpor_engine::decision::Unobserved;
use torpor_governor::Catalog;
use torpor_machine::platform::Platform;
use torpor_sim::Session;
use torpor_sim::workload::{builtins, from_toml};

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
