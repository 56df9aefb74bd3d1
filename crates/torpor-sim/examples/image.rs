// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compiles an image of a kernel from source, for `scripts/kernel_images.py`:
//!
//! ```text
//! image TREE HZ COMPILER OUTPUT.so
//! ```
//!
//! Prints what it is made of, as JSON.

use std::env;
use std::error::Error;
use std::fs;
use torpor_machine::units::Hz;
use torpor_sim::kernel::{Kernels, KernelsOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [tree, hz, compiler, output] = &args[..] else {
        return Err("usage: image TREE HZ COMPILER OUTPUT.so".into());
    };
    let hz: u32 = hz.parse()?;
    let hz = Hz::ALL.into_iter().find(|rate| rate.get() == hz).ok_or("no such tick rate")?;
    let kernels =
        Kernels::new(KernelsOptions { compiler: Some(compiler.into()), ..Default::default() });
    let kernel = kernels.resolve_source(&tree.parse()?, hz, &|_, _| {})?;
    fs::write(output, kernel.image_bytes())?;
    let described = serde_json::json!({
        "release": kernel.release.to_string(),
        "source_sha256": kernel.source_sha256,
        "made_with": kernels.made_with()?,
        "hosted": kernel.hosted,
        "policies": kernel.policies(),
        "inputs": *kernel.inputs,
    });
    println!("{described}");
    Ok(())
}
