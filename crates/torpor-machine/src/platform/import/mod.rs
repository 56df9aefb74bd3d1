// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Machines described elsewhere, turned into platform files.
//!
//! `sysfs` and `device_tree` each read a `share` of every CPU; `energy` adds the kernel's energy
//! model; `emit` puts like CPUs together into clusters. What comes out has been checked by
//! [`crate::platform::from_document`].

mod device_tree;
mod emit;
mod energy;
mod share;
mod sysfs;

use crate::counters::{CountersError, PerfDomain, Snapshot};
use crate::platform::{PlatformError, Scope};
use crate::toml::Document;
use crate::units::{Hz, open_regular};
use share::Machine;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Facts that the machine's description does not contain.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The platform's name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The machine in words. Without it, the CPU's or board's model name, if that is known.
    pub title: Option<String>,
    /// `CONFIG_HZ` of its kernel. Without it, what a snapshot says; otherwise 250, and a note.
    pub hz: Option<Hz>,
    /// A dump of `/sys/kernel/debug/energy_model` that [`crate::counters::read_energy_model`]
    /// reads. Without it, what the dump of sysfs has of it.
    pub energy_model: Option<PathBuf>,
}

/// A platform's description, and what its reader should know about how it came to be.
#[derive(Clone, Debug)]
pub struct Imported {
    pub document: Document,
    /// One sentence each; also in the file, as comments.
    pub notes: Vec<String>,
}

impl ImportOptions {
    /// With nothing but a name.
    pub fn named(name: impl Into<String>) -> ImportOptions {
        ImportOptions { name: name.into(), title: None, hz: None, energy_model: None }
    }
}

/// Why what was read does not make a platform.
struct Failure {
    reason: String,
    hint: String,
}

impl Failure {
    fn at(self, root: &Path) -> PlatformError {
        PlatformError::Import { root: root.to_owned(), reason: self.reason, hint: self.hint }
    }
}

/// Imports a machine from its device tree (`.dts`, `.dtsi`, `.dtb`), or from its sysfs in any form
/// that [`crate::counters::read`] takes.
pub fn import(root: &Path, options: &ImportOptions) -> Result<Imported, PlatformError> {
    if !device_tree::is_device_tree(root, &head(root)) {
        return import_sysfs(root, options);
    }
    let bytes = device_tree::load(root).map_err(|failure| failure.at(root))?;
    let name = root.file_name().unwrap_or(root.as_os_str()).to_string_lossy();
    import_device_tree(&name, &bytes, options)
}

/// Imports `/sys/devices/system/cpu` of this machine, or any dump of one that
/// [`crate::counters::read`] reads.
///
/// An imperfect tree gives notes if it can still be read sensibly (offline CPUs, no frequencies),
/// and with an error where the idle states themselves are not there or not sound.
pub fn import_sysfs(root: &Path, options: &ImportOptions) -> Result<Imported, PlatformError> {
    let snapshot = crate::counters::read(root).map_err(from_counters)?;
    import_snapshot(root, &snapshot, options)
}

/// Returns the bytes of a dump that is one file; `None` for folders and device trees, of which other
/// files can be a part.
pub(super) fn load_dump(root: &Path) -> Result<Option<Vec<u8>>, PlatformError> {
    if root.is_dir() || device_tree::is_device_tree(root, &[]) {
        return Ok(None);
    }
    let bytes = crate::counters::load(root).map_err(from_counters)?;
    let is_tree = device_tree::is_device_tree(root, &bytes) && root.is_file();
    Ok((!is_tree).then_some(bytes))
}

/// Imports what [`load_dump`] returned; `root` is what errors call it.
pub(super) fn import_dump(
    root: &Path,
    bytes: &[u8],
    options: &ImportOptions,
) -> Result<Imported, PlatformError> {
    let snapshot = crate::counters::read_bytes(&root.display().to_string(), bytes);
    import_snapshot(root, &snapshot.map_err(from_counters)?, options)
}

/// Imports what a snapshot holds; `root` is what errors call it.
pub fn import_snapshot(
    root: &Path,
    snapshot: &Snapshot,
    options: &ImportOptions,
) -> Result<Imported, PlatformError> {
    let mut notes = snapshot.notes.clone();
    let model = match options.energy_model {
        Some(_) => energy_model(options, &mut notes)?,
        None => snapshot.energy_model.clone(),
    };
    // A snapshot may hold the kernel's configuration; a rate that no kernel has is no rate.
    let hz = options.hz.or(snapshot.machine.hz.and_then(Hz::from_u32));
    let machine = sysfs::read(snapshot, &model, &mut notes);
    machine
        .and_then(|machine| finish(machine, &ImportOptions { hz, ..options.clone() }, notes))
        .map_err(|failure| failure.at(root))
}

/// Imports the bytes of a `.dtb`; `name` is what errors and sources call it.
pub fn import_device_tree(
    name: &str,
    bytes: &[u8],
    options: &ImportOptions,
) -> Result<Imported, PlatformError> {
    let mut notes = Vec::new();
    let model = energy_model(options, &mut notes)?;
    device_tree::read(name, bytes, &model, &mut notes)
        .and_then(|machine| finish(machine, options, notes))
        .map_err(|failure| failure.at(Path::new(name)))
}

/// Reads the options' energy model file; nothing without one.
fn energy_model(
    options: &ImportOptions,
    notes: &mut Vec<String>,
) -> Result<Vec<PerfDomain>, PlatformError> {
    let Some(path) = &options.energy_model else { return Ok(Vec::new()) };
    let found = crate::counters::read_energy_model(path).map_err(from_counters)?;
    notes.extend(found.problems.iter().map(|p| format!("`{}` {}", p.path, p.reason)));
    Ok(found.energy_model)
}

fn finish(
    mut machine: Machine,
    options: &ImportOptions,
    mut notes: Vec<String>,
) -> Result<Imported, Failure> {
    switch_off(&mut machine, &mut notes);
    if options.hz.is_none() {
        notes.push(format!("{} does not tell the tick rate: 250 is assumed", machine.origin));
    }
    let content = emit::platform(options, &machine, &notes);
    let document = Document::of("the imported platform", "", content);
    match crate::platform::from_document(&document) {
        Ok(_) => Ok(Imported { document, notes }),
        Err(error) => Err(Failure {
            reason: format!("its contents do not make a platform\n{error}"),
            hint: "if the machine really says so, write the file by hand".to_owned(),
        }),
    }
}

/// Switches off what the idle loop never enters, and names what is off for that or another reason.
fn switch_off(machine: &mut Machine, notes: &mut Vec<String>) {
    for state in machine.cpus.values_mut().flat_map(|cpu| &mut cpu.states) {
        let reason = match state.never_entered() {
            Some(reason) => format!("the idle loop never enters `{}`: {reason}", state.name),
            None if state.is_disabled && state.scope == Scope::Cpu => {
                format!("`{}` is off by default", state.name)
            }
            None => continue,
        };
        state.is_disabled = true;
        let hint = format!("it is disabled here, `--enable-state {}` enables it", state.name);
        note_once(notes, format!("{reason}; {hint}"));
    }
}

/// Adds a note that holds for several CPUs only once.
fn note_once(notes: &mut Vec<String>, note: String) {
    if !notes.contains(&note) {
        notes.push(note);
    }
}

fn from_counters(CountersError { name, reason, hint }: CountersError) -> PlatformError {
    PlatformError::Import { root: name.into(), reason, hint }
}

/// The first bytes of a file, by which a format shows; none of a folder, nor of a pipe, which gives
/// them once.
fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    // An unreadable file will be reported by the full read.
    let _ = open_regular(path).map(|file| file.take(8).read_to_end(&mut head));
    head
}
