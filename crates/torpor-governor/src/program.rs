// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compiles a governor into a program of its own: what a sanitizer or a crash ends is then another
//! process.

use crate::compile::{Compiler, Scratch, cache_error, explain, prefix};
use crate::tree::Sources;
use crate::{GovernorError, GovernorSpec, Label, flags};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use torpor_units::Hz;

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

/// What watches over the governor. The harness itself is never instrumented.
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
}

const SANITIZERS: &[&str] =
    &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

/// The kapi's own file, under a name that no governor has.
const IMAGE: &str = "harness/torpor_image.c";

impl Build {
    /// Flags for the governor's own file.
    fn governor(self) -> Vec<&'static str> {
        match self {
            Build::Plain => vec![flags::WRAP],
            Build::Sanitized => [SANITIZERS, &["-g1"]].concat(),
        }
    }

    /// How variables on the stack start; older compilers cannot choose.
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
    let kapi = compiler.unpack_kapi()?;
    let key = key(compiler, &kapi, sources, hz, harness, build)?;
    let home = compiler.cache().join("programs").join(key);
    let program = home.join("program");
    if program.is_file() {
        return Ok(program);
    }
    let stage = Scratch::new(compiler.cache()).map_err(|e| cache_error(compiler.cache(), e))?;
    let job = Job { compiler, label: spec.label(), stage: &stage.0, kapi: &kapi, sources };
    job.write(harness)?;
    let hz = flags::hz_define(hz.get());
    let mut kapi_side: Vec<&str> = flags::KAPI.to_vec();
    kapi_side.extend([hz.as_str(), "-DTORPOR_PROGRAM"]);

    let mut governor = [&kapi_side[..], &build.governor()].concat();
    // The stack's start cannot be chosen everywhere; an answer that depends on it then goes unseen.
    if job.run(&[&governor[..], &[build.stack()]].concat(), &[&sources.main], true).is_err() {
        job.run(&governor, &[&sources.main], true)?;
    } else {
        governor.push(build.stack());
    }
    kapi_side.push(flags::WRAP);
    let names = |files: &[HarnessFile<'_>]| -> Vec<String> {
        files.iter().map(|f| format!("harness/{}", f.name)).collect()
    };
    let (before, after, libc) = (names(harness.before), names(harness.after), names(harness.libc));
    let mut ours: Vec<&str> = before.iter().chain(&after).map(String::as_str).collect();
    ours.push(IMAGE);
    job.run(&kapi_side, &ours, true)?;
    let libc_refs: Vec<&str> = libc.iter().map(String::as_str).collect();
    job.run(&["-std=gnu11", "-O2", "-Wall", "-fPIC"], &libc_refs, false)?;

    let objects: Vec<String> = (before.iter().map(String::as_str))
        .chain([sources.main.as_str()])
        .chain(after.iter().map(String::as_str))
        .chain([IMAGE])
        .chain(libc_refs)
        .map(object_name)
        .collect();
    job.link(&objects, build)?;
    // Only the program is kept: the objects and copies of the source have served.
    let keep = Scratch::new(compiler.cache()).map_err(|e| cache_error(compiler.cache(), e))?;
    fs::rename(stage.0.join("program"), keep.0.join("program"))
        .and_then(|()| keep.keep_as(&home))
        .map_err(|e| cache_error(&home, e))?;
    Ok(program)
}

fn key(
    compiler: &Compiler,
    kapi: &Path,
    sources: &Sources,
    hz: Hz,
    harness: &Harness<'_>,
    build: Build,
) -> Result<String, GovernorError> {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    add(compiler.version()?.as_bytes());
    // The folder's name is a hash of what it holds.
    add(kapi.file_name().unwrap_or_default().as_encoded_bytes());
    add(&hz.get().to_le_bytes());
    add(format!("{build:?} {:?} {}", build.governor(), build.stack()).as_bytes());
    flags::KAPI.iter().for_each(|flag| add(flag.as_bytes()));
    for files in [harness.headers, harness.before, harness.after, harness.libc] {
        for file in files {
            add(file.name.as_bytes());
            add(file.text.as_bytes());
        }
    }
    add(sources.main.as_bytes());
    for (name, text) in &sources.files {
        add(name.as_bytes());
        add(text);
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

/// `cc -c` names an object after its source and puts it where it runs.
fn object_name(source: &str) -> String {
    let file = Path::new(source).file_name().unwrap_or_default();
    Path::new(file).with_extension("o").to_string_lossy().into_owned()
}

struct Job<'a> {
    compiler: &'a Compiler,
    label: Label,
    stage: &'a Path,
    kapi: &'a Path,
    sources: &'a Sources,
}

impl Job<'_> {
    fn write(&self, harness: &Harness<'_>) -> Result<(), GovernorError> {
        let put =
            |path: PathBuf, text: &[u8]| fs::write(&path, text).map_err(|e| cache_error(&path, e));
        let dir = self.stage.join("harness");
        fs::create_dir(&dir).map_err(|e| cache_error(&dir, e))?;
        for files in [harness.headers, harness.before, harness.after, harness.libc] {
            for file in files {
                put(dir.join(file.name), file.text.as_bytes())?;
            }
        }
        let image = self.kapi.join("image.c");
        let text = fs::read(&image).map_err(|e| cache_error(&image, e))?;
        put(self.stage.join(IMAGE), &text)?;
        for (name, text) in &self.sources.files {
            put(self.stage.join(name), text)?;
        }
        Ok(())
    }

    fn run(&self, flags: &[&str], files: &[&str], sees_kapi: bool) -> Result<(), GovernorError> {
        let mut command = self.command();
        command.args(flags).arg("-c").args(files);
        if sees_kapi {
            command.arg("-I").arg(self.kapi.join("include"));
        }
        self.finish(command, |summary, hint, message| GovernorError::Compile {
            policy: self.label.clone(),
            summary,
            hint,
            message,
        })
    }

    fn link(&self, objects: &[String], build: Build) -> Result<(), GovernorError> {
        let mut command = self.command();
        command.args(build.link()).arg("-o").arg("program").args(objects);
        self.finish(command, |summary, hint, message| {
            if build == Build::Sanitized && lacks_sanitizer(&message) {
                return no_sanitizer(message);
            }
            GovernorError::Compile { policy: self.label.clone(), summary, hint, message }
        })
    }

    /// Runs in the stage, so that messages name files as the user knows them.
    fn command(&self) -> Command {
        let mut command = Command::new(self.compiler.program());
        command.current_dir(self.stage).env("LC_ALL", "C");
        command
    }

    fn finish(
        &self,
        mut command: Command,
        error: impl FnOnce(String, String, String) -> GovernorError,
    ) -> Result<(), GovernorError> {
        let output = command.output().map_err(|e| self.compiler.missing(e))?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr)
            .replace(&format!("{}/", self.stage.display()), &prefix(&self.sources.dir))
            .replace(&format!("{}/", self.kapi.display()), "kapi/");
        let (summary, hint) = explain(&message);
        Err(error(summary, hint, message))
    }
}

/// What linkers say when the runtime library of a sanitizer is not installed.
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
