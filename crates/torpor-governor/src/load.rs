// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Loads an image and its CPUs into new memory, and runs its initcalls.

use crate::abi::{
    self, CpuidleDevice, CpuidleDriver, CpuidleGovernor, KapiCpu, KapiHost, NAME_LEN, TorporImage,
};
use crate::elf::ImageFile;
use crate::fault::{Call, Cause, Fault};
use crate::guard::{self, Caught};
use crate::memory::{ALIGN_SLACK, Block, Memory, Plan};
use crate::params::{self, ParamPlace};
use crate::{GovernorError, Label};
use std::ffi::CStr;
use torpor_machine::units::{CpuId, Hz};

/// Distance of two CPUs' [`KapiCpu`], in bytes: they share no cache line.
const KAPI_CPU_STRIDE: usize = 192;
const _: () = assert!(size_of::<KapiCpu>() <= KAPI_CPU_STRIDE);
/// End of the valid CPU numbers; limits the size of the table by number.
const CPU_ID_MAX: u32 = 1 << 20;

/// An image in memory, with its CPUs.
pub(crate) struct Loaded {
    pub label: Label,
    pub host: *mut KapiHost,
    pub fire_timer: abi::GuardedCall,
    pub params: Vec<ParamPlace>,
    pub cpus: Box<[CpuId]>,
    /// In the order of `cpus`.
    pub kapi_cpus: Box<[*mut KapiCpu]>,
    pub memory: Memory,
    init: abi::GuardedCall,
    statics: Vec<(*const u8, usize)>,
    statics_at_start: Vec<u8>,
    image: std::ops::Range<usize>,
}

/// Loads an image for CPUs, given with their capacities, next to the blocks that `plan` already has.
/// Does not run it.
pub(crate) fn load(
    label: &Label,
    file: &ImageFile,
    hz: Hz,
    cpu_setup: &[(CpuId, u64)],
    mut plan: Plan,
) -> Result<Loaded, GovernorError> {
    check_cpus(label, cpu_setup)?;
    let out_of_memory = |source| GovernorError::Memory { policy: label.clone(), source };
    let broken = |reason| GovernorError::Image { policy: label.clone(), reason };

    let image_block = plan.block(file.span);
    let id_end = cpu_setup.iter().map(|(cpu, _)| cpu.0).max().unwrap_or(0) as usize + 1;
    let cpus_len = cpu_setup.len() * KAPI_CPU_STRIDE;
    let host_block = plan.block(cpus_len + id_end * size_of::<*mut KapiCpu>());
    let percpu: Vec<Block> =
        cpu_setup.iter().map(|_| plan.block(file.percpu.len() + ALIGN_SLACK)).collect();
    let memory = plan.map().map_err(out_of_memory)?;

    let base = memory.start(image_block);
    copy_image(file, &memory, image_block, base).map_err(out_of_memory)?;
    // SAFETY: the file's reader has checked that the table lies in the image.
    let table = unsafe { &*base.add(file.table).cast::<TorporImage>() };
    check_table(table, hz).map_err(broken)?;
    // SAFETY: `copy_image` has relocated the descriptor table.
    let params = unsafe { params::read_descriptors(table.params_start, table.params_end) }
        .map_err(broken)?;

    let template = base.wrapping_add(file.percpu.start);
    let template_len = file.percpu.len();
    let cpus = memory.start(host_block);
    let by_id = cpus.wrapping_add(cpus_len).cast::<*mut KapiCpu>();
    let mut kapi_cpus = Vec::new();
    for (i, (id, capacity)) in cpu_setup.iter().enumerate() {
        let copy = memory.at_end(percpu[i], template_len, template);
        let cpu = cpus.wrapping_add(i * KAPI_CPU_STRIDE).cast::<KapiCpu>();
        // SAFETY: all of these lie in zeroed blocks planned for them; the template in the image.
        unsafe {
            copy.copy_from_nonoverlapping(template, template_len);
            (*cpu).cpu_id = id.0;
            (*cpu).percpu_offset = (copy as u64).wrapping_sub(template as u64);
            (*cpu).capacity = *capacity as std::ffi::c_ulong;
            by_id.add(id.index()).write(cpu);
        }
        kapi_cpus.push(cpu);
    }
    // SAFETY: the table was checked; the block belongs to the image.
    unsafe {
        let host = &mut *table.host;
        host.cpu = kapi_cpus[0];
        host.cpu_by_id = by_id;
        host.nr_cpu_ids = id_end as u32;
    }
    Ok(Loaded {
        label: label.clone(),
        host: table.host,
        init: table.init,
        fire_timer: table.fire_timer,
        statics: own_statics(file, base, &params),
        statics_at_start: Vec::new(),
        params,
        cpus: cpu_setup.iter().map(|(cpu, _)| *cpu).collect(),
        kapi_cpus: kapi_cpus.into(),
        image: base as usize..base as usize + file.span,
        memory,
    })
}

fn check_cpus(label: &Label, cpus: &[(CpuId, u64)]) -> Result<(), GovernorError> {
    let refuse = |reason| Err(GovernorError::Setup { policy: label.clone(), reason });
    if cpus.is_empty() {
        return refuse("a run needs at least one CPU".to_owned());
    }
    for (i, (cpu, _)) in cpus.iter().enumerate() {
        if cpu.0 >= CPU_ID_MAX {
            return refuse(format!("{cpu} is above the highest number, {}", CPU_ID_MAX - 1));
        }
        if cpus[..i].iter().any(|(other, _)| other == cpu) {
            return refuse(format!("{cpu} is given twice"));
        }
    }
    Ok(())
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

/// Makes new code visible to instruction fetches, on machines with separate caches.
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
            return Err(format!("its {what} is {image}, expected {ours}"));
        }
    }
    Ok(())
}

/// Returns the writable statics except the parameters, which users change.
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
    /// Sets the parameters and runs the initcalls.
    pub(crate) fn start(&mut self, params: &[(String, String)]) -> Result<(), GovernorError> {
        for (name, value) in params {
            store_param(&self.label, &self.params, name, value)?;
        }
        guard::note(self.cpus[0], || Call::Init);
        // SAFETY: the image was loaded just now; its table names its own function.
        let started = unsafe { guard::call(self.init, std::ptr::null_mut(), std::ptr::null_mut()) };
        let code = started.map_err(|caught| self.fault(self.cpus[0], Call::Init, caught))?;
        if code != 0 {
            let policy = self.label.clone();
            return Err(GovernorError::Refused { policy, call: "init()", code });
        }
        self.statics_at_start = self.statics();
        Ok(())
    }

    fn statics(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for (start, len) in &self.statics {
            // SAFETY: the ranges lie in the image.
            all.extend_from_slice(unsafe { std::slice::from_raw_parts(*start, *len) });
        }
        all
    }

    pub(crate) fn statics_changed(&self) -> bool {
        self.statics() != self.statics_at_start
    }

    pub(crate) fn set_param(&mut self, name: &str, value: &str) -> Result<(), GovernorError> {
        // A callback can store the value in any static.
        let had_changed = self.statics_changed();
        let stored = store_param(&self.label, &self.params, name, value);
        if !had_changed {
            self.statics_at_start = self.statics();
        }
        stored
    }

    pub(crate) fn param(&self, name: &str) -> Option<String> {
        let place = self.params.iter().find(|p| p.name == name)?;
        Some(place.show())
    }

    /// Returns the number of `WARN_ON`s that fired and the place of the first.
    pub(crate) fn warnings(&self) -> Option<(u64, String)> {
        // SAFETY: the host block lies in the image; the file is a string of the image.
        unsafe {
            let host = &*self.host;
            (host.warn_count > 0 && !host.warn_file.is_null()).then(|| {
                let file = CStr::from_ptr(host.warn_file).to_string_lossy();
                (host.warn_count, format!("{file}:{}", host.warn_line))
            })
        }
    }

    /// Returns the registered governor with the given name, else, as the kernel does, the one with
    /// the highest rating.
    pub(crate) fn governor(&self, name: &str) -> Result<*const CpuidleGovernor, GovernorError> {
        // SAFETY: the host block lies in the image.
        let host = unsafe { &*self.host };
        let registered = &host.governors[..(host.nr_governors as usize).min(host.governors.len())];
        let is_static = |governor: &*const CpuidleGovernor| {
            let start = *governor as usize;
            self.image.contains(&start) && start + size_of::<CpuidleGovernor>() <= self.image.end
        };
        let broken = |reason: &str| {
            Err(GovernorError::Image { policy: self.label.clone(), reason: reason.to_owned() })
        };
        if !registered.iter().all(is_static) {
            return broken("it registers one that is not a static governor");
        }
        // SAFETY: just checked that they lie in the image.
        let by_name = registered.iter().find(|g| named(unsafe { &(***g).name }, name));
        // SAFETY: as above.
        let by_rating = registered.iter().max_by_key(|g| unsafe { (***g).rating });
        match by_name.or(by_rating) {
            Some(governor) => Ok(*governor),
            None => broken(
                "it registers no governor; an initcall must call cpuidle_register_governor()",
            ),
        }
    }

    pub(crate) fn fault(&self, cpu: CpuId, call: Call, caught: Caught) -> Fault {
        // SAFETY: the host block lies in the image.
        let host = unsafe { &*self.host };
        // The governor could have overwritten the pointer.
        let cause = if self.image.contains(&(host.bug_file as usize)) {
            // SAFETY: the string lies in the image and ends within it.
            let file = unsafe { CStr::from_ptr(host.bug_file) }.to_string_lossy().into_owned();
            Cause::Bug { file, line: host.bug_line }
        } else {
            Cause::of(caught)
        };
        Fault::new(&self.label, cpu, call, cause)
    }
}

fn named(registered: &[u8; NAME_LEN], name: &str) -> bool {
    let len = registered.iter().position(|&b| b == 0).unwrap_or(NAME_LEN);
    &registered[..len] == name.as_bytes()
}

/// Finds a parameter and writes a value to it.
fn store_param(
    label: &Label,
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
        GovernorError::UnknownParam { policy: label.clone(), param: name.into(), known }
    })?;
    place.store(value).map_err(|expected| GovernorError::ParamValue {
        policy: label.clone(),
        param: name.into(),
        value: value.into(),
        expected,
    })
}
