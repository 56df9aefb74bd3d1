// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compiles a governor into a program of its own: what a sanitizer or a crash ends is then another
//! process.

use crate::compile::{Compiler, Key, Stage, put, staged_name};
use crate::store::{Files, cache_error};
use crate::tree::Sources;
use crate::{GovernorError, GovernorSpec, Label, builtin, config, flags, sha256_hex};
use std::fs;
use std::path::{Path, PathBuf};
use torpor_machine::units::{Hz, shown};

/// The source of everything that is not the governor or the kapi.
#[derive(Clone, Copy, Debug)]
pub struct Harness<'a> {
    pub headers: &'a [HarnessFile<'a>],
    /// Linked before the governor, and seeing the kapi's headers as it does: they can mark where
    /// its data begins.
    pub before: &'a [HarnessFile<'a>],
    /// The same, linked after it.
    pub after: &'a [HarnessFile<'a>],
    /// Sees the C library's headers instead.
    pub libc: &'a [HarnessFile<'a>],
}

#[derive(Clone, Copy, Debug)]
pub struct HarnessFile<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

/// Instrumentation of a governor. The harness itself is never instrumented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// As a kernel has it; variables on the stack start as zeros, its usual setting.
    Plain,
    /// AddressSanitizer and UndefinedBehaviorSanitizer end the program at the first error, signed
    /// overflow among them, and variables on the stack start as a pattern that is not zero.
    Sanitized,
}

/// A governor as a program.
#[derive(Clone, Debug)]
pub struct Program {
    pub path: PathBuf,
    /// The name to look for among the governors that it registers.
    pub governor: String,
    pub source_sha256: String,
    /// The name that its file was compiled by, and the user's for it.
    staged: String,
    file: String,
}

impl Program {
    pub(crate) fn new(path: PathBuf, governor: String, sources: &Sources) -> Program {
        Program {
            path,
            governor,
            source_sha256: sha256_hex(&sources.text()),
            staged: staged_name(sources),
            file: shown::line(&sources.main).into_owned(),
        }
    }

    /// Returns a sanitizer's report, with the governor's file as the user knows it. No compiler
    /// maps the names that UndefinedBehaviorSanitizer has, as it does `__FILE__`.
    pub fn with_file_named(&self, said: &str) -> String {
        said.replace(&self.staged, &self.file)
    }
}

const SANITIZERS: &[&str] =
    &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

/// The kapi's own file, under a name that no governor has.
const IMAGE: &str = "harness/torpor_image.c";
const PROGRAM: &str = "program";
/// With the sanitizers' code it requires some MiB.
const PROGRAM_MAX: u64 = 256 << 20;

impl Build {
    /// Flags for the governor's own file.
    fn governor(self) -> Vec<&'static str> {
        match self {
            Build::Plain => vec![flags::WRAP],
            Build::Sanitized => [SANITIZERS, &["-g1"]].concat(),
        }
    }

    /// Returns the flag for the initial value of stack variables; older compilers have none.
    fn stack(self) -> &'static str {
        match self {
            Build::Plain => "-ftrivial-auto-var-init=zero",
            Build::Sanitized => "-ftrivial-auto-var-init=pattern",
        }
    }

    fn link(self) -> &'static [&'static str] {
        match self {
            Build::Plain => &[],
            Build::Sanitized => SANITIZERS,
        }
    }
}

/// The program, from the cache or fresh.
pub(crate) fn compile(
    compiler: &Compiler,
    spec: &GovernorSpec,
    sources: &Sources,
    hz: Hz,
    harness: &Harness<'_>,
    build: Build,
) -> Result<PathBuf, GovernorError> {
    let key = key(compiler, sources, hz, harness, build)?;
    let label = spec.label();
    let made = || {
        let stage = compiler.stage(sources)?;
        let job = Job { compiler, label: label.clone(), stage: &stage, sources };
        job.write(harness)?;
        job.make(hz, harness, build)?;
        let bytes = stage.product(&label, PROGRAM, PROGRAM_MAX)?;
        // Only the program is kept: the objects and copies of the source have served.
        Ok(Files::from([(PROGRAM.to_owned(), bytes)]))
    };
    let what = format!("the program of {label}");
    let entry = compiler.store().entry("programs", &key, &what, made)?;
    Ok(entry.path.join(PROGRAM))
}

fn key(
    compiler: &Compiler,
    sources: &Sources,
    hz: Hz,
    harness: &Harness<'_>,
    build: Build,
) -> Result<String, GovernorError> {
    let mut key = Key::default();
    key.add(compiler.version()?.as_bytes());
    key.add(&hz.get().to_le_bytes());
    key.add(format!("{build:?} {:?} {}", build.governor(), build.stack()).as_bytes());
    flags::KAPI.iter().for_each(|flag| key.add(flag.as_bytes()));
    for files in [harness.headers, harness.before, harness.after, harness.libc] {
        for file in files {
            key.add(file.name.as_bytes());
            key.add(file.text.as_bytes());
        }
    }
    key.add_sources(sources);
    Ok(key.finish())
}

/// `cc -c` names an object after its source and puts it where it runs.
fn object_name(source: &str) -> String {
    let file = Path::new(source).file_name().unwrap_or_default();
    Path::new(file).with_extension("o").to_string_lossy().into_owned()
}

struct Job<'a> {
    compiler: &'a Compiler,
    label: Label,
    stage: &'a Stage,
    sources: &'a Sources,
}

impl Job<'_> {
    fn write(&self, harness: &Harness<'_>) -> Result<(), GovernorError> {
        let dir = self.stage.path().join("harness");
        fs::create_dir(&dir).map_err(|e| cache_error(&dir, e))?;
        for files in [harness.headers, harness.before, harness.after, harness.libc] {
            for file in files {
                put(&dir.join(file.name), file.text.as_bytes())?;
            }
        }
        put(&self.stage.path().join(IMAGE), builtin::image_source().as_bytes())
    }

    fn make(&self, hz: Hz, harness: &Harness<'_>, build: Build) -> Result<(), GovernorError> {
        let hz = flags::hz_define(hz.get());
        let mut kapi_side: Vec<&str> = flags::KAPI.to_vec();
        kapi_side.extend([hz.as_str(), "-DTORPOR_PROGRAM"]);
        let main = self.stage.main.as_str();

        let mut governor = [&kapi_side[..], &build.governor()].concat();
        // The stack's start cannot be chosen everywhere; an answer that depends on it then goes
        // unseen.
        governor.push(build.stack());
        let compile = |flags: &[&str]| -> Result<Vec<String>, GovernorError> {
            let own: Vec<&str> = self.sources.main_flags.iter().map(String::as_str).collect();
            self.run(&[flags, &own].concat(), &[main], true)?;
            self.compiler.parts(&self.label, self.sources, self.stage, flags)
        };
        let parts = match compile(&governor) {
            Err(GovernorError::Compile { .. }) => {
                governor.pop();
                compile(&governor)?
            }
            other => other?,
        };
        kapi_side.push(flags::WRAP);
        let names = |files: &[HarnessFile<'_>]| -> Vec<String> {
            files.iter().map(|f| format!("harness/{}", f.name)).collect()
        };
        let (before, after, libc) =
            (names(harness.before), names(harness.after), names(harness.libc));
        let mut ours: Vec<&str> = before.iter().chain(&after).map(String::as_str).collect();
        ours.push(IMAGE);
        self.run(&kapi_side, &ours, true)?;
        let libc_refs: Vec<&str> = libc.iter().map(String::as_str).collect();
        self.run(&["-std=gnu11", "-O2", "-Wall", "-fPIC"], &libc_refs, false)?;

        let objects: Vec<String> = (before.iter().map(String::as_str))
            .chain([main])
            .chain(after.iter().map(String::as_str))
            .chain([IMAGE])
            .chain(libc_refs)
            .map(object_name)
            .chain(parts)
            .collect();
        self.link(&objects, build)
    }

    fn run(&self, flags: &[&str], files: &[&str], sees_kapi: bool) -> Result<(), GovernorError> {
        let mut command = self.compiler.command(self.stage);
        command.args(flags).arg("-c").args(files);
        if sees_kapi {
            command.args(["-include", config::HEADER]);
            command.arg("-I").arg(self.stage.kapi().join("include"));
        }
        let ran = self.compiler.run(&self.label, command, self.stage)?;
        if ran.status.success() {
            return Ok(());
        }
        Err(self.stage.error(&self.label, &ran.stderr))
    }

    fn link(&self, objects: &[String], build: Build) -> Result<(), GovernorError> {
        let mut command = self.compiler.command(self.stage);
        command.args(build.link()).arg("-o").arg(PROGRAM).args(objects);
        let ran = self.compiler.run(&self.label, command, self.stage)?;
        if ran.status.success() {
            return Ok(());
        }
        if build == Build::Sanitized && lacks_sanitizer(&ran.stderr) {
            return Err(no_sanitizer(self.stage.message(&ran.stderr)));
        }
        Err(self.stage.error(&self.label, &ran.stderr))
    }
}

/// Recognizes a linker's message about a missing runtime library of a sanitizer.
fn lacks_sanitizer(message: &str) -> bool {
    let names = ["libasan", "libubsan", "libclang_rt", "lasan", "lubsan"];
    message.lines().any(|line| {
        names.iter().any(|name| line.contains(name))
            && (line.contains("cannot find") || line.contains("No such file"))
    })
}

fn no_sanitizer(message: String) -> GovernorError {
    GovernorError::NoSanitizer {
        summary: "the compiler's runtime library for AddressSanitizer or \
                  UndefinedBehaviorSanitizer is not installed"
            .to_owned(),
        hint: "with gcc install libasan and libubsan (Debian: they come with libgcc-12-dev, by \
               the compiler's version; Fedora: libasan libubsan); with clang install its \
               libclang-rt (Debian: libclang-rt-14-dev; Fedora: compiler-rt)"
            .to_owned(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_runtime_is_told_from_other_link_errors() {
        assert!(lacks_sanitizer("/usr/bin/ld: cannot find -lasan: No such file or directory"));
        assert!(lacks_sanitizer("ld: cannot find libasan_preinit.o: No such file or directory"));
        assert!(lacks_sanitizer(
            "ld: cannot find /usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/\
             libclang_rt.asan-x86_64.a: No such file or directory"
        ));
        assert!(!lacks_sanitizer("menu.c: undefined reference to `ktime_get_real'"));
        let text = no_sanitizer("x".into()).to_string();
        assert!(text.contains("libasan") && text.contains("libclang-rt"), "{text}");
    }
}
