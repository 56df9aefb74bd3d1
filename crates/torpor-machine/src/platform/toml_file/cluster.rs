// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One cluster: its OPPs, its idle states, and what must hold between them.

use super::{
    ENERGY, POWER, POWER_MAX_MW, TIME, cite, driver, from_us, limits, missing_source, need_source,
    polling,
};
use crate::platform::{
    Clock, Cluster, IdleState, MeasuredLatency, Opp, OwnLatency, Scope, Smt, StatePower,
};
use crate::shape;
use crate::toml::{Distribution, Kind, LENGTH_OR_DISTRIBUTION, Report, Shape, Table};
use crate::units::{Duration, Energy, Power};

/// `CPUIDLE_STATE_MAX`.
const STATE_COUNT_MAX: usize = 10;

pub(crate) static CLUSTER: Shape = shape! {
    required name: Kind::Text, "Name of the cluster, such as `little`.";
    required cpus: Kind::Cpus, "Its CPUs as the kernel lists them, such as `0-3,7`.";
    required capacity: Kind::Integer { max: 1024.0 }, "`cpu_capacity` in sysfs; 1024 for the \
        machine's biggest CPU.";
    optional capacity_source: Kind::Texts, "Where the capacity comes from.";
    required idle_state_source: Kind::Texts, "Where the idle states come from.";
    optional opp_source: Kind::Texts, "Where the OPPs come from; required with `opp`.";
    optional power_source: Kind::Texts, "Where the cluster's power numbers come from; required \
        with any of them.";
    optional energy_model_source: Kind::Texts, "Where `energy_model_power_mw` comes from; required \
        with it.";
    optional opp: Kind::Tables(&OPP), "Operating points, ascending in frequency.";
    optional clock_latency_ns: TIME, "Longest time a change of frequency takes (device tree \
        `clock-latency-ns`, sysfs `cpuinfo_transition_latency`). Default: 0, not known and at \
        once.";
    optional rate_limit_us: TIME, "The driver's own bound between two changes \
        (`transition_delay_us`). Default: the kernel's rule on `clock_latency_ns`.";
    optional fast_switch: Kind::Bool, "Whether the scheduler itself changes the frequency, at \
        once. Default: a kernel thread does, in `clock_latency_ns`.";
    optional turbo_khz: Kind::Numbers { max: u32::MAX as f64 }, "Highest frequency with 1 active \
        core, with 2 and so on, each an OPP's; the last one is for all others, too \
        (`MSR_TURBO_RATIO_LIMIT`). Simulations only. Default: the highest OPP.";
    optional turbo_idle_state: Kind::Text, "With `turbo_khz`: the shallowest idle state in which a \
        core is not active. Default: the deepest.";
    optional turbo_source: Kind::Texts, "Where `turbo_khz` comes from; required with it.";
    optional threads_per_core: Kind::Integer { max: 8.0 }, "Hardware threads (CPUs) of a core. \
        Default: 1: a CPU is a core.";
    optional sibling_stride: Kind::Integer { max: 8192.0 }, "From one thread of a core to its \
        next, counted in `cpus`. Default: the number of cores: all first threads come before all \
        second ones. 1: they are neighbours.";
    optional smt_speed_pct: Kind::Integer { max: 100.0 }, "Speed of a thread while another thread \
        of its core works, in percent of its speed alone. Simulations only. Default: 100.";
    optional smt_source: Kind::Texts, "Where `smt_speed_pct` comes from; required with it.";
    required idle_state: Kind::Tables(&IDLE_STATE), "1 to 10 states, shallowest first.";
};

pub(crate) static OPP: Shape = shape! {
    required freq_khz: Kind::Integer { max: u32::MAX as f64 }, "Frequency, as in cpufreq.";
    optional active_power_mw: POWER, "Power of one busy CPU.";
    optional energy_model_power_mw: POWER, "Power in the kernel's energy model, by which it places \
        tasks. Simulations only. Default: `active_power_mw`.";
    optional static_power_mw: POWER, "Power of the cluster, on top of its CPUs', unless all of \
        them are in their deepest state. Default: 0.";
};

pub(crate) static IDLE_STATE: Shape = shape! {
    required name: Kind::Text, "Name as in sysfs.";
    optional desc: Kind::Text, "Description as in sysfs.";
    optional entry_latency_us: TIME, "Time from the decision until the state is reached. Default: \
        0.";
    optional exit_latency_us: TIME, "Time from the wake-up event until the CPU runs again.";
    optional wakeup_latency_us: TIME, "Worst case from wake-up event to running. Default: entry \
        plus exit latency.";
    optional latency_us: TIME, "Instead of the other three latencies: the only one in sysfs. It is \
        the exit latency, and entry takes 0.";
    optional measured_entry_latency_us: LENGTH_OR_DISTRIBUTION, "Measured entry latency, if it \
        differs from the one that governors see. Default: the advertised one.";
    optional measured_exit_latency_us: LENGTH_OR_DISTRIBUTION, "Measured exit latency, if it \
        differs from the one that governors see. A simulation draws from a distribution; elsewhere \
        its mean counts. Default: the advertised one.";
    optional measured_latency_source: Kind::Texts, "Where the measured latencies come from.";
    required target_residency_us: TIME, "Shortest stay that pays off (sysfs `residency`, device \
        tree `min-residency-us`).";
    optional polling: Kind::Bool, "Whether the CPU spins (`CPUIDLE_FLAG_POLLING`). Without \
        `driver`, as `poll_idle` does.";
    optional driver: Kind::Choice(&["poll_idle", "arm_poll_idle"]), "The loop of a polling state: \
        the kernel's `poll_idle()`, or the `wfe` loop posted for arm64.";
    optional relax_ns: TIME, "With `poll_idle`: the time of one `cpu_relax()`. The polling limit \
        is noticed at every 201st. Default: 47.";
    optional event_stream_us: TIME, "With `arm_poll_idle`: period of the timer's event stream, at \
        which the polling limit is noticed. Default: 100.";
    optional wfet: Kind::Bool, "With `arm_poll_idle`: whether CPUs have `wfet` (FEAT_WFxT), which \
        ends each wait at the polling limit. Then there is no `event_stream_us`.";
    optional poll_limit_us: TIME, "With `arm_poll_idle`: its `poll_limit`, which governors see as \
        the latency and target residency of the next state. Default: 100.";
    optional default_status: Kind::Choice(&["enabled", "disabled"]), "As in sysfs: whether the \
        state is used by default.";
    optional scope: Kind::Choice(&["cpu", "core", "cluster", "package"]), "The CPUs that must all \
        be in the state before it saves energy. Default: `cpu`.";
    optional own_entry_latency_us: TIME, "With a wider `scope` than `cpu`: the entry latency of a \
        CPU that is not the last of them to enter. Simulations only. Default: the state's.";
    optional own_exit_latency_us: TIME, "With a wider `scope` than `cpu`: the exit latency of a \
        CPU that leaves while not all of them are in the state. Simulations only. Default: the \
        state's.";
    optional power_mw: POWER, "Power of one CPU resting in the state.";
    optional power_per_opp_mw: Kind::Numbers { max: POWER_MAX_MW }, "Power of one CPU resting in \
        the state, one value for each OPP, in their order. Instead of `power_mw`.";
    optional energy_per_entry_uj: ENERGY, "Energy of one entry and exit, in addition to `power_mw` \
        over the residency. Default: the energy with which the state breaks even with the next \
        shallower one at its target residency.";
    optional power_source: Kind::Texts, "Where this state's power comes from, if not from the \
        cluster's `power_source`.";
    optional refill_us: TIME, "Time that the first task after a sleep in the state loses to cold \
        caches, on the biggest CPU at its highest frequency. Simulations only. Default: 0.";
    optional refill_source: Kind::Texts, "Where `refill_us` comes from.";
    optional reject_pct: Kind::Number { max: 100.0 }, "Share of the entries that the driver \
        refuses (sysfs `rejected`). Simulations only. Default: 0.";
    optional reject_us: TIME, "With `reject_pct`: the time of a refused entry. Default: the entry \
        latency, and at least 1.";
    optional reject_source: Kind::Texts, "Where `reject_pct` comes from.";
    optional demote_to: Kind::Text, "Name of the shallower state that the hardware enters instead \
        after short sleeps. Default: it enters the requested state.";
    optional demote_after: Kind::Integer { max: 65536.0 }, "With `demote_to`: number of \
        consecutive short sleeps that demote the following requests, until a sleep is not short. \
        Default: 1.";
    optional demote_below_us: TIME, "With `demote_to`: a sleep is short below this residency. \
        Default: the target residency.";
    optional undemote_us: TIME, "With `demote_to`: a demoted CPU that is still idle after this \
        time enters the requested state. Default: never.";
    optional demote_source: Kind::Texts, "Where the demotion comes from.";
    optional promote_to: Kind::Text, "Name of the deeper state that the hardware enters at each \
        request for this one, as C1E promotion does. Default: it enters the requested state.";
    optional promote_source: Kind::Texts, "Where the promotion comes from.";
};

pub(super) fn build(
    report: &mut Report,
    table: &Table,
    sources: &mut Vec<String>,
) -> Option<Cluster> {
    let name = table.text("name").unwrap_or("?");
    cite(sources, &format!("{name} capacity"), table.texts("capacity_source"));
    cite(sources, &format!("{name} idle states"), table.texts("idle_state_source"));
    need_source(report, table, "opp", "opp_source");
    cite(sources, &format!("{name} OPPs"), table.texts("opp_source"));
    cite(sources, &format!("{name} power"), table.texts("power_source"));
    cite(sources, &format!("{name} turbo"), table.texts("turbo_source"));
    cite(sources, &format!("{name} energy model"), table.texts("energy_model_source"));
    if table.number("capacity") == Some(0.0) {
        report.reject(table, "capacity", "a CPU without capacity does no work", "1 to 1024");
    }

    let opps = build_opps(report, table);
    let states = table.tables("idle_state");
    check_states(report, table, states);
    let mut idle_states = Vec::new();
    for (index, state) in states.iter().enumerate() {
        idle_states.push(build_state(report, table, index, state));
        let what = format!("{name} {} power", state.text("name").unwrap_or("?"));
        cite(sources, &what, state.texts("power_source"));
        let what = |of: &str| format!("{name} {} {of}", state.text("name").unwrap_or("?"));
        cite(sources, &what("measured latency"), state.texts("measured_latency_source"));
        cite(sources, &what("refill"), state.texts("refill_source"));
        cite(sources, &what("rejected entries"), state.texts("reject_source"));
        cite(sources, &what("demotion"), state.texts("demote_source"));
        cite(sources, &what("promotion"), state.texts("promote_source"));
    }
    check_power_falls(report, states, &idle_states);
    polling::set_limit(report, states, &mut idle_states);
    let smt = build_smt(report, table);
    let turbo = limits::turbo(report, table, opps.as_deref());
    Some(Cluster {
        name: table.text("name")?.to_owned(),
        cpus: table.cpus("cpus")?.to_vec(),
        capacity: table.number("capacity")? as u32,
        opps: opps?,
        clock: build_clock(report, table),
        idle_states: idle_states.into_iter().collect::<Option<_>>()?,
        smt: smt?,
        turbo,
    })
}

fn build_smt(report: &mut Report, cluster: &Table) -> Option<Smt> {
    need_source(report, cluster, "smt_speed_pct", "smt_source");
    for key in ["threads_per_core", "sibling_stride", "smt_speed_pct"] {
        if cluster.number(key) == Some(0.0) {
            report.reject(cluster, key, "this is 0", "1 or more");
            return None;
        }
    }
    let cpus = cluster.cpus("cpus")?.len();
    let threads = cluster.number("threads_per_core").map_or(1, |number| number as usize);
    for key in ["sibling_stride", "smt_speed_pct"] {
        if threads == 1 && cluster.has(key) {
            report.reject(
                cluster,
                key,
                "a core here has one thread",
                "together with `threads_per_core`, 2 or more",
            );
        }
    }
    let cores = cpus.checked_div(threads).unwrap_or(0);
    let stride = cluster.number("sibling_stride").map_or(cores, |number| number as usize);
    let rest = stride.checked_mul(threads).and_then(|group| cpus.checked_rem(group));
    if threads > 1 && rest != Some(0) {
        let key = if cluster.has("sibling_stride") { "sibling_stride" } else { "threads_per_core" };
        let message = format!("{cpus} CPUs are no whole number of such cores");
        report.reject(
            cluster,
            key,
            message,
            "threads times stride divides the number of the cluster's CPUs",
        );
        return None;
    }
    let speed_pct = cluster.number("smt_speed_pct").map_or(100, |number| number as u32);
    Some(if threads == 1 { Smt::NONE } else { Smt { threads, stride, speed_pct } })
}

fn build_clock(report: &mut Report, cluster: &Table) -> Clock {
    for key in ["clock_latency_ns", "rate_limit_us", "fast_switch"] {
        if cluster.has(key) && !cluster.has("opp") {
            report.reject(
                cluster,
                key,
                "there is no OPP to change to",
                "together with `[[cluster.opp]]`",
            );
        }
    }
    let latency_ns = cluster.number("clock_latency_ns").unwrap_or(0.0);
    Clock {
        transition_latency: Duration(latency_ns.round() as i64),
        transition_delay: cluster.number("rate_limit_us").map(from_us),
        has_fast_switch: cluster.bool("fast_switch").unwrap_or(false),
    }
}

fn build_opps(report: &mut Report, cluster: &Table) -> Option<Vec<Opp>> {
    let mut opps: Vec<Opp> = Vec::new();
    let mut is_sound = true;
    for table in cluster.tables("opp") {
        for key in ["active_power_mw", "static_power_mw"] {
            if table.has(key) && !cluster.has("power_source") {
                report.push(missing_source(table, key, "power_source"));
            }
        }
        let modelled = table.has("energy_model_power_mw");
        if modelled && !cluster.has("energy_model_source") {
            report.push(missing_source(table, "energy_model_power_mw", "energy_model_source"));
        }
        let Some(freq_khz) = frequency(report, table) else {
            is_sound = false;
            continue;
        };
        if let Some(below) = opps.last() {
            if below.freq_khz >= freq_khz {
                let message = format!("the OPP before has {} kHz", below.freq_khz);
                report.reject(table, "freq_khz", message, "OPPs ascending in frequency");
            }
        }
        let active_power = table.number("active_power_mw").map(Power::from_mw);
        let energy_model_power =
            table.number("energy_model_power_mw").map(Power::from_mw).or(active_power);
        let static_power = Power::from_mw(table.number("static_power_mw").unwrap_or(0.0));
        opps.push(Opp { freq_khz, active_power, energy_model_power, static_power });
    }
    is_sound.then_some(opps)
}

/// Frequency of an OPP, in kHz.
fn frequency(report: &mut Report, table: &Table) -> Option<u32> {
    let freq_khz = table.number("freq_khz")?;
    if freq_khz == 0.0 {
        report.reject(table, "freq_khz", "the clock would stand still", "1 or more");
        return None;
    }
    Some(freq_khz as u32)
}

/// Checks what must hold between the states, apart from power.
fn check_states(report: &mut Report, cluster: &Table, states: &[Table]) {
    if cluster.has("idle_state") && !(1..=STATE_COUNT_MAX).contains(&states.len()) {
        // An `idle_state` that is no array at all has been reported already.
        let is_counted =
            !states.is_empty() || cluster.field("idle_state").is_some_and(|f| f.is_empty_array);
        if is_counted {
            let message = format!("{} idle states", states.len());
            let mut finding = cluster.finding("idle_state", message);
            if let Some(extra) = states.get(STATE_COUNT_MAX) {
                finding.span = extra.span.clone();
            }
            finding.value = None;
            finding.allowed = Some("1 to 10 (`CPUIDLE_STATE_MAX`)".to_owned());
            report.push(finding);
        }
    }
    for pair in states.windows(2) {
        check_ascends(report, pair, "target_residency_us", state_residency);
        let key = if pair[1].has("latency_us") { "latency_us" } else { "exit_latency_us" };
        check_ascends(report, pair, key, state_latency);
    }
}

fn check_ascends(report: &mut Report, pair: &[Table], key: &str, value: fn(&Table) -> Option<f64>) {
    let (Some(shallower), Some(deeper)) = (value(&pair[0]), value(&pair[1])) else { return };
    if deeper < shallower {
        let what = if key == "target_residency_us" { "target residency" } else { "latency" };
        let name = pair[0].text("name").unwrap_or("?");
        let message =
            format!("a {what} of {deeper} us is below the shallower `{name}`'s {shallower} us");
        report.reject(
            &pair[1],
            key,
            message,
            format!("states ordered by depth, {what} never falling"),
        );
    }
}

fn state_residency(state: &Table) -> Option<f64> {
    state.number("target_residency_us")
}

/// The latency a governor sees, in µs.
fn state_latency(state: &Table) -> Option<f64> {
    let entry_plus_exit =
        || Some(state.number("entry_latency_us").unwrap_or(0.0) + state.number("exit_latency_us")?);
    state
        .number("latency_us")
        .or_else(|| state.number("wakeup_latency_us"))
        .or_else(entry_plus_exit)
}

fn build_state(
    report: &mut Report,
    cluster: &Table,
    index: usize,
    state: &Table,
) -> Option<IdleState> {
    check_latencies(report, state);
    let poll_loop = polling::build(report, index, state);
    let power = build_power(report, cluster, state);
    let advertised = match state.number("latency_us") {
        Some(latency) => (0.0, latency),
        None => (state.number("entry_latency_us").unwrap_or(0.0), state.number("exit_latency_us")?),
    };
    let measured = build_measured(report, state, poll_loop.is_some());
    let mean = |of: &Option<Distribution>, us| of.as_ref().map_or(us, Distribution::mean);
    let (entry, exit) = (mean(&measured.entry, advertised.0), mean(&measured.exit, advertised.1));
    Some(IdleState {
        name: state.text("name")?.to_owned(),
        entry_latency: from_us(entry),
        exit_latency: from_us(exit),
        measured,
        latency: from_us(state_latency(state)?),
        target_residency: from_us(state_residency(state)?),
        break_even: from_us(break_even(state_residency(state)?, advertised, (entry, exit))),
        poll_loop,
        is_disabled: state.text("default_status") == Some("disabled"),
        scope: match state.text("scope") {
            Some("core") => Scope::Core,
            Some("cluster") => Scope::Cluster,
            Some("package") => Scope::Package,
            _ => Scope::Cpu,
        },
        own: build_own(report, state, entry, exit),
        power: power?,
        energy_per_entry: state.number("energy_per_entry_uj").map(Energy::from_uj),
        refill: driver::refill(report, state),
        rejects: driver::rejects(report, state, entry),
        demotion: match state.has("promote_to") {
            true => driver::promotion(report, cluster.tables("idle_state"), index),
            false => driver::demotion(report, &cluster.tables("idle_state")[..index], state),
        },
    })
}

/// Reads the measured latencies.
fn build_measured(report: &mut Report, state: &Table, polls: bool) -> MeasuredLatency {
    let [entry, exit] = ["measured_entry_latency_us", "measured_exit_latency_us"].map(|key| {
        if !state.has(key) {
            return None;
        }
        need_source(report, state, key, "measured_latency_source");
        if polls {
            let allowed = "a state in which the CPU rests";
            report.reject(state, key, "a polling CPU has nothing to leave", allowed);
        }
        state.distribution(report, key)
    });
    MeasuredLatency { entry, exit }
}

/// Returns the break-even residency, in us: what entry and exit cost is in proportion to the time
/// they take, so a state that is entered and left in half the advertised time pays off after half
/// the advertised residency.
fn break_even(residency: f64, advertised: (f64, f64), (entry, exit): (f64, f64)) -> f64 {
    match advertised.0 + advertised.1 {
        0.0 => residency,
        latency => residency * ((entry + exit) / latency),
    }
}

fn build_own(report: &mut Report, state: &Table, entry: f64, exit: f64) -> Option<OwnLatency> {
    let keys = [("own_entry_latency_us", entry), ("own_exit_latency_us", exit)];
    let has_scope = state.text("scope").is_some_and(|scope| scope != "cpu");
    for (key, whole) in keys {
        let message = match state.number(key) {
            Some(_) if !has_scope => "the state is the CPU's alone".to_owned(),
            Some(own) if own > whole => format!("the state's own is {whole} us in all"),
            _ => continue,
        };
        report.reject(
            state,
            key,
            message,
            match has_scope {
                true => format!("0 to {whole}"),
                false => "together with a `scope` other than `cpu`".to_owned(),
            },
        );
    }
    let is_given = keys.iter().any(|(key, _)| state.has(key));
    let of = |(key, whole): (&str, f64)| from_us(state.number(key).unwrap_or(whole));
    is_given.then(|| OwnLatency { entry: of(keys[0]), exit: of(keys[1]) })
}

/// Either sysfs's one latency, or device tree's two or three, which must fit together.
fn check_latencies(report: &mut Report, state: &Table) {
    let detailed = ["entry_latency_us", "exit_latency_us", "wakeup_latency_us"];
    if state.has("latency_us") {
        if let Some(key) = detailed.into_iter().find(|key| state.has(key)) {
            report.reject(
                state,
                key,
                "`latency_us` is given too",
                "either `latency_us`, or `entry_latency_us` and `exit_latency_us`",
            );
        }
        return;
    }
    if !state.has("exit_latency_us") {
        report.reject(
            state,
            "exit_latency_us",
            "this key is missing",
            "either `exit_latency_us` (device tree) or `latency_us` (sysfs)",
        );
    }
    let (entry, exit) = (state.number("entry_latency_us"), state.number("exit_latency_us"));
    if let (Some(wakeup), Some(exit)) = (state.number("wakeup_latency_us"), exit) {
        let sum = entry.unwrap_or(0.0) + exit;
        if !(exit..=sum).contains(&wakeup) {
            let message = "a wake-up includes the exit, and at most one entry before it";
            report.reject(
                state,
                "wakeup_latency_us",
                message.to_owned(),
                format!("{exit} (the exit latency) to {sum} (entry plus exit)"),
            );
        }
    }
}

fn build_power(report: &mut Report, cluster: &Table, state: &Table) -> Option<StatePower> {
    for key in ["power_mw", "power_per_opp_mw"] {
        if state.has(key) && !state.has("power_source") && !cluster.has("power_source") {
            report.push(missing_source(state, key, "power_source"));
        }
    }
    if state.has("energy_per_entry_uj") {
        let has_power = state.has("power_mw") || state.has("power_per_opp_mw");
        if !has_power {
            let message = "the power of the state is not given".to_owned();
            report.reject(
                state,
                "energy_per_entry_uj",
                message,
                "together with `power_mw` or `power_per_opp_mw`",
            );
        }
    }
    if state.has("power_mw") && state.has("power_per_opp_mw") {
        report.reject(state, "power_per_opp_mw", "`power_mw` is given too", "one of the two");
        return None;
    }
    if state.has("power_mw") {
        return state.number("power_mw").map(|mw| StatePower::Constant(Power::from_mw(mw)));
    }
    if !state.has("power_per_opp_mw") {
        return Some(StatePower::Unknown);
    }
    let powers = state.numbers("power_per_opp_mw")?;
    let opp_count = cluster.tables("opp").len();
    if powers.len() != opp_count {
        let message = format!("{} values for {opp_count} OPPs", powers.len());
        report.reject(
            state,
            "power_per_opp_mw",
            message,
            "one value for each `[[cluster.opp]]`, in their order",
        );
        return None;
    }
    Some(StatePower::PerOpp(powers.iter().map(|&mw| Power::from_mw(mw)).collect()))
}

/// A deeper state that takes more power would never be worth entering: an error in the file.
fn check_power_falls(report: &mut Report, tables: &[Table], states: &[Option<IdleState>]) {
    let known: Vec<(&Table, &IdleState)> = tables
        .iter()
        .zip(states)
        .filter_map(|(table, state)| Some((table, state.as_ref()?)))
        .filter(|(_, state)| state.power != StatePower::Unknown)
        .collect();
    for pair in known.windows(2) {
        let ((_, shallower), (table, deeper)) = (pair[0], pair[1]);
        let rises = opp_powers(&shallower.power)
            .zip(opp_powers(&deeper.power))
            .take(opp_count(&shallower.power).max(opp_count(&deeper.power)))
            .find(|(above, below)| below > above);
        if let Some((above, below)) = rises {
            let key = if table.has("power_mw") { "power_mw" } else { "power_per_opp_mw" };
            let message = format!(
                "{} mW is more than the {} mW of the shallower `{}`",
                below.as_mw_f64(),
                above.as_mw_f64(),
                shallower.name
            );
            report.reject(table, key, message, "power that never rises with depth");
        }
    }
}

/// A state's power at OPP 0, 1, and so on; a constant repeats for ever.
fn opp_powers(power: &StatePower) -> impl Iterator<Item = Power> + '_ {
    let (constant, per_opp) = match power {
        StatePower::Unknown => (None, &[][..]),
        StatePower::Constant(power) => (Some(*power), &[][..]),
        StatePower::PerOpp(powers) => (None, &powers[..]),
    };
    per_opp.iter().copied().chain(constant.into_iter().cycle())
}

fn opp_count(power: &StatePower) -> usize {
    match power {
        StatePower::PerOpp(powers) => powers.len(),
        _ => 1,
    }
}
