// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `simulate WORKLOAD PLATFORM SECONDS SEEDS GOVERNOR...`: the outcome as JSON.

use torpor_engine::Unwatched;
use torpor_governor::Catalog;
use torpor_platform::Platform;
use torpor_sim::{Options, Request, workload};
use torpor_units::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().ok_or("simulate WORKLOAD PLATFORM SECONDS SEEDS GOVERNOR...");
    let workload = workload::resolve(&next()?)?;
    let platform = Platform::resolve(&next()?)?;
    let options = Options {
        duration: Duration((next()?.parse::<f64>()? * 1e9) as i64),
        seeds: next()?.parse()?,
        ..Options::default()
    };
    let governors = args.map(|text| text.parse()).collect::<Result<_, _>>()?;
    let request = Request { workload, platform, governors, options };
    let outcome = torpor_sim::run(&request, &Catalog::new(Default::default()), &Unwatched)?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}
