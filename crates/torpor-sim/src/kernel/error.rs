// SPDX-License-Identifier: MIT OR GPL-2.0-only
use std::fmt;
use std::path::PathBuf;
use torpor_governor::GovernorError;
use torpor_machine::units::{CpuId, Instant};

/// Error in naming, finding, compiling, loading or starting a kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    #[error(
        "kernel `{kernel}`: it is not a folder, a tarball or an installed release\n\
         hint: `torpor kernel fetch VERSION` fetches the source of a release such as 6.12, and \
         Debian's package linux-source-VERSION has it, too; a revision is TREE:REV"
    )]
    NotFound { kernel: String },

    #[error(
        "the source of Linux {kernel} is not on this machine\n\
         hint: `torpor kernel fetch {kernel}` fetches it (Debian's package linux-source-{kernel}); \
         from elsewhere, put it into ${}",
        torpor_governor::hosting::SOURCES_ENV
    )]
    NoSource { kernel: String },

    #[error("kernel `{kernel}`: {message}")]
    Config { kernel: String, message: String },

    #[error("kernel `{kernel}`: {message}")]
    Patch { kernel: String, message: String },

    #[error("kernel `{kernel}`: read {}: {source}", path.display())]
    Read { kernel: String, path: PathBuf, source: std::io::Error },

    #[error("kernel `{kernel}`: git in {}: {message}", tree.display())]
    Git { kernel: String, tree: PathBuf, message: String },

    #[error(
        "kernel `{kernel}`: {} cannot be unpacked: {source}\n\
         hint: `tar -tf` reads a whole tarball to its end without complaint",
        path.display()
    )]
    Tarball { kernel: String, path: PathBuf, source: std::io::Error },

    #[error(
        "kernel `{kernel}` is not a kernel tree: it has no {missing}\n\
         hint: the whole source is needed, not its headers alone"
    )]
    NoKernel { kernel: String, missing: String },

    #[error(
        "kernel `{kernel}` is Linux {release}; the oldest that can be hosted is {oldest}{lacks}"
    )]
    TooOld { kernel: String, release: String, oldest: String, lacks: String },

    #[error("kernel `{kernel}` (Linux {release}): {file} does not compile: {summary}\n{message}")]
    Compile { kernel: String, release: Box<str>, file: Box<str>, summary: String, message: String },

    #[error(
        "kernel `{kernel}` (Linux {release}) uses variables that neither its hosted files nor the \
         host define:\n\
         {}\nhint: a variable has no default: the file of khost/ that answers for it must define it",
        list.join("\n")
    )]
    Missing { kernel: String, release: String, list: Vec<String> },

    #[error(
        "{governor} does not compile in kernel `{kernel}` (Linux {release}): {summary}\n{message}"
    )]
    Governor {
        kernel: String,
        release: Box<str>,
        governor: Box<str>,
        summary: String,
        message: String,
    },

    #[error(
        "kernel `{kernel}` (Linux {release}) cannot call an IO boost: {message}\n\
         hint: option `io_boosts`: iowait is the kernel's own boost, none turns it off"
    )]
    IoBoost { kernel: String, release: Box<str>, message: String },

    #[error("kernel `{kernel}`: its image cannot be loaded: {reason}")]
    Image { kernel: String, reason: String },

    #[error("kernel `{kernel}`: {reason}")]
    Machine { kernel: String, reason: String },

    #[error(transparent)]
    Build(#[from] GovernorError),

    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// Cause of a hosted kernel's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bug,
    Warn,
    Panic,
    /// A function that the host does not have.
    Unreached,
    /// A setting that the kernel rejects during its start.
    Refused,
    /// An argument on the kernel's command line that it does not know.
    UnknownArgument,
    Signal {
        signo: i32,
        address: usize,
    },
    /// Overflow of a kernel stack.
    StackOverflow,
    TimedOut,
}

/// Failure that ends a hosted kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble(pub(crate) Box<TroubleDetail>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TroubleDetail {
    pub kernel: String,
    pub kind: Kind,
    /// The kernel's own message.
    pub message: String,
    pub cpu: CpuId,
    pub now: Instant,
    /// Call chain, innermost function first; empty if unknown.
    pub backtrace: Vec<String>,
    /// The last lines of the kernel's log.
    pub log: Vec<String>,
}

impl Trouble {
    pub fn detail(&self) -> &TroubleDetail {
        &self.0
    }
}

impl std::error::Error for Trouble {}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TroubleDetail { kernel, kind, message, cpu, now, backtrace, log } = &*self.0;
        write!(f, "kernel `{kernel}`: ")?;
        match kind {
            Kind::Bug => write!(f, "BUG: {message}")?,
            Kind::Warn => write!(f, "WARNING: {message}")?,
            Kind::Panic => write!(f, "panic: {message}")?,
            Kind::Refused => return f.write_str(message),
            Kind::UnknownArgument => return write!(f, "it has no argument `{message}`"),
            Kind::Unreached => write!(f, "it calls a function that is not hosted: {message}")?,
            Kind::Signal { signo: libc::SIGFPE, .. } => {
                f.write_str("it divided by zero, or the quotient overflowed")?;
            }
            Kind::Signal { signo, address } => {
                let name = match *signo {
                    libc::SIGSEGV => "SIGSEGV",
                    libc::SIGBUS => "SIGBUS",
                    libc::SIGILL => "SIGILL",
                    _ => "a signal",
                };
                write!(f, "it was ended by {name} at {address:#x}")?;
            }
            Kind::StackOverflow => f.write_str("one of its stacks of 16 KiB overflowed")?,
            Kind::TimedOut => f.write_str("it did not return within its CPU time limit")?,
        }
        write!(f, " (on {cpu} at {:.6} s of simulated time)", now.0 as f64 / 1e9)?;
        if !backtrace.is_empty() {
            write!(f, "\nin {}", backtrace.join(" < "))?;
        }
        for line in log {
            write!(f, "\nlog: {line}")?;
        }
        Ok(())
    }
}
