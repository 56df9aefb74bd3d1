// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compiles a tree's hosted files as they are, and links them with the host's.

use crate::generate;
use crate::{KHOST, KernelError, Release};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use torpor_governor::hosting::{Failure, Ran, Scratch, ioboost_calls, missing_names, run};
use torpor_governor::{GovernorError, SourceFiles};
use torpor_units::Hz;

/// A program of the tree that tells offsets by its assembly.
const OFFSETS: &str = "kernel/sched/rq-offsets.c";
pub(crate) const IMAGE: &str = "kernel.so";
/// One file of a kernel compiles in some seconds; a busy machine may need more.
const LIMIT: Duration = Duration::from_secs(300);

/// As a kernel's own Makefile has them, where they change what the code does; and what makes one
/// object of all that needs no other and no look-up of a symbol.
const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-fshort-wchar",
    "-funsigned-char",
    "-fms-extensions",
    "-fno-common",
    "-fno-strict-aliasing",
    "-fno-strict-overflow",
    "-fno-delete-null-pointer-checks",
    "-fno-tree-loop-distribute-patterns",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fno-omit-frame-pointer",
    "-ffunction-sections",
    "-fdata-sections",
    "-fPIC",
    "-fvisibility=hidden",
    "-nostdinc",
    "-D__KERNEL__",
];
const LINK: &[&str] = &[
    "-shared",
    "-nostdlib",
    "-Wl,--gc-sections",
    "-Wl,-z,defs",
    "-Wl,-z,norelro",
    "-Wl,-z,noexecstack",
    "-Wl,-Bsymbolic",
    "-Wl,--no-warn-rwx-segments",
    "-Wl,--build-id=none",
    "-Wl,-z,muldefs",
    "-Wl,-e,0",
];

/// A governor may be of another release: what does not fit is an error, not a warning.
const GOVERNOR_FLAGS: &[&str] = &[
    "-Werror=implicit-function-declaration",
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
];
/// How objects of the tree's own governors are called, and the file of a policy from elsewhere.
const OWN_GOVERNORS: &str = "drivers-cpuidle-governors-";
const STAGED: &str = "hosted-policy.c";

/// The tree's files that [`SCRIPT`] changes, in copies, and where those lie.
const CHANGED: &[&str] = &["kernel/sched", "include/linux/sched.h"];
const PATCHED: &str = "patched";
const SCRIPT: &str = "kernel/ioboost/insert.py";

/// What a policy from elsewhere decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicyKind {
    Idle,
    Cpufreq,
    IoBoost,
}

impl PolicyKind {
    /// Of its object.
    pub(crate) fn object(self) -> &'static str {
        match self {
            PolicyKind::Idle => "foreign-governor.o",
            PolicyKind::Cpufreq => "foreign-cpufreq.o",
            PolicyKind::IoBoost => "foreign-boost.o",
        }
    }

    /// Whether it is linked in place of an object.
    fn replaces(self, object: &str) -> bool {
        match self {
            PolicyKind::Idle => object.starts_with(OWN_GOVERNORS) || object == self.object(),
            PolicyKind::Cpufreq | PolicyKind::IoBoost => object == self.object(),
        }
    }

    /// What its names become. They are its own, so that what it calls as the kernel calls something
    /// else does not clash; but what the kernel asks about its frequency governor by name is about
    /// the one that is linked.
    fn names(self) -> &'static [&'static str] {
        match self {
            PolicyKind::Idle | PolicyKind::IoBoost => &["--keep-global-symbol=no_symbol"],
            PolicyKind::Cpufreq => &[
                "--keep-global-symbol=schedutil_gov",
                "--redefine-sym=cpufreq_register_governor=khost_register_cpufreq",
            ],
        }
    }
}

pub(crate) fn flags() -> impl Iterator<Item = &'static str> {
    FLAGS.iter().chain(LINK).chain(GOVERNOR_FLAGS).copied()
}

/// How far it is: files done, and all of them.
pub(crate) type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// What is compiled, with what, and where.
pub(crate) struct Job<'a> {
    pub kernel: &'a str,
    pub release: &'a Release,
    pub tree: &'a Path,
    pub hz: Hz,
    /// Whether its scheduler calls an IO boost.
    pub calls_io_boost: bool,
    pub compiler: &'a OsString,
    pub scratch: &'a Scratch,
    pub stop: Option<&'a AtomicBool>,
    pub progress: Progress<'a>,
}

pub(crate) struct Product {
    pub image: Vec<u8>,
    /// What it is linked of.
    pub objects: Vec<(String, Vec<u8>)>,
    /// The tree's files that were read, by their path in it.
    pub inputs: BTreeSet<String>,
}

/// The hosted files of a tree, and whether each release has them.
pub(crate) fn hosted() -> impl Iterator<Item = (&'static str, bool)> {
    let list = KHOST.iter().find(|(name, _)| *name == "hosted.txt").expect("it is embedded").1;
    let lines = list.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines.map(|line| match line.strip_prefix("? ") {
        Some(name) => (name, false),
        None => (line.split(' ').next().unwrap_or(line), true),
    })
}

/// In words, the hosted files that an old tree lacks, with the release that brought each.
pub(crate) fn lacks(tree: &Path) -> String {
    let list = KHOST.iter().find(|(name, _)| *name == "hosted.txt").expect("it is embedded").1;
    let late =
        list.lines().filter(|l| !l.starts_with(['#', '?'])).filter_map(|l| l.split_once(' '));
    let lacks: Vec<String> = late
        .filter(|(name, _)| !tree.join(name).is_file())
        .map(|(name, since)| format!("{name} (since {since})"))
        .collect();
    if lacks.is_empty() { String::new() } else { format!("\nit has no {}", lacks.join(", ")) }
}

/// Those that the tree has, or the first that it should have.
pub(crate) fn hosted_of(tree: &Path) -> Result<Vec<&'static str>, &'static str> {
    let mut found = Vec::new();
    for (name, is_needed) in hosted() {
        match (tree.join(name).is_file(), is_needed) {
            (true, _) => found.push(name),
            (false, true) => return Err(name),
            (false, false) => {}
        }
    }
    Ok(found)
}

struct Unit {
    /// As messages name it.
    shown: String,
    path: PathBuf,
    object: String,
}

pub(crate) fn compile(job: &Job<'_>, hosted: &[&str]) -> Result<Product, KernelError> {
    write_headers(job)?;
    let theirs = hosted.iter().map(|name| Unit {
        shown: (*name).to_owned(),
        path: place(job, name),
        object: format!("{}.o", name.trim_end_matches(".c").replace('/', "-")),
    });
    let ours = KHOST.iter().filter(|(name, _)| name.ends_with(".c")).map(|(name, _)| Unit {
        shown: format!("khost/{name}"),
        path: job.scratch.path().join("khost").join(name),
        object: format!("khost-{}.o", name.trim_end_matches(".c").replace('/', "-")),
    });
    let units: Vec<Unit> = theirs.chain(ours).collect();
    compile_all(job, &units)?;
    link(job, &units)?;
    let (mut inputs, mut objects) = (BTreeSet::new(), Vec::new());
    if job.tree.join(OFFSETS).exists() {
        inputs.insert(OFFSETS.to_owned());
    }
    for unit in &units {
        let list = read(job, &format!("{}.d", unit.object))?;
        inputs.extend(inputs_of(&String::from_utf8_lossy(&list), job.tree));
        inputs.extend(inputs_of(&String::from_utf8_lossy(&list), Path::new(PATCHED)));
        objects.push((unit.object.clone(), read(job, &unit.object)?));
    }
    Ok(Product { image: read(job, IMAGE)?, objects, inputs })
}

/// Where a file of the tree is compiled from.
fn place(job: &Job<'_>, name: &str) -> PathBuf {
    let patched = Path::new(PATCHED).join(name);
    match job.scratch.path().join(&patched).is_file() {
        true => patched,
        false => job.tree.join(name),
    }
}

/// A policy's files, as they are compiled for the kernel of a job.
pub(crate) struct PolicyFiles<'a> {
    pub kind: PolicyKind,
    /// As messages name it.
    pub label: &'a str,
    pub module: &'a str,
    pub files: &'a SourceFiles,
}

/// A policy's object, and an image of a kernel's objects with it.
pub(crate) fn with_policy(
    job: &Job<'_>,
    objects: &[(String, Vec<u8>)],
    policy: &PolicyFiles<'_>,
) -> Result<(Vec<u8>, Vec<u8>), KernelError> {
    write_headers(job)?;
    compile_policy(job, policy)?;
    let object = policy.kind.object();
    let shown = policy.files.main.clone();
    // The first: its initcall comes before that of another of its name, and its symbols win.
    let mut units = vec![Unit { shown, path: PathBuf::new(), object: object.to_owned() }];
    for (name, object) in objects.iter().filter(|(name, _)| !policy.kind.replaces(name)) {
        let path = job.scratch.path().join(name);
        fs::write(&path, object).map_err(|error| unreadable(job, &path, error))?;
        let (shown, path) = (name.clone(), PathBuf::new());
        units.push(Unit { shown, path, object: name.clone() });
    }
    done(job, policy, run_linker(job, &units)?)?;
    Ok((read(job, object)?, read(job, IMAGE)?))
}

/// Makes one object of a policy's files.
fn compile_policy(job: &Job<'_>, policy: &PolicyFiles<'_>) -> Result<(), KernelError> {
    let folder = job.scratch.path().join("policy");
    let failed = |error| unreadable(job, &folder, error);
    fs::create_dir(&folder).map_err(failed)?;
    let SourceFiles { main, main_flags, parts, files, .. } = policy.files;
    for (name, text) in files {
        // What a user calls it, a compiler might take for something else.
        let name = if name == main { STAGED } else { name };
        fs::write(folder.join(name), text).map_err(failed)?;
    }
    let staged = Path::new("policy").join(STAGED);
    let first = (staged.clone(), main_flags);
    let parts = parts.iter().map(|part| (Path::new("policy").join(&part.file), &part.flags));
    let object = policy.kind.object();
    let mut together = Command::new(job.compiler);
    together.args(["-r", "-nostdlib", "-o", object]);
    for (at, (file, flags)) in [first].into_iter().chain(parts).enumerate() {
        let part = format!("part-{at}.o");
        let mut command = compiler(job, policy.module, "-c", &file, &part);
        command.args(GOVERNOR_FLAGS).args(flags);
        if policy.kind == PolicyKind::Cpufreq {
            command.args(["-include", "khost/include/khost/scheduler.h"]);
        }
        command.arg(format!("-fmacro-prefix-map={}={}", staged.display(), policy.module));
        done(job, policy, execute(job, command)?)?;
        together.arg(part);
    }
    done(job, policy, execute(job, together)?)?;
    let mut command = objcopy(job)?;
    command.args(policy.kind.names()).arg(object);
    done(job, policy, execute(job, command)?)
}

/// The compiler's own: one for another architecture makes objects that this machine's cannot read.
fn objcopy(job: &Job<'_>) -> Result<Command, KernelError> {
    let mut ask = Command::new(job.compiler);
    ask.arg("-print-prog-name=objcopy");
    let name = execute(job, ask)?.stdout;
    Ok(Command::new(if name.trim().is_empty() { "objcopy" } else { name.trim() }))
}

/// The error of a tool that a policy's files did not please.
fn done(job: &Job<'_>, policy: &PolicyFiles<'_>, ran: Ran) -> Result<(), KernelError> {
    if ran.status.success() {
        return Ok(());
    }
    let staged = Path::new("policy").join(STAGED).display().to_string();
    let message = shown(job, &ran.stderr).replace(&staged, &policy.files.main);
    let missing = missing_names(&message);
    let first = || message.lines().find(|l| l.contains("error")).unwrap_or("it does not link");
    Err(KernelError::Governor {
        kernel: job.kernel.to_owned(),
        release: job.release.to_string().into(),
        governor: policy.label.into(),
        summary: match missing.is_empty() {
            true => first().trim().to_owned(),
            false => format!("it has no {}", missing.join(", ")),
        },
        message: torpor_units::shown::lines(&message).into_owned(),
    })
}

fn unreadable(job: &Job<'_>, path: &Path, source: io::Error) -> KernelError {
    KernelError::Read { kernel: job.kernel.to_owned(), path: path.to_owned(), source }
}

fn read(job: &Job<'_>, name: &str) -> Result<Vec<u8>, KernelError> {
    let path = job.scratch.path().join(name);
    let kernel = job.kernel.to_owned();
    fs::read(&path).map_err(|source| KernelError::Read { kernel, path, source })
}

/// The tree's files of a list that the compiler has made.
fn inputs_of(list: &str, tree: &Path) -> Vec<String> {
    let words = list.split_whitespace().filter(|word| *word != "\\");
    let inside = |word: &str| Some(Path::new(word).strip_prefix(tree).ok()?.to_str()?.to_owned());
    words.filter_map(inside).collect()
}

pub(crate) fn write_headers(job: &Job<'_>) -> Result<(), KernelError> {
    let put = |name: &str, text: &[u8]| {
        let path = job.scratch.path().join(name);
        let folder = fs::create_dir_all(path.parent().expect("a joined path has a parent"));
        folder.and_then(|()| fs::write(&path, text)).map_err(|source| {
            let kernel = job.kernel.to_owned();
            KernelError::Read { kernel, path, source }
        })
    };
    for (name, text) in KHOST {
        put(&format!("khost/{name}"), text.as_bytes())?;
    }
    for (name, text) in generate::headers(job.tree, job.release, job.hz) {
        put(&format!("gen/{name}"), text.as_bytes())?;
    }
    if job.calls_io_boost {
        for (name, text) in ioboost_calls()? {
            put(&name, &text)?;
        }
        insert_calls(job)?;
    }
    // What only a compiler knows; since 6.19.
    if job.tree.join(OFFSETS).exists() {
        let list = "rq-offsets.s";
        compile_as(job, "-S", OFFSETS, &job.tree.join(OFFSETS), list)?;
        let list = String::from_utf8_lossy(&read(job, list)?).into_owned();
        put("gen/generated/rq-offsets.h", generate::offsets(&list).as_bytes())?;
    }
    Ok(())
}

/// Has the scheduler call an IO boost, in copies of the tree's files, as in a real kernel.
fn insert_calls(job: &Job<'_>) -> Result<(), KernelError> {
    let patched = job.scratch.path().join(PATCHED);
    for changed in CHANGED {
        let from = job.tree.join(changed);
        copy(&from, &patched.join(changed)).map_err(|error| unreadable(job, &from, error))?;
    }
    let mut command = Command::new("python3");
    command.args([SCRIPT, "install", PATCHED]);
    let ran = execute(job, command)?;
    match ran.status.success() {
        true => Ok(()),
        false => Err(KernelError::IoBoost {
            kernel: job.kernel.to_owned(),
            release: job.release.to_string().into(),
            message: shown(job, ran.stderr.trim()),
        }),
    }
}

/// A file, or a folder without its folders.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_file() {
        fs::create_dir_all(to.parent().unwrap_or(to))?;
        return fs::copy(from, to).map(drop);
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// On all cores. The error is that of the first file in the list that has one, whichever core was
/// faster.
fn compile_all(job: &Job<'_>, units: &[Unit]) -> Result<(), KernelError> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let first: Mutex<Option<(usize, KernelError)>> = Mutex::new(None);
    let work = || {
        loop {
            let at = next.fetch_add(1, Relaxed);
            let Some(unit) = units.get(at) else { return };
            match compile_one(job, unit) {
                Ok(()) => (job.progress)(done.fetch_add(1, Relaxed) + 1, units.len()),
                Err(error) => {
                    // Others need not begin.
                    next.store(units.len(), Relaxed);
                    let mut first = first.lock().unwrap_or_else(|e| e.into_inner());
                    if first.as_ref().is_none_or(|(other, _)| at < *other) {
                        *first = Some((at, error));
                    }
                    return;
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    match first.into_inner().unwrap_or_else(|e| e.into_inner()) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

fn compile_one(job: &Job<'_>, unit: &Unit) -> Result<(), KernelError> {
    compile_as(job, "-c", &unit.shown, &unit.path, &unit.object)
}

fn compile_as(
    job: &Job<'_>,
    until: &str,
    name: &str,
    path: &Path,
    object: &str,
) -> Result<(), KernelError> {
    let module = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
    let mut command = compiler(job, &module.replace('-', "_"), until, path, object);
    command.arg("-w");
    let ran = execute(job, command)?;
    if ran.status.success() {
        return Ok(());
    }
    let message = shown(job, &ran.stderr);
    Err(KernelError::Compile {
        kernel: job.kernel.to_owned(),
        release: job.release.to_string().into(),
        file: name.into(),
        summary: summary(&message),
        message,
    })
}

/// How a file becomes an object, or, with `-S`, assembly.
pub(crate) fn compiler(
    job: &Job<'_>,
    module: &str,
    until: &str,
    file: &Path,
    object: &str,
) -> Command {
    let tree = job.tree.display();
    let mut command = Command::new(job.compiler);
    command.args(FLAGS);
    command.arg(format!("-DKBUILD_MODNAME=\"{module}\""));
    command.arg(format!("-DKBUILD_BASENAME=\"{module}\""));
    command.arg(format!("-DKBUILD_MODFILE=\"{module}\""));
    command.arg(format!("-D__KBUILD_MODNAME=kmod_{module}"));
    command.arg(format!("-fmacro-prefix-map={tree}/="));
    for place in ["khost/include", "gen/wrap"] {
        command.arg("-I").arg(place);
    }
    if job.calls_io_boost {
        command.arg("-DKHOST_IO_BOOST");
        for place in ["include", "kernel/sched", "kernel/sched/ioboost"] {
            command.arg("-I").arg(Path::new(PATCHED).join(place));
        }
    }
    command.arg("-I").arg(job.tree.join("include"));
    command.arg("-I").arg("gen/uapi");
    command.arg("-I").arg(job.tree.join("include/uapi"));
    for place in ["gen", "gen/generated/uapi"] {
        command.arg("-I").arg(place);
    }
    for place in ["kernel/sched", "kernel/time", "kernel"] {
        command.arg("-I").arg(job.tree.join(place));
    }
    for header in ["compiler-version.h", "kconfig.h", "compiler_types.h"] {
        command.arg("-include").arg(job.tree.join("include/linux").join(header));
    }
    command.args(["-include", "khost/include/khost/hidden.h", "-MMD", "-MF"]);
    command.arg(format!("{object}.d"));
    command.arg(until).arg(file).arg("-o").arg(object);
    command
}

fn run_linker(job: &Job<'_>, units: &[Unit]) -> Result<Ran, KernelError> {
    let mut command = Command::new(job.compiler);
    command.args(LINK).arg("-Wl,-T,khost/kernel.lds").arg("-o").arg(IMAGE);
    command.args(units.iter().map(|unit| &unit.object));
    execute(job, command)
}

fn link(job: &Job<'_>, units: &[Unit]) -> Result<(), KernelError> {
    let ran = run_linker(job, units)?;
    if ran.status.success() {
        return Ok(());
    }
    let message = shown(job, &ran.stderr);
    let list = missing(&message, units);
    if list.is_empty() {
        return Err(KernelError::Image { kernel: job.kernel.to_owned(), reason: message });
    }
    let release = job.release.to_string();
    Err(KernelError::Missing { kernel: job.kernel.to_owned(), release, list })
}

fn execute(job: &Job<'_>, command: Command) -> Result<Ran, KernelError> {
    let is_stopped = || job.stop.is_some_and(|stop| stop.load(Relaxed));
    let compiler = command.get_program().to_string_lossy().into_owned();
    run(command, job.scratch.path(), LIMIT, &is_stopped).map_err(|failure| {
        let no_compiler = |source| GovernorError::NoCompiler { compiler, source };
        KernelError::Build(match failure {
            Failure::Start(source) => no_compiler(source),
            Failure::Scratch(source) => {
                GovernorError::Cache { path: job.scratch.path().to_owned(), source }
            }
            Failure::TimedOut => no_compiler(io::ErrorKind::TimedOut.into()),
            Failure::Stopped => GovernorError::Interrupted,
        })
    })
}

/// With files as the user knows them.
fn shown(job: &Job<'_>, said: &str) -> String {
    let said = said.replace(&format!("{}/", job.tree.display()), "");
    let said = said.replace(&format!("{}/", job.scratch.path().display()), "");
    torpor_units::shown::lines(&said).into_owned()
}

fn summary(message: &str) -> String {
    let line = message.lines().find(|l| l.contains("error: ")).unwrap_or("the compiler failed");
    match line.split_once(": No such file or directory") {
        Some((before, _)) => {
            let name = before.rsplit(": ").next().unwrap_or(before);
            format!("there is no header <{name}>")
        }
        None => line.trim().to_owned(),
    }
}

/// Each symbol that nobody has, with the first file and function that use it.
fn missing(message: &str, units: &[Unit]) -> Vec<String> {
    let mut place = String::new();
    let mut seen = BTreeSet::new();
    let mut list = Vec::new();
    for line in message.lines() {
        if let Some((object, function)) = line.split_once(": in function `") {
            let object = object.rsplit([' ', '/']).next().unwrap_or(object);
            let file = units.iter().find(|unit| unit.object == object);
            let file = file.map_or(object, |unit| unit.shown.as_str());
            place = format!("{file}, {}()", function.trim_end_matches(['\'', ':']));
        }
        let Some((_, symbol)) = line.split_once("undefined reference to `") else { continue };
        let symbol = symbol.trim_end_matches('\'').to_owned();
        if seen.insert(symbol.clone()) {
            list.push(format!("  {symbol} ({place})"));
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_header_is_named() {
        let message = "In file included from a.c:1:\na.c:1:10: fatal error: asm/x.h: No such file \
                       or directory\n";
        assert_eq!(summary(message), "there is no header <asm/x.h>");
    }

    #[test]
    fn a_missing_symbol_is_named_once_with_its_user() {
        let unit = |name: &str| Unit {
            shown: format!("{}.c", name.replace('-', "/")),
            path: PathBuf::new(),
            object: format!("{name}.o"),
        };
        let message = "/usr/bin/ld: kernel-sched-fair.o: in function `pick':\n\
                       fair.c:(.text+0x1): undefined reference to `other'\n\
                       /usr/bin/ld: fair.c:(.text+0x9): undefined reference to `other'\n";
        let list = missing(message, &[unit("kernel-sched-fair")]);
        assert_eq!(list, ["  other (kernel/sched/fair.c, pick())"]);
    }
}
