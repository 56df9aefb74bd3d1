// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Governors as others publish them: folders of files, files without their header, and uses of
//! other kernel interfaces.

use crate::support::{resolve, resolve_error, server_states, source};
use std::fs;
use std::path::{Path, PathBuf};
use torpor_governor::{CpuSetup, Inputs, Instance, Setup, hosting};
use torpor_machine::units::{CpuId, Hz};

fn instance(text: &str) -> Instance {
    let states = server_states();
    let setup =
        Setup { cpus: &[CpuSetup::new(CpuId(0), &states), CpuSetup::new(CpuId(3), &states)] };
    resolve(text, Hz::H250).instantiate(&setup).unwrap()
}

fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("elsewhere").join(name);
    let _ = fs::remove_dir_all(&dir);
    for (file, text) in files {
        let path = dir.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

/// Returns the answer of a governor in one file, on the first CPU.
fn answer(name: &str, more: &str, state: &str) -> i32 {
    let dir = folder(name, &[("mine.c", &source(state, more))]);
    let mut instance = instance(&dir.join("mine.c").display().to_string());
    instance.select(0, &Inputs::default()).unwrap().state
}

#[test]
fn a_folder_is_one_governor_of_several_files() {
    let makefile = "VECTOR := -DVECTOR=1\nobj-$(CONFIG_MINE) += mine.o\n\
                    mine-y := front.o back.o\nCFLAGS_back.o += $(VECTOR) $(CC_FLAGS_FPU)\n";
    let front = source("back(2.5)", "#include \"shared.h\"\n#include \"../gov.h\"")
        .replace("return back", "kernel_fpu_begin(); int i = back")
        .replace("(2.5);", "(2.5); kernel_fpu_end(); return i;")
        .replace("#include \"shared.h\"", "#include <asm/fpu/api.h>\n#include \"shared.h\"");
    let files = [
        ("Makefile", makefile),
        ("shared.h", "int back(double x);\n"),
        ("front.c", front.as_str()),
        (
            "back.c",
            "#include \"shared.h\"\nint back(double x) { return x * 2 > 4 ? VECTOR : 0; }\n",
        ),
        ("unused.c", "#error this is no part\n"),
    ];
    let dir = folder("several", &files);
    let name = format!("{}/", dir.display());
    assert_eq!(instance(&name).select(0, &Inputs::default()).unwrap().state, 1);
    let before = resolve(&name, Hz::H250).source_sha256().to_owned();
    fs::write(dir.join("back.c"), "#include \"shared.h\"\nint back(double x) { return 2; }\n")
        .unwrap();
    assert_eq!(instance(&name).select(0, &Inputs::default()).unwrap().state, 2);
    assert_ne!(resolve(&name, Hz::H250).source_sha256(), before, "each file counts");
}

#[test]
fn an_error_in_a_part_names_its_file() {
    let files = [
        ("front.c", &*source("back()", "int back(void);")),
        ("back.c", "int back(void)\n{\n\treturn nobody_has_this(1);\n}\n"),
    ];
    let text = resolve_error(&format!("{}/", folder("part", &files).display()));
    assert!(text.contains("the kapi has no function nobody_has_this()"), "{text}");
    assert!(text.contains("back.c:3:"), "{text}");
}

#[test]
fn folder_of_several_governors_is_refused() {
    let (one, two) = (source("0", ""), source("1", ""));
    let dir = folder("two", &[("one.c", &one), ("two.c", &two), ("none.c", "int x;\n")]);
    let text = resolve_error(&format!("{}/", dir.display()));
    assert!(text.contains("(none.c, one.c, two.c) these do: one.c, two.c"), "{text}");
    let text = resolve_error(&format!("{}/", folder("empty", &[("a.txt", "")]).display()));
    assert!(text.contains("(none) these do: none"), "{text}");
    assert!(resolve_error("/nowhere/at/all/").contains("/nowhere/at/all/"));
}

#[test]
fn single_file_gets_the_shared_header() {
    let more = "#include \"gov.h\"\n_Static_assert(RESIDENCY_THRESHOLD_NS == 15000, \"\");";
    assert_eq!(answer("gov-h", more, "1"), 1);
    // The one next to it counts.
    let own = source("OWN", "#include \"gov.h\"");
    let dir = folder("own-gov-h", &[("mine.c", &own), ("gov.h", "#define OWN 2\n")]);
    let mut instance = instance(&dir.join("mine.c").display().to_string());
    assert_eq!(instance.select(0, &Inputs::default()).unwrap().state, 2);
}

#[test]
fn sched_cpu_util_has_the_releases_arguments() {
    let more = "#include <linux/sched.h>\n#include <linux/sched/topology.h>";
    let two = "sched_cpu_util(dev->cpu, arch_scale_cpu_capacity(dev->cpu)) + 1 + \
               0 * dev->last_residency_ns";
    assert_eq!(answer("util-two", more, two), 1);
    let one = "sched_cpu_util(dev->cpu) + 2 + 0 * dev->last_residency_ns";
    assert_eq!(answer("util-one", more, one), 2);
}

#[test]
fn static_keys_and_masks_work_as_in_kernel() {
    let more = "#include <linux/cpu.h>\n#include <linux/jump_label.h>\n#include <asm/simd.h>\n\
                DEFINE_STATIC_KEY_FALSE(key);\n\
                static int count(const char *list)\n{\n\tcpumask_var_t mask;\n\tint cpu, sum = 0;\n\
                \tif (!alloc_cpumask_var(&mask, GFP_KERNEL))\n\t\treturn -1;\n\
                \tif (cpulist_parse(list, mask))\n\t\treturn -2;\n\
                \tfor_each_cpu_and(cpu, mask, cpu_online_mask)\n\t\tsum += cpu + 1;\n\
                \tfree_cpumask_var(mask);\n\treturn sum;\n}\n\
                static int ok(void)\n{\n\
                \tif (static_branch_unlikely(&key))\n\t\treturn 0;\n\
                \tstatic_branch_enable(&key);\n\
                \treturn static_branch_likely(&key) && may_use_simd() &&\n\
                \t\tcount(\"0-2,3\\n\") == 5 && count(\"1\") == 0 && count(\"3\") == 4 &&\n\
                \t\tcount(\"3-1\") == -2 && count(\"x\") == -2 && count(\"9999\") == -2;\n}\n";
    assert_eq!(answer("keys", more, "ok()"), 1);
}

#[test]
fn random_numbers_repeat_and_differ_by_cpu() {
    let more = "#include <linux/random.h>";
    let dir = folder("random", &[("mine.c", &source("get_random_u32_below(3)", more))]);
    let name = dir.join("mine.c").display().to_string();
    let draw = |cpu| -> Vec<i32> {
        let mut instance = instance(&name);
        let mut one = || instance.select(cpu, &Inputs::default()).unwrap().state;
        (0..300).map(|_| one()).collect()
    };
    assert_eq!(draw(0), draw(0));
    assert_ne!(draw(0), draw(1));
    for state in 0..3 {
        let count = draw(0).iter().filter(|s| **s == state).count();
        assert!((60..140).contains(&count), "state {state}: {count} of 300");
    }
    // As Linux 5.10 spells it.
    assert!(answer("prandom", more, "prandom_u32() % 2 + prandom_u32_max(1)") < 2);
}

#[test]
fn missing_interrupt_prediction_is_named() {
    let more = "#include <linux/interrupt.h>\n#include <linux/sched.h>";
    let state = "need_resched() ? 0 : irq_timings_next_event(1) > 5";
    let dir = folder("timings", &[("mine.c", &source(state, more))]);
    let text = resolve_error(&dir.join("mine.c").display().to_string());
    let first = text.lines().next().unwrap();
    assert!(first.ends_with("the kapi has no function irq_timings_next_event()"), "{text}");
}

#[test]
fn a_version_is_found_in_ubuntus_folder() {
    let name = "linux-source-6.8.0";
    let dir = folder("ubuntu", &[(&format!("{name}/{name}.tar.bz2"), ""), ("tree/Makefile", "")]);
    let found = hosting::locate(&dir.join(name)).unwrap();
    assert_eq!(found, dir.join(name).join(format!("{name}.tar.bz2")));
    assert_eq!(hosting::locate(&dir.join("tree")), Some(dir.join("tree")));
}

/// The first proposal of utilization awareness includes no header for a CPU's capacity.
#[test]
fn cpuidle_h_provides_the_kernels_names() {
    let more = "static cpumask_t seen;\n\
                static int busy(void) { return need_resched() || cpumask_weight(&seen); }\n\
                EXPORT_SYMBOL_GPL(busy);";
    let state = "busy() + (arch_scale_cpu_capacity(dev->cpu) == SCHED_CAPACITY_SCALE)";
    assert_eq!(answer("reach", more, state), 1);
}
