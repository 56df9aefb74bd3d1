// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The program that holds the governor. It is started again whenever it ends.

use crate::CheckError;
use crate::block::{self, Answer, PARAMS_MAX, Shared};
use crate::kinds::Kind;
use crate::sequence::Sequence;
use crate::words;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;
use torpor_governor::{ChosenParam, Harness, HarnessFile, Program};

macro_rules! file {
    ($name:literal) => {
        HarnessFile { name: $name, text: include_str!(concat!("../driver/", $name)) }
    };
}

/// The driver's source, for [`torpor_governor::Catalog::program`].
pub(crate) const HARNESS: Harness<'static> = Harness {
    headers: &[file!("block.h")],
    before: &[file!("torpor_before.c")],
    after: &[file!("torpor_after.c"), file!("driver_calls.c")],
    libc: &[file!("driver_main.c")],
};

/// CPU time after which a call counts as endless; a sequence takes milliseconds.
const CPU_LIMIT_MS: u32 = 1_000;
/// The same limit while a sequence is shrunk, when each endless run costs this much.
const CPU_LIMIT_ISOLATED_MS: u32 = 60;
/// Wall time for a reply. The CPU limit ends a busy program long before.
const REPLY_LIMIT: Duration = Duration::from_secs(60);
/// Exit status of kapi_bug().
const EXIT_BUG: i32 = 3;
/// Exit status if the governor cannot be used; the block has the reason.
const EXIT_REFUSED: i32 = 4;

/// Options for running a sequence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    /// Run in a forked copy of the driver, so that a crash costs little.
    pub is_isolated: bool,
    pub is_timed: bool,
}

/// Outcome of a run; the answers are in [`Driver::answers`].
#[derive(Debug)]
pub(crate) struct Ran {
    /// Steps that began. After a crash the last one has no answer.
    pub steps: usize,
    pub crash: Option<Crash>,
}

/// A governor's process that ended.
#[derive(Clone, Debug)]
pub(crate) struct Crash {
    pub kind: Kind,
    /// The governor's function that was running.
    pub call: &'static str,
    /// Index of the CPU in the sequence.
    pub cpu: u8,
    /// Report of the sanitizer, or of the host.
    pub words: String,
    /// Identifies the crash wherever it occurs in a sequence.
    pub signature: String,
}

struct Process {
    child: Child,
    requests: ChildStdin,
    replies: ChildStdout,
}

enum Reply {
    Byte,
    /// The program has ended.
    None,
    /// The program uses no CPU time: it sleeps, or has stopped itself.
    Late,
    /// A signal has come. Waiting can be interrupted by Ctrl-C.
    Interrupted,
}

/// Waits for a byte, for as long as the CPU limit may take on a busy machine.
fn wait(replies: &mut ChildStdout) -> Reply {
    let mut poll = libc::pollfd { fd: replies.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor, which is open.
    match unsafe { libc::poll(&mut poll, 1, REPLY_LIMIT.as_millis() as i32) } {
        0 => Reply::Late,
        1.. if replies.read_exact(&mut [0]).is_ok() => Reply::Byte,
        1.. => Reply::None,
        _ => Reply::Interrupted,
    }
}

impl Process {
    /// Ends the program and everything it has started: it leads a process group.
    fn end(&self) {
        // SAFETY: nobody has waited for it, so the process id is not reused.
        unsafe {
            libc::kill(self.child.id() as i32, libc::SIGKILL);
            libc::kill(-(self.child.id() as i32), libc::SIGKILL);
        }
    }
}

pub(crate) struct Driver {
    program: Program,
    shared: Shared,
    stderr: File,
    process: Option<Process>,
    /// Number of starts.
    pub starts: u64,
}

impl Driver {
    /// Prepares the program without starting it.
    pub(crate) fn new(program: Program, params: &[ChosenParam]) -> Result<Driver, CheckError> {
        let mut shared = Shared::new().map_err(CheckError::Memory)?;
        let stderr =
            File::from(block::memory_file(c"torpor-check-stderr").map_err(CheckError::Memory)?);
        // SAFETY: the descriptor is owned here. A driver that is started again must not overwrite
        // its earlier stderr.
        unsafe { libc::fcntl(stderr.as_raw_fd(), libc::F_SETFL, libc::O_APPEND) };
        let block = shared.get();
        if params.len() > PARAMS_MAX || params.iter().any(|p| p.name.len().max(p.text.len()) > 63) {
            return Err(CheckError::Refused { reason: "too many or too long parameters".into() });
        }
        block.param_count = params.len() as u32;
        for (to, from) in block.params.iter_mut().zip(params) {
            to.name[..from.name.len()].copy_from_slice(from.name.as_bytes());
            to.text[..from.text.len()].copy_from_slice(from.text.as_bytes());
            (to.size, to.raw) = (from.size as u64, from.raw);
        }
        Ok(Driver { program, shared, stderr, process: None, starts: 0 })
    }

    /// Makes the sequence's calls.
    pub(crate) fn run(&mut self, sequence: &Sequence, how: How) -> Result<Ran, CheckError> {
        if self.process.is_none() {
            if let Some(crash) = self.start()? {
                return Ok(Ran { steps: 0, crash: Some(crash) });
            }
        }
        let block = self.shared.get();
        sequence.put(block);
        block.is_isolated = u32::from(how.is_isolated);
        block.is_timed = u32::from(how.is_timed);
        block.cpu_limit_ms = if how.is_isolated { CPU_LIMIT_ISOLATED_MS } else { CPU_LIMIT_MS };
        let process = self.process.as_mut().expect("it was started above");
        let asked = process.requests.write_all(&[0]).is_ok();
        let reply = if asked { wait(&mut process.replies) } else { Reply::None };
        let answered = matches!(reply, Reply::Byte);
        let status = if answered {
            ExitStatus::from_raw(self.shared.get().wait_status)
        } else {
            self.reap()?
        };
        let steps = self.shared.get().progress as usize;
        let ended = !answered || !status.success();
        let crash = match reply {
            Reply::Late => return Err(self.sleeps()),
            Reply::Interrupted => return Err(CheckError::Interrupted),
            _ if ended => Some(self.crash(status)?),
            _ => None,
        };
        Ok(Ran { steps, crash })
    }

    /// Returns the answers of the last run, one for each step that began.
    pub(crate) fn answers(&mut self) -> &[Answer] {
        let block = self.shared.get();
        &block.answers[..block.progress as usize]
    }

    /// Returns the place of the last warning in the last run.
    pub(crate) fn warning(&mut self) -> String {
        let block = self.shared.get();
        format!("{}:{}", words::file_name(&block::text(&block.warn_file)), block.warn_line)
    }

    /// Returns the time that must be subtracted from each measurement.
    pub(crate) fn timer_ns(&mut self) -> u32 {
        self.shared.get().timer_ns
    }

    fn start(&mut self) -> Result<Option<Crash>, CheckError> {
        self.starts += 1;
        let fd = self.shared.fd();
        let block = self.shared.get();
        (block.progress, block.phase, block.bug_line) = (0, 0, 0);
        block.cpu_limit_ms = CPU_LIMIT_MS;
        let start_error = |e| CheckError::Start { path: self.program.path.clone(), source: e };
        let mut command = Command::new(&self.program.path);
        command
            .arg(fd.to_string())
            .arg(&self.program.governor)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(self.stderr.try_clone().map_err(start_error)?)
            // Leaks do not matter: the driver ends by _exit(). The fake stack is slow, and an
            // allocator that may fail lets the governor see it.
            .env(
                "ASAN_OPTIONS",
                "detect_leaks=0:exitcode=86:handle_sigfpe=1:\
                  detect_stack_use_after_return=0:allocator_may_return_null=1",
            )
            .env("UBSAN_OPTIONS", "exitcode=86:print_stacktrace=0");
        // SAFETY: fcntl may be called between fork and exec.
        unsafe {
            command.pre_exec(move || {
                libc::setpgid(0, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                match libc::fcntl(fd, libc::F_SETFD, 0) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        let mut child = command.spawn().map_err(start_error)?;
        let (requests, mut replies) =
            (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let reply = wait(&mut replies);
        self.process = Some(Process { child, requests, replies });
        if matches!(reply, Reply::Byte) {
            return Ok(None);
        }
        let status = self.reap()?;
        match reply {
            Reply::Late => Err(self.sleeps()),
            Reply::Interrupted => Err(CheckError::Interrupted),
            Reply::Byte | Reply::None => self.crash(status).map(Some),
        }
    }

    fn reap(&mut self) -> Result<ExitStatus, CheckError> {
        let mut process = self.process.take().expect("only a started process ends");
        process.end();
        process
            .child
            .wait()
            .map_err(|source| CheckError::Start { path: self.program.path.clone(), source })
    }

    fn sleeps(&mut self) -> CheckError {
        let block = self.shared.get();
        let call = block::PHASES.get(block.phase as usize).copied().unwrap_or("a call");
        let governor = self.program.governor.clone();
        CheckError::Sleeps { governor, call, limit_s: REPLY_LIMIT.as_secs() }
    }

    fn crash(&mut self, status: ExitStatus) -> Result<Crash, CheckError> {
        let mut said = Vec::new();
        let read = self.stderr.rewind().and_then(|()| self.stderr.read_to_end(&mut said));
        read.and_then(|_| self.stderr.set_len(0)).map_err(CheckError::Memory)?;
        let said = String::from_utf8_lossy(&said);
        let block = self.shared.get();
        if status.code() == Some(EXIT_REFUSED) {
            return Err(CheckError::Refused { reason: block::text(&block.error) });
        }
        let call = block::PHASES.get(block.phase as usize).copied().unwrap_or("a call");
        let (kind, words, signature) = if status.code() == Some(EXIT_BUG) {
            let place = words::file_name(&block::text(&block.bug_file));
            let text = format!("BUG at {place}:{}", block.bug_line);
            (Kind::Bug, text.clone(), text)
        } else if status.signal() == Some(libc::SIGPROF) {
            (Kind::Endless, String::new(), call.to_owned())
        } else if let Some((kind, text, place)) = words::read(&said) {
            // Only now: the user's name for the file may contain anything, including spaces.
            let named = |said: String| self.program.with_file_named(&said);
            (kind, named(text), named(place))
        } else if let Some(signal) = status.signal() {
            let arithmetic = signal == libc::SIGFPE;
            let kind = if arithmetic { Kind::Arithmetic } else { Kind::Memory };
            let text = format!("signal {signal}");
            (kind, text.clone(), format!("{text} in {call}"))
        } else {
            let governor = self.program.governor.clone();
            return Err(CheckError::Driver { governor, call, status, said: said.into_owned() });
        };
        Ok(Crash { kind, call, cpu: block.phase_cpu as u8, words, signature })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It is idle or stopped.
            process.end();
            let _ = process.child.wait();
        }
    }
}
