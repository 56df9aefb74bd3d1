// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Prints what a recording holds: `cargo run --example trace_info -- RECORDING...`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for path in std::env::args().skip(1) {
        match torpor_trace::read(Path::new(&path)) {
            Ok(trace) => {
                println!("{path}: {} events read", trace.events.len());
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
