// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Lists `workloads/*.toml` for `builtin.rs`.

#[path = "../torpor-toml/shipped.rs"]
mod shipped;

fn main() {
    shipped::list("workloads", "builtins.rs");
}
