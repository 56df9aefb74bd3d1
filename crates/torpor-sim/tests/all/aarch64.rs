// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Simulations on an aarch64 host, which QEMU's user emulation stands in for: each result is that
//! of this host, to the byte, but for the hash of the kernel's image.

use crate::upstream;
use std::env::consts::ARCH;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use torpor_engine::Unwatched;
use torpor_governor::{Catalog, CatalogOptions, GovernorSpec};
use torpor_machine::platform::Platform;
use torpor_result::options;
use torpor_sim::kernel::Kernels;
use torpor_sim::{Request, workload};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const COMPILER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

struct Case {
    workload: &'static str,
    platform: &'static str,
    governors: &'static [&'static str],
    /// Options besides the kernel and the tick rate, for which alone a kernel would be compiled.
    options: &'static str,
}

const CASES: &[Case] = &[
    Case {
        workload: "frames",
        platform: "pixel6",
        governors: &["menu", "teo"],
        options: r#""duration": "300ms", "seeds": 2"#,
    },
    Case {
        workload: "fio-randread",
        platform: "rk3399",
        governors: &["menu", "ladder"],
        options: r#""duration": "300ms", "seeds": 2"#,
    },
    Case {
        workload: "requests",
        platform: "i5-10600k",
        governors: &["teo", "haltpoll"],
        options: r#""duration": "300ms", "seeds": 2"#,
    },
    Case {
        workload: "messaging",
        platform: "pixel6",
        governors: &["menu"],
        options: r#""duration": "100ms", "seeds": 2, "cpufreq": ["ondemand", "schedutil"]"#,
    },
];

/// An IO boost, which is linked into the scheduler.
const WITH_BOOST: Case = Case {
    workload: "fio-randread",
    platform: "pixel6",
    governors: &["menu"],
    options: r#""duration": "300ms", "seeds": 2, "io_boosts": ["per-task", "iowait"]"#,
};

/// The program `simulate` for aarch64, and what runs it.
struct Emulated {
    program: PathBuf,
    home: PathBuf,
}

/// Reports what is missing if it cannot run.
fn emulated(test: &str) -> Option<Emulated> {
    let output = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output();
        output.ok().filter(|done| done.status.success())
    };
    let missing = |what: &str| {
        eprintln!("not run: {test}: {what}");
        None
    };
    for tool in [COMPILER, EMULATOR] {
        if output(tool, &["--version"]).is_none() {
            return missing(&format!("{tool} is not on this machine"));
        }
    }
    let rustc = std::env::var("RUSTC").unwrap_or("rustc".to_owned());
    let library = output(&rustc, &["--print", "target-libdir", "--target", TARGET])
        .map(|done| PathBuf::from(String::from_utf8_lossy(&done.stdout).trim()));
    if !library.is_some_and(|folder| folder.is_dir()) {
        return missing(&format!("rustc has no {TARGET}: rustup target add {TARGET}"));
    }
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = temporary.parent().expect("it lies in the folder of what is built");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--example", "simulate", "--target", TARGET])
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(folder)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", COMPILER)
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env_remove("CC")
        .output();
    succeeded(&built.expect("cargo starts"));
    let program = folder.join(TARGET).join("release/examples/simulate");
    Some(Emulated { program, home: temporary.join("aarch64") })
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

impl Emulated {
    /// Compiles the kernels of a request, as the program would: the emulator is slow, and does not
    /// survive that compilers start from several threads.
    fn compile(&self, request: &Request) {
        let options = CatalogOptions {
            cache_dir: Some(self.home.join("torpor")),
            compiler: Some(COMPILER.into()),
            ..Default::default()
        };
        let catalog = Catalog::new(options);
        let kernels = Kernels::of(&catalog);
        let options = &request.options;
        let hz = options.hz.expect("it is given");
        for spec in &options.kernels {
            kernels.resolve(spec, hz, &|_, _| {}).unwrap_or_else(|e| panic!("{e}"));
        }
    }

    fn run(&self, case: &Case, options: &str) -> String {
        let output = Command::new(EMULATOR)
            .args(["-L", LIBRARIES])
            .arg(&self.program)
            .args([case.workload, case.platform, options])
            .args(case.governors)
            .env("XDG_CACHE_HOME", &self.home)
            .env("CC", COMPILER)
            .output()
            .expect("the emulator starts");
        succeeded(&output);
        String::from_utf8(output.stdout).expect("JSON is a text").trim().to_owned()
    }
}

fn request(case: &Case, options: &str) -> Request {
    let governors = case.governors.iter().map(|name| name.parse::<GovernorSpec>().unwrap());
    Request {
        workload: workload::resolve(case.workload).unwrap(),
        platform: Platform::resolve(case.platform).unwrap(),
        governors: governors.collect(),
        options: options::read(options).unwrap(),
    }
}

fn run_here(request: &Request) -> String {
    let cache_dir = Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
    let catalog = Catalog::new(CatalogOptions { cache_dir, ..Default::default() });
    let outcome = torpor_sim::run(request, &catalog, &Unwatched).unwrap_or_else(|e| panic!("{e}"));
    serde_json::to_string(&outcome).unwrap()
}

/// The place where two results part, with what precedes it.
fn difference(one: &str, other: &str) -> Option<String> {
    if one == other {
        return None;
    }
    let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| {
        let bytes = &text.as_bytes()[same.saturating_sub(200)..(same + 80).min(text.len())];
        String::from_utf8_lossy(bytes).into_owned()
    };
    Some(format!("{}\n\nin place of\n\n{}", around(other), around(one)))
}

fn equals_this_hosts(release: &str, cases: &[Case]) {
    let test = format!("{release} on aarch64");
    if ARCH == "aarch64" {
        return eprintln!("not run: {test}: this host is one");
    }
    let Some(tree) = upstream::kernel_sources(release, &test) else { return };
    let Some(emulated) = emulated(&test) else { return };
    for case in cases {
        let tree = serde_json::to_string(&tree.display().to_string()).unwrap();
        let options =
            format!("{{\"hz\": 250, \"seed\": 1, \"kernels\": [{tree}], {}}}", case.options);
        let request = request(case, &options);
        emulated.compile(&request);
        let [here, there] = [run_here(&request), emulated.run(case, &options)];
        let difference = difference(&here, &there);
        assert_eq!(difference, None, "{} on {}", case.workload, case.platform);
    }
}

#[test]
#[ignore = "slow: compiles the workspace for aarch64; `make test-long`"]
fn linux_6_12_decides_the_same_on_aarch64() {
    equals_this_hosts("6.12", CASES);
}

#[test]
#[ignore = "slow: compiles two kernels; `make test-long`"]
fn aarch64_host_boosts_io_identically() {
    equals_this_hosts("6.12", &[WITH_BOOST]);
}

#[test]
#[ignore = "slow: compiles two kernels; `make test-long`"]
fn linux_6_1_decides_the_same_on_aarch64() {
    equals_this_hosts("6.1", &CASES[..1]);
}
