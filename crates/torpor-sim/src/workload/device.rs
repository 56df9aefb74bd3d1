// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Devices that tasks send requests to: a workload's own, the machine's, or one that ships.

use super::read::dist;
use super::{List, Workload};
use crate::error::SimError;
use crate::machine::Topology;
use crate::random::{Dist, Stream};
use std::collections::BTreeSet;
use torpor_machine::platform::{Completion, Flash, IoDevice, Platform, ServiceTime};
use torpor_machine::toml::{Finding, Problem, Report, Table};
use torpor_machine::units::closest;
use torpor_machine::units::{CpuId, Duration};

/// Reference to a device in a workload.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceRef {
    /// One of the workload's own.
    Own(Device),
    /// One of the machine's, or one that ships.
    Named {
        name: String,
        /// Unless a device has this name, [`Workload::place_files`] puts it on one.
        is_file: bool,
        /// Message if neither has it, and the file that it is about.
        unknown: Problem,
        origin: String,
    },
}

/// A device as it is simulated; the numbers are those of [`IoDevice`].
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    pub name: String,
    pub read: Service,
    pub write: Service,
    /// Time of emptying its cache.
    pub flush: Service,
    /// Idle time after writes, and the length of the background work that then begins.
    pub idle: Option<(Duration, Dist)>,
    pub nr_hw_queues: Option<u32>,
    pub queue_depth: u32,
    pub parallelism: u32,
    pub flash: Option<Flash>,
    pub irq_cpu: Option<CpuId>,
    pub completion: Completion,
    pub interrupts_per_io: u32,
    pub irq: Duration,
    pub softirq: Duration,
    /// Ratio for a job's own work, if the job does not set one.
    pub work_ratio: f64,
}

/// Duration of a request: a part by itself, and the time of its data on the device's link.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    fixed: Dist,
    per_kib: Duration,
}

/// Transfer of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub kind: TransferKind,
    pub bytes: u32,
    /// Sequential, else random addresses.
    pub in_order: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransferKind {
    Read,
    /// For the page cache.
    ReadAhead,
    Write,
    /// From there.
    WriteBack,
    Flush,
}

impl TransferKind {
    pub fn writes(self) -> bool {
        matches!(self, TransferKind::Write | TransferKind::WriteBack)
    }

    /// Whether it counts as an IO of the task.
    pub fn is_asked_for(self) -> bool {
        matches!(self, TransferKind::Read | TransferKind::Write)
    }
}

impl Device {
    /// Returns the time of the device for a request, and the time of its data on the link.
    pub fn service(&self, transfer: Transfer, stream: &mut Stream) -> (Duration, Duration) {
        let service = match transfer.kind {
            TransferKind::Read | TransferKind::ReadAhead => &self.read,
            TransferKind::Write | TransferKind::WriteBack => &self.write,
            TransferKind::Flush => &self.flush,
        };
        // An hour per KiB of a GiB exceeds 64 bits.
        let size = i128::from(service.per_kib.0) * i128::from(transfer.bytes) / 1024;
        (service.fixed.draw(stream), Duration(size as i64))
    }

    /// Returns the number of hardware queues; more than CPUs are left unused.
    pub fn queues(&self, cpus: usize) -> usize {
        self.nr_hw_queues.map_or(cpus, |queues| (queues as usize).min(cpus))
    }

    /// Returns the CPU of a queue's interrupt: the submitting one if every CPU has a queue, else the
    /// first online one of those that share it.
    pub fn irq_cpu_of(&self, queue: usize, topology: &Topology) -> usize {
        if let Some(cpu) = self.irq_cpu {
            return cpu.index();
        }
        let first = (queue * topology.cpus).div_ceil(self.queues(topology.cpus));
        topology.online.first_from(first).expect("a CPU is online")
    }
}

impl From<&IoDevice> for Device {
    fn from(device: &IoDevice) -> Device {
        let service =
            |time: &ServiceTime| Service { fixed: Dist::from(&time.fixed), per_kib: time.per_kib };
        Device {
            name: device.name.clone(),
            read: service(&device.read),
            write: service(&device.write),
            flush: service(&device.flush),
            idle: device.idle.as_ref().map(|idle| (idle.after, Dist::from(&idle.length))),
            nr_hw_queues: device.nr_hw_queues,
            queue_depth: device.queue_depth,
            parallelism: device.parallelism,
            flash: device.flash.clone(),
            irq_cpu: device.irq_cpu,
            completion: device.completion,
            interrupts_per_io: device.interrupts_per_io,
            irq: device.irq,
            softirq: device.softirq,
            work_ratio: device.work_ratio,
        }
    }
}

/// Reads a device of a workload, which has one service time and an unlimited queue.
pub(super) fn read(report: &mut Report, table: &Table) -> Option<Device> {
    let fixed = dist(report, table, "service_us");
    if table.cpus("cpu").is_some_and(|cpus| cpus.len() != 1) {
        let mut finding = table.finding("cpu", "more than one CPU".to_owned());
        finding.allowed = Some("one CPU in a string, such as \"0\"".to_owned());
        report.push(finding);
    }
    if table.number("servers") == Some(0.0) {
        report.push(table.finding("servers", "a device that never serves".to_owned()));
    }
    let service = Service { fixed: fixed?, per_kib: Duration::ZERO };
    Some(Device {
        name: table.text("name")?.to_owned(),
        read: service.clone(),
        write: service.clone(),
        flush: service,
        idle: None,
        nr_hw_queues: None,
        queue_depth: u32::MAX,
        parallelism: table.number("servers").unwrap_or(1.0) as u32,
        flash: None,
        irq_cpu: table.cpus("cpu").and_then(|cpus| cpus.first().copied()),
        completion: Completion::Irq,
        interrupts_per_io: 1,
        irq: Duration::ZERO,
        softirq: Duration::ZERO,
        work_ratio: 1.0,
    })
}

impl DeviceRef {
    /// The message of a name at `at`, which is looked up when the machine is known.
    pub(super) fn unknown(at: Finding, text: &str) -> Problem {
        let mut report = Report::new(text);
        report.push(at);
        report.finish().pop().expect("a finding is a problem")
    }

    pub fn name(&self) -> &str {
        match self {
            DeviceRef::Own(device) => &device.name,
            DeviceRef::Named { name, .. } => name,
        }
    }

    /// Whether this is a shipped device that neither the workload nor the machine defines.
    pub fn ships(&self, platform: &Platform) -> bool {
        match self {
            DeviceRef::Own(_) => false,
            DeviceRef::Named { name, .. } => !platform.io_devices.iter().any(|d| d.name == *name),
        }
    }

    pub fn resolve(&self, platform: &Platform) -> Result<Device, SimError> {
        let (name, unknown, origin) = match self {
            DeviceRef::Own(device) => return Ok(device.clone()),
            DeviceRef::Named { name, unknown, origin, .. } => (name, unknown, origin),
        };
        let shipped = torpor_machine::platform::io_devices();
        if let Some(device) = platform.io_devices.iter().chain(&shipped).find(|d| d.name == *name) {
            return Ok(Device::from(device));
        }
        let names = known_names(platform);
        let mut problem = unknown.clone();
        problem.hint = closest(name, names.iter().map(String::as_str))
            .map(|near| format!("did you mean `{near}`?"))
            .or(Some("a `[[device]]` here, or an `[[io_device]]` of the platform".to_owned()));
        problem.allowed = Some(names.join(", "));
        Err(SimError::Workload { origin: origin.clone(), problems: vec![problem] })
    }
}

/// The platform's devices and those that ship, in order.
fn known_names(platform: &Platform) -> Vec<String> {
    let shipped = torpor_machine::platform::io_devices();
    let known = platform.io_devices.iter().chain(&shipped);
    let names: BTreeSet<String> = known.map(|device| device.name.clone()).collect();
    names.into_iter().collect()
}

impl Workload {
    /// Puts its files on a device: `chosen`, or else the platform's only one. A note says so.
    pub(crate) fn place_files(
        &mut self,
        platform: &Platform,
        chosen: Option<&str>,
    ) -> Result<(), SimError> {
        let mut known = known_names(platform);
        let own = self.devices.iter().filter(|device| matches!(device, DeviceRef::Own(_)));
        known.extend(own.map(|device| device.name().to_owned()));
        let mut files = Vec::new();
        for device in &self.devices {
            if let DeviceRef::Named { name, is_file: true, .. } = device {
                files.extend(Some(name.clone()).filter(|name| !known.contains(name)));
            }
        }
        let refused = |what, given| {
            let hint = format!("one of {}, or of the platform's `[[io_device]]`", known.join(", "));
            Err(SimError::Option { what, given, hint })
        };
        let (device, why) = match (chosen, &platform.io_devices[..], files.first()) {
            (None, _, None) => return Ok(()),
            (Some(name), _, None) => {
                let what = "option `device` is for workloads that name files, as fio's jobs do";
                return refused(what, format!("`{name}`, and the workload names no file"));
            }
            (Some(name), ..) if known.iter().any(|known| known == name) => {
                (name, "option `device`")
            }
            (Some(name), ..) => return refused("option `device` is a device", format!("`{name}`")),
            (None, [only], _) => (&only.name[..], "the platform's only device"),
            (None, several, Some(file)) => {
                let given = format!("`{file}`; `{}` has {} devices", platform.name, several.len());
                return refused("a file needs a device (option `device`)", given);
            }
        };
        self.note_files(&files, device, why);
        for named in &mut self.devices {
            if let DeviceRef::Named { name, is_file: true, .. } = named {
                if files.contains(name) {
                    device.clone_into(name);
                }
            }
        }
        self.merge_devices();
        Ok(())
    }

    fn note_files(&mut self, files: &[String], device: &str, why: &str) {
        const SHOWN: usize = 3;
        let shown: Vec<String> = files.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
        let more = match files.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        self.notes.push(format!(
            "{}{more}: taken for a file on `{device}` ({why}); the work of a file system is not \
             simulated",
            shown.join(", ")
        ));
    }

    /// Makes one device of those with the same name.
    fn merge_devices(&mut self) {
        let mut kept: Vec<DeviceRef> = Vec::new();
        let mut places = Vec::new();
        for device in std::mem::take(&mut self.devices) {
            let known = kept.iter().position(|other| other.name() == device.name());
            places.push(known.unwrap_or(kept.len()));
            kept.extend(known.is_none().then_some(device));
        }
        self.devices = kept;
        for step in self.tasks.iter_mut().flat_map(|task| &mut task.program) {
            step.op.change(|list, index| {
                if list == List::Devices {
                    *index = places[*index];
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::StreamName;

    #[test]
    fn largest_transfer_does_not_overflow() {
        let per_kib = Duration::from_us(u32::MAX.into());
        let time = Service { fixed: Dist::Constant(Duration(1)), per_kib };
        let device = Device {
            name: "x".to_owned(),
            read: time.clone(),
            write: time.clone(),
            flush: time,
            idle: None,
            nr_hw_queues: None,
            queue_depth: 1,
            parallelism: 1,
            flash: None,
            irq_cpu: None,
            completion: Completion::Irq,
            interrupts_per_io: 1,
            irq: Duration::ZERO,
            softirq: Duration::ZERO,
            work_ratio: 1.0,
        };
        let transfer = Transfer { kind: TransferKind::Read, bytes: 1 << 30, in_order: false };
        let service = device.service(transfer, &mut StreamName::new(1).stream());
        assert_eq!(service, (Duration(1), Duration(per_kib.0 << 20)));
    }
}
