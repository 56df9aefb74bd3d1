// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The running machine's tree, or a folder that holds a copy of it.

use crate::counters::builder::{Builder, VALUE_BYTES_MAX};
use crate::counters::error::{CountersError, Failure};
use crate::counters::path::{
    self, CPU_ATTRS, DOMAIN_ATTRS, FACTS, FREQS, PERF_STATE_ATTRS, STATE_ATTRS,
};
use crate::counters::{CPU_MAX, STATE_MAX, Snapshot};
use crate::units::{CpuId, open_regular};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

const HINT: &str = "give /sys/devices/system/cpu, or a directory that holds a copy of it";
/// Folder of the CPUs in a whole filesystem.
const BELOW_ROOT: &str = "sys/devices/system/cpu";
/// Enough of `/proc/cpuinfo` for its first CPU.
const CPU_BYTES_MAX: u64 = 64 << 10;
/// Twenty times a kernel's configuration.
const CONFIG_BYTES_MAX: u64 = 8 << 20;

/// The time of a snapshot by the caller's clocks.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub taken_at_ns: i64,
    pub monotonic_ns: i64,
}

/// Takes a snapshot of the running machine's tree, at `root`.
///
/// # Errors
/// If `root` has no CPUs, or no CPU has idle states.
pub fn take(root: &Path, clock: Clock) -> Result<Snapshot, CountersError> {
    let mut snapshot = read(root).map_err(|failure| failure.named(&root.display().to_string()))?;
    snapshot.machine.taken_at_ns = Some(clock.taken_at_ns);
    snapshot.machine.monotonic_ns = Some(clock.monotonic_ns);
    Ok(snapshot)
}

pub(crate) fn read(root: &Path) -> Result<Snapshot, Failure> {
    let tree = Tree::open(root)?;
    let mut builder = Builder::default();
    if let Some(filesystem) = tree.filesystem() {
        read_facts(&filesystem, &tree.bounds, &mut builder);
    }
    for attr in ["current_driver", "current_governor", "current_governor_ro"] {
        tree.put(&format!("cpuidle/{attr}"), &mut builder);
    }
    for (cpu, path) in tree.numbered("", "cpu", CPU_MAX, &mut builder)? {
        builder.see_cpu(CpuId(cpu));
        let folder = format!("{path}/cpuidle");
        for (_, state) in tree.numbered(&folder, "state", STATE_MAX, &mut builder)? {
            for attr in STATE_ATTRS {
                tree.put(&format!("{state}/{attr}"), &mut builder);
            }
        }
        let rest = ["cpuidle/driver/name", &format!("cpufreq/{FREQS}")];
        for attr in rest.into_iter().chain(CPU_ATTRS) {
            tree.put(&format!("{path}/{attr}"), &mut builder);
        }
    }
    for (_, policy) in tree.numbered("cpufreq", "policy", u32::MAX, &mut builder)? {
        for attr in ["related_cpus", FREQS] {
            tree.put(&format!("{policy}/{attr}"), &mut builder);
        }
    }
    let places = [Some(root.to_owned()), tree.filesystem()];
    for place in places.iter().flatten() {
        if !builder.has_energy_model() {
            put_energy_model(place, &tree.bounds, &mut builder);
        }
    }
    builder.finish()
}

pub(crate) fn read_energy_model(root: &Path) -> Result<Snapshot, Failure> {
    let mut builder = Builder::default();
    put_energy_model(root, &Bounds::of(root), &mut builder);
    builder.finish_any()
}

/// Finds the energy model in `root` itself, or where a copy has it. Only root can read the running
/// machine's; for other users it does not exist.
fn put_energy_model(root: &Path, bounds: &Bounds, builder: &mut Builder) {
    for below in ["", "energy_model", "kernel/debug/energy_model", "sys/kernel/debug/energy_model"]
    {
        for (domain, folder) in folders(&root.join(below)) {
            if !folder.join("cpus").is_file() {
                continue;
            }
            let mut put = |path: &str| {
                let name = format!("energy_model/{domain}/{path}");
                let value = bounds.read_value(&folder.join(path));
                if let (Ok(value), Some(key)) = (value, path::parse(&name)) {
                    builder.put(key, &name, &value);
                }
            };
            DOMAIN_ATTRS.into_iter().for_each(&mut put);
            for (state, _) in folders(&folder) {
                if path::is_perf_state(&state) {
                    PERF_STATE_ATTRS.into_iter().for_each(|attr| put(&format!("{state}/{attr}")));
                }
            }
        }
        if builder.has_energy_model() {
            return;
        }
    }
}

fn folders(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named =
        entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())));
    let mut folders: Vec<(String, PathBuf)> = named.filter(|(_, path)| path.is_dir()).collect();
    folders.sort();
    folders
}

/// The folder that a snapshot is read from. A copy may come from anybody, and a link in it may lead
/// to
/// any file of the reader's: it is followed only as far as the copy goes.
struct Bounds {
    /// None: all of the filesystem, as for the running machine.
    folder: Option<PathBuf>,
}

const OUTSIDE: &str = "is a link out of the copy, which is not followed";

impl Bounds {
    fn of(folder: &Path) -> Bounds {
        let folder = fs::canonicalize(folder).unwrap_or(folder.to_owned());
        Bounds { folder: Some(folder).filter(|folder| folder.parent().is_some()) }
    }

    /// Returns whether a path stays in the folder, even if its target does not exist.
    fn holds(&self, path: &Path) -> bool {
        let Some(folder) = &self.folder else { return true };
        fs::canonicalize(path).map_or(true, |path| path.starts_with(folder))
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        if !self.holds(path) {
            return Err(io::Error::other(OUTSIDE));
        }
        open_regular(path)
    }

    fn read_value(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut value = Vec::new();
        self.open(path)?.take(VALUE_BYTES_MAX as u64).read_to_end(&mut value)?;
        Ok(value)
    }
}

struct Tree {
    /// The folder that holds `cpu0`, `cpu1` and so on.
    root: PathBuf,
    bounds: Bounds,
}

impl Tree {
    /// Finds the CPUs in `root` itself, or where a copy of all of sysfs has them.
    fn open(root: &Path) -> Result<Tree, Failure> {
        fs::read_dir(root).map_err(|error| Failure::new(error.to_string(), HINT))?;
        ["", "cpu", "system/cpu", "devices/system/cpu", BELOW_ROOT]
            .into_iter()
            .map(|below| root.join(below))
            .find(|found| !list(found, "cpu").unwrap_or_default().is_empty())
            .map(|found| {
                let filesystem = filesystem(&found);
                let bounds = Bounds::of(filesystem.as_deref().unwrap_or(root));
                Tree { root: found, bounds }
            })
            .ok_or_else(|| Failure::new("there are no directories cpu0, cpu1, … in it", HINT))
    }

    fn filesystem(&self) -> Option<PathBuf> {
        filesystem(&self.root)
    }

    /// The folders `prefixN` in a folder, ascending by N, each with its path.
    fn numbered(
        &self,
        folder: &str,
        prefix: &str,
        max: u32,
        builder: &mut Builder,
    ) -> Result<Vec<(u32, String)>, Failure> {
        let numbers = list(&self.root.join(folder), prefix).map_err(|error| {
            Failure::new(
                format!("`{folder}` cannot be read: {error}"),
                "check that the files of the tree are readable",
            )
        })?;
        let slash = if folder.is_empty() { "" } else { "/" };
        let mut found = Vec::new();
        for number in numbers {
            let path = format!("{folder}{slash}{prefix}{number}");
            match u32::try_from(number) {
                Ok(_) if !self.bounds.holds(&self.root.join(&path)) => {
                    builder.problem(&path, OUTSIDE.to_owned());
                }
                Ok(number) if number <= max => found.push((number, path)),
                _ => builder.problem(&path, "is beyond what any kernel numbers".to_owned()),
            }
        }
        Ok(found)
    }

    /// Hands a file's value to the builder, if there is such a file.
    fn put(&self, path: &str, builder: &mut Builder) {
        match self.bounds.read_value(&self.root.join(path)) {
            Ok(value) => {
                let key = path::parse(path).expect("only known files are read");
                builder.put(key, path, &value);
            }
            Err(error) if is_absent(&error) => {}
            Err(error) => builder.problem(path, format!("cannot be read: {error}")),
        }
    }
}

/// The root of the filesystem that has this tree, if it is in its place there.
fn filesystem(tree: &Path) -> Option<PathBuf> {
    let mut root = tree.ancestors();
    tree.ends_with(BELOW_ROOT).then(|| root.nth(4).unwrap_or(Path::new("")).to_owned())
}

fn list(folder: &Path, prefix: &str) -> io::Result<Vec<u64>> {
    let listing = match fs::read_dir(folder) {
        Ok(listing) => listing,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut numbers = Vec::new();
    for entry in listing {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(number) = name.to_str().and_then(|name| path::number(name, prefix)) {
            if entry.path().is_dir() {
                numbers.push(number);
            }
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The beginning of a file that is a text.
fn read_start(file: impl Read, bytes_max: u64) -> Option<String> {
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads facts about the machine; missing ones stay unknown.
fn read_facts(filesystem: &Path, bounds: &Bounds, builder: &mut Builder) {
    for (fact, path) in FACTS {
        if let Ok(value) = bounds.read_value(&filesystem.join(path)) {
            builder.put(path::Key::Fact(fact), path, &value);
        }
    }
    let facts = FACTS.iter().map(|(_, path)| *path);
    for path in facts.chain([CPUINFO, CONFIG]) {
        if !bounds.holds(&filesystem.join(path)) {
            builder.problem(path, OUTSIDE.to_owned());
        }
    }
    builder.machine().title = read_title(filesystem, bounds);
    let release = builder.machine().kernel_release.clone();
    builder.machine().hz = read_hz(filesystem, bounds, release.as_deref());
}

const CPUINFO: &str = "proc/cpuinfo";
const CONFIG: &str = "proc/config.gz";

fn read_title(filesystem: &Path, bounds: &Bounds) -> Option<String> {
    let file = bounds.open(&filesystem.join(CPUINFO)).ok()?;
    let text = read_start(file, CPU_BYTES_MAX)?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// `CONFIG_HZ` from the kernel's configuration, if the machine has it.
fn read_hz(filesystem: &Path, bounds: &Bounds, release: Option<&str>) -> Option<u32> {
    let config = match bounds.open(&filesystem.join(CONFIG)) {
        Ok(file) => read_start(flate2::read::GzDecoder::new(file), CONFIG_BYTES_MAX)?,
        Err(_) => {
            let path = format!("boot/config-{}", release?);
            read_start(bounds.open(&filesystem.join(path)).ok()?, CONFIG_BYTES_MAX)?
        }
    };
    config.lines().find_map(|line| line.strip_prefix("CONFIG_HZ=")?.parse().ok())
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
