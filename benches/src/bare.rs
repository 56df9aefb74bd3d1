// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The lower bound: a bare loop that calls a governor's shared object.

use std::ffi::{CString, c_char, c_int, c_void};
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use torpor_governor::{Governor, Inputs, NO_LATENCY_LIMIT, StateDesc};
use torpor_machine::units::Duration;

/// One pass through the idle loop: the calls of a governor.
#[derive(Clone, Copy)]
pub struct Step {
    pub inputs: Inputs,
    pub residency: Duration,
    /// `None` for a state without polling.
    pub poll_timed_out: Option<bool>,
    /// Time of `reflect()`.
    pub reflected: torpor_machine::units::Instant,
    pub got_tick: bool,
}

/// `poll_time_limit`, the third of the device's flag bits.
const POLL_TIME_LIMIT: u32 = 1 << 2;

/// Hashes choices, so that equal sums mean equal choices in equal order.
pub fn add(sum: u64, state: i32, stop_tick: bool) -> u64 {
    sum.wrapping_mul(31).wrapping_add(state as u64 * 2 + u64::from(stop_tick))
}

/// The same object in the system's loader. The layouts of `kapi/include` are repeated here, so that a
/// mistake in the host's shows as a different sum.
pub struct Bare {
    host: *mut *mut Cpu,
    cpu: Box<Cpu>,
    _by_id: Box<[*mut Cpu]>,
    device: Box<Device>,
    driver: Box<Driver>,
    select: extern "C" fn(*mut Driver, *mut Device, *mut u8) -> c_int,
    reflect: extern "C" fn(*mut Device, c_int),
}

#[repr(C)]
#[derive(Default)]
struct Cpu {
    now: i64,
    sleep_length: i64,
    delta_next: i64,
    latency_req: i64,
    util: u64,
    capacity: u64,
    nr_iowait: u32,
    tick_stopped: bool,
    got_tick: bool,
    stop_tick: u8,
    asked: u8,
    percpu_offset: u64,
    id: u32,
    nr_timers: u32,
    load_avg: u64,
    timers: [(usize, i64); 4],
    driver: usize,
}

#[repr(C)]
struct Device {
    flags: u32,
    cpu: u32,
    next_hrtimer: i64,
    last_state_idx: c_int,
    last_residency: i64,
    poll_limit: u64,
    forced: u64,
    usage: [[u64; 6]; 10],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct State {
    text: [u8; 48],
    exit_latency: i64,
    target_residency: i64,
    flags: u32,
    rest: [u32; 3],
    enter: usize,
    disabled: bool,
}

#[repr(C)]
struct Driver {
    name: usize,
    owner: usize,
    bctimer: u32,
    states: [State; 10],
    state_count: c_int,
    safe: c_int,
    cpumask: usize,
    governor: usize,
}

#[repr(C)]
struct Table {
    sizes: [u32; 8],
    host: *mut Host,
    params: [usize; 2],
    init: extern "C" fn() -> c_int,
}

#[repr(C)]
struct Host {
    cpu: *mut Cpu,
    by_id: *mut *mut Cpu,
    nr_cpu_ids: u32,
    nr_governors: u32,
    governors: [*mut Registered; 4],
}

#[repr(C)]
struct Registered {
    name: [c_char; 16],
    list: [usize; 2],
    rating: u32,
    enable: Option<extern "C" fn(*mut Driver, *mut Device) -> c_int>,
    disable: usize,
    select: extern "C" fn(*mut Driver, *mut Device, *mut u8) -> c_int,
    reflect: extern "C" fn(*mut Device, c_int),
}

impl Bare {
    pub fn open(governor: &Governor, states: &[StateDesc]) -> Bare {
        // The loader identifies objects by path, even after the file has changed.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let unique = format!("torpor-bench-{}-{number}.so", std::process::id());
        let file = std::env::temp_dir().join(unique);
        fs::write(&file, governor.image_bytes()).expect("the object can be written");
        let path = CString::new(file.to_str().expect("UTF-8")).expect("no NUL");
        // SAFETY: the object was built here, and comparing sums checks the layouts.
        unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!handle.is_null(), "dlopen fails");
            let table: *mut c_void = libc::dlsym(handle, c"torpor_image".as_ptr());
            let table = &*table.cast::<Table>();
            fs::remove_file(&file).expect("the object can be removed");
            let mut cpu = Box::new(Cpu { capacity: 1024, ..Cpu::default() });
            let mut by_id: Box<[*mut Cpu]> = Box::new([&raw mut *cpu]);
            let host = &mut *table.host;
            host.cpu = &raw mut *cpu;
            host.by_id = by_id.as_mut_ptr();
            host.nr_cpu_ids = 1;
            assert_eq!((table.init)(), 0);
            let registered = &*host.governors[0];
            let mut device: Box<Device> = Box::new(std::mem::zeroed());
            let mut driver: Box<Driver> = Box::new(std::mem::zeroed());
            driver.state_count = states.len() as c_int;
            for (to, from) in driver.states.iter_mut().zip(states) {
                to.exit_latency = from.exit_latency.0;
                to.target_residency = from.target_residency.0;
                to.flags = u32::from(from.is_polling);
            }
            if let Some(enable) = registered.enable {
                enable(&raw mut *driver, &raw mut *device);
            }
            Bare {
                host: &raw mut host.cpu,
                cpu,
                _by_id: by_id,
                device,
                driver,
                select: registered.select,
                reflect: registered.reflect,
            }
        }
    }

    /// Makes every call, and returns the hash of the choices.
    pub fn run(&mut self, steps: &[Step]) -> u64 {
        let cpu = &raw mut *self.cpu;
        let (device, driver) = (&raw mut *self.device, &raw mut *self.driver);
        let mut sum = 0_u64;
        // SAFETY: the pointers refer to boxes owned here, and the object uses them only in calls.
        unsafe {
            *self.host = cpu;
            for step in steps {
                (*cpu).now = step.inputs.now.0;
                (*cpu).sleep_length = step.inputs.sleep_length.0;
                (*cpu).delta_next = step.inputs.delta_next.0;
                (*cpu).latency_req = step.inputs.latency_req.0.min(NO_LATENCY_LIMIT.0);
                (*cpu).tick_stopped = step.inputs.tick_stopped;
                (*cpu).util = step.inputs.util;
                (*cpu).capacity = step.inputs.capacity;
                (*cpu).nr_iowait = step.inputs.nr_iowait;
                (*cpu).load_avg = step.inputs.load_avg;
                (*cpu).stop_tick = 1;
                let state = (self.select)(driver, device, &raw mut (*cpu).stop_tick);
                sum = add(sum, state, (*cpu).stop_tick != 0);
                (*device).last_residency = step.residency.0;
                if let Some(timed_out) = step.poll_timed_out {
                    (*device).flags &= !POLL_TIME_LIMIT;
                    (*device).flags |= if timed_out { POLL_TIME_LIMIT } else { 0 };
                }
                (*cpu).now = step.reflected.0;
                (*cpu).got_tick = step.got_tick;
                (self.reflect)(device, state);
            }
        }
        sum
    }
}
