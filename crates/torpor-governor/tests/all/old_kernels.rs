// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Governors for kernels since 3.7: the interface that a file gets, and its inputs.

use crate::support::{kernel_file, kernel_sources, resolve_error, state};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use torpor_governor::{CpuSetup, Governor, Inputs, Instance, Release, Setup, StateDesc};
use torpor_machine::units::{CpuId, Duration, Hz, Instant};

const MS: i64 = 1_000_000;

/// A kernel tree of one governor; its Makefile gives the release.
fn tree(version: (u32, u32), text: &str) -> PathBuf {
    let (major, minor) = version;
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("old/{major}.{minor}"));
    let folder = root.join("drivers/cpuidle/governors");
    fs::create_dir_all(&folder).unwrap();
    let makefile = format!("VERSION = {major}\nPATCHLEVEL = {minor}\nSUBLEVEL = 0\n");
    fs::write(root.join("Makefile"), makefile).unwrap();
    fs::write(folder.join("mine.c"), text).unwrap();
    root
}

fn resolve(spec: &str) -> Governor {
    crate::support::resolve(spec, Hz::H250)
}

fn release(major: u8, minor: u8) -> Release {
    Release { major, minor }
}

/// POLL, C1 and C6, with times that are no whole microseconds.
fn states(polls: bool) -> Vec<StateDesc> {
    let mut states = vec![state("S0", 0, 0, polls), state("C1", 2, 3, false)];
    states.push(StateDesc {
        exit_latency: Duration(50_900),
        target_residency: Duration(600_999),
        ..state("C6", 0, 0, false)
    });
    states
}

fn lone(governor: &Governor, states: &[StateDesc]) -> Instance {
    governor.instantiate(&Setup { cpus: &[CpuSetup::new(CpuId(1), states)] }).unwrap()
}

/// 7 ms and 8 ns to the timer, the tick in 1 ms, a limit of 80.5 us.
fn inputs() -> Inputs {
    Inputs {
        now: Instant(1_000 * MS),
        sleep_length: Duration(7 * MS + 8),
        delta_next: Duration(MS),
        latency_req: Duration(80_500),
        nr_iowait: 3,
        load_avg: 2_048,
        ..Inputs::default()
    }
}

/// Common body of kernels of a time; `BUG_ON` ends the call with the line's number.
fn body(dialect: &str) -> String {
    format!(
        "#include <linux/kernel.h>\n#include <linux/cpuidle.h>\n#include <linux/pm_qos.h>\n\
         #include <linux/time.h>\n#include <linux/ktime.h>\n#include <linux/hrtimer.h>\n\
         #include <linux/tick.h>\n#include <linux/sched.h>\n#include <linux/math64.h>\n\
         #include <linux/cpu.h>\n#include <linux/module.h>\n#include <linux/version.h>\n\
         #include <linux/bug.h>\n{dialect}\n\
         static int __init mine_init(void)\n{{\n\
         \treturn cpuidle_register_governor(&mine);\n}}\n"
    )
}

/// Selects twice with a sleep of 700 us and 900 ns in C6 between.
fn drive(governor: &Governor, states: &[StateDesc]) -> Vec<(i32, bool)> {
    let mut instance = lone(governor, states);
    let mut choices = Vec::new();
    for _ in 0..2 {
        let choice = instance.select(0, &inputs()).unwrap_or_else(|e| panic!("{e}"));
        choices.push((choice.state, choice.stop_tick));
        instance.set_last_residency(0, Duration(700_900));
        instance.reflect(0, choice.state, Instant(1_001 * MS), true).unwrap();
    }
    choices
}

const OF_3_7: &str = r#"
#define LOAD_INT(x) ((x) >> FSHIFT)
struct mine_cpu { int calls; };
static DEFINE_PER_CPU(struct mine_cpu, cpus);
static int mine_select(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	struct mine_cpu *data = &__get_cpu_var(cpus);
	struct timespec t = ktime_to_timespec(tick_nohz_get_sleep_length());
	int i;

	BUG_ON(LINUX_VERSION_CODE != KERNEL_VERSION(3, 7, 0));
	BUG_ON(t.tv_sec || t.tv_nsec != 7000008);
	BUG_ON(pm_qos_request(PM_QOS_CPU_DMA_LATENCY) != 80);
	BUG_ON(nr_iowait_cpu(smp_processor_id()) != 3);
	BUG_ON(LOAD_INT(this_cpu_load() * 2) != 2 || FIXED_1 != 2048);
	BUG_ON(CPUIDLE_DRIVER_STATE_START != (drv->states[0].exit_latency ? 0 : 1));
	for (i = 0; i < drv->state_count; i++) {
		BUG_ON(!(drv->states[i].flags & CPUIDLE_FLAG_TIME_VALID));
		BUG_ON(drv->states[i].disabled || drv->states[i].power_usage != -1 - i);
	}
	BUG_ON(drv->states[2].exit_latency != 50 || drv->states[2].target_residency != 600);
	BUG_ON(data->calls && cpuidle_get_last_residency(dev) != 700);
	data->calls++;
	return 2;
}
static int mine_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	per_cpu(cpus, dev->cpu).calls = 0;
	return 0;
}
static void mine_reflect(struct cpuidle_device *dev, int index)
{
	BUG_ON(index != 2);
	RCU_NONIDLE(dev->cpu = dev->cpu);
}
static struct cpuidle_governor mine = {
	.name = "mine", .rating = 20, .enable = mine_enable, .select = mine_select,
	.reflect = mine_reflect, .owner = THIS_MODULE,
};
static int __init mine_init(void);
static void __exit mine_exit(void)
{
	cpuidle_unregister_governor(&mine);
}
module_init(mine_init);
module_exit(mine_exit);
"#;

const OF_4_9: &str = r#"
static DEFINE_PER_CPU(int, calls);
static int mine_select(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	unsigned long nr_iowaiters, cpu_load;
	struct device *device = get_cpu_device(dev->cpu);
	int *data = this_cpu_ptr(&calls);

	get_iowait_load(&nr_iowaiters, &cpu_load);
	BUG_ON(nr_iowaiters != 3 || cpu_load != 0);
	BUG_ON(dev_pm_qos_raw_read_value(device) != 0);
	BUG_ON(pm_qos_request(PM_QOS_CPU_DMA_LATENCY) != 80);
	BUG_ON(ktime_to_us(tick_nohz_get_sleep_length()) != 7000);
	BUG_ON(DIV_ROUND_CLOSEST_ULL(15ULL, 10) != 2);
	BUG_ON(CPUIDLE_DRIVER_STATE_START != 1 || (*data && dev->last_residency != 700));
	BUG_ON(tick_nohz_enabled != true);
	(*data)++;
	return 2;
}
static struct cpuidle_governor mine = { .name = "mine", .rating = 20, .select = mine_select };
static int __init mine_init(void);
postcore_initcall(mine_init);
"#;

const OF_5_4: &str = r#"
static DEFINE_PER_CPU(int, calls);
static int mine_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	int latency_req = cpuidle_governor_latency_req(dev->cpu);
	int *data = this_cpu_ptr(&calls);
	ktime_t delta_next;

	BUG_ON(latency_req != 80 || ktime_to_us(tick_nohz_get_sleep_length(&delta_next)) != 7000);
	BUG_ON(ktime_to_us(delta_next) != 1000 || tick_nohz_tick_stopped());
	BUG_ON(*data && (cpuidle_get_last_residency(dev) != 700 || !tick_nohz_idle_got_tick()));
	BUG_ON(!!(drv->states[0].flags & CPUIDLE_FLAG_POLLING) != !drv->states[0].exit_latency);
	(*data)++;
	*stop_tick = false;
	return drv->states[2].exit_latency <= latency_req ? 2 : 0;
}
static struct cpuidle_governor mine = { .name = "mine", .rating = 20, .select = mine_select };
static int __init mine_init(void);
postcore_initcall(mine_init);
"#;

#[test]
fn kernel_3_7_governor_gets_its_inputs() {
    let root = tree((3, 7), &body(OF_3_7));
    let governor = resolve(&format!("mine@{}", root.display()));
    assert_eq!(governor.release(), release(3, 7));
    assert_eq!(governor.rating(), 20);
    // The kernel stopped the tick before it called the governor, so the tick is stopped.
    assert_eq!(drive(&governor, &states(true)), [(2, true), (2, true)]);
    // On machines whose first state does not poll, governors start from state 0.
    let mut arm = states(false);
    arm[0].exit_latency = Duration(1_000);
    assert_eq!(drive(&governor, &arm), [(2, true), (2, true)]);
}

#[test]
fn kernel_4_9_governor_gets_its_inputs() {
    let governor = resolve(&format!("mine@{}", tree((4, 9), &body(OF_4_9)).display()));
    assert_eq!(drive(&governor, &states(true)), [(2, true), (2, true)]);
}

#[test]
fn a_governor_of_5_4_counts_in_microseconds() {
    let root = tree((5, 4), &body(OF_5_4));
    // Named as a file it is of the tree it lies in.
    let path = root.join("drivers/cpuidle/governors/mine.c");
    for spec in [format!("mine@{}", root.display()), path.display().to_string()] {
        let governor = resolve(&spec);
        assert_eq!(governor.release(), release(5, 4));
        assert_eq!(drive(&governor, &states(true)), [(2, false), (2, false)]);
    }
}

#[test]
fn tarball_and_revision_have_their_own_release() {
    let root = tree((5, 3), &body(OF_5_4));
    let old = root.parent().unwrap();
    let run = |program: &str, args: &[&str]| {
        let done = Command::new(program).current_dir(&root).args(args).output().unwrap();
        assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let tarball = old.join("5.3.tar");
    let parent = old.to_str().unwrap();
    run("tar", &["-C", parent, "-cf", tarball.to_str().unwrap(), "5.3/Makefile", "5.3/drivers"]);
    let who = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"];
    run("git", &["init", "-q"]);
    run("git", &["add", "Makefile", "drivers"]);
    run("git", &[&who[..], &["commit", "-q", "--allow-empty", "-m", "5.3"]].concat());
    for spec in [format!("mine@{}", tarball.display()), format!("mine@{}:HEAD", root.display())] {
        let governor = resolve(&spec);
        assert_eq!(governor.release(), release(5, 3), "{spec}");
        assert_eq!(drive(&governor, &states(true)), [(2, false), (2, false)]);
    }
}

/// Without a tree, the interface follows from the file's text alone.
#[test]
fn lone_file_gets_the_latest_fitting_kernel() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("old/alone");
    fs::create_dir_all(&folder).unwrap();
    let version_of_3_7 = "LINUX_VERSION_CODE != KERNEL_VERSION(3, 7, 0)";
    for (name, text, expected) in [
        ("of-3-7", OF_3_7.replace(version_of_3_7, "false"), release(3, 18)),
        ("of-4-9", OF_4_9.to_owned(), release(4, 13)),
        ("of-5-4", OF_5_4.to_owned(), release(5, 4)),
    ] {
        let path = folder.join(format!("{name}.c"));
        // 4.2 to 4.19 gave no load; the text is the same.
        fs::write(&path, body(&text)).unwrap();
        let governor = resolve(path.to_str().unwrap());
        assert_eq!(governor.release(), expected, "{name}");
        assert_eq!(drive(&governor, &states(true)).len(), 2);
    }
}

/// A governor of today that uses a removed interface gets an error.
#[test]
fn todays_governors_do_not_get_removed_apis() {
    let text = body(OF_4_9);
    let error = resolve_error(&format!("mine@{}", tree((6, 12), &text).display()));
    assert!(error.contains("get_iowait_load") && error.contains("pm_qos_request"), "{error}");
}

/// Single files of kernels without a package, and files of packaged kernels.
#[test]
fn unedited_files_of_old_kernels_run() {
    let test = "old kernels' own files";
    let old = ["ladder-3.10.c", "menu-69a37bea.c", "haltpoll-5.4.c", "teo-5.10.c", "teo-6.3.c"];
    let files = old.iter().filter_map(|name| Some(kernel_file(name, test)?.display().to_string()));
    let trees = ["6.1", "6.12"].iter().filter_map(|version| kernel_sources(version, test));
    let theirs = trees.flat_map(|tree| {
        ["ladder", "menu", "teo", "haltpoll"].map(|name| format!("{name}@{}", tree.display()))
    });
    for spec in files.chain(theirs) {
        let mut instance = lone(&resolve(&spec), &states(true));
        let mut deepest = 0;
        for i in 0..100 {
            let now = Instant(1_000 * MS + i * 8 * MS);
            let choice = instance.select(0, &Inputs { now, ..inputs() }).unwrap();
            deepest = deepest.max(choice.state);
            instance.set_last_residency(0, Duration(7 * MS));
            instance.reflect(0, choice.state, now + Duration(7 * MS), false).unwrap();
        }
        let expected = if spec.contains("haltpoll") { 1 } else { 2 };
        assert_eq!(deepest, expected, "{spec}: 7 ms of sleep again and again");
    }
}
