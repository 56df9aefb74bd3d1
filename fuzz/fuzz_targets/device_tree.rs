// SPDX-License-Identifier: MIT OR GPL-2.0-only
#![no_main]

use libfuzzer_sys::fuzz_target;
use torpor_machine::platform::{ImportOptions, from_toml, import_device_tree};

fuzz_target!(|bytes: &[u8]| {
    let Ok(imported) = import_device_tree("fuzz", bytes, &ImportOptions::named("fuzz")) else {
        return;
    };
    let machine = from_toml("imported", &imported.document.to_toml()).expect("the import is valid TOML");
    assert!(machine.clusters.iter().all(|c| (1..=1024).contains(&c.capacity)));
});
