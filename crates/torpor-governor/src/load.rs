// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Puts an image and the blocks of its CPUs into fresh memory.

use crate::abi::{self, CpuidleDevice, CpuidleDriver, CpuidleGovernor, KapiCpu, KapiHost};
use crate::elf::ImageFile;
use crate::fault::{Call, Cause, Fault};
use crate::guard::Caught;
use crate::instance::{CpuSetup, Setup, Slot, StateDesc};
use crate::memory::{Block, Memory, Plan};
use crate::params::{self, ParamPlace};
use crate::{GovernorError, abi::TorporImage};
use std::ffi::CStr;
use torpor_units::{CpuId, Duration, Hz};

/// A CPU's answers to the kapi lie on cache lines of their own.
const KAPI_CPU_STRIDE: usize = 192;
const _: () = assert!(size_of::<KapiCpu>() <= KAPI_CPU_STRIDE);
/// Room to move a per-CPU copy so that its alignment is the template's.
const ALIGN_SLACK: usize = 64;
/// Above any machine; keeps a garbled CPU number from asking for a huge table.
const CPU_ID_MAX: u32 = 1 << 20;

/// An image in memory, before anything of it has run.
pub struct Loaded {
    pub host: *mut KapiHost,
    pub init: abi::GuardedCall,
    pub fire_timer: abi::GuardedCall,
    pub params: Vec<ParamPlace>,
    pub cpus: Box<[CpuId]>,
    statics: Vec<(*const u8, usize)>,
    image: std::ops::Range<usize>,
    _memory: Memory,
}

pub fn load(
    label: &str,
    file: &ImageFile,
    hz: Hz,
    setup: &Setup<'_>,
) -> Result<(Loaded, Box<[Slot]>), GovernorError> {
    check_setup(label, setup)?;
    let out_of_memory = |source| GovernorError::Memory { governor: label.to_owned(), source };
    let broken = |reason| GovernorError::Image { governor: label.to_owned(), reason };

    let mut plan = Plan::new();
    let image_block = plan.block(file.span);
    let id_end = setup.cpus.iter().map(|c| c.cpu.0).max().unwrap_or(0) as usize + 1;
    let cpus_len = setup.cpus.len() * KAPI_CPU_STRIDE;
    let host_block = plan.block(cpus_len + id_end * size_of::<*mut KapiCpu>());
    let (driver_of, tables) = distinct_tables(setup);
    let drivers: Vec<Block> =
        tables.iter().map(|_| plan.block(size_of::<CpuidleDriver>() + ALIGN_SLACK)).collect();
    let per_cpu: Vec<(Block, Block)> = (setup.cpus.iter())
        .map(|_| {
            let device = plan.block(size_of::<CpuidleDevice>() + ALIGN_SLACK);
            (device, plan.block(file.percpu.len() + ALIGN_SLACK))
        })
        .collect();
    let memory = plan.map().map_err(out_of_memory)?;

    let base = memory.start(image_block);
    copy_image(file, &memory, image_block, base).map_err(out_of_memory)?;
    // SAFETY: the file's reader has checked that the table lies in the image.
    let table = unsafe { &*base.add(file.table).cast::<TorporImage>() };
    check_table(table, hz).map_err(broken)?;
    // SAFETY: `copy_image` has relocated the descriptor table.
    let params = unsafe { params::read_descriptors(table.params_start, table.params_end) }
        .map_err(broken)?;

    let drivers: Vec<*mut CpuidleDriver> = (drivers.iter().zip(&tables))
        .map(|(block, states)| {
            let place = memory.at_end(*block, size_of::<CpuidleDriver>(), std::ptr::null());
            write_driver(place.cast(), states);
            place.cast()
        })
        .collect();
    let template = base.wrapping_add(file.percpu.start);
    let template_len = file.percpu.len();
    let cpus = memory.start(host_block);
    let by_id = cpus.wrapping_add(cpus_len).cast::<*mut KapiCpu>();
    let mut slots = Vec::new();
    for (i, cpu_setup) in setup.cpus.iter().enumerate() {
        let (device, percpu) = per_cpu[i];
        let dev = memory.at_end(device, size_of::<CpuidleDevice>(), std::ptr::null());
        let copy = memory.at_end(percpu, template_len, template);
        let cpu = cpus.wrapping_add(i * KAPI_CPU_STRIDE).cast::<KapiCpu>();
        // SAFETY: all of these lie in zeroed blocks planned for them; the template in the image.
        unsafe {
            copy.copy_from_nonoverlapping(template, template_len);
            write_device(&mut *dev.cast(), cpu_setup);
            (*cpu).cpu_id = cpu_setup.cpu.0;
            (*cpu).percpu_offset = (copy as u64).wrapping_sub(template as u64);
            (*cpu).capacity = cpu_setup.capacity as std::ffi::c_ulong;
            by_id.add(cpu_setup.cpu.index()).write(cpu);
        }
        let state_count = cpu_setup.states.len() as u32;
        slots.push(Slot { cpu, dev: dev.cast(), drv: drivers[driver_of[i]], state_count });
    }
    // SAFETY: the table was checked; the block belongs to the image.
    unsafe {
        let host = &mut *table.host;
        host.cpu = slots[0].cpu;
        host.cpu_by_id = by_id;
        host.nr_cpu_ids = id_end as u32;
    }
    let loaded = Loaded {
        host: table.host,
        init: table.init,
        fire_timer: table.fire_timer,
        statics: own_statics(file, base, &params),
        params,
        cpus: setup.cpus.iter().map(|c| c.cpu).collect(),
        image: base as usize..base as usize + file.span,
        _memory: memory,
    };
    Ok((loaded, slots.into()))
}

fn check_setup(label: &str, setup: &Setup<'_>) -> Result<(), GovernorError> {
    let refuse = |reason: String| GovernorError::Setup { governor: label.to_owned(), reason };
    if setup.cpus.is_empty() {
        return Err(refuse("a run needs at least one CPU".into()));
    }
    for (i, CpuSetup { cpu, states, .. }) in setup.cpus.iter().enumerate() {
        if cpu.0 >= CPU_ID_MAX {
            return Err(refuse(format!("{cpu} is above the highest number, {}", CPU_ID_MAX - 1)));
        }
        if setup.cpus[..i].iter().any(|c| c.cpu == *cpu) {
            return Err(refuse(format!("{cpu} is given twice")));
        }
        if !(1..=abi::STATE_MAX).contains(&states.len()) {
            return Err(refuse(format!(
                "{cpu} has {} idle states; a driver has 1 to {}",
                states.len(),
                abi::STATE_MAX
            )));
        }
        for state in *states {
            for (what, value) in
                [("exit latency", state.exit_latency), ("target residency", state.target_residency)]
            {
                if value.is_negative() {
                    return Err(refuse(format!(
                        "{cpu}, state {}: {what} {value} is negative",
                        state.name
                    )));
                }
            }
        }
    }
    Ok(())
}

/// For each CPU the number of its table, and the tables. Whether a state is disabled is the
/// CPU's, not the table's.
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

fn copy_image(
    file: &ImageFile,
    memory: &Memory,
    block: Block,
    base: *mut u8,
) -> std::io::Result<()> {
    // SAFETY: the reader has checked that segments and relocations lie within `span`, for which
    // the block was planned.
    unsafe {
        for segment in &file.segments {
            let bytes = &file.bytes[segment.file.clone()];
            base.add(segment.address).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        for relocation in &file.relocations {
            let value = (base as u64).wrapping_add_signed(relocation.addend);
            base.add(relocation.address).cast::<u64>().write_unaligned(value);
        }
    }
    for code in file.segments.iter().filter(|s| s.executable) {
        flush_instructions(base.wrapping_add(code.address), code.memory_len);
        memory.make_code(block, code.address, code.memory_len)?;
    }
    Ok(())
}

/// Where the caches of data and code are apart, what was written must reach the latter.
#[cfg(not(target_arch = "x86_64"))]
fn flush_instructions(start: *mut u8, len: usize) {
    unsafe extern "C" {
        fn __clear_cache(start: *mut u8, end: *mut u8);
    }
    // SAFETY: the range is mapped.
    unsafe { __clear_cache(start, start.add(len)) };
}

#[cfg(target_arch = "x86_64")]
fn flush_instructions(_start: *mut u8, _len: usize) {}

fn check_table(table: &TorporImage, hz: Hz) -> Result<(), String> {
    let checks = [
        ("ABI version", table.abi, abi::IMAGE_ABI),
        ("HZ", table.hz, hz.get()),
        ("struct kapi_cpu size", table.kapi_cpu_size, size_of::<KapiCpu>() as u32),
        ("struct kapi_host size", table.kapi_host_size, size_of::<KapiHost>() as u32),
        ("struct cpuidle_device size", table.device_size, size_of::<CpuidleDevice>() as u32),
        ("struct cpuidle_driver size", table.driver_size, size_of::<CpuidleDriver>() as u32),
        ("struct kapi_param size", table.param_size, size_of::<abi::KapiParam>() as u32),
    ];
    for (what, image, ours) in checks {
        if image != ours {
            return Err(format!("its {what} is {image}, ours {ours}"));
        }
    }
    Ok(())
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
    u32::try_from(time.0 / torpor_units::NSEC_PER_USEC).unwrap_or(u32::MAX)
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

/// The writable statics without the parameters, which users change.
fn own_statics(file: &ImageFile, base: *mut u8, params: &[ParamPlace]) -> Vec<(*const u8, usize)> {
    let mut cuts: Vec<(usize, usize)> =
        params.iter().map(|p| (p.value as usize - base as usize, p.kind.size())).collect();
    cuts.sort_unstable();
    let mut found = Vec::new();
    for range in &file.statics {
        let mut start = range.start;
        for (at, len) in cuts.iter().copied().filter(|(at, _)| range.contains(at)) {
            found.push((start, at.saturating_sub(start)));
            start = at + len;
        }
        found.push((start, range.end.saturating_sub(start)));
    }
    found.retain(|(_, len)| *len > 0);
    found.into_iter().map(|(at, len)| (base.wrapping_add(at).cast_const(), len)).collect()
}

impl Loaded {
    pub fn statics(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for (start, len) in &self.statics {
            // SAFETY: the ranges lie in the image.
            all.extend_from_slice(unsafe { std::slice::from_raw_parts(*start, *len) });
        }
        all
    }

    /// The governor that the image has registered: the one with the wanted name, else, as the
    /// kernel does, the one with the highest rating.
    pub fn registered(
        &self,
        label: &str,
        name: &str,
    ) -> Result<*const CpuidleGovernor, GovernorError> {
        let broken = |reason: String| GovernorError::Image { governor: label.to_owned(), reason };
        // SAFETY: the host block lies in the image.
        let host = unsafe { &*self.host };
        let count = (host.nr_governors as usize).min(host.governors.len());
        let known = &host.governors[..count];
        let inside = |p: &*const CpuidleGovernor| {
            self.image.contains(&(*p as usize))
                && *p as usize + size_of::<CpuidleGovernor>() <= self.image.end
        };
        if known.is_empty() {
            return Err(broken(
                "it registers no governor; an initcall must call \
                               cpuidle_register_governor()"
                    .into(),
            ));
        }
        if !known.iter().all(inside) {
            return Err(broken("it registers a governor that is no static".into()));
        }
        // SAFETY: just checked that they lie in the image.
        let by_name = known.iter().find(|g| unsafe { registered_name(**g) } == name.as_bytes());
        let by_rating = known.iter().max_by_key(|g| unsafe { (***g).rating });
        Ok(*by_name.or(by_rating).expect("there is at least one"))
    }

    pub fn fault(&self, label: &str, cpu: CpuId, call: Call, caught: Caught) -> Fault {
        // SAFETY: the host block lies in the image, and so does the string, unless the governor
        // has overwritten the pointer: then it is not used.
        let host = unsafe { &*self.host };
        let cause = if self.image.contains(&(host.bug_file as usize)) {
            let file = unsafe { CStr::from_ptr(host.bug_file) }.to_string_lossy().into_owned();
            Cause::Bug { file, line: host.bug_line }
        } else {
            Cause::of(caught)
        };
        Fault::new(label, cpu, call, cause)
    }
}

unsafe fn registered_name<'a>(governor: *const CpuidleGovernor) -> &'a [u8] {
    // SAFETY: the caller's pointer is a governor in a loaded image.
    let name = unsafe { &(*governor).name };
    let len = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    &name[..len]
}

/// Finds a parameter and writes a value to it.
pub fn store_param(
    label: &str,
    params: &[ParamPlace],
    name: &str,
    value: &str,
) -> Result<(), GovernorError> {
    let place = params.iter().find(|p| p.name == name).ok_or_else(|| {
        let names: Vec<&str> = params.iter().map(|p| p.name.as_str()).collect();
        let known = if names.is_empty() {
            "it has none".to_owned()
        } else {
            format!("it has {}", names.join(", "))
        };
        GovernorError::UnknownParam { governor: label.into(), param: name.into(), known }
    })?;
    place.store(value).map_err(|expected| GovernorError::ParamValue {
        governor: label.into(),
        param: name.into(),
        value: value.into(),
        expected,
    })
}
