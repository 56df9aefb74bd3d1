// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Keeps the process alive when a mapped file shrinks or its device fails.
//!
//! The kernel raises SIGBUS on access to such a page. The handler maps zeros over the rest of the
//! file and sets a flag: reading continues, and its end reports that the file was not intact.
//! Faults elsewhere go to the previous handler.

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// A guarded address range. Atomics, as a signal handler may not take locks.
struct Slot {
    start: AtomicUsize,
    /// [`FREE`], [`TAKEN`] while it is being set up, or the end of the range.
    end: AtomicUsize,
    is_hit: AtomicBool,
}

const FREE: usize = 0;
const TAKEN: usize = 1;

static SLOTS: [Slot; 64] = [const {
    Slot { start: AtomicUsize::new(0), end: AtomicUsize::new(FREE), is_hit: AtomicBool::new(false) }
}; 64];

static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// Guards a map until it is dropped.
pub(crate) struct Guard(&'static Slot);

impl Guard {
    /// Returns `None` if all slots are taken or the handler cannot be installed.
    pub(super) fn new(map: &[u8]) -> Option<Guard> {
        if !install() {
            return None;
        }
        let take = |slot: &&Slot| slot.end.compare_exchange(FREE, TAKEN, AcqRel, Relaxed).is_ok();
        let slot = SLOTS.iter().find(take)?;
        let start = map.as_ptr() as usize;
        slot.is_hit.store(false, Relaxed);
        slot.start.store(start, Relaxed);
        slot.end.store(start.saturating_add(map.len()), Release);
        Some(Guard(slot))
    }

    /// True if a page of the map could not be read.
    pub(super) fn is_hit(&self) -> bool {
        self.0.is_hit.load(Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.end.store(FREE, Release);
    }
}

static mut PREVIOUS: Option<libc::sigaction> = None;

/// Installs the handler, once.
fn install() -> bool {
    static ONCE: Once = Once::new();
    static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
    ONCE.call_once(|| {
        // SAFETY: `sigaction` and `sysconf` are given valid pointers and numbers. `PREVIOUS` is
        // written before the handler that reads it can run, and never again.
        unsafe {
            if let Ok(bytes) = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)) {
                PAGE_BYTES.store(bytes.max(1), Relaxed);
            }
            let mut previous: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut previous) != 0 {
                return;
            }
            PREVIOUS = Some(previous);
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            let installed = libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
            IS_INSTALLED.store(installed == 0, Release);
        }
    });
    IS_INSTALLED.load(Acquire)
}

/// Calls only `mmap` and `sigaction`, which are async-signal-safe system calls.
extern "C" fn on_sigbus(signo: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system hands a valid `siginfo_t` to a handler with SA_SIGINFO.
    let address = unsafe { (*info).si_addr() } as usize;
    let holds = |slot: &&Slot| {
        let end = slot.end.load(Acquire);
        end > TAKEN && (slot.start.load(Relaxed)..end).contains(&address)
    };
    match SLOTS.iter().find(holds) {
        Some(slot) if fill(slot, address) => slot.is_hit.store(true, Release),
        _ => pass_on(signo, info, context),
    }
}

/// Maps zeros from the page of `address` to the end: a file that lost this page also lost the rest.
fn fill(slot: &Slot, address: usize) -> bool {
    let page = address & !PAGE_BYTES.load(Relaxed).wrapping_sub(1);
    let length = slot.end.load(Acquire).wrapping_sub(page);
    // SAFETY: the slot's owner holds the map while the slot is taken, so every page from `page` to
    // the map's end belongs to it, and it is only read as bytes.
    unsafe {
        let errno = *libc::__errno_location();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let filled = libc::mmap(page as *mut _, length, libc::PROT_READ, flags, -1, 0);
        *libc::__errno_location() = errno;
        filled != libc::MAP_FAILED
    }
}

/// Calls the previous handler.
fn pass_on(signo: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: `PREVIOUS` was complete before this handler was installed. A handler is called with
    // the signature its flags state; a default disposition is restored, and the fault repeats.
    unsafe {
        let Some(previous) = (&raw const PREVIOUS).read() else { return };
        match previous.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                libc::sigaction(signo, &raw const previous, std::ptr::null_mut());
            }
            handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signo, info, context);
            }
            handler => {
                let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
                handler(signo);
            }
        }
    }
}
