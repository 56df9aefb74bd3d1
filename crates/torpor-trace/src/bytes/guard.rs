// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Guards against a file that shrinks while it is mapped: the process must not end.
//!
//! The system raises SIGBUS where a map's file has no byte any more, or its device fails to give
//! it. The handler then puts pages of zeros there and notes it; who reads the map goes on, and
//! learns in the end that what it read is not the file. Faults elsewhere go to the handler that
//! was there before.

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Addresses that are looked after. Found by the handler, which may not take locks.
struct Slot {
    start: AtomicUsize,
    /// 0 while the slot is free, 1 while it is being taken.
    end: AtomicUsize,
    is_hit: AtomicBool,
}

const FREE: usize = 0;
const TAKEN: usize = 1;

static SLOTS: [Slot; 64] = [const {
    Slot { start: AtomicUsize::new(0), end: AtomicUsize::new(FREE), is_hit: AtomicBool::new(false) }
}; 64];

static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// A map that is looked after, until this is dropped.
pub(crate) struct Guard(&'static Slot);

impl Guard {
    /// `None` if there are too many maps already, or signals cannot be caught.
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

    /// True if a part of the map was not there.
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

/// Calls nothing but `mmap` and `sigaction`, which are plain system calls.
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

/// Puts zeros in the map from the page of `address` on: a file that has lost that page has lost
/// those after it.
fn fill(slot: &Slot, address: usize) -> bool {
    let page = address & !PAGE_BYTES.load(Relaxed).wrapping_sub(1);
    let length = slot.end.load(Acquire).wrapping_sub(page);
    // SAFETY: the slot's owner holds the map while the slot is taken, so that every page from
    // `page` to the map's end belongs to it, and nobody reads it as anything but bytes.
    unsafe {
        let errno = *libc::__errno_location();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let filled = libc::mmap(page as *mut _, length, libc::PROT_READ, flags, -1, 0);
        *libc::__errno_location() = errno;
        filled != libc::MAP_FAILED
    }
}

/// As if this handler were not there.
fn pass_on(signo: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: `PREVIOUS` is complete since before this handler was installed. A handler is called
    // as it asked to be; without one, its disposition is restored, and the fault comes again.
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
