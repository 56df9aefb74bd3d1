// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Workloads under Linux 6.12's own scheduler, timers and governors.

use crate::upstream;

use crate::support::{load, request};
use std::path::Path;
use torpor_engine::Unwatched;
use torpor_engine::decision::Unobserved;
use torpor_governor::{Catalog, CatalogOptions};
use torpor_platform::Platform;
use torpor_sim::machine::Counted;
use torpor_sim::outcome::Outcome;
use torpor_sim::record::Recorder;
use torpor_sim::{Request, Session, workload};
use torpor_trace::{EventKind, InterruptCause};
use torpor_units::{CpuId, Duration};

/// Compiled kernels stay between runs.
fn catalog() -> Catalog {
    let cache_dir = Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
    Catalog::new(CatalogOptions { cache_dir, ..Default::default() })
}

/// A shipped workload on a shipped platform, under 6.12's menu.
fn hosted(test: &str, workload: &str, platform: &str, ms: i64) -> Option<Request> {
    let tree = upstream::kernel_sources("6.12", test)?;
    let workload = workload::resolve(workload).unwrap_or_else(|e| panic!("{e}"));
    let platform = Platform::resolve(platform).unwrap_or_else(|e| panic!("{e}"));
    let mut request = request(platform, workload, &["menu"], ms);
    request.options.kernels = vec![tree.display().to_string().parse().unwrap()];
    Some(request)
}

fn run(request: &Request) -> Outcome {
    torpor_sim::run(request, &catalog(), &Unwatched).unwrap_or_else(|e| panic!("{e}"))
}

fn count(request: &Request) -> Counted {
    let request = request.resolved().unwrap();
    let session = Session::new(&request, &catalog()).unwrap_or_else(|e| panic!("{e}"));
    let run = session.simulate(0, 1, Unobserved, &mut |_| true).unwrap();
    run.unwrap_or_else(|e| panic!("{e}")).0
}

/// One reader at a time leaves a scheduler nothing to decide: what the hardware, the device and the
/// kernel's own work take is then all there is. The last is a little more in a hosted kernel, whose
/// way into a wait takes time.
#[test]
fn reads_one_after_another_take_as_long_as_under_our_own_scheduler() {
    let Some(hosted) = hosted("reads in a hosted kernel", "fio-randread", "pixel6", 1_000) else {
        return;
    };
    let mut own = hosted.clone();
    own.options.kernels.clear();
    let [hosted, own] = [hosted, own].map(|request| count(&request).kinds[0].ios as f64);
    assert!(own > 1_000.0 && (0.985..1.0).contains(&(hosted / own)), "{hosted} and {own} reads");
}

/// Two of four readers meet in one of four dies as often under either; see `dies.rs`.
#[test]
fn requests_wait_for_their_die_as_under_our_own_scheduler() {
    let Some(mut hosted) = hosted("dies in a hosted kernel", "fio-randread", "rk3399", 500) else {
        return;
    };
    let job = "[[fio]]\nname = \"job\"\ndevice = \"nvme\"\nnumjobs = 4\n";
    hosted.workload = load(job);
    hosted.governors = vec!["shallowest".parse().unwrap()];
    hosted.options.cpufreq = vec!["performance".parse().unwrap()];
    let pooled = |request: &Request, is_pooled: bool| {
        let mut request = request.clone();
        let drive = request.platform.io_devices.iter_mut().find(|d| d.name == "nvme").unwrap();
        let flash = drive.flash.as_mut().unwrap();
        (flash.dies, flash.channels) = (4, 4);
        drive.parallelism = 4;
        drive.flash = drive.flash.take().filter(|_| !is_pooled);
        count(&request).kinds[0].ios as f64
    };
    let mut own = hosted.clone();
    own.options.kernels.clear();
    let [of_dies, of_own] = [&hosted, &own].map(|request| pooled(request, false));
    assert!((0.97..1.01).contains(&(of_dies / of_own)), "{of_dies} and {of_own} reads");
    assert!(pooled(&hosted, true) > 1.2 * of_dies, "{of_dies}");
}

#[test]
fn a_cpus_time_is_all_accounted_for() {
    let Some(request) = hosted("a hosted kernel's time", "requests", "pixel6", 1_000) else {
        return;
    };
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
fn results_are_the_same_on_any_number_of_threads_and_say_which_kernel_decided() {
    let Some(mut request) = hosted("a hosted kernel on threads", "frames", "pixel6", 300) else {
        return;
    };
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
    assert_eq!(outcome.options.kernels[0].image_sha256.len(), 64);
    assert!(outcome.notes.iter().any(|note| note.starts_with("Linux 6.12.")), "{outcome:?}");
}

#[test]
fn no_governor_is_cheaper_than_the_oracle_of_its_own_run() {
    let Some(mut request) = hosted("a hosted kernel's oracle", "frames", "pixel6", 1_000) else {
        return;
    };
    request.governors.push("oracle".parse().unwrap());
    let outcome = run(&request);
    let over = outcome.runs[0].run.metrics["over_oracle_pct"].expect("its power is known");
    assert!(over > 0.0 && over < 100.0, "{over} % over the oracle");
}

#[test]
fn a_deadlock_is_the_error_of_its_row() {
    let Some(mut request) = hosted("a deadlock in a hosted kernel", "pipe", "pixel6", 300) else {
        return;
    };
    request.workload = load(
        "[[task]]\nname = \"a\"\nphase = [{ run_us = 50 }, { wait = \"x\" }, { wake = \"y\" }]\n\
         [[task]]\nname = \"b\"\nphase = [{ wait = \"y\" }, { wake = \"x\" }]\n",
    );
    let outcome = run(&request);
    let error = outcome.runs[0].run.error.as_ref().expect("nobody can go on");
    assert!(error.contains("deadlock"), "{error}");
}

#[test]
fn what_a_hosted_kernel_cannot_do_is_said_before_it_runs() {
    let mut request =
        request(Platform::resolve("pixel6").unwrap(), workload::resolve("pipe").unwrap(), &[], 300);
    request.governors = vec!["menu".parse().unwrap()];
    request.options.kernels = vec!["/nowhere/linux".parse().unwrap()];
    let error = |request: &Request| {
        let run = torpor_sim::run(request, &catalog(), &Unwatched);
        run.expect_err("it cannot be run").to_string()
    };
    assert!(error(&request).contains("kernel `/nowhere/linux`"), "{}", error(&request));
    request.options.cpufreq = vec!["schedutil@6.1".parse().unwrap()];
    let said = error(&request);
    assert!(said.contains("`schedutil@6.1`") && said.contains("--cpufreq schedutil"), "{said}");
    request.options.cpufreq.clear();
    request.options.cpus = Some(vec![CpuId(1), CpuId(2)]);
    assert!(error(&request).contains("add 0 to --cpus"), "{}", error(&request));
    request.options.cpus = None;
    request.options.kernels = vec!["6.12".parse().unwrap(); 2];
    assert!(error(&request).contains("`6.12` twice"), "{}", error(&request));
}

/// A kernel with a bug, one with an endless loop, and one without: each ends as it does, in its row.
#[test]
fn a_kernel_that_goes_wrong_ends_its_own_row() {
    let Some(mut request) = hosted("a kernel with a bug", "pipe", "pixel6", 100) else { return };
    let whole = upstream::kernel_sources("6.12", "a kernel with a bug").expect("it is there");
    let place = "void sched_tick(void)\n{\n";
    let tree = |name: &str, patch: &str| {
        let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trees").join(name);
        let _ = std::fs::remove_dir_all(&tree);
        upstream::change_file(&whole, &tree, "kernel/sched/core.c", |text| {
            assert!(text.contains(place), "6.12 has the function");
            text.replacen(place, &format!("{place}\t{patch}\n"), 1)
        });
        tree.display().to_string().parse().unwrap()
    };
    // The scheduler's clock begins at 1 s.
    let bug = tree("with a bug", "BUG_ON(sched_clock() > 1050000000);");
    let endless = tree("endless", "while (sched_clock() > 1050000000) cpu_relax();");
    let good = request.options.kernels.remove(0);
    request.options.kernels = vec![bug, good, endless];
    let outcome = run(&request);
    let errors: Vec<Option<&str>> =
        outcome.runs.iter().map(|row| row.run.error.as_deref()).collect();
    let [Some(bug), None, Some(endless)] = errors[..] else { panic!("{errors:?}") };
    assert!(bug.contains("BUG: kernel/sched/core.c:") && bug.contains("< "), "{bug}");
    assert!(endless.contains("CPU time limit"), "{endless}");
}

#[test]
fn a_cpu_that_is_offline_is_never_brought_up() {
    let Some(mut request) = hosted("offline CPUs", "requests", "pixel6", 500) else { return };
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

/// How often each state was entered, by CPU.
fn entries(counted: &Counted) -> Vec<Vec<u64>> {
    counted.cpus.iter().map(|cpu| cpu.totals.states.iter().map(|s| s.usage).collect()).collect()
}

#[test]
fn a_state_may_be_off_for_one_cpu() {
    let Some(mut request) = hosted("a state of one CPU", "idle-predict", "pixel6", 2_000) else {
        return;
    };
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
fn a_latency_limit_is_the_kernels_own_pm_qos() {
    let Some(mut request) = hosted("a latency limit", "idle-predict", "rk3399", 1_000) else {
        return;
    };
    let latencies: Vec<i64> =
        request.platform.clusters[0].idle_states.iter().map(|s| s.latency.0).collect();
    let deepest = latencies.len() - 1;
    assert!(entries(&count(&request)).iter().any(|states| states[deepest] > 0));
    // Exactly what the state takes is allowed, a microsecond less is not.
    request.options.latency_limit = Some(Duration(latencies[deepest]));
    assert!(entries(&count(&request))[..4].iter().any(|states| states[deepest] > 0));
    request.options.latency_limit = Some(Duration(latencies[deepest] - 1_000));
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
fn frequencies_are_held_where_the_cpufreq_core_holds_them() {
    let Some(request) = hosted("held frequencies", "requests", "rk3399", 300) else { return };
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
    let Some(mut request) = hosted("a rate limit", "requests", "pixel6", 1_000) else { return };
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
fn who_waits_for_io_boosts_nothing_where_schedutil_does_not_hear_of_it() {
    let Some(mut request) = hosted("no iowait boost", "fio-randread", "rk3399", 1_000) else {
        return;
    };
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
fn a_governors_own_timer_is_no_tick() {
    let Some(mut request) = hosted("a governor's timer when hosted", "frames", "i5-10600k", 500)
    else {
        return;
    };
    let mut wakeups = |governor: &str| {
        request.governors = vec![governor.parse().unwrap()];
        let counted = count(&request);
        counted.cpus.iter().fold((0, 0), |(timers, ticks), cpu| {
            let totals = &cpu.totals;
            (timers + totals.governor_timer_wakeups, ticks + totals.tick_wakeups)
        })
    };
    assert_eq!(wakeups("menu").0, 0);
    let (timers, ticks) = wakeups("tide");
    assert!(timers > 20, "{timers} timers, {ticks} ticks");
}

/// A poll that lasts as long as the next state's target residency counts as too shallow.
#[test]
fn a_poll_lasts_as_long_as_its_limit() {
    let Some(mut request) = hosted("a poll's limit when hosted", "requests", "graviton3-vm", 200)
    else {
        return;
    };
    request.governors = vec!["menu".parse().unwrap()];
    let counted = count(&request);
    let sum = |of: &dyn Fn(&torpor_engine::totals::CpuTotals) -> u64| {
        counted.cpus.iter().map(|cpu| of(&cpu.totals)).sum::<u64>()
    };
    let (timeouts, below) = (sum(&|t| t.poll_timeouts), sum(&|t| t.states[0].below));
    assert!(timeouts > 0 && below >= timeouts, "{timeouts} limits, {below} too shallow");
}

#[test]
fn a_hosted_kernel_calls_the_io_boost_that_is_asked_for() {
    let Some(mut request) = hosted("a hosted IO boost", "fio-randread", "rk3399", 1_500) else {
        return;
    };
    request.workload = load(
        "[[fio]]\nname = \"reader\"\ndevice = \"nvme\"\nioengine = \"psync\"\ncpus_allowed = \"0-3\"\n",
    );
    // Else 6.12 never leaves it for the next, which is more efficient.
    for cluster in &mut request.platform.clusters {
        cluster.opps.remove(0);
    }
    let mut reads = |boost: &str| {
        request.options.io_boosts = vec![boost.parse().unwrap()];
        count(&request).kinds[0].ios as f64
    };
    let [none, own, linked, per_task] =
        ["none", "iowait", "iowait,boost_min=128", "per-task"].map(&mut reads);
    assert!(own > 1.1 * none, "{none} without a boost, {own} with the kernel's own");
    assert!((0.97..1.03).contains(&(linked / own)), "{linked} with Torpor's copy of that, {own}");
    assert!(per_task > 1.05 * none, "{none} without a boost, {per_task} with one of each task");
}

/// Where a busy phone's biggest CPU spends its time, by OPP, under a frequency governor.
fn by_opp(request: &Request, governor: &str) -> Vec<Duration> {
    let mut request = request.clone();
    request.options.cpufreq = vec![governor.parse().unwrap()];
    count(&request).cpus[6].busy_at.clone()
}

#[test]
fn frequency_governors_of_the_tree_decide() {
    let Some(request) = hosted("hosted frequency governors", "frames", "pixel6", 500) else {
        return;
    };
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
fn a_frequency_governor_from_a_file_decides() {
    let Some(request) = hosted("a linked frequency governor", "frames", "pixel6", 500) else {
        return;
    };
    let tree = upstream::kernel_sources("6.12", "a linked frequency governor").unwrap();
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
fn a_recording_says_what_an_ipi_is_for() {
    let Some(request) = hosted("IPIs in a recording", "periodic", "pixel6", 1_000) else {
        return;
    };
    let request = request.resolved().unwrap();
    let session = Session::new(&request, &catalog()).unwrap_or_else(|e| panic!("{e}"));
    let run = session.simulate(0, 1, Recorder::default(), &mut |_| true).unwrap();
    let (_, recorder) = run.unwrap_or_else(|e| panic!("{e}"));
    let events = recorder.into_trace(&session.plan(0, 1)).events;
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
