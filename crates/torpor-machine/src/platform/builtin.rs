// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The machines that ship with Torpor, and the lookup of a name on the command line.

use crate::platform::import::{import_dump, load_dump};
use crate::platform::toml_file::{PLATFORM, io_device_from_toml, parse};
use crate::platform::{
    ImportOptions, IoDevice, Platform, PlatformError, from_document, from_toml, import,
};
use crate::recent::Recent;
use crate::toml::{Builtins, Document, Param, Typed, read_text};
use std::borrow::Cow;
use std::path::Path;

static PLATFORMS: Builtins = Builtins {
    kind: "platform",
    folder: "platforms",
    files: include!(concat!(env!("OUT_DIR"), "/builtins.rs")),
};

static IO_DEVICES: Builtins = Builtins {
    kind: "IO device",
    folder: "platforms/io_devices",
    files: include!(concat!(env!("OUT_DIR"), "/io_devices.rs")),
};

/// A machine that ships with Torpor.
#[derive(Clone, Debug)]
pub struct Builtin {
    /// Name to type after `--platform`.
    pub name: &'static str,
    /// The TOML text, comments and all.
    pub text: &'static str,
    pub platform: Platform,
}

/// Returns every machine that ships with Torpor, ordered by name.
pub fn builtins() -> Vec<Builtin> {
    let all = PLATFORMS.read_all(from_toml);
    all.map(|(name, text, platform)| Builtin { name, text, platform }).collect()
}

/// Returns every IO device that ships by itself, ordered by name.
pub fn io_devices() -> Vec<IoDevice> {
    IO_DEVICES.read_all(io_device_from_toml).map(|(_, _, device)| device).collect()
}

/// Returns the machine called `typed`: a built-in name, the path of a TOML file, or the path of
/// anything that [`import()`](crate::platform::import()) reads. After the first two, `,path=number`
/// replaces a number of the file.
///
/// A path is recognised by a `/` or the ending `.toml`, so a file can never hide a built-in.
pub fn resolve(typed: &str) -> Result<Platform, PlatformError> {
    let source = Source::new(typed)?;
    let content = source.content();
    if let Some(platform) = RECENT.get(|(by, known)| by == typed && content == *known) {
        return Ok(platform);
    }
    let key = (typed.to_owned(), content.into_owned());
    let suffix = source.parts.suffix;
    let mut platform = from_document(&source.filled(typed)?)?;
    platform.name += suffix;
    if key.1.len() <= KEPT_BYTES_MAX {
        RECENT.keep(key, platform.clone());
    }
    Ok(platform)
}

/// By what was typed and the content that was found.
static RECENT: Recent<(String, Vec<u8>), Platform, 16> = Recent::new();
/// Larger files are read again: a dump of a machine can be an archive with all of its sysfs.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Returns what [`resolve`] reads.
pub fn document(typed: &str) -> Result<Document, PlatformError> {
    Source::new(typed)?.filled(typed)
}

/// A machine's description, as it is before numbers are replaced.
struct Source<'a> {
    found: Found,
    parts: Typed<'a>,
}

enum Found {
    /// A file's name in errors, and its text.
    File(String, Cow<'static, str>),
    /// A dump that is one file.
    Dump(Vec<u8>),
    Imported(Document),
}

impl<'a> Source<'a> {
    fn new(typed: &'a str) -> Result<Source<'a>, PlatformError> {
        let parts = Typed::new(typed).map_err(|reason| wrong(typed, reason))?;
        let (name, path) = (parts.name, Path::new(parts.name));
        let found = if name.ends_with(".toml") {
            let action = "read platform";
            let text = read_text(path);
            let text =
                text.map_err(|source| PlatformError::Io { path: path.into(), action, source })?;
            Found::File(name.to_owned(), text.into())
        } else if parts.is_path() {
            match load_dump(path)? {
                Some(bytes) => Found::Dump(bytes),
                None => Found::Imported(import(path, &named_after(path))?.document),
            }
        } else {
            let hint = "for a file of your own, give its path, ending in `.toml`";
            let (origin, text) = PLATFORMS.find(name, hint)?;
            Found::File(origin, text.into())
        };
        Ok(Source { found, parts })
    }

    fn content(&self) -> Cow<'_, [u8]> {
        match &self.found {
            Found::File(_, text) => Cow::Borrowed(text.as_bytes()),
            Found::Dump(bytes) => Cow::Borrowed(bytes),
            Found::Imported(document) => document.to_toml().into_owned().into_bytes().into(),
        }
    }

    /// Returns the description with the numbers after the name.
    fn filled(self, typed: &str) -> Result<Document, PlatformError> {
        let mut document = match self.found {
            Found::File(origin, text) => parse(&origin, &text)?,
            Found::Dump(bytes) => {
                let path = Path::new(self.parts.name);
                import_dump(path, &bytes, &named_after(path))?.document
            }
            Found::Imported(document) => document,
        };
        add_devices(&mut document, &self.parts.params);
        self.parts.fill(&mut document, &PLATFORM).map_err(|reason| wrong(typed, reason))?;
        Ok(document)
    }
}

fn wrong(typed: &str, reason: String) -> PlatformError {
    PlatformError::Param { typed: typed.to_owned(), reason }
}

/// Adds the shipped IO devices of which numbers are replaced.
fn add_devices(document: &mut Document, params: &[Param<'_>]) {
    for &(name, text) in IO_DEVICES.files {
        let prefix = format!("io_device.{name}.");
        let is_changed = params.iter().any(|(path, _)| path.starts_with(&prefix));
        if is_changed && !document.content.has_named("io_device", name) {
            let device = parse(name, text).expect("a shipped IO device is TOML");
            document.content_mut().push("io_device", device.content.elsewhere());
        }
    }
}

/// Names an imported machine after its file, with `-` for what a name cannot hold.
fn named_after(path: &Path) -> ImportOptions {
    let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    ImportOptions::named(
        stem.chars().map(|c| if is_legal(c) { c } else { '-' }).collect::<String>(),
    )
}

impl Platform {
    pub fn resolve(name_or_path: &str) -> Result<Platform, PlatformError> {
        resolve(name_or_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_name_suggests_the_nearest() {
        let error = resolve("pixel-6").unwrap_err().to_string();
        assert!(error.contains("did you mean `pixel6`?\nexpected"), "{error}");
    }

    #[test]
    fn shipped_file_has_its_machines_name() {
        for builtin in builtins() {
            assert_eq!(builtin.name, builtin.platform.name);
        }
    }

    #[test]
    fn number_behind_a_name_replaces_the_files() {
        let own = resolve("i5-10600k").unwrap();
        let other = resolve("i5-10600k,hz=250,package_floor_power_mw=2e3").unwrap();
        assert_eq!((own.hz.get(), other.hz.get()), (1000, 250));
        assert_eq!(other.floor_power, crate::units::Power::from_mw(2000.0));
        assert_eq!(other.name, "i5-10600k,hz=250,package_floor_power_mw=2e3");
        assert_eq!(other.clusters, own.clusters);
        assert_ne!(other.sha256, own.sha256);
    }

    #[test]
    fn unknown_number_lists_the_valid_ones() {
        let says = |typed: &str, text: &str| {
            let error = resolve(typed).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        };
        says("i5-10600k,hertz=250", "`hertz` is not a number of its file; expected one of ");
        says("rk3399,exit_latency_us=1", "`exit_latency_us` occurs 6 times in its file");
        says("rk3399,WFI.exit_latency_us=1", "expected one of cluster.little.idle_state.WFI.exit");
        says("i5-10600k,hz", "`hz` has no `=`: expected KEY=NUMBER");
        says("i5-10600k,hz=fast", "hz: `fast` is not a number");
        says("i5-10600k,hz=250,hz=250", "`hz` is given twice");
        says("i5-10600k,hz=251", "100, 250, 300 or 1000");
        says("./no,such.toml,hz=250", "`./no,such.toml`");
        says("pixel-6,hz=250", "did you mean `pixel6`?");
    }

    #[test]
    fn absent_number_needs_no_source() {
        assert!(document("rk3399").unwrap().content.get("ipi_delivery_us").is_none());
        let given = resolve("rk3399,ipi_delivery_us=2.5").unwrap();
        assert_eq!(given.overheads.ipi_delivery, crate::units::Duration(2500));
    }

    #[test]
    fn shipped_device_can_be_changed_by_a_number() {
        assert!(resolve("i5-10600k").unwrap().io_devices.is_empty());
        let given = resolve("i5-10600k,io_device.emmc.parallelism=4").unwrap();
        let [device] = &given.io_devices[..] else { panic!("one device") };
        assert_eq!((device.name.as_str(), device.parallelism), ("emmc", 4));
        let own = resolve("rk3399,io_device.emmc.parallelism=4").unwrap();
        assert_eq!(own.io_devices.len(), resolve("rk3399").unwrap().io_devices.len());
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = resolve("no/such/machine.toml").unwrap_err().to_string();
        assert!(error.contains("no/such/machine.toml"), "{error}");
    }
}
