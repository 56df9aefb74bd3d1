// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Runs a compiler with a time limit. However this process ends, a keeper process between it and the
//! compiler kills all that the compiler started and deletes its folder.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Bytes of output that are kept.
const OUTPUT_MAX: u64 = 256 << 10;
/// Limits of a compiler: size of a file, and memory, in bytes.
const FILE_MAX: libc::rlim_t = 512 << 20;
const MEMORY_MAX: libc::rlim_t = 8 << 30;
const POLL_INTERVAL_MAX: Duration = Duration::from_millis(20);

/// Exit status of a program and the beginning of its output.
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

#[derive(Debug)]
pub enum Failure {
    /// The program could not be started.
    Start(io::Error),
    /// The folder that it runs in cannot be used or is gone.
    Scratch(io::Error),
    TimedOut,
    /// The user has interrupted it.
    Stopped,
}

/// Runs `command` in the folder `scratch`, which nothing else uses.
pub fn run(
    mut command: Command,
    scratch: &Path,
    limit: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Ran, Failure> {
    let file = || tempfile::tempfile_in(scratch).map_err(Failure::Scratch);
    let (stdout, stderr) = (file()?, file()?);
    let mut start = || {
        // A killed compiler leaves its temporary files, so they must be in this folder.
        command.current_dir(scratch).env("TMPDIR", scratch).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        keep(&mut command, scratch, limit)?;
        command.spawn()
    };
    let mut keeper = start().map_err(|error| match scratch.is_dir() {
        true => Failure::Start(error),
        false => Failure::Scratch(error),
    })?;
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = keeper.try_wait().map_err(Failure::Start)? {
            break status;
        }
        let why = match () {
            () if is_stopped() => Some(Failure::Stopped),
            () if started.elapsed() > limit => Some(Failure::TimedOut),
            () => None,
        };
        if let Some(why) = why {
            end(&mut keeper);
            return Err(why);
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(POLL_INTERVAL_MAX);
    };
    let text = |mut file: File| {
        let mut bytes = Vec::new();
        let read = file.rewind().and_then(|()| file.take(OUTPUT_MAX).read_to_end(&mut bytes));
        read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).map_err(Failure::Scratch)
    };
    Ok(Ran { status, stdout: text(stdout)?, stderr: text(stderr)? })
}

fn end(keeper: &mut Child) {
    // SAFETY: the keeper has not been waited for, so its PID is not reused.
    unsafe { libc::kill(keeper.id() as i32, libc::SIGTERM) };
    let _ = keeper.wait();
}

/// Makes the child of `command` the keeper, and the compiler the keeper's child.
fn keep(command: &mut Command, scratch: &Path, limit: Duration) -> io::Result<()> {
    let scratch = CString::new(OsString::from(scratch).into_vec())?;
    let seconds = limit.as_secs().max(1);
    // SAFETY: no preconditions.
    let parent = unsafe { libc::getpid() };
    // SAFETY: between fork and exec it makes only async-signal-safe calls, on values that exist.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            let mut wanted: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut wanted);
            libc::sigaddset(&mut wanted, libc::SIGCHLD);
            libc::sigaddset(&mut wanted, libc::SIGTERM);
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigprocmask(libc::SIG_BLOCK, &wanted, &mut before);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            if libc::getppid() != parent {
                libc::_exit(1);
            }
            // Its own process group: the terminal's signals go to us, and we pass them on.
            libc::setpgid(0, 0);
            match libc::fork() {
                -1 => Err(io::Error::last_os_error()),
                0 => {
                    libc::setpgid(0, 0);
                    libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
                    limit_to(libc::RLIMIT_CPU, seconds);
                    limit_to(libc::RLIMIT_FSIZE, FILE_MAX);
                    limit_to(libc::RLIMIT_AS, MEMORY_MAX);
                    limit_to(libc::RLIMIT_CORE, 0);
                    Ok(())
                }
                compiler => watch(compiler, &wanted, &scratch),
            }
        });
    }
    Ok(())
}

unsafe fn limit_to(what: libc::__rlimit_resource_t, most: libc::rlim_t) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain system calls. A limit that cannot be set is left out.
    unsafe {
        libc::getrlimit(what, &mut limit);
        limit.rlim_cur = most.min(limit.rlim_max);
        libc::setrlimit(what, &limit);
    }
}

/// Runs the keeper. It exits with the compiler's status. On SIGTERM, which it also gets when its
/// parent ends, it kills the compiler and deletes the folder.
unsafe fn watch(compiler: libc::pid_t, wanted: &libc::sigset_t, scratch: &CString) -> ! {
    // SAFETY: only async-signal-safe calls, on values that exist.
    unsafe {
        libc::setpgid(compiler, compiler);
        // One of these is the pipe that tells the parent that the compiler has started.
        if libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0) != 0 {
            (3..4096).for_each(|fd| {
                libc::close(fd);
            });
        }
        loop {
            let mut signal = 0;
            if libc::sigwait(wanted, &mut signal) != 0 {
                continue;
            }
            if signal == libc::SIGTERM {
                libc::kill(-compiler, libc::SIGKILL);
                let rm = [c"rm".as_ptr(), c"-rf".as_ptr(), c"--".as_ptr(), scratch.as_ptr()];
                let rm = [rm[0], rm[1], rm[2], rm[3], std::ptr::null()];
                libc::chdir(c"/".as_ptr());
                libc::execv(c"/bin/rm".as_ptr(), rm.as_ptr());
                libc::_exit(1);
            }
            let mut status = 0;
            if libc::waitpid(compiler, &mut status, libc::WNOHANG) == compiler {
                let by_itself = libc::WIFEXITED(status);
                libc::_exit(if by_itself { libc::WEXITSTATUS(status) } else { 125 });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(program: &str, scratch: &Path) -> Failure {
        let ran = run(Command::new(program), scratch, Duration::from_secs(9), &|| false);
        ran.err().expect("it cannot run")
    }

    #[test]
    fn missing_scratch_folder_is_not_a_missing_program() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        assert!(matches!(failure("true", &gone), Failure::Scratch(_)));
        assert!(matches!(failure("no-such-program", folder.path()), Failure::Start(_)));
    }
}
