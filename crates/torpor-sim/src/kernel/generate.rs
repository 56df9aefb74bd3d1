// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Generates the headers that a kernel's `make` would, and a wrapper for each header of `asm/` for
//! which the generic one suffices.

use crate::kernel::{Configuration, KHOST, Release};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use torpor_machine::units::{Hz, read_regular};

/// Names whose presence in a tree's header decides how `khost/` uses it. Not its release: stable,
/// vendors' and Android's trees have later changes.
const NAMES: [(&str, &str); 15] = [
    ("arch_smp_send_reschedule", "include/linux/smp.h"),
    ("bus_get_dev_root", "include/linux/device/bus.h"),
    ("capacity_freq_ref", "include/linux/arch_topology.h"),
    ("debugfs_create_file_aux", "include/linux/debugfs.h"),
    ("debugfs_create_file_full", "include/linux/debugfs.h"),
    ("hrtimer_setup", "include/linux/hrtimer.h"),
    ("hrtimer_setup_sleeper_on_stack", "include/linux/hrtimer.h"),
    ("hrtimers_cpu_starting", "include/linux/hrtimer.h"),
    ("max_allowed_capacity", "include/linux/sched.h"),
    ("rcutree_report_cpu_starting", "include/linux/rcutree.h"),
    ("register_sysctl_sz", "include/linux/sysctl.h"),
    ("tick_cleanup_dead_cpu", "include/linux/tick.h"),
    ("tick_cpu_dying", "include/linux/tick.h"),
    ("timer_delete", "include/linux/timer.h"),
    ("timers_init", "include/linux/timer.h"),
];

/// Returns `KHOST_HAS_NAME` for each of NAMES that the tree has.
fn names_of(tree: &Path) -> String {
    let has = |name: &str, path: &str| {
        let text = read_regular(&tree.join(path)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
    };
    let found = NAMES.iter().filter(|(name, path)| has(name, path));
    found.map(|(name, _)| format!("#define KHOST_HAS_{} 1\n", name.to_uppercase())).collect()
}

/// Returns the headers, by path below the folder of generated headers.
pub(crate) fn headers(
    tree: &Path,
    release: &Release,
    config: &Configuration,
    hz: Hz,
) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    let mut add = |name: &str, text: String| headers.insert(name.to_owned(), text);
    add("generated/autoconf.h", config.header(hz));
    let hz = hz.get();
    add("generated/bounds.h", bounds());
    add("generated/asm-offsets.h", String::new());
    add("generated/khost-names.h", names_of(tree));
    add("generated/utsrelease.h", format!("#define UTS_RELEASE \"{release}\"\n"));
    add("generated/timeconst.h", timeconst(u64::from(hz)));
    add(
        "generated/uapi/linux/version.h",
        format!(
            "#define LINUX_VERSION_CODE {}\n\
             #define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + ((c) > 255 ? 255 : (c)))\n\
             #define LINUX_VERSION_MAJOR {}\n#define LINUX_VERSION_PATCHLEVEL {}\n\
             #define LINUX_VERSION_SUBLEVEL {}\n",
            (release.major << 16) + (release.minor << 8) + release.sublevel.min(255),
            release.major,
            release.minor,
            release.sublevel
        ),
    );
    for (name, text) in wrappers(tree) {
        headers.insert(name, text);
    }
    headers
}

/// Returns the definitions in assembly that uses the macros of <linux/kbuild.h>.
pub(crate) fn offsets(assembly: &str) -> String {
    let define = |line: &str| {
        let (name, rest) = line.trim().strip_prefix(".ascii \"->")?.split_once(' ')?;
        let value = rest.split([' ', '"']).next()?.trim_start_matches(['$', '#']);
        Some(format!("#define {name} {value}\n"))
    };
    assembly.lines().filter_map(define).collect()
}

/// Sizes that <linux/mm_types.h> and related headers need; no hosted file uses pages.
fn bounds() -> String {
    let values = [
        ("NR_PAGEFLAGS", 22),
        ("MAX_NR_ZONES", 3),
        ("NR_CPUS_BITS", 10),
        ("SPINLOCK_SIZE", 4),
        ("LRU_GEN_WIDTH", 0),
        ("__LRU_REFS_WIDTH", 0),
    ];
    values.iter().map(|(name, value)| format!("#define {name} {value}\n")).collect()
}

/// Returns wrappers for the headers of `asm/` that `khost/` does not have.
fn wrappers(tree: &Path) -> Vec<(String, String)> {
    let is_ours = |name: &str| KHOST.iter().any(|(file, _)| *file == format!("include/asm/{name}"));
    let mut found = Vec::new();
    let mut generic = names(&tree.join("include/asm-generic"));
    let vdso = names(&tree.join("include/asm-generic/vdso"));
    generic.extend(vdso.into_iter().map(|name| format!("vdso/{name}")));
    let user = names(&tree.join("include/uapi/asm-generic"));
    let include = |name: &str, from: &str| match name {
        "byteorder.h" => "#include <linux/byteorder/little_endian.h>\n".to_owned(),
        _ => format!("#include <{from}/{name}>\n"),
    };
    for name in &generic {
        if !is_ours(name) {
            found.push((format!("wrap/asm/{name}"), include(name, "asm-generic")));
        }
    }
    for name in &user {
        if !is_ours(name) && !generic.contains(name) {
            found.push((format!("wrap/asm/{name}"), include(name, "uapi/asm-generic")));
        }
        found.push((format!("uapi/asm/{name}"), include(name, "asm-generic")));
    }
    for place in ["wrap/asm", "uapi/asm"] {
        found.push((format!("{place}/byteorder.h"), include("byteorder.h", "")));
    }
    found
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".h"))
        .collect();
    names.sort();
    names
}

/// Factors that convert between units of time by a multiplication and a shift, exact for 32-bit
/// values.
struct Factors {
    mul: u128,
    adjust: u128,
    shift: u32,
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Factors {
    /// Returns the factors of `numerator / denominator`: the multiplier has 32 bits, rounded up,
    /// and the adjustment corrects the rounding of a division upwards.
    fn new(numerator: u64, denominator: u64) -> Factors {
        let (n, d) = (u128::from(numerator), u128::from(denominator));
        let mul = |shift: u32| (n << shift).div_ceil(d);
        let shift = (0..).find(|shift| mul(*shift) >= 1 << 31).expect("some shift is enough");
        let reduced = d / u128::from(gcd(numerator, denominator));
        Factors { mul: mul(shift), adjust: ((reduced - 1) << shift) / reduced, shift }
    }
}

/// Returns the constants that `kernel/time/timeconst.bc` computes.
fn timeconst(hz: u64) -> String {
    let mut text = "#include <linux/param.h>\n#include <linux/types.h>\n".to_owned();
    let mut define =
        |name: String, value: String| text.push_str(&format!("#define {name} {value}\n"));
    for (unit, per_second) in [("MSEC", 1_000), ("USEC", 1_000_000)] {
        let both =
            [(format!("HZ_TO_{unit}"), per_second, hz), (format!("{unit}_TO_HZ"), hz, per_second)];
        for (name, n, d) in &both {
            let Factors { mul, adjust, shift } = Factors::new(*n, *d);
            define(format!("{name}_MUL32"), format!("U64_C({mul:#X})").replace("0X", "0x"));
            define(format!("{name}_ADJ32"), format!("U64_C({adjust:#X})").replace("0X", "0x"));
            define(format!("{name}_SHR32"), shift.to_string());
        }
        for (name, n, d) in both {
            define(format!("{name}_NUM"), (n / gcd(n, d)).to_string());
            define(format!("{name}_DEN"), (d / gcd(n, d)).to_string());
        }
    }
    for (name, n, d) in [("HZ_TO_NSEC", 1_000_000_000, hz), ("NSEC_TO_HZ", hz, 1_000_000_000)] {
        define(format!("{name}_NUM"), (n / gcd(n, d)).to_string());
        define(format!("{name}_DEN"), (d / gcd(n, d)).to_string());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_from_assembly() {
        let text = "main:\n\t.ascii \"->RQ_x $3504 offsetof(struct rq, x)\"\n\tret\n";
        assert_eq!(offsets(text), "#define RQ_x 3504\n");
    }

    /// By hand for 250 Hz: a jiffy is 4 ms, so 4 * 2^29 = 2^31 is the first multiplier of 32 bits;
    /// back, 1/4 * 2^33, and 3/4 of 2^33 rounds up.
    #[test]
    fn factors_for_250_hz_are_as_by_hand() {
        let text = timeconst(250);
        for line in [
            "#define HZ_TO_MSEC_MUL32 U64_C(0x80000000)",
            "#define HZ_TO_MSEC_ADJ32 U64_C(0x0)",
            "#define HZ_TO_MSEC_SHR32 29",
            "#define MSEC_TO_HZ_MUL32 U64_C(0x80000000)",
            "#define MSEC_TO_HZ_ADJ32 U64_C(0x180000000)",
            "#define MSEC_TO_HZ_SHR32 33",
            "#define HZ_TO_USEC_MUL32 U64_C(0xFA000000)",
            "#define HZ_TO_USEC_SHR32 20",
            "#define USEC_TO_HZ_ADJ32 U64_C(0x7FF7CED9168)",
            "#define HZ_TO_NSEC_NUM 4000000",
            "#define NSEC_TO_HZ_DEN 4000000",
        ] {
            assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
        }
    }
}
