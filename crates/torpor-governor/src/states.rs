// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The drivers and devices that are passed to a governor.

use crate::abi::{self, CpuidleDevice, CpuidleDriver};
use crate::instance::{CpuSetup, Setup, Slot, StateDesc};
use crate::load::Loaded;
use crate::memory::{ALIGN_SLACK, Block, Plan};
use crate::{GovernorError, Label};
use torpor_machine::units::{Duration, NSEC_PER_USEC};

/// Blocks of the drivers and devices.
pub(crate) struct States<'a> {
    setup: &'a Setup<'a>,
    tables: Vec<(&'a [StateDesc], Block)>,
    /// For each CPU, the index of its table and the block of its device.
    cpus: Vec<(usize, Block)>,
}

impl<'a> States<'a> {
    pub(crate) fn plan(
        policy: &Label,
        setup: &'a Setup<'a>,
        plan: &mut Plan,
    ) -> Result<States<'a>, GovernorError> {
        check(policy, setup)?;
        let (driver_of, tables) = distinct_tables(setup);
        let driver = |plan: &mut Plan| plan.block(size_of::<CpuidleDriver>() + ALIGN_SLACK);
        let device = |plan: &mut Plan| plan.block(size_of::<CpuidleDevice>() + ALIGN_SLACK);
        let tables = tables.into_iter().map(|states| (states, driver(plan))).collect();
        let cpus = driver_of.into_iter().map(|table| (table, device(plan))).collect();
        Ok(States { setup, tables, cpus })
    }

    pub(crate) fn write(&self, loaded: &Loaded) -> Box<[Slot]> {
        let place = |block, size| loaded.memory.at_end(block, size, std::ptr::null());
        let drivers: Vec<*mut CpuidleDriver> = (self.tables.iter())
            .map(|(states, block)| {
                let driver = place(*block, size_of::<CpuidleDriver>()).cast();
                write_driver(driver, states);
                driver
            })
            .collect();
        let slot = |(i, (table, block)): (usize, &(usize, Block))| {
            let setup = &self.setup.cpus[i];
            let dev: *mut CpuidleDevice = place(*block, size_of::<CpuidleDevice>()).cast();
            // SAFETY: the block was planned for a device and is zeroed, which is a valid one.
            write_device(unsafe { &mut *dev }, setup);
            let state_count = setup.states.len() as u32;
            let cpu = loaded.kapi_cpus[i];
            // SAFETY: it has a block of its own, and nothing else refers to it yet.
            unsafe { (*cpu).driver = drivers[*table] };
            Slot { cpu, dev, drv: drivers[*table], state_count }
        };
        self.cpus.iter().enumerate().map(slot).collect()
    }
}

fn check(policy: &Label, setup: &Setup<'_>) -> Result<(), GovernorError> {
    let refuse = |reason| Err(GovernorError::Setup { policy: policy.clone(), reason });
    for CpuSetup { cpu, states, .. } in setup.cpus {
        if !(1..=abi::STATE_MAX).contains(&states.len()) {
            return refuse(format!(
                "{cpu} has {} idle states; a driver has 1 to {}",
                states.len(),
                abi::STATE_MAX
            ));
        }
        for state in *states {
            for (what, value) in
                [("exit latency", state.exit_latency), ("target residency", state.target_residency)]
            {
                if value.is_negative() {
                    return refuse(format!(
                        "{cpu}, state {}: {what} {value} is negative",
                        state.name
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Returns for each CPU the index of its table, and the tables. `is_disabled` belongs to the CPU, not
/// to the table.
fn distinct_tables<'a>(setup: &Setup<'a>) -> (Vec<usize>, Vec<&'a [StateDesc]>) {
    let same = |a: &StateDesc, b: &StateDesc| {
        a.name == b.name
            && a.exit_latency == b.exit_latency
            && a.target_residency == b.target_residency
            && a.is_polling == b.is_polling
    };
    let mut tables: Vec<&[StateDesc]> = Vec::new();
    let driver_of = (setup.cpus.iter())
        .map(|cpu| {
            let known = tables.iter().position(|t| {
                t.len() == cpu.states.len() && t.iter().zip(cpu.states).all(|(a, b)| same(a, b))
            });
            known.unwrap_or_else(|| {
                tables.push(cpu.states);
                tables.len() - 1
            })
        })
        .collect();
    (driver_of, tables)
}

fn write_driver(driver: *mut CpuidleDriver, states: &[StateDesc]) {
    // SAFETY: the block was planned for a driver and is zeroed, which is a valid driver.
    let driver = unsafe { &mut *driver };
    driver.name = c"torpor".as_ptr();
    driver.state_count = states.len() as i32;
    for (to, from) in driver.states.iter_mut().zip(states) {
        copy_name(&mut to.name, &from.name);
        copy_name(&mut to.desc, &from.name);
        to.exit_latency_ns = from.exit_latency.0;
        to.target_residency_ns = from.target_residency.0;
        to.flags = if from.is_polling { abi::FLAG_POLLING } else { 0 };
        to.exit_latency = whole_us(from.exit_latency);
        to.target_residency = whole_us(from.target_residency);
    }
}

fn whole_us(time: Duration) -> u32 {
    u32::try_from(time.0 / NSEC_PER_USEC).unwrap_or(u32::MAX)
}

fn copy_name(to: &mut [u8], from: &str) {
    let len = from.len().min(to.len() - 1);
    to[..len].copy_from_slice(&from.as_bytes()[..len]);
}

fn write_device(device: &mut CpuidleDevice, setup: &CpuSetup<'_>) {
    device.cpu = setup.cpu.0;
    device.flags = abi::DEVICE_REGISTERED_ENABLED;
    for (usage, state) in device.states_usage.iter_mut().zip(setup.states) {
        usage.disable = if state.is_disabled { abi::DISABLED_BY_USER } else { 0 };
    }
}
