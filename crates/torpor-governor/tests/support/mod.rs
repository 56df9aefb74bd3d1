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
use torpor_governor::{Catalog, CatalogOptions, Governor, GovernorError, StateDesc};
use torpor_machine::units::{Duration, Hz};
pub use upstream::{kernel_file, kernel_sources};

/// Returns a catalog with a cache for tests, which is kept between runs.
pub fn catalog() -> Catalog {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    Catalog::new(CatalogOptions { cache_dir: Some(cache), ..Default::default() })
}

/// Resolves a governor that must exist.
pub fn resolve(spec: &str, hz: Hz) -> Governor {
    let spec = spec.parse().expect("the test's spec is valid");
    catalog().resolve(&spec, hz).unwrap_or_else(|e| panic!("{e}"))
}

pub fn try_resolve(spec: &str) -> Result<Governor, GovernorError> {
    catalog().resolve(&spec.parse()?, Hz::H250)
}

/// Returns the message of a failed resolution.
pub fn resolve_error(spec: &str) -> String {
    try_resolve(spec).expect_err(spec).to_string()
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

/// Returns POLL, C1, C1E and C6 of a server.
pub fn server_states() -> Vec<StateDesc> {
    vec![
        state("POLL", 0, 0, true),
        state("C1", 2, 2, false),
        state("C1E", 10, 20, false),
        state("C6", 133, 600, false),
    ]
}

/// Returns the source of a governor that selects `state`, with the lines `more` before it.
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
