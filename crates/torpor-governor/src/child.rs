// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Runs a compiler, and leaves nothing of it: whatever becomes of us, a keeper between us and it
//! ends all that it has started and removes its folder.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// More of a compiler's words than this help nobody.
const SAID_MAX: u64 = 256 << 10;
/// The largest file that a compiler may write, and the memory that it may have.
const FILE_MAX: libc::rlim_t = 512 << 20;
const MEMORY_MAX: libc::rlim_t = 8 << 30;
const LOOK_AT_MOST: Duration = Duration::from_millis(20);

/// Exit of a program, and the beginning of its output.
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

#[derive(Debug)]
pub enum Failure {
    /// The program could not be started.
    Start(io::Error),
    /// The folder that it runs in cannot be used, or somebody has removed it.
    Scratch(io::Error),
    TimedOut,
    /// The user has asked to stop.
    Stopped,
}

/// Runs `command` in its current directory, `scratch`, which it alone uses.
pub fn run(
    mut command: Command,
    scratch: &Path,
    limit: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Ran, Failure> {
    let said = || tempfile::tempfile_in(scratch).map_err(Failure::Scratch);
    let (stdout, stderr) = (said()?, said()?);
    let mut start = || {
        // Killed compilers leave their files in this folder as well.
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
        pause = (2 * pause).min(LOOK_AT_MOST);
    };
    let said = |mut file: File| {
        let mut said = Vec::new();
        let read = file.rewind().and_then(|()| file.take(SAID_MAX).read_to_end(&mut said));
        read.map(|_| String::from_utf8_lossy(&said).into_owned())
    };
    let (stdout, stderr) = (said(stdout), said(stderr));
    match (stdout, stderr) {
        (Ok(stdout), Ok(stderr)) => Ok(Ran { status, stdout, stderr }),
        (Err(e), _) | (_, Err(e)) => Err(Failure::Scratch(e)),
    }
}

fn end(keeper: &mut Child) {
    // SAFETY: the keeper has not been waited for, so the number is still its own.
    unsafe { libc::kill(keeper.id() as i32, libc::SIGTERM) };
    let _ = keeper.wait();
}

/// Makes the child that `command` starts a keeper, and the compiler a child of that.
fn keep(command: &mut Command, scratch: &Path, limit: Duration) -> io::Result<()> {
    let scratch = CString::new(OsString::from(scratch).into_vec())?;
    let seconds = limit.as_secs().max(1);
    // SAFETY: no preconditions.
    let parent = unsafe { libc::getpid() };
    // SAFETY: between fork and exec only calls that are async-signal-safe are made, on values that
    // were made before.
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
            // Its own group: what is typed at the terminal is meant for us, and we pass it on.
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
    // SAFETY: plain system calls; a limit that cannot be set is one less.
    unsafe {
        libc::getrlimit(what, &mut limit);
        limit.rlim_cur = most.min(limit.rlim_max);
        libc::setrlimit(what, &limit);
    }
}

/// The keeper's whole life. It ends as the compiler does; SIGTERM, this process's or that of the
/// other end, ends both, and the folder with them.
unsafe fn watch(compiler: libc::pid_t, wanted: &libc::sigset_t, scratch: &CString) -> ! {
    // SAFETY: only calls that are async-signal-safe, on values that are there.
    unsafe {
        libc::setpgid(compiler, compiler);
        // Among these is the pipe by which our parent learns that the compiler has been started.
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
