// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Decisions of the kernel, and requests to it.

use crate::hosted::{support as hosted, troubles};
use crate::upstream;

use crate::support::{catalog, load, request, run};
use std::path::Path;
use torpor_engine::Unwatched;
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration};
use torpor_sim::machine::Counted;
use torpor_sim::record::Recorder;
use torpor_sim::{Request, Session, workload};
use torpor_trace::{EventKind, InterruptCause};

/// A shipped workload on a shipped platform, under menu.
fn shipped(workload: &str, platform: &str, ms: i64) -> Request {
    let workload = workload::resolve(workload).unwrap_or_else(|e| panic!("{e}"));
    let platform = Platform::resolve(platform).unwrap_or_else(|e| panic!("{e}"));
    request(platform, workload, &["menu"], ms)
}

fn count(request: &Request) -> Counted {
    crate::support::count(&request.resolved().unwrap()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_cpus_time_is_all_accounted_for() {
    let request = shipped("requests", "pixel6", 1_000);
    let counted = count(&request);
    let handling = request.platform.tick_handling;
    for (number, cpu) in counted.cpus.iter().enumerate() {
        let idle: Duration = cpu.totals.states.iter().fold(Duration::ZERO, |t, s| t + s.time);
        let ticks = Duration(cpu.totals.tick_wakeups as i64 * handling.0);
        let found = idle + cpu.task_time + cpu.overhead;
        // The tick's handler counts as neither; what is charged at the very end reaches beyond it.
        let least = counted.span - ticks - ticks - ticks - ticks;
        assert!(found >= least, "cpu {number}: {found} of {}", counted.span);
        assert!(found <= counted.span + Duration::from_us(100), "cpu {number}: {found}");
        let by_opp = cpu.busy_at.iter().fold(Duration::ZERO, |t, at| t + *at);
        assert_eq!(by_opp, cpu.task_time + cpu.overhead, "cpu {number}");
    }
}

#[test]
fn a_result_names_its_kernel_on_any_threads() {
    let mut request = shipped("frames", "pixel6", 300);
    request.options.seeds = 3;
    let text = |threads| {
        let mut request = request.clone();
        request.options.threads = Some(threads);
        serde_json::to_string(&run(&request)).unwrap()
    };
    let alone = text(1);
    assert_eq!(alone, text(4));
    assert!(alone.contains("\"release\":\"6.12."), "{alone}");
    let outcome = run(&request);
    assert_eq!(outcome.options.kernels.len(), 1);
    assert_eq!(outcome.options.kernels[0].source_sha256.len(), 64);
    assert!(outcome.notes.iter().any(|note| note.starts_with("Linux 6.12.")), "{outcome:?}");
}

#[test]
fn oracle_of_a_run_bounds_every_governor() {
    let mut request = shipped("frames", "pixel6", 1_000);
    request.governors.push("oracle".parse().unwrap());
    let outcome = run(&request);
    let over = outcome.runs[0].run.metrics["over_oracle_pct"].expect("its power is known");
    assert!(over > 0.0 && over < 100.0, "{over} % over the oracle");
}

#[test]
fn a_deadlock_is_the_error_of_its_row() {
    let mut request = shipped("pipe", "pixel6", 300);
    request.workload = load(
        "[[task]]\nname = \"a\"\nphase = [{ run_us = 50 }, { wait = \"x\" }, { wake = \"y\" }]\n\
         [[task]]\nname = \"b\"\nphase = [{ wait = \"y\" }, { wake = \"x\" }]\n",
    );
    let outcome = run(&request);
    let error = outcome.runs[0].run.error.as_ref().expect("nobody can go on");
    assert!(error.contains("deadlock"), "{error}");
}

#[test]
fn an_impossible_request_fails_before_it_runs() {
    let mut request =
        request(Platform::resolve("pixel6").unwrap(), workload::resolve("pipe").unwrap(), &[], 300);
    request.governors = vec!["menu".parse().unwrap()];
    request.options.kernels = vec!["/nowhere/linux".parse().unwrap()];
    let error = |request: &Request| {
        let run = torpor_sim::run(request, &catalog(), &Unwatched);
        run.expect_err("it cannot be run").to_string()
    };
    assert!(error(&request).contains("kernel `/nowhere/linux`"), "{}", error(&request));
    request.options.cpus = Some(vec![CpuId(1), CpuId(2)]);
    assert!(error(&request).contains("add 0 to option `cpus`"), "{}", error(&request));
    request.options.cpus = None;
    request.options.kernels = vec!["6.12".parse().unwrap(); 2];
    assert!(error(&request).contains("`6.12` twice"), "{}", error(&request));
}

/// A kernel with a bad patch, and one without: the first fails in its row only.
#[test]
fn broken_kernel_ends_only_its_own_row() {
    let Some(tree) = troubles::tree_with_bad_patch() else { return };
    let mut request = shipped("pipe", "pixel6", 100);
    let tree = tree.display().to_string();
    let kernels = [tree.as_str(), torpor_sim::DEFAULT_KERNEL];
    request.options.kernels = kernels.map(|kernel| kernel.parse().unwrap()).to_vec();
    for (name, message) in [("bug", "BUG: kernel/sched/fair.c:"), ("endless", "CPU time limit")] {
        request.workload = load(&format!(
            "[[task]]\nname = \"{name}\"\ncpus = \"0\"\nphase = [{{ run_us = 10 }}, {{ sleep_us = 500 }}]\n\
             [[task]]\nname = \"hog\"\ncpus = \"0\"\nphase = [{{ run_us = 1000 }}]\n"
        ));
        let outcome = run(&request);
        let errors: Vec<Option<&str>> =
            outcome.runs.iter().map(|row| row.run.error.as_deref()).collect();
        let [Some(error), None] = errors[..] else { panic!("{errors:?}") };
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn offline_cpu_stays_offline() {
    let mut request = shipped("requests", "pixel6", 500);
    let online = [0, 1, 4, 7];
    request.options.cpus = Some(online.map(CpuId).to_vec());
    let counted = count(&request);
    for (number, cpu) in counted.cpus.iter().enumerate() {
        let is_online = online.contains(&(number as u32));
        assert_eq!(cpu.is_online, is_online, "cpu {number}");
        assert_eq!(cpu.totals.decisions > 0, is_online, "cpu {number}");
        let worked = cpu.task_time + cpu.overhead > Duration::ZERO;
        assert!(is_online || !worked, "cpu {number} is offline and works");
    }
    let work: Duration = counted.cpus.iter().fold(Duration::ZERO, |sum, cpu| sum + cpu.task_time);
    assert!(work > Duration::from_us(50_000), "{work}");
}

/// Returns the entries into each state, by CPU.
fn entries(counted: &Counted) -> Vec<Vec<u64>> {
    counted.cpus.iter().map(|cpu| cpu.totals.states.iter().map(|s| s.usage).collect()).collect()
}

#[test]
fn a_state_may_be_off_for_one_cpu() {
    let mut request = shipped("idle-predict", "pixel6", 2_000);
    let before = entries(&count(&request));
    assert!(before.iter().all(|states| states[1] > 0), "{before:?}");
    request.options.disabled_states =
        vec![torpor_engine::DisabledState { state: 1, cpu: Some(CpuId(2)) }];
    let after = entries(&count(&request));
    assert_eq!(after[2][1], 0);
    assert!(after[2][0] > 0);
    let others = (0..8).filter(|cpu| *cpu != 2);
    assert!(others.clone().all(|cpu| after[cpu][1] > 0), "{after:?}");
}

#[test]
fn latency_limit_is_the_kernels_pm_qos() {
    let mut request = shipped("idle-predict", "rk3399", 1_000);
    let latencies: Vec<i64> =
        request.platform.clusters[0].idle_states.iter().map(|s| s.latency.0).collect();
    let deepest = latencies.len() - 1;
    assert!(entries(&count(&request)).iter().any(|states| states[deepest] > 0));
    // Exactly what the state takes is allowed, a microsecond less is not.
    request.options.latency_limit = Duration(latencies[deepest]).into();
    assert!(entries(&count(&request))[..4].iter().any(|states| states[deepest] > 0));
    request.options.latency_limit = Duration(latencies[deepest] - 1_000).into();
    let limited = entries(&count(&request));
    assert!(limited[..4].iter().all(|states| states[deepest] == 0), "{limited:?}");
    assert!(limited[..4].iter().any(|states| states[deepest - 1] > 0), "{limited:?}");
}

/// Time at each OPP, by cluster, under a frequency policy.
fn at_opps(request: &Request, policy: &str) -> Vec<Vec<Duration>> {
    let mut request = request.clone();
    request.options.cpufreq = vec![policy.parse().unwrap()];
    count(&request).domains.into_iter().map(|domain| domain.time_at).collect()
}

#[test]
fn fixed_frequency_is_held_as_cpufreq_does() {
    let request = shipped("requests", "rk3399", 300);
    let span = request.options.duration;
    for times in at_opps(&request, "powersave") {
        assert_eq!(times[0], span, "{times:?}");
    }
    for times in at_opps(&request, "performance") {
        assert_eq!(*times.last().unwrap(), span, "{times:?}");
    }
    let khz: Vec<u32> =
        request.platform.clusters.iter().map(|cluster| cluster.opps[2].freq_khz).collect();
    // One below an OPP is that OPP.
    for times in at_opps(&request, &format!("userspace,freq_khz={}/{}", khz[0] - 1, khz[1])) {
        assert_eq!(times[2], span, "{times:?}");
    }
}

#[test]
fn a_rate_limit_is_kept_between_two_changes() {
    let mut request = shipped("requests", "pixel6", 1_000);
    let mut changes = |policy: &str| {
        request.options.cpufreq = vec![policy.parse().unwrap()];
        let domains = count(&request).domains;
        domains.into_iter().map(|domain| domain.transitions).max().unwrap()
    };
    let (often, seldom) = (changes("schedutil"), changes("schedutil,rate_limit_us=50000"));
    // At most one in 50 ms, and the first.
    assert!(often > 30 && (2..=21).contains(&seldom), "{often} and {seldom} changes");
}

#[test]
fn io_waits_boost_nothing_without_schedutil() {
    let mut request = shipped("fio-randread", "rk3399", 1_000);
    request.platform.clusters.iter_mut().for_each(|c| c.clock.has_fast_switch = true);
    request.options.cpufreq = vec!["schedutil".parse().unwrap()];
    request.options.io_boosts = ["iowait", "none"].map(|boost| boost.parse().unwrap()).to_vec();
    let outcome = run(&request);
    let [boosted, not] = &outcome.runs[..] else { panic!("two columns") };
    let reads = [boosted, not].map(|run| run.run.metrics["iops"].unwrap());
    assert!(reads[0] > 1.03 * reads[1], "{reads:?}");
    let mut named = request;
    named.options.io_boosts.truncate(1);
    let boosted = run(&named).runs[0].run.metrics["iops"];
    named.options.io_boosts.clear();
    assert_eq!(run(&named).runs[0].run.metrics["iops"], boosted, "the boost is the kernel's own");
}

#[test]
fn governors_timer_is_not_a_tick() {
    let mut request = shipped("frames", "i5-10600k", 500);
    let mut wakeups = |governor: &str| {
        request.governors = vec![governor.parse().unwrap()];
        let counted = count(&request);
        let sum = |of: &dyn Fn(&torpor_engine::totals::CpuTotals) -> u64| {
            counted.cpus.iter().map(|cpu| of(&cpu.totals)).sum::<u64>()
        };
        (
            sum(&|t| t.governor_timer_wakeups),
            sum(&|t| t.tick_wakeups),
            sum(&|t| t.governor_timer_starts),
        )
    };
    let (timers, _, starts) = wakeups("menu");
    assert_eq!((timers, starts), (0, 0));
    let (timers, ticks, starts) = wakeups("tide");
    assert!(timers > 20 && starts > timers, "{timers} timers of {starts}, {ticks} ticks");
}

/// A poll that lasts as long as the next state's target residency counts as too shallow.
#[test]
fn poll_ends_at_its_limit() {
    let mut request = shipped("requests", "graviton3-vm", 200);
    request.governors = vec!["menu".parse().unwrap()];
    let counted = count(&request);
    let sum = |of: &dyn Fn(&torpor_engine::totals::CpuTotals) -> u64| {
        counted.cpus.iter().map(|cpu| of(&cpu.totals)).sum::<u64>()
    };
    let (timeouts, below) = (sum(&|t| t.poll_timeouts), sum(&|t| t.states[0].below));
    assert!(timeouts > 0 && below >= timeouts, "{timeouts} limits, {below} too shallow");
}

#[test]
fn hosted_kernel_calls_the_chosen_io_boost() {
    let mut request = shipped("fio-randread", "rk3399", 4_000);
    request.workload = load(
        "[[fio]]\nname = \"reader\"\ndevice = \"nvme\"\nioengine = \"psync\"\ncpus_allowed = \"0-3\"\n",
    );
    for cluster in &mut request.platform.clusters {
        cluster.clock.has_fast_switch = true;
    }
    let mut reads = |boost: &str| {
        request.options.io_boosts = vec![boost.parse().unwrap()];
        count(&request).kinds[0].ios as f64
    };
    let [none, own, linked, per_task] =
        ["none", "iowait", "iowait,boost_min=128", "per-task"].map(&mut reads);
    assert!(own > 1.03 * none, "{none} without a boost, {own} with the kernel's own");
    assert!((0.97..1.03).contains(&(linked / own)), "{linked} with Torpor's copy of that, {own}");
    assert!(per_task > 1.02 * none, "{none} without a boost, {per_task} with one of each task");
}

/// Returns the time of a busy phone's biggest CPU at each OPP, under a frequency governor.
fn by_opp(request: &Request, governor: &str) -> Vec<Duration> {
    let mut request = request.clone();
    request.options.cpufreq = vec![governor.parse().unwrap()];
    count(&request).cpus[6].busy_at.clone()
}

#[test]
fn frequency_governors_of_the_tree_decide() {
    let request = shipped("frames", "pixel6", 500);
    let used = |times: &[Duration]| times.iter().filter(|time| time.0 > 0).count();
    let ondemand = by_opp(&request, "ondemand");
    assert!(used(&ondemand) > 1, "{ondemand:?}");
    let conservative = by_opp(&request, "conservative");
    assert!(used(&conservative) > 1 && conservative != ondemand, "{conservative:?}");
    assert_ne!(by_opp(&request, "ondemand,up_threshold=30"), ondemand);
    let mut wrong = request;
    wrong.options.cpufreq = vec!["ondemand,speed=1".parse().unwrap()];
    let said = run(&wrong).runs[0].run.error.clone().expect("it has no such file");
    assert!(said.contains("its frequency governor has no speed"), "{said}");
}

/// The tree's own schedutil, as a file from elsewhere, decides as the tree's own.
#[test]
fn cpufreq_governor_from_a_file_decides() {
    let request = shipped("frames", "pixel6", 500);
    let test = "a linked frequency governor";
    let Some(tree) = upstream::kernel_sources("6.12", test) else { return };
    // Compiles the kernel only once among all tests.
    hosted::linux_6_12(test);
    let own = by_opp(&request, "schedutil");
    let file = tree.join("kernel/sched/cpufreq_schedutil.c");
    assert_eq!(by_opp(&request, &file.display().to_string()), own);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cpufreq/hosted-halfway.c");
    let halfway = by_opp(&request, &file.display().to_string());
    let (at, _) = halfway.iter().enumerate().max_by_key(|(_, time)| time.0).unwrap();
    assert_eq!(at, halfway.len() / 2, "{halfway:?}");
}

/// A tick that finds a task running has an idle CPU look after all idle ones' load: `kick_ilb()`.
#[test]
fn recording_shows_the_purpose_of_ipis() {
    let request = shipped("periodic", "pixel6", 1_000);
    let request = request.resolved().unwrap();
    let session = Session::new(&request, &catalog()).unwrap_or_else(|e| panic!("{e}"));
    let run = session.simulate(0, 1, Recorder::default(), &mut |_| true).unwrap();
    let (_, recorder) = run.unwrap_or_else(|e| panic!("{e}"));
    let events = recorder.into_trace(&session.plan(1)).events;
    let is_call = |cause| cause == InterruptCause::CallFunction;
    let sent = events.iter().filter_map(|event| match event.kind {
        EventKind::IpiSend { target_cpu, cause } => Some((target_cpu, is_call(cause))),
        _ => None,
    });
    let taken = events.iter().filter_map(|event| match event.kind {
        EventKind::InterruptEntry { cause } => Some((event.cpu, is_call(cause))),
        _ => None,
    });
    let [sent, taken]: [Vec<_>; 2] = [sent.collect(), taken.collect()];
    assert!((20..150).contains(&sent.iter().filter(|(_, is_call)| *is_call).count()), "{sent:?}");
    assert_eq!(sent, taken);
}
