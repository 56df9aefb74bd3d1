// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The layouts that an image and the host share. The C side is in `kapi/include/torpor/context.h`,
//! `kapi/include/linux/cpuidle.h` and `kapi/image.c`.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("torpor-governor needs a 64-bit little-endian target: the layouts depend on it");

pub(crate) const IMAGE_ABI: u32 = 6;
pub(crate) const STATE_MAX: usize = 10;
pub(crate) const TIMERS_MAX: usize = 4;
pub(crate) const NAME_LEN: usize = 16;
pub(crate) const DESC_LEN: usize = 32;
pub(crate) const FLAG_POLLING: c_uint = 1;
pub(crate) const DISABLED_BY_USER: u64 = 1;
/// The third one-bit field of `struct cpuidle_device`.
pub(crate) const DEVICE_POLL_TIME_LIMIT: c_uint = 1 << 2;
pub(crate) const DEVICE_REGISTERED_ENABLED: c_uint = 0b11;

/// A CPU's inputs, written before a call, and the answers of `select` except the index.
#[repr(C)]
pub(crate) struct KapiCpu {
    pub now_ns: u64,
    pub sleep_length_ns: i64,
    pub delta_next_ns: i64,
    pub latency_req_ns: i64,
    pub util: c_ulong,
    pub capacity: c_ulong,
    pub nr_iowait: c_uint,
    pub tick_stopped: bool,
    pub got_tick: bool,
    /// Written by the governor; any value is possible.
    pub stop_tick: u8,
    pub asked_sleep_length: u8,
    pub percpu_offset: c_ulong,
    pub cpu_id: c_uint,
    pub nr_timers: c_uint,
    pub load_avg: c_ulong,
    pub timer_starts: c_ulong,
    pub timers: [KapiTimer; TIMERS_MAX],
    pub driver: *mut CpuidleDriver,
}

/// An armed timer. Only the image dereferences the pointer.
#[repr(C)]
pub(crate) struct KapiTimer {
    pub timer: *mut c_void,
    pub expires_ns: i64,
}

#[repr(C)]
pub(crate) struct KapiHost {
    pub cpu: *mut KapiCpu,
    pub cpu_by_id: *mut *mut KapiCpu,
    pub nr_cpu_ids: c_uint,
    pub nr_governors: c_uint,
    pub governors: [*const CpuidleGovernor; 4],
    pub warn_count: u64,
    pub warn_file: *const c_char,
    pub bug_file: *const c_char,
    pub warn_line: c_uint,
    pub bug_line: c_uint,
}

#[repr(C)]
pub(crate) struct KapiParam {
    pub name: *const c_char,
    pub type_name: *const c_char,
    pub value: *mut c_void,
    pub line: c_ulong,
}

/// `struct kernel_param`, the target of [`KapiParam::value`] for a parameter with callbacks.
#[repr(C)]
pub(crate) struct KernelParam {
    pub name: *const c_char,
    pub module: *const c_void,
    pub ops: *const KernelParamOps,
    pub perm: u16,
    pub level: i8,
    pub flags: u8,
    pub arg: *mut c_void,
}

#[repr(C)]
pub(crate) struct KernelParamOps {
    pub flags: c_uint,
    pub set: Option<GuardedCall>,
    pub get: Option<GuardedCall>,
    pub free: Option<unsafe extern "C" fn(*mut c_void)>,
}

#[repr(C)]
pub(crate) struct TorporImage {
    pub abi: u32,
    pub hz: u32,
    pub kapi_cpu_size: u32,
    pub kapi_host_size: u32,
    pub device_size: u32,
    pub driver_size: u32,
    pub param_size: u32,
    pub reserved: u32,
    pub host: *mut KapiHost,
    pub params_start: *const KapiParam,
    pub params_end: *const KapiParam,
    pub init: GuardedCall,
    pub fire_timer: GuardedCall,
}

#[repr(C)]
pub(crate) struct StateUsage {
    pub disable: u64,
    pub usage: u64,
    pub time_ns: u64,
    pub above: u64,
    pub below: u64,
    pub rejected: u64,
}

#[repr(C)]
pub(crate) struct CpuidleState {
    pub name: [u8; NAME_LEN],
    pub desc: [u8; DESC_LEN],
    pub exit_latency_ns: i64,
    pub target_residency_ns: i64,
    pub flags: c_uint,
    pub exit_latency: c_uint,
    pub power_usage: c_int,
    pub target_residency: c_uint,
    pub enter: *const c_void,
    /// Field of kernels before 5.5; padding in others.
    pub disabled: bool,
}

#[repr(C)]
pub(crate) struct CpuidleDevice {
    pub flags: c_uint,
    pub cpu: c_uint,
    pub next_hrtimer: i64,
    pub last_state_idx: c_int,
    pub last_residency_ns: u64,
    pub poll_limit_ns: u64,
    pub forced_idle_latency_limit_ns: u64,
    pub states_usage: [StateUsage; STATE_MAX],
}

#[repr(C)]
pub(crate) struct CpuidleDriver {
    pub name: *const c_char,
    pub owner: *const c_void,
    pub bctimer: c_uint,
    pub states: [CpuidleState; STATE_MAX],
    pub state_count: c_int,
    pub safe_state_index: c_int,
    pub cpumask: *const c_void,
    pub governor: *const c_char,
}

pub(crate) type GuardedCall = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
pub(crate) type Select =
    unsafe extern "C" fn(*mut CpuidleDriver, *mut CpuidleDevice, *mut u8) -> c_int;
pub(crate) type Reflect = unsafe extern "C" fn(*mut CpuidleDevice, c_int);

#[repr(C)]
pub(crate) struct CpuidleGovernor {
    pub name: [u8; NAME_LEN],
    pub governor_list: [*mut c_void; 2],
    pub rating: c_uint,
    pub enable: Option<GuardedCall>,
    pub disable: Option<GuardedCall>,
    pub select: Option<Select>,
    pub reflect: Option<Reflect>,
}
