// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compiles a governor into a separate program, so that a sanitizer or a crash ends only that.

use crate::compile::{Compiler, Key, Stage, put, staged_name};
use crate::store::{Files, cache_error};
use crate::tree::Sources;
use crate::{GovernorError, GovernorSpec, Label, builtin, flags, sha256_hex};
use std::fs;
use std::path::{Path, PathBuf};
use torpor_machine::units::{Hz, shown};

/// Source of a program, except the governor and the kapi.
#[derive(Clone, Copy, Debug)]
pub struct Harness<'a> {
    pub headers: &'a [HarnessFile<'a>],
    /// Files linked before the governor, compiled with the kapi's headers. They can mark the start
    /// of its data.
    pub before: &'a [HarnessFile<'a>],
    /// Files linked after the governor, compiled with the kapi's headers.
    pub after: &'a [HarnessFile<'a>],
    /// Files compiled with the C library's headers.
    pub libc: &'a [HarnessFile<'a>],
}

impl<'a> Harness<'a> {
    fn files(&self) -> impl Iterator<Item = &'a HarnessFile<'a>> {
        self.headers.iter().chain(self.before).chain(self.after).chain(self.libc)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct HarnessFile<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

/// Instrumentation of a governor. The harness itself is never instrumented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// As in a kernel. Stack variables are initialized to zeros, the usual kernel option.
    Plain,
    /// AddressSanitizer and UndefinedBehaviorSanitizer end the program at the first error, including
    /// signed overflow. Stack variables are initialized to a pattern other than zeros.
    Sanitized,
}

/// A governor as a program.
#[derive(Clone, Debug)]
pub struct Program {
    pub path: PathBuf,
    /// Name of the governor; a file can register several.
    pub governor: String,
    pub source_sha256: String,
    /// Name of the file as compiled, and the user's name for it.
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

    /// Returns a sanitizer's report with the user's name of the governor's file, which compilers
    /// set for `__FILE__` but not for UndefinedBehaviorSanitizer.
    pub fn with_file_named(&self, report: &str) -> String {
        report.replace(&self.staged, &self.file)
    }
}

const SANITIZERS: &[&str] =
    &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

/// The kapi's C file, under a name that no governor has.
const IMAGE: &str = "harness/torpor_image.c";
const PROGRAM: &str = "program";
/// Size limit, in bytes. The sanitizers' code takes several MiB.
const PROGRAM_MAX: u64 = 256 << 20;

impl Build {
    /// Returns the flags of the governor's own files.
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

/// Returns the program, from the cache or newly compiled.
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
    for file in harness.files() {
        key.add_file(file.name, file.text.as_bytes());
    }
    key.add_sources(sources);
    Ok(key.finish())
}

/// Returns the name of the object that `cc -c` makes, in its current folder.
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
        for file in harness.files() {
            put(&dir.join(file.name), file.text.as_bytes())?;
        }
        put(&self.stage.path().join(IMAGE), builtin::image_source().as_bytes())
    }

    fn make(&self, hz: Hz, harness: &Harness<'_>, build: Build) -> Result<(), GovernorError> {
        let hz = flags::hz_define(hz.get());
        let mut kapi_side: Vec<&str> = flags::KAPI.to_vec();
        kapi_side.extend([hz.as_str(), "-DTORPOR_PROGRAM"]);
        let main = self.stage.main.as_str();

        let mut governor = [&kapi_side[..], &build.governor()].concat();
        // Old compilers do not have this flag. Without it, the program misses decisions that depend
        // on uninitialized variables.
        governor.push(build.stack());
        let compile = |flags: &[&str]| -> Result<Vec<String>, GovernorError> {
            let own: Vec<&str> = self.sources.main_flags.iter().map(String::as_str).collect();
            self.objects(&[flags, &own].concat(), &[main], true)?;
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
        self.objects(&kapi_side, &ours, true)?;
        let libc_refs: Vec<&str> = libc.iter().map(String::as_str).collect();
        self.objects(&["-std=gnu11", "-O2", "-Wall", "-fPIC"], &libc_refs, false)?;

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

    fn objects(&self, flags: &[&str], files: &[&str], for_kapi: bool) -> Result<(), GovernorError> {
        let mut command = self.compiler.command(self.stage);
        command.args(flags).arg("-c").args(files);
        if for_kapi {
            command.args(self.stage.kapi_args());
        }
        self.compiler.make(&self.label, command, self.stage)
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
    fn missing_sanitizer_runtime_is_recognized() {
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
