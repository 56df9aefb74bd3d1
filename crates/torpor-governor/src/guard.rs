// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Guarded calls into images (`guard.c`): prepares threads and runs the watchdog.

use crate::abi::{CpuidleDevice, CpuidleDriver, GuardedCall, Reflect, Select};
use crate::fault::Call;
use std::cell::{RefCell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::sync::{Condvar, Mutex, Once, PoisonError};
use std::time::Duration;
use torpor_machine::units::CpuId;

const FAULT: i64 = -1;
const ALT_STACK_LEN: usize = 64 << 10;
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// Limit of a call in wall-clock time, as a multiple of the limit of CPU time: a call can sleep if
/// the kernel does not block its system calls.
const WALL_LIMIT_RATIO: u64 = 15;
/// Checks after the first signal, after which a call that still runs must have blocked it.
const CHECKS_AFTER_SIGNAL: u32 = 10;

static CALL_LIMIT_NS: AtomicU64 = AtomicU64::new(2_000_000_000);

/// Sets the limit of CPU time of a call into a governor; two seconds by default. A call takes about
/// a microsecond, so only an endless loop reaches it.
pub fn set_call_limit(limit: Duration) {
    CALL_LIMIT_NS.store(limit.as_nanos().min(u128::from(u64::MAX)) as u64, Relaxed);
}

pub(crate) fn call_limit() -> String {
    let limit = Duration::from_nanos(CALL_LIMIT_NS.load(Relaxed));
    let wall_limit = limit.saturating_mul(WALL_LIMIT_RATIO as u32);
    format!("{limit:?} of CPU time, or {wall_limit:?} asleep")
}

/// The first fields of `struct guard` in `guard.c`.
#[repr(C)]
struct Guard {
    seq: AtomicU64,
    kill_seq: AtomicU64,
    fault_addr: usize,
    instruction: usize,
    signo: c_int,
}

/// Memory that a process with policies shares with its parent.
#[repr(C, align(16))]
pub(crate) struct Shared {
    /// Guard of its only thread.
    guard: [u8; 384],
    /// The last call, encoded by postcard; zeros if there is none.
    call: UnsafeCell<[u8; 128]>,
}

/// The last call that a process made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastCall {
    pub cpu: CpuId,
    pub call: Call,
    pub is_in_flight: bool,
}

impl Shared {
    /// Returns the last call, after the end of the process.
    pub(crate) fn last_call(&self) -> Option<LastCall> {
        // SAFETY: as large as a guard and aligned; zeros are a valid one.
        let guard = unsafe { &*(&raw const *self).cast::<Guard>() };
        let is_in_flight = guard.seq.load(Relaxed) % 2 == 1;
        // SAFETY: in bounds. A process that the policy has started can still write there, so the
        // bytes are copied and then checked.
        let bytes = unsafe { self.call.get().read_volatile() };
        let (cpu, call) = postcard::from_bytes::<Option<_>>(&bytes).ok()??;
        Some(LastCall { cpu, call, is_in_flight })
    }
}

/// Memory for notes of calls, in a process for policies.
static NOTES: AtomicPtr<[u8; 128]> = AtomicPtr::new(std::ptr::null_mut());

/// Notes the next call for the parent, which reports it if this process ends in it.
#[inline(always)]
pub(crate) fn note(cpu: CpuId, call: impl FnOnce() -> Call) {
    let notes = NOTES.load(Relaxed);
    if !notes.is_null() {
        write_note(notes, cpu, call());
    }
}

#[inline(never)]
fn write_note(notes: *mut [u8; 128], cpu: CpuId, call: Call) {
    // SAFETY: the page lives as long as the process, and only this thread writes to it.
    let notes = unsafe { &mut *notes };
    postcard::to_slice(&Some((cpu, call)), notes).expect("a call fits");
}

/// Set in a process for policies. It exits if a call cannot be ended otherwise.
static IS_APART: AtomicBool = AtomicBool::new(false);
/// Exit status of that process if a call blocks the watchdog's signal.
pub(crate) const EXIT_WEDGED: c_int = 124;

/// Makes this thread, the only one of a new process, use the guard in `shared` and note its calls.
pub(crate) fn share(shared: &Shared) {
    // SAFETY: the function has no preconditions.
    assert!(unsafe { torpor_guard_size() } <= shared.guard.len(), "a guard fits");
    IS_APART.store(true, Relaxed);
    NOTES.store(shared.call.get(), Relaxed);
    let guard = NonNull::from(shared).cast();
    THREAD.with_borrow_mut(|slot| match slot {
        Some(thread) => thread.guard = guard,
        None => *slot = Some(Thread { guard, alt_stack: install_alt_stack() }),
    });
}

unsafe extern "C" {
    fn torpor_guard_size() -> usize;
    fn torpor_guard_set_thread(guard: *mut Guard);
    fn torpor_guard_install() -> c_int;
    fn torpor_guard_block_syscalls(guard: *mut Guard);
    fn torpor_guard_allow_syscalls();
    fn torpor_guard_select(
        drv: *mut CpuidleDriver,
        dev: *mut CpuidleDevice,
        stop_tick: *mut u8,
        select: Select,
    ) -> i64;
    fn torpor_guard_reflect(dev: *mut CpuidleDevice, index: c_int, reflect: Reflect) -> i64;
    fn torpor_guard_call(drv: *mut c_void, dev: *mut c_void, call: GuardedCall) -> i64;
}

/// Fault that ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught {
    pub signo: c_int,
    pub addr: usize,
    /// Address of the interrupted instruction; 0 if unknown.
    pub instruction: usize,
}

impl Caught {
    pub fn is_time_out(self) -> bool {
        self.signo == libc::SIGURG
    }
}

/// # Safety
/// `function`, `drv` and `dev` belong to one loaded image; `stop_tick` is in its memory.
#[inline]
pub(crate) unsafe fn select(
    function: Select,
    drv: *mut CpuidleDriver,
    dev: *mut CpuidleDevice,
    stop_tick: *mut u8,
) -> Result<c_int, Caught> {
    // SAFETY: as the caller promises.
    guarded(|| unsafe { torpor_guard_select(drv, dev, stop_tick, function) })
}

/// # Safety
/// `function` and `dev` belong to one loaded image.
#[inline]
pub(crate) unsafe fn reflect(
    function: Reflect,
    dev: *mut CpuidleDevice,
    index: c_int,
) -> Result<(), Caught> {
    // SAFETY: as the caller promises.
    guarded(|| unsafe { torpor_guard_reflect(dev, index, function) }).map(drop)
}

/// # Safety
/// `function` takes what `drv` and `dev` point to, or ignores them.
pub unsafe fn call(
    function: GuardedCall,
    drv: *mut c_void,
    dev: *mut c_void,
) -> Result<c_int, Caught> {
    // SAFETY: as the caller promises.
    guarded(|| unsafe { torpor_guard_call(drv, dev, function) })
}

/// Makes a call. The result is the low half of its answer, unless that is a code of the guard.
#[inline(always)]
fn guarded(call: impl Fn() -> i64) -> Result<c_int, Caught> {
    let answer = call();
    if answer >= 0 { Ok(answer as c_int) } else { retry(answer, call) }
}

/// Handles a fault, or prepares a new thread and repeats the call.
#[cold]
fn retry(answer: i64, call: impl Fn() -> i64) -> Result<c_int, Caught> {
    let answer = if answer == FAULT {
        answer
    } else {
        prepare_thread();
        call()
    };
    if answer >= 0 { Ok(answer as c_int) } else { Err(caught()) }
}

fn caught() -> Caught {
    THREAD.with_borrow(|thread| {
        let thread = thread.as_ref().expect("a fault needs a prepared thread");
        // SAFETY: only this thread's signal handler writes these, and it is done.
        let guard = unsafe { thread.guard.as_ref() };
        Caught { signo: guard.signo, addr: guard.fault_addr, instruction: guard.instruction }
    })
}

/// A thread that has called a governor.
struct Thread {
    guard: NonNull<Guard>,
    /// Stack of the signal handlers, which must run after a stack overflow; `None` if the thread
    /// already had one.
    alt_stack: Option<NonNull<c_void>>,
}

thread_local! {
    static THREAD: RefCell<Option<Thread>> = const { RefCell::new(None) };
}

/// States that this thread calls no governor for a while: the watchdog ignores it until its next
/// call, and sleeps if it watches no other thread. Programs that run for days wake up less.
pub fn unwatch_thread() {
    drop(THREAD.with_borrow_mut(Option::take));
}

fn prepare_thread() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        // SAFETY: the handlers pass other signals on.
        let installed = unsafe { torpor_guard_install() };
        assert_eq!(installed, 0, "sigaction: {}", std::io::Error::last_os_error());
        // SAFETY: the function only swaps a pointer and allocates.
        unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
    });
    THREAD.with_borrow_mut(|slot| {
        let thread = slot.get_or_insert_with(Thread::new);
        registry().add(Watched::this_thread(thread.guard));
        // SAFETY: the guard lives until the thread-local is dropped, which clears this.
        unsafe { torpor_guard_set_thread(thread.guard.as_ptr()) };
        // SAFETY: the guard outlives the last call on this thread; outside of calls it allows all
        // system calls.
        unsafe { torpor_guard_block_syscalls(thread.guard.as_ptr()) };
    });
}

impl Thread {
    fn new() -> Thread {
        // SAFETY: zeroed memory is an idle guard; calloc aligns for any type.
        let guard = unsafe { libc::calloc(1, torpor_guard_size()) };
        let guard = NonNull::new(guard.cast()).expect("out of memory for a thread's guard");
        Thread { guard, alt_stack: install_alt_stack() }
    }
}

fn install_alt_stack() -> Option<NonNull<c_void>> {
    // SAFETY: queries, then sets, this thread's signal stack.
    unsafe {
        let mut before: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &mut before);
        if before.ss_flags & libc::SS_DISABLE == 0 {
            return None;
        }
        let stack = NonNull::new(libc::malloc(ALT_STACK_LEN))?;
        let ours = libc::stack_t { ss_sp: stack.as_ptr(), ss_flags: 0, ss_size: ALT_STACK_LEN };
        libc::sigaltstack(&ours, std::ptr::null_mut());
        Some(stack)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        registry().remove(self.guard);
        // SAFETY: the thread ends, so nothing uses its guard or its signal stack. A signal stack
        // that was set later stays.
        unsafe {
            torpor_guard_allow_syscalls();
            torpor_guard_set_thread(std::ptr::null_mut());
            if let Some(stack) = self.alt_stack {
                let mut now: libc::stack_t = std::mem::zeroed();
                libc::sigaltstack(std::ptr::null(), &mut now);
                if now.ss_sp == stack.as_ptr() {
                    now.ss_flags = libc::SS_DISABLE;
                    libc::sigaltstack(&now, std::ptr::null_mut());
                }
                libc::free(stack.as_ptr());
            }
            libc::free(self.guard.as_ptr().cast());
        }
    }
}

/// Watchdog's state of a thread.
struct Watched {
    guard: NonNull<Guard>,
    thread: libc::pthread_t,
    clock: libc::clockid_t,
    /// Sequence number of the current call, and the thread's CPU time when it was first seen.
    seen: (u64, u64),
    /// Number of checks of that call, also at its first signal.
    checks: u32,
    signalled: u32,
}

// SAFETY: the guard's shared fields are atomic; an entry is removed before its thread ends.
unsafe impl Send for Watched {}

impl Watched {
    fn this_thread(guard: NonNull<Guard>) -> Watched {
        let mut clock = 0;
        // SAFETY: the calling thread exists.
        let thread = unsafe { libc::pthread_self() };
        // SAFETY: as above, and the clock is a local variable.
        unsafe { libc::pthread_getcpuclockid(thread, &mut clock) };
        Watched { guard, thread, clock, seen: (0, 0), checks: 0, signalled: 0 }
    }

    fn cpu_time_ns(&self) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the thread lives as long as its entry.
        unsafe { libc::clock_gettime(self.clock, &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    fn check(&mut self) {
        // SAFETY: the guard lives as long as its entry.
        let guard = unsafe { self.guard.as_ref() };
        let seq = guard.seq.load(Relaxed);
        if seq % 2 == 0 {
            return;
        }
        let now = self.cpu_time_ns();
        if self.seen.0 != seq {
            (self.seen, self.checks) = ((seq, now), 0);
            return;
        }
        self.checks += 1;
        let limit_ns = CALL_LIMIT_NS.load(Relaxed);
        let is_endless = now.saturating_sub(self.seen.1) >= limit_ns;
        let watched_ns = WATCH_INTERVAL.as_nanos() as u64 * u64::from(self.checks);
        if !is_endless && watched_ns / WALL_LIMIT_RATIO < limit_ns {
            return;
        }
        if guard.kill_seq.swap(seq, Relaxed) != seq {
            self.signalled = self.checks;
        } else if self.checks - self.signalled > CHECKS_AFTER_SIGNAL && IS_APART.load(Relaxed) {
            // It blocks the signal.
            // SAFETY: the process has no other work.
            unsafe { libc::_exit(EXIT_WEDGED) };
        }
        // SAFETY: the thread lives; its handler ignores the signal if the call has ended.
        unsafe { libc::pthread_kill(self.thread, libc::SIGURG) };
    }
}

struct Registry {
    threads: Mutex<Vec<Watched>>,
    /// Notified when a thread is added.
    grown: Condvar,
    watchdog: Once,
}

static REGISTRY: AtomicPtr<Registry> = AtomicPtr::new(std::ptr::null_mut());

fn registry() -> &'static Registry {
    let current = REGISTRY.load(Acquire);
    if !current.is_null() {
        // SAFETY: registries are leaked, never freed.
        return unsafe { &*current };
    }
    let fresh = Box::into_raw(Box::new(Registry::new()));
    match REGISTRY.compare_exchange(std::ptr::null_mut(), fresh, AcqRel, Acquire) {
        // SAFETY: leaked just now; nothing frees it.
        Ok(_) => unsafe { &*fresh },
        // SAFETY: the other thread's value is leaked as well, and no other thread has seen this
        // one.
        Err(other) => unsafe {
            drop(Box::from_raw(fresh));
            &*other
        },
    }
}

/// Resets the registry in a forked child, which has neither the watchdog nor the other threads, one
/// of which could hold the lock. This thread's next call prepares it again.
extern "C" fn after_fork() {
    REGISTRY.store(std::ptr::null_mut(), Release);
    // SAFETY: an unprepared thread is a state the guard knows.
    unsafe { torpor_guard_set_thread(std::ptr::null_mut()) };
}

impl Registry {
    fn new() -> Registry {
        Registry { threads: Mutex::default(), grown: Condvar::new(), watchdog: Once::new() }
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, Vec<Watched>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&'static self, thread: Watched) {
        self.threads().push(thread);
        self.grown.notify_one();
        self.watchdog.call_once(|| {
            let watch = move || loop {
                let threads = self.grown.wait_while(self.threads(), |threads| threads.is_empty());
                drop(threads.unwrap_or_else(PoisonError::into_inner));
                std::thread::sleep(WATCH_INTERVAL);
                self.threads().iter_mut().for_each(Watched::check);
            };
            let started = std::thread::Builder::new().name("torpor-watchdog".into()).spawn(watch);
            started.expect("the watchdog thread could not be started");
        });
    }

    fn remove(&self, guard: NonNull<Guard>) {
        self.threads().retain(|t| t.guard != guard);
    }
}
