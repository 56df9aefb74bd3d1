// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Lists `platforms/*.toml` and `platforms/io_devices/*.toml` for `builtin.rs`.

#[path = "shipped.rs"]
mod shipped;

fn main() {
    shipped::list("platforms", "builtins.rs");
    shipped::list("platforms/io_devices", "io_devices.rs");
}
