// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Helpers of the tests.
#![allow(dead_code, unused_imports)]

#[path = "../../../torpor-check/src/rng.rs"]
mod rng;
#[path = "../../../../tests/upstream.rs"]
mod upstream;

pub mod lone;

pub(crate) use rng::Rng;
use std::path::Path;
use torpor_governor::{Catalog, CatalogOptions, StateDesc};
use torpor_machine::units::Duration;
pub use upstream::{kernel_file, kernel_sources};

/// A catalog with a cache of its own, which stays between runs.
pub fn catalog() -> Catalog {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    Catalog::new(CatalogOptions { cache_dir: Some(cache), ..Default::default() })
}

pub fn state(name: &str, exit_us: i64, residency_us: i64, is_polling: bool) -> StateDesc {
    StateDesc {
        name: name.to_owned(),
        exit_latency: Duration::from_us(exit_us),
        target_residency: Duration::from_us(residency_us),
        is_polling,
        is_disabled: false,
    }
}

/// POLL, C1, C1E and C6 of a server.
pub fn server_states() -> Vec<StateDesc> {
    vec![
        state("POLL", 0, 0, true),
        state("C1", 2, 2, false),
        state("C1E", 10, 20, false),
        state("C6", 133, 600, false),
    ]
}

/// Returns the source of a governor that answers `state`, after the lines of `more`.
pub fn source(state: &str, more: &str) -> String {
    format!(
        "#include <linux/cpuidle.h>\n{more}\n\
         static int pick(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop)\n\
         {{ return {state}; }}\n\
         static struct cpuidle_governor gov = {{ .name = \"mine\", .select = pick }};\n\
         static int __init start(void) {{ return cpuidle_register_governor(&gov); }}\n\
         postcore_initcall(start);\n"
    )
}
