// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Runs work in a forked copy of this process, which has all that was read and set up here. A policy
//! that ends the copy, or corrupts its memory, does not affect this process.

use crate::guard::{self, Shared};
use crate::{GovernorError, Label};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Interval at which the parent reads the progress, in ms.
const POLL_INTERVAL_MS: i32 = 20;

/// Policies that run in a separate process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Policies that do not ship with Torpor.
    #[default]
    Foreign,
    All,
    None,
}

/// Reports the progress of the copy.
pub struct Pulse(NonNull<Page>);

/// Memory that both processes share.
#[repr(C)]
struct Page {
    done: AtomicU64,
    guard: Shared,
}

impl Pulse {
    pub fn add(&self, done: u64) {
        // SAFETY: the page is mapped as long as the process works.
        unsafe { self.0.as_ref() }.done.fetch_add(done, Relaxed);
    }
}

/// Reason for a missing answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// `goes_on` has returned false.
    Interrupted,
    Died(GovernorError),
}

#[derive(Serialize, Deserialize)]
enum Answer<T> {
    Whole(T),
    /// A bug in this program: the parent panics with the same message.
    Panicked(String),
}

/// Locks the dynamic loader against forks: a copy that is made while it works inherits a half-made
/// list of libraries.
pub fn loader() -> MutexGuard<'static, ()> {
    static LOADER: Mutex<()> = Mutex::new(());
    LOADER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work`, which calls the `policies`, in a copy of this process.
///
/// `goes_on` is called periodically with the work done since the last call; if it returns false,
/// the copy is killed. The copy has one thread, so `work` must not wait for another.
pub fn apart<T: Serialize + DeserializeOwned>(
    policies: &[Label],
    goes_on: &mut dyn FnMut(u64) -> bool,
    work: impl FnOnce(&Pulse) -> T,
) -> Result<T, NoAnswer> {
    let failed =
        |source| NoAnswer::Died(GovernorError::Process { policies: policies.to_vec(), source });
    let page = Mapped::<Page>::new().map_err(failed)?;
    let mut answer = memory_file().map_err(failed)?;
    // SAFETY: no preconditions.
    let parent = unsafe { libc::getpid() };
    let no_loading = loader();
    // SAFETY: the child calls only what is allowed after a fork: the C library keeps the allocator
    // usable, and the child takes no lock that another thread could hold.
    let pid = unsafe { libc::fork() };
    drop(no_loading);
    match pid {
        -1 => return Err(failed(io::Error::last_os_error())),
        0 => run_copy(parent, &page, answer, work),
        _ => {}
    }
    let mut child = Copy { pid, is_over: false };
    let mut reported = 0;
    let status = loop {
        if let Some(status) = child.wait(POLL_INTERVAL_MS).map_err(failed)? {
            break status;
        }
        let done = page.get().done.load(Relaxed);
        if !goes_on(done - reported) {
            return Err(NoAnswer::Interrupted);
        }
        reported = done;
    };
    goes_on(page.get().done.load(Relaxed) - reported);
    if let Status::Exited(0) = status {
        match read_answer(&mut answer) {
            Some(Answer::Whole(answer)) => return Ok(answer),
            Some(Answer::Panicked(message)) => panic!("{message}"),
            None => {}
        }
    }
    let call = page.get().guard.last_call().map(Box::new);
    let (policies, how) = (policies.to_vec(), status.to_string());
    Err(NoAnswer::Died(GovernorError::Died { policies, call, how }))
}

/// Does the work in the copy, writes the answer, and exits.
fn run_copy<T: Serialize>(
    parent: libc::pid_t,
    page: &Mapped<Page>,
    mut answer: File,
    work: impl FnOnce(&Pulse) -> T,
) -> ! {
    detach(parent, answer.as_raw_fd());
    guard::share(&page.get().guard);
    let pulse = Pulse(page.0);
    let answered = match std::panic::catch_unwind(AssertUnwindSafe(|| work(&pulse))) {
        Ok(whole) => Answer::Whole(whole),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            Answer::Panicked(text.to_owned())
        }
    };
    let bytes = postcard::to_stdvec(&answered).expect("answers can be written");
    let written = answer.write_all(&sum(&bytes)).and_then(|()| answer.write_all(&bytes));
    // SAFETY: nothing else runs in this process.
    unsafe { libc::_exit(i32::from(written.is_err())) }
}

/// Releases what the copy has inherited: signal handlers, open files, the process group.
fn detach(parent: libc::pid_t, kept: RawFd) {
    // SAFETY: plain system calls on this process.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(1);
        }
        // Its own process group: processes that it starts are killed with it, and the terminal's
        // signals go to the parent alone.
        libc::setpgid(0, 0);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGALRM, libc::SIGUSR1] {
            libc::signal(signal, libc::SIG_DFL);
        }
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        (0..=2).for_each(|fd| {
            libc::dup2(nothing, fd);
        });
        let close = |first: RawFd, last: u32| {
            if first as u32 <= last {
                libc::syscall(libc::SYS_close_range, first as u32, last, 0);
            }
        };
        close(3, kept as u32 - 1);
        close(kept + 1, u32::MAX);
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
    }
}

fn sum(bytes: &[u8]) -> [u8; 64] {
    crate::sha256_hex(bytes).as_bytes().try_into().expect("SHA-256 has 64 digits")
}

fn read_answer<T: DeserializeOwned>(file: &mut File) -> Option<Answer<T>> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).ok()?;
    let (head, body) = bytes.split_at_checked(64)?;
    if head != sum(body) { None } else { postcard::from_bytes(body).ok() }
}

enum Status {
    Exited(i32),
    Killed(i32),
    Stopped(i32),
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Status::Exited(guard::EXIT_WEDGED) => {
                let limit = guard::call_limit();
                write!(f, "it did not return within its limit ({limit}) and blocks the signal")
            }
            Status::Exited(code) => write!(f, "it exited with status {code}"),
            Status::Killed(signal) => write!(f, "signal {signal}{}", signal_name(*signal)),
            Status::Stopped(signal) => {
                write!(f, "stopped by signal {signal}{}", signal_name(*signal))
            }
        }
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGABRT => ", SIGABRT",
        libc::SIGSEGV => ", SIGSEGV",
        libc::SIGBUS => ", SIGBUS",
        libc::SIGFPE => ", SIGFPE",
        libc::SIGILL => ", SIGILL",
        libc::SIGKILL => ", SIGKILL",
        libc::SIGTERM => ", SIGTERM",
        libc::SIGSTOP => ", SIGSTOP",
        libc::SIGSYS => ", SIGSYS",
        _ => "",
    }
}

/// The forked process; killed with its process group on drop.
struct Copy {
    pid: libc::pid_t,
    is_over: bool,
}

impl Copy {
    /// Waits up to `timeout_ms` for its end.
    fn wait(&mut self, timeout_ms: i32) -> io::Result<Option<Status>> {
        // SAFETY: the process is a child of this one and has not been waited for.
        unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, self.pid, 0) as RawFd;
            if fd >= 0 {
                let fd = OwnedFd::from_raw_fd(fd);
                let mut poll =
                    libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                libc::poll(&mut poll, 1, timeout_ms);
            } else {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let what = libc::WEXITED | libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT;
            if libc::waitid(libc::P_PID, self.pid as libc::id_t, &mut info, what) != 0 {
                return Err(io::Error::last_os_error());
            }
            if info.si_pid() == 0 {
                return Ok(None);
            }
            let status = info.si_status();
            let status = match info.si_code {
                libc::CLD_EXITED => Status::Exited(status),
                libc::CLD_STOPPED | libc::CLD_TRAPPED => Status::Stopped(status),
                _ => Status::Killed(status),
            };
            self.end();
            Ok(Some(status))
        }
    }

    fn end(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        // SAFETY: neither the PID nor the group's is reused before the process is waited for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::kill(-self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.end();
    }
}

/// A value that this process shares with its copies. All zeros must be a valid value.
struct Mapped<T>(NonNull<T>);

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl<T: Send> Send for Mapped<T> {}
// SAFETY: it gives out only `&T`.
unsafe impl<T: Sync> Sync for Mapped<T> {}

impl<T> Mapped<T> {
    fn new() -> io::Result<Mapped<T>> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let page =
            unsafe { libc::mmap(std::ptr::null_mut(), size_of::<T>(), protection, kind, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapped(NonNull::new(page.cast()).expect("mmap never gives the null page")))
    }

    fn get(&self) -> &T {
        // SAFETY: mapped, and zeros are a valid value. The other process writes only atomics, or the
        // guard, which is read after its end.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: a mapping made here.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<T>()) };
    }
}

/// A counter shared with the copies that [`apart`] makes later.
pub struct SharedCount(Mapped<AtomicU64>);

impl SharedCount {
    pub fn new() -> io::Result<SharedCount> {
        Mapped::new().map(SharedCount)
    }

    /// Adds with wrap-around, which allows subtraction.
    pub fn add(&self, more: u64) {
        self.0.get().fetch_add(more, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.get().load(Relaxed)
    }
}

fn memory_file() -> io::Result<File> {
    // SAFETY: the name is a string; a valid descriptor is owned here.
    unsafe {
        let fd = libc::memfd_create(c"torpor-answer".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from_raw_fd(fd)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Call;
    use crate::{Kind, set_call_limit};
    use std::ffi::{c_int, c_void};
    use std::time::{Duration, Instant};
    use torpor_machine::units::CpuId;

    fn labels() -> Vec<Label> {
        let label = |kind, text: &str| Label { kind, text: text.into() };
        vec![label(Kind::Governor, "mine.c"), label(Kind::Cpufreq, "other.c")]
    }

    /// Calls a policy in a separate process; returns the outcome and the duration of the call. The
    /// guard allows system calls of the C library, so the policies here can end their process.
    fn called(
        call: Call,
        function: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> (Result<bool, NoAnswer>, Duration) {
        let begun = Instant::now();
        let answer = apart(&labels()[..1], goes_on, |_| {
            guard::note(CpuId(7), || call);
            // SAFETY: the function takes nothing.
            let end = unsafe { guard::call(function, std::ptr::null_mut(), std::ptr::null_mut()) };
            end.is_err_and(|caught| caught.is_time_out())
        });
        (answer, begun.elapsed())
    }

    unsafe extern "C" fn ends(_: *mut c_void, _: *mut c_void) -> c_int {
        // SAFETY: the process was made for it.
        unsafe { libc::_exit(3) }
    }

    unsafe extern "C" fn sleeps(_: *mut c_void, _: *mut c_void) -> c_int {
        loop {
            // SAFETY: no preconditions.
            unsafe { libc::sleep(3600) };
        }
    }

    #[test]
    fn ended_process_is_reported_with_its_call() {
        let died = |call| match called(call, ends, &mut |_| true).0 {
            Err(NoAnswer::Died(error)) => error.to_string(),
            other => panic!("{other:?}"),
        };
        let reflect =
            Call::Reflect { index: 2, now: torpor_machine::units::Instant(9), got_tick: true };
        assert_eq!(
            died(reflect),
            "governor `mine.c` has ended its process in reflect() on cpu7: it exited with status 3; \
             its inputs: index=2 now=0.000000009 s got_tick=true"
        );
    }

    /// A hosted kernel calls several policies, and does not record the calls.
    #[test]
    fn ended_process_names_each_policy_it_runs() {
        // SAFETY: it ends the copy.
        let ends = |_: &Pulse| unsafe { libc::_exit(3) };
        match apart::<()>(&labels(), &mut |_| true, ends) {
            Err(NoAnswer::Died(error)) => assert_eq!(
                error.to_string(),
                "governor `mine.c` or frequency policy `other.c` has ended its process: it exited \
                 with status 3"
            ),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sleeping_call_ends_at_limit_or_on_request() {
        let call = Call::Timer { now: torpor_machine::units::Instant(9) };
        let stop = &mut |_| false;
        let (answer, took) = called(call, sleeps, stop);
        assert!(matches!(answer, Err(NoAnswer::Interrupted)), "{answer:?}");
        assert!(took < Duration::from_secs(2), "{took:?}");
        set_call_limit(Duration::from_millis(20));
        let (answer, took) = called(call, sleeps, &mut |_| true);
        assert!(answer.unwrap(), "it is a time-out");
        assert!(took < Duration::from_secs(10), "{took:?}");
    }
}
