// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Prints what a recording holds: `cargo run --example trace_info -- RECORDING...`.

use std::path::Path;
use std::process::ExitCode;
use torpor_trace::{Event, Sink, SoFar};

/// Counts what passes by, so that a recording may be larger than memory.
#[derive(Default)]
struct Count(usize);

impl Sink for Count {
    fn events(&mut self, events: Vec<Event>, _: &SoFar<'_>) {
        self.0 += events.len();
    }
}

fn main() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for path in std::env::args().skip(1) {
        let mut count = Count::default();
        match torpor_trace::stream(Path::new(&path), &mut count) {
            Ok(trace) => {
                println!("{path}: {} events read", count.0);
                println!("  {:?}", trace.meta);
                println!("  {:?}", trace.carries);
                for (name, count) in &trace.event_counts {
                    println!("  {count:8} {name}");
                }
                for loss in &trace.losses {
                    println!("  {:?}: {} {}: {}", loss.severity, loss.count, loss.key, loss.advice);
                }
            }
            Err(error) => {
                eprintln!("{error}");
                code = ExitCode::from(2);
            }
        }
    }
    code
}
