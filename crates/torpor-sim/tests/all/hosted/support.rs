// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Helpers of the tests.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use torpor_engine::decision::Unobserved;
use torpor_machine::platform::Platform;
use torpor_machine::units::Instant;
use torpor_machine::units::{CpuId, Duration, Hz};
use torpor_sim::kernel::{Attributes, CpuSet, Kernel, Kernels, KernelsOptions, TaskSetup};
use torpor_sim::machine::{Act, Bench, Machine, TaskId};

#[allow(unused_imports)] // each file of tests uses some
pub use crate::upstream::{change_file, kernel_file, kernel_sources};

pub const MS: i64 = 1_000_000;
pub const US: i64 = 1_000;

/// With the user's cache: the build has left the default kernel's objects there.
pub fn kernels() -> Kernels {
    Kernels::new(KernelsOptions::default())
}

pub fn compile(tree: &Path) -> Kernel {
    let spec = tree.display().to_string().parse().unwrap();
    kernels().resolve(&spec, Hz::H250, &|_, _| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// Linux 6.12 at 250 Hz, where its source can be had.
pub fn linux_6_12(test: &str) -> Option<Kernel> {
    static KERNEL: OnceLock<Option<Kernel>> = OnceLock::new();
    let tree: Option<PathBuf> = kernel_sources("6.12", test);
    KERNEL.get_or_init(|| Some(compile(&tree?))).clone()
}

pub fn machine(platform: &str) -> Bench {
    Bench::new(Platform::resolve(platform).expect("it ships"))
}

/// A machine on which `script` says what tasks do.
pub fn start<'a>(
    kernel: &Kernel,
    bench: &'a Bench,
    script: impl FnMut(TaskId, Instant) -> Act + 'a,
) -> Machine<'a, Unobserved> {
    let instance = kernel.boot(&bench.hardware).unwrap_or_else(|e| panic!("{e}"));
    bench.start(instance, script)
}

pub fn task(name: &str) -> TaskSetup {
    TaskSetup {
        group: 0,
        name: name.to_owned(),
        number: 0,
        forked_on: CpuId(0),
        timer_slack: Duration::from_us(50),
        attributes: Attributes::default(),
    }
}

pub fn pinned(name: &str, cpu: u32) -> TaskSetup {
    let affinity = CpuSet::from_iter([CpuId(cpu)]);
    TaskSetup { attributes: Attributes { affinity, ..Default::default() }, ..task(name) }
}
