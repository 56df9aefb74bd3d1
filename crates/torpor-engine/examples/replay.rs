// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Prints the result of a replay as JSON: `replay TRACE PLATFORM GOVERNOR...`

use torpor_engine::{Options, Request, Unwatched, run};
use torpor_governor::Catalog;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let trace = args.next().ok_or("usage: replay TRACE PLATFORM GOVERNOR...")?;
    let platform = torpor_platform::resolve(&args.next().ok_or("name a platform")?)?;
    let governors = args.map(|g| g.parse()).collect::<Result<_, _>>()?;
    let options = Options { recorded_on: None, ..Options::default() };
    let request = Request { traces: vec![trace.into()], platform, governors, options };
    let outcome = run(&request, &Catalog::new(Default::default()), &Unwatched)?;
    println!("{}", serde_json::to_string_pretty(&outcome)?);
    Ok(())
}
