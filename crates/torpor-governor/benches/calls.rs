// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What a call through `Instance` costs beside the bare function of the same shared object.
//!
//! The bare loop opens the object with the system's loader and does nothing but write the inputs
//! and call `select` and `reflect`. Both meet the same inputs; rounds alternate, and the fastest
//! round of each counts, so that a busy machine disturbs the ratio little.
//!
//! `cargo bench -p torpor-governor` measures the built-in governors;
//! `cargo bench -p torpor-governor -- menu@TREE ...` those named.
//! Loading an instance is measured in any case.

use std::ffi::{CString, c_char, c_int, c_void};
use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant as Clock;
use torpor_governor::{Catalog, CpuSetup, Governor, GovernorSpec, Inputs, Setup, StateDesc};
use torpor_units::{CpuId, Duration, Hz, Instant};

const STEPS: usize = 20_000;
const ROUNDS: usize = 60;

fn main() {
    // Cargo passes `--bench`.
    let named: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let named = if named.is_empty() {
        Catalog::builtin_names().map(str::to_owned).collect()
    } else {
        named
    };
    let catalog = Catalog::new(Default::default());
    let steps = steps();
    println!("{:<40} {:>8} {:>8} {:>6}  ns per select + reflect", "", "bare", "hosted", "ratio");
    for name in named {
        let spec: GovernorSpec = name.parse().unwrap_or_else(|e| panic!("{e}"));
        let governor = catalog.resolve(&spec, Hz::H250).unwrap_or_else(|e| panic!("{e}"));
        compare(&governor, &steps);
    }
    loading(&catalog);
}

struct Step {
    inputs: Inputs,
    residency: Duration,
    got_tick: bool,
}

fn states() -> Vec<StateDesc> {
    [("POLL", 0, 0), ("C1", 2, 2), ("C1E", 10, 20), ("C6", 133, 600)]
        .map(|(name, exit_us, residency_us)| StateDesc {
            name: name.to_owned(),
            exit_latency: Duration::from_us(exit_us),
            target_residency: Duration::from_us(residency_us),
            is_polling: exit_us == 0,
            is_disabled: false,
        })
        .to_vec()
}

/// Sleeps of 1 us to 4 ms below timers of 1 us to 30 ms, the tick in between.
fn steps() -> Vec<Step> {
    let mut seed = 1_u64;
    let mut random = move |bits: u32| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) & ((1 << bits) - 1)) as i64
    };
    let mut now = 0;
    (0..STEPS)
        .map(|_| {
            let bits = 10 + random(4) as u32 % 15;
            let sleep_ns = 1_000 + random(bits);
            let tick_ns = random(22) % 4_000_000;
            let residency_ns = random(bits.min(22)).min(sleep_ns);
            now += residency_ns + 2_000;
            Step {
                inputs: Inputs {
                    now: Instant(now),
                    sleep_length: Duration(sleep_ns),
                    delta_next: Duration(sleep_ns.min(tick_ns)),
                    ..Inputs::default()
                },
                residency: Duration(residency_ns),
                got_tick: residency_ns > tick_ns,
            }
        })
        .collect()
}

fn compare(governor: &Governor, steps: &[Step]) {
    let states = states();
    let setup = Setup { cpus: &[CpuSetup { cpu: CpuId(0), states: &states }] };
    let mut hosted = governor.instantiate(&setup).unwrap_or_else(|e| panic!("{e}"));
    let mut bare = Bare::open(governor, &states);
    let (mut bare_ns, mut hosted_ns) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        let started = Clock::now();
        let bare_sum = bare.run(steps);
        bare_ns = bare_ns.min(started.elapsed().as_nanos() as f64 / steps.len() as f64);

        let started = Clock::now();
        let mut hosted_sum = 0_u64;
        for step in steps {
            let choice = hosted.select(0, &step.inputs).unwrap_or_else(|e| panic!("{e}"));
            hosted_sum = hosted_sum
                .wrapping_mul(31)
                .wrapping_add(choice.state as u64 * 2 + u64::from(choice.stop_tick));
            hosted.set_last_residency(0, step.residency);
            let woken = step.inputs.now + step.residency;
            hosted.reflect(0, choice.state, woken, step.got_tick).unwrap_or_else(|e| panic!("{e}"));
        }
        hosted_ns = hosted_ns.min(started.elapsed().as_nanos() as f64 / steps.len() as f64);
        assert_eq!(bare_sum, hosted_sum, "both must decide alike to be compared");
    }
    let ratio = hosted_ns / bare_ns;
    println!("{:<40} {bare_ns:>8.1} {hosted_ns:>8.1} {ratio:>6.2}", governor.label());
}

fn loading(catalog: &Catalog) {
    let governor = catalog.resolve(&"menu".parse().expect("a name"), Hz::H250).expect("built in");
    for cpus in [1_u32, 8, 64] {
        let states = states();
        let cpus: Vec<_> = (0..cpus).map(|i| CpuSetup { cpu: CpuId(i), states: &states }).collect();
        let setup = Setup { cpus: &cpus };
        let started = Clock::now();
        const COUNT: u32 = 300;
        for _ in 0..COUNT {
            black_box(governor.instantiate(&setup).expect("it loads"));
        }
        println!("load, enable and drop, {:>2} CPUs: {:?}", cpus.len(), started.elapsed() / COUNT);
    }
}

/// The same object in the system's loader. Layouts are those of `kapi/include`, written down once
/// more so that a mistake in the host's would show as a different sum.
struct Bare {
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
    fn open(governor: &Governor, states: &[StateDesc]) -> Bare {
        // The loader takes equal paths for equal objects, even after the file has changed.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let unique = format!("torpor-bench-{}-{number}.so", std::process::id());
        let file = std::env::temp_dir().join(unique);
        fs::write(&file, governor.image_bytes()).expect("the object can be written");
        let path = CString::new(file.to_str().expect("UTF-8")).expect("no NUL");
        // SAFETY: the object is one of ours; the layouts are compared through the sums.
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

    fn run(&mut self, steps: &[Step]) -> u64 {
        let cpu = &raw mut *self.cpu;
        let (device, driver) = (&raw mut *self.device, &raw mut *self.driver);
        let mut sum = 0_u64;
        // SAFETY: the pointers lead into our own boxes, which the object uses only during calls.
        unsafe {
            *self.host = cpu;
            for step in steps {
                (*cpu).now = step.inputs.now.0;
                (*cpu).sleep_length = step.inputs.sleep_length.0;
                (*cpu).delta_next = step.inputs.delta_next.0;
                (*cpu).latency_req = 2_000_000_000_000;
                (*cpu).stop_tick = 1;
                let state = (self.select)(driver, device, &raw mut (*cpu).stop_tick);
                sum = sum
                    .wrapping_mul(31)
                    .wrapping_add(state as u64 * 2 + u64::from((*cpu).stop_tick));
                (*device).last_residency = step.residency.0;
                (*cpu).now = step.inputs.now.0 + step.residency.0;
                (*cpu).got_tick = step.got_tick;
                (self.reflect)(device, state);
            }
        }
        sum
    }
}
