// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `simulate WORKLOAD PLATFORM OPTIONS GOVERNOR...`: the outcome as JSON. OPTIONS is a JSON object of
//! the library's keywords: `{"duration": "1s", "seed": 1, "seeds": 2}`.

use torpor_engine::Unwatched;
use torpor_governor::Catalog;
use torpor_machine::platform::Platform;
use torpor_result::options;
use torpor_sim::{Request, workload};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().ok_or("simulate WORKLOAD PLATFORM OPTIONS GOVERNOR...");
    let workload = workload::resolve(&next()?)?;
    let platform = Platform::resolve(&next()?)?;
    let options = options::read(&next()?)?;
    let governors = args.map(|text| text.parse()).collect::<Result<_, _>>()?;
    let request = Request { workload, platform, governors, options };
    let outcome = torpor_sim::run(&request, &Catalog::new(Default::default()), &Unwatched)?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}
