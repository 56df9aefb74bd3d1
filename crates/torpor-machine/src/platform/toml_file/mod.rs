// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Platform files: their keys, of which `toml` checks each value, the model that is built of them, and
//! what must hold between values.

mod cluster;
mod driver;
mod io_device;
mod limits;
mod polling;

use crate::platform::{CpufreqGovernor, IoDevice, Overheads, Platform, PlatformError};
use crate::shape;
use crate::toml::{Document, Finding, Kind, Problem, Report, Shape, Table, format_cpu_list};
use crate::units::{CpuId, Duration, Hz, Power};

/// Device-tree cells and sysfs counters are 32 bits wide.
const TIME: Kind = Kind::Number { max: u32::MAX as f64 };
/// A megawatt; an error of unit is larger than that sooner or later.
const POWER_MAX_MW: f64 = 1e9;
const POWER: Kind = Kind::Number { max: POWER_MAX_MW };
/// A joule: a second of a whole server's socket is a hundred.
const ENERGY: Kind = Kind::Number { max: 1e6 };

/// In the order of [`crate::platform::CpufreqGovernor`].
pub(crate) const CPUFREQ_GOVERNORS: &[&str] = &["performance", "powersave", "schedutil"];

/// Parts of a machine whose power its numbers can contain.
const POWER_PARTS: &[&str] = &["cpu", "cluster", "uncore", "package", "dram", "machine"];

pub(crate) static PLATFORM: Shape = shape! {
    required name: Kind::Word, "Short name, as typed after `--platform`.";
    required title: Kind::Text, "The machine in words.";
    required source: Kind::Texts, "Where the machine's layout comes from.";
    required hz: Kind::Hz, "Tick rate (`CONFIG_HZ`) its kernels are usually built with.";
    optional tick_handling_us: TIME, "Time that the CPU is busy with a tick interrupt that wakes \
        it from idle. Default: 3.";
    optional tick_handling_source: Kind::Texts, "Where `tick_handling_us` comes from.";
    optional timer_start_us: TIME, "Time that an idle governor needs to start and to cancel a \
        timer of its own. Default: 0.5.";
    optional timer_start_source: Kind::Texts, "Where `timer_start_us` comes from.";
    optional context_switch_us: TIME, "Time to switch from one task to another, for simulations. \
        Default: 0.";
    optional ipi_send_us: TIME, "Time a CPU spends on sending a reschedule IPI. Simulations only. \
        Default: 0.";
    optional ipi_delivery_us: TIME, "From the sending of a reschedule IPI to the interrupt. \
        Simulations only. Default: 0.";
    optional ipi_handling_us: TIME, "From the end of an idle state, or from the work, to the \
        switch that a reschedule IPI requests. Simulations only. Default: 0.";
    optional virt_exit_us: TIME, "In a virtual machine: the additional cost of sending an IPI, \
        because it exits to the hypervisor. Default: 0.";
    optional timer_programming_us: TIME, "Time to set a CPU's clock event device, which exits to \
        the hypervisor in many virtual machines. Simulations only. Default: 0.";
    optional overhead_source: Kind::Texts, "Where these six come from.";
    optional power_includes: Kind::Choices(POWER_PARTS), "Parts of the machine whose power its \
        numbers include: `cpu`, the cores with their own caches; `cluster`, the parts that its \
        CPUs share; `uncore`, the parts that all CPUs share; `package`, everything that the chip's \
        energy counter counts; `dram`; `machine`, the whole at its plug.";
    optional power_missing: Kind::Texts, "Power that the numbers lack, or that nobody has \
        published.";
    optional package_floor_power_mw: POWER, "Power of the package with every CPU in its deepest \
        state, in addition to the CPUs' own power. Default: 0.";
    optional package_floor_power_source: Kind::Texts, "Where `package_floor_power_mw` comes from.";
    optional package_awake_power_mw: POWER, "Power of the package in addition to its CPUs while \
        any of them works or polls. Simulations only. Default: 0.";
    optional package_awake_power_source: Kind::Texts, "Where `package_awake_power_mw` comes from.";
    optional package_awake_rise_us: TIME, "Time in which `package_awake_power_mw` rises from 0 to \
        its full value while the package is awake, and falls while it is not. Default: 0, at once.";
    optional package_awake_rise_source: Kind::Texts, "Where `package_awake_rise_us` comes from.";
    optional idle_driver: Kind::Bool, "`false`: the kernel has no idle driver, and CPUs enter the \
        shallowest state that rests, as the architecture's own idle function does. Simulations \
        only. Default: `true`.";
    optional energy_model: Kind::Bool, "`false`: the kernel gets no energy model, so it places no \
        task by energy, and no OPP counts as inefficient. Simulations only. Default: `true`.";
    optional power_limit: Kind::Tables(&limits::POWER_LIMIT), "Limits of the package's power, which \
        the hardware keeps by lowering frequencies. Simulations only.";
    optional power_limit_source: Kind::Texts, "Where `power_limit` comes from; required with it.";
    optional limit_interval_us: TIME, "Time after which the hardware looks again at `power_limit` \
        and `turbo_khz`. Default: 1000.";
    optional cpufreq_governor: Kind::Choice(CPUFREQ_GOVERNORS), "The governor that sets \
        frequencies in a simulation. Default: `performance`.";
    required cluster: Kind::Tables(&cluster::CLUSTER), "CPUs with the same clock, idle states and power.";
    optional io_device: Kind::Tables(&io_device::IO_DEVICE), "Devices for a workload's IO.";
};

/// Default: in the demo recording (a virtual machine on an AMD EPYC), half of the local timer
/// interrupts take less than 2.9 us from entry to exit.
const TICK_HANDLING_DEFAULT: Duration = Duration::from_us(3);

/// Default: `hrtimer_start()` and `hrtimer_cancel()` of Linux 6.12 take 702 instructions on x86-64
/// and 950 on arm64 (`tests/guest/apparatus/timercost`), 0.35 and 0.48 us at two a nanosecond; the
/// time of the clock event device is not in it.
const TIMER_START_DEFAULT: Duration = Duration(500);

/// Reads the text of a platform file. `origin` names it in errors.
pub fn from_toml(origin: &str, text: &str) -> Result<Platform, PlatformError> {
    from_document(&parse(origin, text)?)
}

pub(super) fn parse(origin: &str, text: &str) -> Result<Document, PlatformError> {
    Document::parse(origin, text).map_err(|problems| invalid(origin, problems))
}

/// Reads a platform from what a file, or any other description of a machine, holds.
pub fn from_document(document: &Document) -> Result<Platform, PlatformError> {
    document
        .read(&PLATFORM, |report, file| build(report, file, document))
        .map_err(|problems| invalid(&document.origin, problems))
}

/// Reads the text of a file that holds one IO device.
pub fn io_device_from_toml(origin: &str, text: &str) -> Result<IoDevice, PlatformError> {
    parse(origin, text)?
        .read(&io_device::IO_DEVICE, io_device::build)
        .map_err(|problems| invalid(origin, problems))
}

fn invalid(origin: &str, problems: Vec<Problem>) -> PlatformError {
    PlatformError::Invalid { origin: origin.to_owned(), problems }
}

/// Returns the JSON Schema of platform files, for editors. [`from_toml`] also checks what must hold
/// between values: states ordered by depth, sources present, CPUs without gaps.
pub fn json_schema() -> String {
    crate::toml::json_schema(&PLATFORM, "Torpor platform")
}

fn build(report: &mut Report, file: &Table, document: &Document) -> Option<Platform> {
    let mut sources = cite_sources(report, file);
    let tables = file.tables("cluster");
    if tables.is_empty() && file.field("cluster").is_some_and(|f| f.is_empty_array) {
        let message = "a machine has at least one cluster".to_owned();
        report.push(file.finding("cluster", message));
    }
    let mut clusters = Vec::new();
    for table in tables {
        clusters.push(cluster::build(report, table, &mut sources));
    }
    let devices: Vec<Option<IoDevice>> =
        file.tables("io_device").iter().map(|table| io_device::build(report, table)).collect();
    check_cpus(report, tables);
    check_io_devices(report, file.tables("io_device"), tables);
    check_capacities(report, tables);

    let mut clusters: Vec<_> = clusters.into_iter().collect::<Option<_>>()?;
    clusters.sort_by_key(|cluster| cluster.cpus.first().copied());
    if file.bool("energy_model") == Some(false) {
        for opp in clusters.iter_mut().flat_map(|cluster| &mut cluster.opps) {
            opp.energy_model_power = None;
        }
    }
    let limits = limits::build(report, file, &clusters);
    let time = |key| file.number(key).map_or(Duration::ZERO, from_us);
    Some(Platform {
        name: file.text("name")?.to_owned(),
        title: file.text("title")?.to_owned(),
        sources,
        sha256: document.sha256(),
        hz: Hz::from_u32(file.number("hz")? as u32)?,
        timer_start: file.number("timer_start_us").map_or(TIMER_START_DEFAULT, from_us),
        tick_handling: file.number("tick_handling_us").map_or(TICK_HANDLING_DEFAULT, from_us),
        overheads: Overheads {
            context_switch: time("context_switch_us"),
            ipi_send: time("ipi_send_us"),
            ipi_delivery: time("ipi_delivery_us"),
            ipi_handling: time("ipi_handling_us"),
            virt_exit: time("virt_exit_us"),
            timer_programming: time("timer_programming_us"),
        },
        limits,
        has_idle_driver: file.bool("idle_driver").unwrap_or(true),
        cpufreq_governor: match file.text("cpufreq_governor") {
            Some("powersave") => CpufreqGovernor::Powersave,
            Some("schedutil") => CpufreqGovernor::Schedutil,
            _ => CpufreqGovernor::Performance,
        },
        power_includes: file.texts("power_includes").to_vec(),
        power_missing: file.texts("power_missing").to_vec(),
        floor_power: Power::from_mw(file.number("package_floor_power_mw").unwrap_or(0.0)),
        awake_power: Power::from_mw(file.number("package_awake_power_mw").unwrap_or(0.0)),
        awake_rise: time("package_awake_rise_us"),
        clusters,
        io_devices: devices.into_iter().collect::<Option<_>>()?,
    })
}

/// Returns the sources of the numbers that belong to no cluster; reports those without one.
fn cite_sources(report: &mut Report, file: &Table) -> Vec<String> {
    let mut sources = Vec::new();
    cite(&mut sources, "machine", file.texts("source"));
    let overheads: &[&str] = &[
        "context_switch_us",
        "ipi_send_us",
        "ipi_delivery_us",
        "ipi_handling_us",
        "virt_exit_us",
        "timer_programming_us",
    ];
    cite(&mut sources, "power limits", file.texts("power_limit_source"));
    for (what, source, keys) in [
        ("tick handling", "tick_handling_source", &["tick_handling_us"][..]),
        ("timer start", "timer_start_source", &["timer_start_us"]),
        ("overheads", "overhead_source", overheads),
        ("package floor power", "package_floor_power_source", &["package_floor_power_mw"]),
        ("package awake power", "package_awake_power_source", &["package_awake_power_mw"]),
        ("package awake power's rise", "package_awake_rise_source", &["package_awake_rise_us"]),
    ] {
        for key in keys {
            need_source(report, file, key, source);
        }
        cite(&mut sources, what, file.texts(source));
    }
    sources
}

/// The clusters must hold each of the CPUs 0..n exactly once.
fn check_cpus(report: &mut Report, clusters: &[Table]) {
    let mut owners: Vec<(CpuId, &Table)> = Vec::new();
    for table in clusters {
        owners.extend(table.cpus("cpus").unwrap_or(&[]).iter().map(|&cpu| (cpu, table)));
    }
    if clusters.iter().any(|table| table.cpus("cpus").is_none()) {
        return;
    }
    owners.sort_by_key(|(cpu, _)| *cpu);
    for pair in owners.windows(2) {
        if pair[0].0 == pair[1].0 {
            let message = format!("{} is already in `{}cpus`", pair[1].0, pair[0].1.path);
            return report.reject(pair[1].1, "cpus", message, "each CPU in one cluster only");
        }
    }
    if let Some((missing, (_, next))) = (0..).map(CpuId).zip(&owners).find(|(n, (cpu, _))| n != cpu)
    {
        let all: Vec<CpuId> = owners.iter().map(|(cpu, _)| *cpu).collect();
        let message =
            format!("no cluster holds {missing}; together they hold {}", format_cpu_list(&all));
        report.reject(
            next,
            "cpus",
            message,
            "all clusters together cover 0 to the last CPU, without gap",
        );
    }
}

/// Every device has a name of its own, and a CPU of this machine for its interrupts.
fn check_io_devices(report: &mut Report, devices: &[Table], clusters: &[Table]) {
    let last = clusters.iter().flat_map(|c| c.cpus("cpus").unwrap_or(&[])).max();
    for (index, table) in devices.iter().enumerate() {
        let is_named = |other: &Table| other.text("name") == table.text("name");
        if table.text("name").is_some() && devices[..index].iter().any(is_named) {
            let message = "another device has this name already".to_owned();
            report.push(table.finding("name", message));
        }
        let irq_cpu = table.cpus("irq_cpu").and_then(|cpus| cpus.first());
        if let (Some(cpu), Some(last)) = (irq_cpu, last) {
            if cpu > last {
                report.reject(
                    table,
                    "irq_cpu",
                    "the machine has no such CPU",
                    format!("0 to {}", last.0),
                );
            }
        }
    }
}

fn check_capacities(report: &mut Report, clusters: &[Table]) {
    let capacities: Vec<Option<f64>> = clusters.iter().map(|t| t.number("capacity")).collect();
    let biggest = clusters.iter().max_by_key(|t| t.number("capacity").unwrap_or(0.0) as u32);
    if let Some(biggest) = biggest {
        if capacities.iter().all(|capacity| capacity.is_some_and(|c| c < 1024.0)) {
            let message = "no cluster has capacity 1024, and this is the biggest".to_owned();
            report.reject(
                biggest,
                "capacity",
                message,
                "1024 for the machine's biggest CPU, others in proportion",
            );
        }
    }
}

/// Reports `key` if it is present without its source key.
fn need_source(report: &mut Report, table: &Table, key: &str, source: &str) {
    let is_bare = table.field(key).is_some_and(|field| !field.is_given());
    if is_bare && !table.has(source) {
        report.push(missing_source(table, key, source));
    }
}

fn missing_source(table: &Table, key: &str, source: &str) -> Finding {
    let mut finding = table.finding(key, format!("`{source}` is missing"));
    finding.allowed = Some("a source for every number".to_owned());
    finding.hint = Some(format!(
        "add `{source} = \"…\"`: a document, a file and revision, or a measurement and its date"
    ));
    finding
}

fn cite(sources: &mut Vec<String>, what: &str, lines: &[String]) {
    sources.extend(lines.iter().map(|line| format!("{what}: {line}")));
}

fn from_us(us: f64) -> Duration {
    Duration((us * 1e3).round() as i64)
}
