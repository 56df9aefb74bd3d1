// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compiles a tree's hosted files unedited, and links them with those of `khost/`.

use crate::kernel::contents::{self, Contents};
use crate::kernel::generate;
use crate::kernel::policy::{self, LinkedPolicy, PolicyFiles, PolicyKind};
use crate::kernel::{Configuration, KHOST, KernelError, Release, scheduler, unknown};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use torpor_governor::hosting::{Failure, Files, Key, Ran, Scratch, Store, ioboost_calls, run};
use torpor_governor::{GovernorError, SourceFiles};
use torpor_machine::units::{Hz, read_regular};

/// Program of the tree whose assembly contains structure offsets.
const OFFSETS: &str = "kernel/sched/rq-offsets.c";
pub(crate) const IMAGE: &str = "kernel.so";
/// Time limit for one file, which takes seconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Flags of the kernel's Makefile that change the code's behavior, and those that make one
/// self-contained object without symbol look-ups.
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
    // A warning names the tree's file, not its copy in PATCHED.
    "-fmacro-prefix-map=patched/=",
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

/// Files of the tree that no compiler reads: the first has the release, the second a place that
/// [`SCRIPT`] changes.
pub(crate) const MAKEFILES: [&str; 2] = ["Makefile", "kernel/sched/Makefile"];
/// Folder of a tree's idle governors.
pub(crate) const OWN_GOVERNORS: &str = "drivers/cpuidle/governors/";

/// Files of the tree that [`SCRIPT`] changes in copies, and the folder of the copies.
const CHANGED: &[&str] = &["kernel/sched", "include/linux/sched.h"];
const PATCHED: &str = "patched";
/// File of a cache entry with an object.
const OBJECT: &str = "object.o";
const SCRIPT: &str = "kernel/ioboost/insert.py";

pub(crate) fn flags() -> impl Iterator<Item = &'static str> {
    FLAGS.iter().chain(LINK).copied()
}

/// Reports progress: the number of files compiled, and of all files.
pub(crate) type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Compilation of one image.
pub(crate) struct Job<'a> {
    pub kernel: &'a str,
    pub release: &'a Release,
    pub tree: &'a Path,
    pub config: &'a Configuration,
    pub hz: Hz,
    pub compiler: &'a OsString,
    /// Output of the compiler's `--version`.
    pub version: &'a str,
    pub store: &'a Store,
    pub scratch: &'a Scratch,
    pub stop: Option<&'a AtomicBool>,
    pub progress: Progress<'a>,
}

pub(crate) struct Product {
    pub image: Vec<u8>,
    /// Object files to link.
    pub objects: Vec<(String, Vec<u8>)>,
    /// Files of the tree that the compiler read, relative to it.
    pub inputs: BTreeSet<String>,
    pub policies: Vec<LinkedPolicy>,
}

/// A line of `khost/hosted.txt`.
pub(crate) struct Hosted {
    pub name: &'static str,
    /// Whether every release has it.
    pub is_needed: bool,
    /// Option without which it is not compiled.
    pub option: Option<&'static str>,
}

/// Returns the hosted files.
pub(crate) fn hosted() -> impl Iterator<Item = Hosted> {
    let list = KHOST.iter().find(|(name, _)| *name == "hosted.txt").expect("it is embedded").1;
    let lines = list.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines.map(|line| {
        let (is_needed, line) = line.strip_prefix("? ").map_or((true, line), |rest| (false, rest));
        let mut words = line.split(' ');
        let name = words.next().unwrap_or(line);
        Hosted { name, is_needed, option: words.find(|word| word.starts_with(char::is_uppercase)) }
    })
}

/// Describes the hosted files that an old tree lacks, with the release that added each.
pub(crate) fn lacks(tree: &Path) -> String {
    let list = KHOST.iter().find(|(name, _)| *name == "hosted.txt").expect("it is embedded").1;
    let late =
        list.lines().filter(|l| !l.starts_with(['#', '?'])).filter_map(|l| l.split_once(' '));
    let lacks: Vec<String> = late
        .filter(|(name, since)| since.starts_with(char::is_numeric) && !tree.join(name).is_file())
        .map(|(name, since)| format!("{name} (since {since})"))
        .collect();
    if lacks.is_empty() { String::new() } else { format!("\nit has no {}", lacks.join(", ")) }
}

/// Returns the hosted files of a configuration that the tree has, or the first one that it lacks.
pub(crate) fn hosted_of(
    tree: &Path,
    config: &Configuration,
) -> Result<Vec<&'static str>, &'static str> {
    let mut found = Vec::new();
    let is_asked = |file: &Hosted| file.option.is_none_or(|option| config.has(option));
    for Hosted { name, is_needed, .. } in hosted().filter(is_asked) {
        match (tree.join(name).is_file(), is_needed) {
            (true, _) => found.push(name),
            (false, true) => return Err(name),
            (false, false) => {}
        }
    }
    Ok(found)
}

struct Unit<'a> {
    /// Name in messages.
    shown: String,
    path: PathBuf,
    object: String,
    /// Policy that ships with Torpor. One that does not compile is left out of the image.
    policy: Option<PolicyFiles<'a>>,
}

pub(crate) fn compile(
    job: &Job<'_>,
    hosted: &[&str],
    shipped: &[(PolicyKind, SourceFiles)],
) -> Result<Product, KernelError> {
    let calls_io_boost = write_headers(job)?.is_none();
    let theirs = hosted.iter().map(|name| Unit {
        shown: (*name).to_owned(),
        path: place(job, name),
        object: format!("{}.o", name.trim_end_matches(".c").replace('/', "-")),
        policy: None,
    });
    let ours = KHOST.iter().filter(|(name, _)| name.ends_with(".c")).map(|(name, _)| Unit {
        shown: format!("khost/{name}"),
        path: Path::new("khost").join(name),
        object: format!("khost-{}.o", name.trim_end_matches(".c").replace('/', "-")),
        policy: None,
    });
    let fits = |kind: PolicyKind| calls_io_boost || kind != PolicyKind::IoBoost;
    let policies = shipped.iter().filter(|(kind, _)| fits(*kind)).map(|(kind, files)| {
        let name = &files.name;
        let policy = PolicyFiles { kind: *kind, label: name, linked: name, files };
        let (shown, object) = (files.main.clone(), policy.object());
        Unit { shown, path: PathBuf::new(), object, policy: Some(policy) }
    });
    let mut units: Vec<Unit<'_>> = theirs.chain(ours).chain(policies).collect();
    let inputs = compile_all(job, &units)?;
    units.retain(|unit| job.scratch.path().join(&unit.object).exists());
    link(job, &mut units)?;
    product(job, &units, &inputs)
}

/// Output of the compiler and the linker. `read_files` names the files that the compiler read.
fn product(
    job: &Job<'_>,
    units: &[Unit<'_>],
    read_files: &BTreeSet<String>,
) -> Result<Product, KernelError> {
    let mut inputs = BTreeSet::from(MAKEFILES.map(str::to_owned));
    let (mut objects, mut policies) = (Vec::new(), Vec::new());
    if job.tree.join(OFFSETS).exists() {
        inputs.insert(OFFSETS.to_owned());
    }
    let copied = |name: &str| Some(name.strip_prefix(PATCHED)?.strip_prefix('/')?.to_owned());
    let of_tree =
        |name: &String| contents::in_tree(name).map(str::to_owned).or_else(|| copied(name));
    inputs.extend(read_files.iter().filter_map(of_tree));
    for unit in units {
        let object = read(job, &unit.object)?;
        let own = unit.shown.strip_prefix(OWN_GOVERNORS).map(|file| file.trim_end_matches(".c"));
        let own = own.map(|name| (LinkedPolicy::TREE, name, policy::module(name)));
        let linked = unit.policy.as_ref();
        let linked = linked.map(|policy| (policy.kind.name(), policy.linked, policy.module()));
        policies.extend(own.or(linked).map(|(kind, name, module)| LinkedPolicy {
            kind: kind.to_owned(),
            name: name.to_owned(),
            params: policy::params_of(&object, &module),
        }));
        objects.push((unit.object.clone(), object));
    }
    // Code that SCRIPT inserts is not a file of the tree.
    inputs.retain(|input| job.tree.join(input).is_file());
    Ok(Product { image: read(job, IMAGE)?, objects, inputs, policies })
}

/// Returns the path from which a file of the tree is compiled.
fn place(job: &Job<'_>, name: &str) -> PathBuf {
    let patched = Path::new(PATCHED).join(name);
    match job.scratch.path().join(&patched).is_file() {
        true => patched,
        false => job.tree.join(name),
    }
}

pub(crate) fn unreadable(job: &Job<'_>, path: &Path, source: io::Error) -> KernelError {
    KernelError::Read { kernel: job.kernel.to_owned(), path: path.to_owned(), source }
}

pub(crate) fn read(job: &Job<'_>, name: &str) -> Result<Vec<u8>, KernelError> {
    let path = job.scratch.path().join(name);
    let kernel = job.kernel.to_owned();
    read_regular(&path).map_err(|source| KernelError::Read { kernel, path, source })
}

/// Writes the headers that the tree's `make` would generate. Returns the reason if its scheduler
/// cannot call an IO boost.
pub(crate) fn write_headers(job: &Job<'_>) -> Result<Option<String>, KernelError> {
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
    for (name, text) in generate::headers(job.tree, job.release, job.config, job.hz) {
        put(&format!("gen/{name}"), text.as_bytes())?;
    }
    for (name, text) in ioboost_calls()? {
        put(&name, &text)?;
    }
    let no_calls = insert_calls(job)?;
    // Offsets that only the compiler knows, needed since 6.19.
    if job.tree.join(OFFSETS).exists() {
        let list = "rq-offsets.s";
        compile_as(job, &contents(job), "-S", OFFSETS, &job.tree.join(OFFSETS), list)?;
        let list = String::from_utf8_lossy(&read(job, list)?).into_owned();
        put("gen/generated/rq-offsets.h", generate::offsets(&list).as_bytes())?;
    }
    Ok(no_calls)
}

/// Inserts the calls of an IO boost into copies of the tree's files, as in a real kernel. A tree
/// without a place for one of the calls stays unchanged; returns the missing place.
fn insert_calls(job: &Job<'_>) -> Result<Option<String>, KernelError> {
    let patched = job.scratch.path().join(PATCHED);
    for changed in CHANGED {
        let from = job.tree.join(changed);
        copy(&from, &patched.join(changed)).map_err(|error| unreadable(job, &from, error))?;
    }
    let mut command = Command::new("python3");
    command.args([SCRIPT, "install", PATCHED]);
    let ran = execute(job, command)?;
    if ran.status.success() {
        return Ok(None);
    }
    fs::remove_dir_all(&patched).map_err(|error| unreadable(job, &patched, error))?;
    Ok(Some(shown(job, ran.stderr.trim())))
}

/// Copies a file, or the files of a folder without its subfolders.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_file() {
        fs::create_dir_all(to.parent().unwrap_or(to))?;
        return fs::copy(from, to).map(drop);
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.path().is_file() {
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Compiles all files in parallel; returns the names of the files that the compiler read. If several
/// fail, the error is that of the first in their order, so that it does not depend on timing.
fn compile_all(job: &Job<'_>, units: &[Unit<'_>]) -> Result<BTreeSet<String>, KernelError> {
    // The governors first: they are what most series change, and what most often does not fit.
    let mut order: Vec<&Unit<'_>> = units.iter().collect();
    order.sort_by_key(|unit| !unit.shown.starts_with(OWN_GOVERNORS));
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let first: Mutex<Option<(usize, KernelError)>> = Mutex::new(None);
    let contents = &contents(job);
    let all_inputs = Mutex::new(BTreeSet::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Relaxed);
            let Some(unit) = order.get(at) else { return };
            match compile_one(job, contents, unit) {
                Ok(inputs) => {
                    all_inputs.lock().unwrap_or_else(|e| e.into_inner()).extend(inputs);
                    (job.progress)(done.fetch_add(1, Relaxed) + 1, units.len());
                }
                Err(error) => {
                    // Start no further files.
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
        None => Ok(all_inputs.into_inner().unwrap_or_else(|e| e.into_inner())),
    }
}

/// Compiles a file, or finds its object in the cache; returns the files that the compiler read.
fn compile_one(
    job: &Job<'_>,
    contents: &Contents<'_>,
    unit: &Unit<'_>,
) -> Result<BTreeSet<String>, KernelError> {
    if let Some(policy) = &unit.policy {
        let compiled = policy::compile_policy(job, contents, policy);
        if let Err(KernelError::Governor { .. }) = compiled {
            let _ = fs::remove_file(job.scratch.path().join(&unit.object));
            return Ok(BTreeSet::new());
        }
        return compiled;
    }
    compile_as(job, contents, "-c", &unit.shown, &unit.path, &unit.object)
}

fn compile_as(
    job: &Job<'_>,
    contents: &Contents<'_>,
    until: &str,
    name: &str,
    path: &Path,
    object: &str,
) -> Result<BTreeSet<String>, KernelError> {
    let module = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
    let mut command = compiler(job, &module.replace('-', "_"), until, path, object);
    let is_governor = name.starts_with(OWN_GOVERNORS);
    if !is_governor {
        command.arg("-w");
    }
    let mut key = command_key(job, &command);
    key.add(&read_regular(&job.scratch.path().join(path)).unwrap_or_default());
    let has_class = name == scheduler::CLASS && job.config.has(scheduler::OPTION);
    if has_class {
        key.add(scheduler::OPTION.as_bytes());
    }
    cached_object(job, contents, key, object, || {
        run_compiler(job, command, name, is_governor)?;
        if has_class {
            scheduler::make_global(job, object)?;
        }
        Ok(contents.listed(&String::from_utf8_lossy(&read(job, &format!("{object}.d"))?)))
    })
}

/// Returns a key of a command, the same for every place of the tree.
pub(crate) fn command_key(job: &Job<'_>, command: &Command) -> Key {
    let mut key = Key::default();
    key.add(job.version.as_bytes());
    let tree = job.tree.display().to_string();
    for arg in command.get_args() {
        key.add(arg.to_string_lossy().replace(&tree, "TREE").as_bytes());
    }
    key
}

/// Puts an object into the scratch folder, from the cache or by `make`, which returns the files that
/// it read; so does this.
pub(crate) fn cached_object(
    job: &Job<'_>,
    contents: &Contents<'_>,
    key: Key,
    object: &str,
    make: impl FnOnce() -> Result<BTreeSet<String>, KernelError>,
) -> Result<BTreeSet<String>, KernelError> {
    let what = format!("an object file of kernel `{}`", job.kernel);
    let mut is_new = false;
    let mut found = contents::cached(job.store, "objects", key.finish(), &what, contents, || {
        is_new = true;
        let inputs = make()?;
        Ok((Files::from([(OBJECT.to_owned(), read(job, object)?)]), inputs))
    })?;
    if !is_new {
        let path = job.scratch.path().join(object);
        let bytes = found.files.remove(OBJECT).unwrap_or_default();
        fs::write(&path, bytes).map_err(|error| unreadable(job, &path, error))?;
    }
    Ok(found.inputs)
}

fn run_compiler(
    job: &Job<'_>,
    command: Command,
    name: &str,
    is_governor: bool,
) -> Result<(), KernelError> {
    let ran = execute(job, command)?;
    let message = shown(job, &ran.stderr);
    // A governor that calls what its tree lacks is refused here; the linker would find it only after
    // all files are compiled. Headers may: what they call so is never linked.
    let is_undeclared =
        |line: &&str| line.starts_with(name) && line.contains("implicit declaration of function");
    let undeclared = message.lines().find(is_undeclared).filter(|_| is_governor);
    let summary = match (ran.status.success(), undeclared) {
        (true, None) => return Ok(()),
        (true, Some(line)) => line.to_owned(),
        (false, _) => summary(&message),
    };
    let message = match is_governor {
        true => message,
        false => format!("{}\nhint: {}", message.trim_end(), answer(name, &summary)),
    };
    Err(KernelError::Compile {
        kernel: job.kernel.to_owned(),
        release: job.release.to_string().into(),
        file: name.into(),
        summary,
        message,
    })
}

/// Returns which part of `khost/` would answer an error of the compiler.
fn answer(file: &str, summary: &str) -> String {
    if let Some((_, header)) = summary.split_once("there is no header <asm/") {
        let header = header.trim_end_matches('>');
        return format!("khost/include/asm/{header} would answer it");
    }
    if summary.contains("CONFIG_") {
        return "khost/config.h or khost/options.txt would answer it".to_owned();
    }
    match file.starts_with("khost/") {
        true => format!("{file} would answer it: this tree's declarations are not those it knows"),
        false => "what a hosted file needs and its tree does not give is in khost/include and \
                  khost/config.h"
            .to_owned(),
    }
}

/// Returns the command that compiles a file to an object or, with `-S`, to assembly.
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
    let is_patched = job.scratch.path().join(PATCHED).is_dir();
    if is_patched {
        command.arg("-DKHOST_CALLS_IO_BOOST");
    }
    for folder in contents::SEARCH {
        match contents::in_tree(folder) {
            Some(inside) => command.arg("-I").arg(job.tree.join(inside)),
            None if folder.starts_with(PATCHED) && !is_patched => continue,
            None => command.arg("-I").arg(folder),
        };
    }
    for header in ["compiler-version.h", "kconfig.h", "compiler_types.h"] {
        command.arg("-include").arg(job.tree.join("include/linux").join(header));
    }
    command.args(["-include", "khost/include/khost/hidden.h", "-MMD", "-MF"]);
    command.arg(format!("{object}.d"));
    command.arg(until).arg(file).arg("-o").arg(object);
    command
}

/// Returns the files that the compiler can read. The headers have been written.
pub(crate) fn contents<'a>(job: &'a Job<'_>) -> Contents<'a> {
    Contents::new(job.tree, job.scratch.path(), contents::SEARCH)
}

/// Returns the tool of a compiler's binutils: `objcopy`, `objdump`.
pub(crate) fn tool(compiler: &OsStr, name: &str) -> OsString {
    let prefix = compiler.to_str().and_then(|name| name.strip_suffix("-gcc"));
    prefix.map_or(name.into(), |prefix| format!("{prefix}-{name}").into())
}

pub(crate) fn run_linker(job: &Job<'_>, objects: &[String]) -> Result<Ran, KernelError> {
    let mut command = Command::new(job.compiler);
    command.args(LINK).arg("-Wl,-T,khost/kernel.lds").arg("-o").arg(IMAGE).args(objects);
    execute(job, command)
}

/// Links the image. Leaves out policies with symbols that the kernel does not define, and adds
/// functions that end the run for those that nobody defines.
fn link(job: &Job<'_>, units: &mut Vec<Unit<'_>>) -> Result<(), KernelError> {
    let mut unknown = BTreeSet::new();
    loop {
        let objects: Vec<String> = units.iter().map(|unit| unit.object.clone()).collect();
        let ran = run_linker(job, &objects)?;
        if ran.status.success() {
            return Ok(());
        }
        let message = shown(job, &ran.stderr);
        let is_named = |unit: &Unit<'_>| message.contains(&format!("{}: in function", unit.object));
        units.retain(|unit| unit.policy.is_none() || !is_named(unit));
        if units.len() < objects.len() {
            continue;
        }
        let mut missing = missing(&message, units);
        let names: BTreeSet<String> = missing.keys().cloned().collect();
        if names.is_empty() || names.is_subset(&unknown) {
            return Err(KernelError::Image { kernel: job.kernel.to_owned(), reason: message });
        }
        let variables = unknown::variables(job, &objects, &names)?;
        if !variables.is_empty() {
            missing.retain(|name, _| variables.contains(name));
            let places = unknown::places(job.tree, &variables);
            let line = |(name, user): (&String, &String)| {
                let answer = unknown::answer(places.get(name), "a file of khost/src");
                format!("  {name}, {answer}; used in {user}")
            };
            let list = missing.iter().map(line).collect();
            let release = job.release.to_string();
            return Err(KernelError::Missing { kernel: job.kernel.to_owned(), release, list });
        }
        unknown.extend(names);
        let unit = unknown_unit(job, &unknown)?;
        units.retain(|other| other.object != unit.object);
        units.push(unit);
    }
}

/// Compiles functions of these names, which end the run.
fn unknown_unit<'a>(job: &Job<'_>, names: &BTreeSet<String>) -> Result<Unit<'a>, KernelError> {
    let unit = Unit {
        shown: unknown::SOURCE.to_owned(),
        path: PathBuf::from(unknown::SOURCE),
        object: unknown::UNIT.to_owned(),
        policy: None,
    };
    let path = job.scratch.path().join(&unit.path);
    fs::write(&path, unknown::source(job.tree, names))
        .map_err(|error| unreadable(job, &path, error))?;
    compile_as(job, &contents(job), "-c", &unit.shown, &unit.path, &unit.object)?;
    Ok(unit)
}

pub(crate) fn execute(job: &Job<'_>, command: Command) -> Result<Ran, KernelError> {
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

/// Replaces paths in a tool's output by those that the user knows.
pub(crate) fn shown(job: &Job<'_>, said: &str) -> String {
    let said = said.replace(&format!("{}/", job.tree.display()), "");
    let said = said.replace(&format!("{}/", job.scratch.path().display()), "");
    torpor_machine::units::shown::lines(&said).into_owned()
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

/// Returns the undefined symbols, each with the first file and function that use it.
fn missing(message: &str, units: &[Unit<'_>]) -> BTreeMap<String, String> {
    let mut place = String::new();
    let mut found = BTreeMap::new();
    for line in message.lines() {
        if let Some((object, function)) = line.split_once(": in function `") {
            let object = object.rsplit([' ', '/']).next().unwrap_or(object);
            let file = units.iter().find(|unit| unit.object == object);
            let file = file.map_or(object, |unit| unit.shown.as_str());
            place = format!("{file}, {}()", function.trim_end_matches(['\'', ':']));
        }
        let Some((_, symbol)) = line.split_once("undefined reference to `") else { continue };
        let symbol = symbol.trim_end_matches('\'').to_owned();
        found.entry(symbol).or_insert_with(|| place.clone());
    }
    found
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
    fn an_error_names_the_part_of_the_host() {
        let of = |file: &str, summary: &str| answer(file, summary);
        assert!(of("lib/a.c", "there is no header <asm/x.h>").starts_with("khost/include/asm/x.h"));
        assert!(of("lib/a.c", "'CONFIG_X' undeclared").starts_with("khost/config.h"));
        assert!(of("khost/src/task.c", "conflicting types").starts_with("khost/src/task.c"));
        assert!(of("lib/a.c", "no member named `x`").contains("khost/include"));
    }

    #[test]
    fn missing_symbol_is_named_with_its_user() {
        let unit = |name: &str| Unit {
            shown: format!("{}.c", name.replace('-', "/")),
            path: PathBuf::new(),
            object: format!("{name}.o"),
            policy: None,
        };
        let message = "/usr/bin/ld: kernel-sched-fair.o: in function `pick':\n\
                       fair.c:(.text+0x1): undefined reference to `other'\n\
                       /usr/bin/ld: fair.c:(.text+0x9): undefined reference to `other'\n";
        let list = missing(message, &[unit("kernel-sched-fair")]);
        let expected = ("other".to_owned(), "kernel/sched/fair.c, pick()".to_owned());
        assert_eq!(Vec::from_iter(list), [expected]);
    }
}
