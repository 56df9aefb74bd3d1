// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Memory shared by the checker and the driver; `driver/block.h` is the C side.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::{io, ptr};

pub(crate) const ABI: u32 = 1;
pub(crate) const STATES_MAX: usize = 10;
pub(crate) const CPUS_MAX: usize = 4;
pub(crate) const STEPS_MAX: usize = 2048;
pub(crate) const PARAMS_MAX: usize = 32;
pub(crate) const TEXT_LEN: usize = 128;

/// Kinds of steps.
pub(crate) mod op {
    /// select, sleep, reflect.
    pub(crate) const IDLE: u8 = 0;
    /// Disables or enables state `arg`.
    pub(crate) const TOGGLE: u8 = 1;
    /// disable() and enable(), the latter called on CPU `arg >> 4`.
    pub(crate) const REPLUG: u8 = 2;
}

/// Bits of [`Step::flags`].
pub(crate) mod flag {
    /// The driver refuses the entry, or a task has become runnable.
    pub(crate) const REJECT: u8 = 1;
    /// If the tick ends the sleep, the kernel reports it.
    pub(crate) const GOT_TICK: u8 = 2;
    /// A polling state gives up.
    pub(crate) const POLL_TIMEOUT: u8 = 4;
    /// The CPU leaves idle afterwards: the tick runs again.
    pub(crate) const BUSY_AFTER: u8 = 8;
    /// The driver enters the next shallower enabled state instead.
    pub(crate) const SHALLOWER: u8 = 16;
    /// With the tick stopped, an event still comes before the timers.
    pub(crate) const EARLY_EVENT: u8 = 32;
    /// The tick cannot be stopped now.
    pub(crate) const TICK_HELD: u8 = 64;
    /// [`super::op::REPLUG`]: another governor ran meanwhile and left `(arg & 15) - 1`.
    pub(crate) const OTHER_GOVERNOR: u8 = 128;
}

/// Values of [`Block::phase`].
pub(crate) const PHASES: [&str; 5] = ["init()", "enable()", "disable()", "select()", "reflect()"];

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub exit_latency_ns: i64,
    pub target_residency_ns: i64,
    pub is_polling: u32,
    pub pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub cpu_id: u32,
    pub disabled_mask: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Param {
    pub name: [u8; 64],
    pub text: [u8; 64],
    pub raw: u64,
    pub size: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub sleep_length_ns: i64,
    pub event_ns: i64,
    pub latency_req_ns: i64,
    /// Time since the last call on this CPU.
    pub gap_ns: u64,
    /// Length of the sleep, unless an event ends it earlier.
    pub residency_ns: u64,
    /// Delay from the event until the CPU is awake, in ns.
    pub late_ns: u32,
    /// Delay from there to reflect().
    pub lag_ns: u32,
    pub nr_iowait: u32,
    pub util: u16,
    pub capacity: u16,
    pub op: u8,
    /// Index in [`Block::cpus`].
    pub cpu: u8,
    pub flags: u8,
    pub arg: u8,
    pub pad: u32,
}

/// Arguments and results of a step's calls.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub now_ns: u64,
    pub sleep_length_ns: i64,
    pub event_ns: i64,
    pub slept_ns: u64,
    pub time_ns: u32,
    /// Mask after the step, except for idle steps.
    pub disabled_mask: u16,
    pub has_run: u8,
    pub stop_tick: u8,
    pub state: i32,
    /// -1: none.
    pub entered: i16,
    pub tick_was_stopped: u8,
    pub asked_sleep_length: u8,
    pub got_tick: u8,
    pub warned: u8,
    pub pad: [u8; 2],
}

#[repr(C)]
pub(crate) struct Block {
    pub abi: u32,
    pub size: u32,
    pub cpu_count: u32,
    pub state_count: u32,
    pub step_count: u32,
    pub param_count: u32,
    pub is_isolated: u32,
    pub is_timed: u32,
    pub cpu_limit_ms: u32,
    /// The driver's reply: time that one clock reading takes.
    pub timer_ns: u32,
    pub clock_ns: u64,
    pub states: [State; STATES_MAX],
    pub cpus: [Cpu; CPUS_MAX],
    pub params: [Param; PARAMS_MAX],

    pub progress: u32,
    pub phase: u32,
    pub phase_cpu: u32,
    pub bug_line: u32,
    pub wait_status: i32,
    pub warn_line: u32,
    pub bug_file: [u8; TEXT_LEN],
    pub warn_file: [u8; TEXT_LEN],
    pub error: [u8; TEXT_LEN],

    pub steps: [Step; STEPS_MAX],
    pub answers: [Answer; STEPS_MAX],
}

/// Returns a text that the driver has written, up to its NUL.
pub(crate) fn text(bytes: &[u8]) -> String {
    let len = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

/// A mapped [`Block`]. The driver writes it only between a request and its reply.
pub(crate) struct Shared {
    fd: OwnedFd,
    block: *mut Block,
}

// SAFETY: the mapping belongs to this value alone on our side.
unsafe impl Send for Shared {}

impl Shared {
    pub(crate) fn new() -> io::Result<Shared> {
        let fd = memory_file(c"torpor-check")?;
        let size = size_of::<Block>();
        // SAFETY: plain system calls on a descriptor that we own; the result is checked.
        let block = unsafe {
            if libc::ftruncate(fd.as_raw_fd(), size as i64) != 0 {
                return Err(io::Error::last_os_error());
            }
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), size, prot, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if block == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut shared = Shared { fd, block: block.cast() };
        let block = shared.get();
        block.abi = ABI;
        block.size = size as u32;
        Ok(shared)
    }

    pub(crate) fn get(&mut self) -> &mut Block {
        // SAFETY: the mapping has the size of a block, every bit pattern is valid, and the driver
        // is idle whenever this runs.
        unsafe { &mut *self.block }
    }

    pub(crate) fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and nothing refers to it any more.
        unsafe { libc::munmap(self.block.cast(), size_of::<Block>()) };
    }
}

/// Creates a file without a name, closed on exec unless passed on.
pub(crate) fn memory_file(name: &std::ffi::CStr) -> io::Result<OwnedFd> {
    // SAFETY: the name is a string; a valid descriptor is owned here.
    unsafe {
        let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}
