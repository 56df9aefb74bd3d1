// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Code shared by the benchmarks.

pub mod bare;

/// The governors named on the command line, else the built-in ones. Options, such as the `--bench`
/// that cargo passes, are passed over.
pub fn named_governors() -> Vec<String> {
    let named: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if !named.is_empty() {
        return named;
    }
    torpor_governor::Catalog::builtin_names().map(str::to_owned).collect()
}
