// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A second workload in the background, such as the kernel threads of an idle machine.

use super::{Barrier, DeviceRef, Effect, List, Op, TaskKind, Workload};
use sha2::{Digest, Sha256};

/// Offsets of the second workload's indices in the combined one.
struct Shift {
    tasks: usize,
    channels: usize,
    barriers: usize,
    devices: usize,
    flows: usize,
    activities: usize,
}

impl Workload {
    /// Returns both workloads combined. They share only the machine; equal names stay separate.
    pub fn with_background(&self, other: &Workload) -> Workload {
        let shift = Shift {
            tasks: self.tasks.len(),
            channels: self.channels.len(),
            barriers: self.barriers.len(),
            devices: self.devices.len(),
            flows: self.flows.len(),
            activities: self.activities.len(),
        };
        let mut both = self.clone();
        let cgroups = super::Cgroup::join(&mut both.cgroups, &other.cgroups);
        both.title = format!("{}; with `{}`", self.title, other.name);
        both.sources.extend(other.sources.iter().cloned());
        let hashes = format!("{} {}", self.sha256, other.sha256);
        both.sha256 = Sha256::digest(hashes).iter().map(|byte| format!("{byte:02x}")).collect();
        // Draws depend on names, so the first workload draws the same numbers as without a background.
        let named = |name: &str| format!("{}:{name}", other.name);
        both.tasks.extend(other.tasks.iter().map(|task| {
            let mut task = TaskKind { name: named(&task.name), ..task.clone() };
            task.activity = task.activity.map(|activity| activity + shift.activities);
            task.cgroup = task.cgroup.map(|cgroup| cgroups[cgroup]);
            task.program.iter_mut().for_each(|step| shift.op(&mut step.op));
            task
        }));
        both.interrupts.extend(other.interrupts.iter().map(|interrupt| {
            let mut interrupt = interrupt.clone();
            interrupt.name = named(&interrupt.name);
            interrupt.activity = interrupt.activity.map(|activity| activity + shift.activities);
            match &mut interrupt.effect {
                Effect::Nothing => {}
                Effect::Wake { channel, .. } => *channel += shift.channels,
                Effect::Spawn { task, .. } => *task += shift.tasks,
            }
            interrupt
        }));
        both.devices.extend(other.devices.iter().cloned().map(|device| match device {
            DeviceRef::Own(mut device) => {
                device.name = named(&device.name);
                DeviceRef::Own(device)
            }
            named => named,
        }));
        both.channels.extend(other.channels.iter().cloned());
        let barrier = |barrier: &Barrier| Barrier { name: named(&barrier.name), ..barrier.clone() };
        both.barriers.extend(other.barriers.iter().map(barrier));
        both.flows.extend(other.flows.iter().map(|flow| {
            let mut flow = flow.clone();
            flow.name = named(&flow.name);
            if let Some(hint) = &mut flow.hint {
                hint.tasks.iter_mut().for_each(|task| *task += shift.tasks);
            }
            flow
        }));
        both.activities.extend(
            other.activities.iter().map(|activity| super::Activity {
                name: named(&activity.name),
                ..activity.clone()
            }),
        );
        both.changes.extend(other.changes.iter().map(|change| {
            let mut change = change.clone();
            let kinds = change.task.iter_mut().flat_map(|task| &mut task.kinds);
            kinds.for_each(|kind| *kind += shift.tasks);
            change
        }));
        both.notes.extend(other.notes.iter().cloned());
        both
    }
}

impl Shift {
    fn op(&self, op: &mut Op) {
        op.change(|list, index| {
            *index += match list {
                List::Channels => self.channels,
                List::Barriers => self.barriers,
                List::Devices => self.devices,
                List::Flows => self.flows,
                List::Tasks => self.tasks,
            }
        });
    }
}
