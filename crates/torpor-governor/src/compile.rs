// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compiles foreign governors with the user's compiler, once per source, tick rate and compiler.

use crate::builtin::KAPI;
use crate::elf::ImageFile;
use crate::flags;
use crate::tree::Sources;
use crate::{GovernorError, Label};
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use torpor_units::Hz;

#[derive(Debug)]
pub(crate) struct Compiler {
    program: OsString,
    cache: PathBuf,
    /// What `cc --version` says: another compiler makes other code.
    version: OnceLock<String>,
}

impl Compiler {
    pub fn new(program: OsString, cache: PathBuf) -> Compiler {
        Compiler { program, cache, version: OnceLock::new() }
    }

    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// The image of `sources`, from the cache or fresh.
    pub fn image(
        &self,
        label: &Label,
        sources: &Sources,
        hz: Hz,
    ) -> Result<ImageFile, GovernorError> {
        let path = self.cache.join("images").join(format!("{}.so", self.key(sources, hz)?));
        if let Ok(bytes) = fs::read(&path) {
            // A damaged entry is compiled again.
            if let Ok(image) = ImageFile::parse(bytes) {
                return Ok(image);
            }
        }
        let bytes = self.compile(label, sources, hz)?;
        write_whole(&path, &bytes).map_err(|e| cache_error(&path, e))?;
        ImageFile::parse(bytes)
            .map_err(|reason| GovernorError::Image { policy: label.clone(), reason })
    }

    fn key(&self, sources: &Sources, hz: Hz) -> Result<String, GovernorError> {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        add(self.version()?.as_bytes());
        add(&hz.get().to_le_bytes());
        flags::image().for_each(|flag| add(flag.as_bytes()));
        add(sources.main.as_bytes());
        for (name, text) in &sources.files {
            add(name.as_bytes());
            add(text);
        }
        for (name, text) in KAPI {
            add(name.as_bytes());
            add(text.as_bytes());
        }
        Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
    }

    pub fn program(&self) -> &OsStr {
        &self.program
    }

    pub fn version(&self) -> Result<&str, GovernorError> {
        if let Some(version) = self.version.get() {
            return Ok(version);
        }
        let output =
            Command::new(&self.program).arg("--version").output().map_err(|e| self.missing(e))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(self.version.get_or_init(|| format!("{:?}\n{text}", self.program)))
    }

    pub fn missing(&self, source: io::Error) -> GovernorError {
        let compiler = self.program.to_string_lossy().into_owned();
        GovernorError::NoCompiler { compiler, source }
    }

    fn compile(&self, label: &Label, sources: &Sources, hz: Hz) -> Result<Vec<u8>, GovernorError> {
        let kapi = self.unpack_kapi()?;
        let stage = Scratch::new(&self.cache).map_err(|e| cache_error(&self.cache, e))?;
        for (name, text) in &sources.files {
            let path = stage.0.join(name);
            fs::write(&path, text).map_err(|e| cache_error(&path, e))?;
        }
        // A source cannot be called so: names of sources end in `.c` or `.h`.
        let image = stage.0.join("image.so");
        let output = Command::new(&self.program)
            .args(flags::image())
            .arg(flags::hz_define(hz.get()))
            // __FILE__, which BUG() reports, is the user's name for the file, not the stage's.
            .arg(format!("-fmacro-prefix-map={}/=", stage.0.display()))
            .arg("-I")
            .arg(kapi.join("include"))
            .arg("-o")
            .arg(&image)
            .arg(stage.0.join(&sources.main))
            .arg(kapi.join("image.c"))
            .env("LC_ALL", "C")
            .output()
            .map_err(|e| self.missing(e))?;
        if output.status.success() {
            return fs::read(&image).map_err(|e| cache_error(&image, e));
        }
        let message = String::from_utf8_lossy(&output.stderr)
            .replace(&format!("{}/", stage.0.display()), &prefix(&sources.dir))
            .replace(&format!("{}/", kapi.display()), "kapi/");
        let (summary, hint) = explain(&message);
        Err(GovernorError::Compile { policy: label.clone(), summary, hint, message })
    }

    /// The kapi on disk, where a compiler can read it.
    pub fn unpack_kapi(&self) -> Result<PathBuf, GovernorError> {
        let mut hash = Sha256::new();
        for (name, text) in KAPI {
            hash.update(name.as_bytes());
            hash.update([0]);
            hash.update(text.as_bytes());
            hash.update([0]);
        }
        let hash: String = hash.finalize()[..8].iter().map(|b| format!("{b:02x}")).collect();
        let home = self.cache.join(format!("kapi-{hash}"));
        if home.is_dir() {
            return Ok(home);
        }
        let stage = Scratch::new(&self.cache).map_err(|e| cache_error(&self.cache, e))?;
        for (name, text) in KAPI {
            let path = stage.0.join(name);
            let parent = path.parent().expect("a joined path has a parent");
            fs::create_dir_all(parent)
                .and_then(|()| fs::write(&path, text))
                .map_err(|e| cache_error(&path, e))?;
        }
        stage.keep_as(&home).map_err(|e| cache_error(&home, e))?;
        Ok(home)
    }
}

pub(crate) fn prefix(dir: &Path) -> String {
    if dir.as_os_str().is_empty() { String::new() } else { format!("{}/", dir.display()) }
}

pub(crate) fn cache_error(path: &Path, source: io::Error) -> GovernorError {
    GovernorError::Cache { path: path.to_owned(), source }
}

/// A fresh folder in the cache, removed on drop.
pub(crate) struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(cache: &Path) -> io::Result<Scratch> {
        let path = unused_name(&cache.join("scratch"));
        fs::create_dir_all(&path)?;
        Ok(Scratch(path))
    }

    /// Moves the folder to its final place; whoever was first wins, with the same content.
    pub fn keep_as(self, place: &Path) -> io::Result<()> {
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        match fs::rename(&self.0, place) {
            Err(_) if place.is_dir() => Ok(()),
            result => result,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing depends on it: what stays behind is only disk space.
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn unused_name(beside: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut name = beside.as_os_str().to_owned();
    name.push(format!("-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed)));
    name.into()
}

/// Other processes see the whole file or none.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let temporary = unused_name(path);
    fs::write(&temporary, bytes)?;
    fs::rename(&temporary, path)
}

pub(crate) fn default_cache_dir() -> PathBuf {
    let from = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    from("XDG_CACHE_HOME")
        .or_else(|| Some(from("HOME")?.join(".cache")))
        .unwrap_or_else(std::env::temp_dir)
        .join("torpor")
}

pub(crate) fn default_compiler() -> OsString {
    std::env::var_os("CC").filter(|v| !v.is_empty()).unwrap_or_else(|| OsStr::new("cc").to_owned())
}

/// What a compiler's or linker's message says is missing, as (kind, how the name follows).
const MISSING: &[(Missing, &str, &str)] = &[
    (Missing::Function, "implicit declaration of function '", "'"),
    (Missing::Function, "call to undeclared function '", "'"),
    (Missing::Function, "undefined reference to `", "'"),
    (Missing::Function, "undefined symbol: ", "\n"),
    (Missing::Header, "fatal error: ", ": No such file or directory"),
    (Missing::Header, "fatal error: '", "' file not found"),
    (Missing::Type, "unknown type name '", "'"),
    (Missing::Name, "use of undeclared identifier '", "'"),
    (Missing::Member, "has no member named '", "'"),
    (Missing::Member, "no member named '", "'"),
];

#[derive(Clone, Copy, PartialEq)]
enum Missing {
    Function,
    Header,
    Type,
    Name,
    Member,
}

/// The kapi's header that holds a function, type or name, as a whole word.
fn header_with(name: &str) -> Option<&'static str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let holds = |text: &str| {
        text.match_indices(name).any(|(at, _)| {
            !text[..at].ends_with(is_word) && !text[at + name.len()..].starts_with(is_word)
        })
    };
    let headers =
        KAPI.iter().filter_map(|(file, text)| Some((file.strip_prefix("include/")?, text)));
    headers.filter(|(_, text)| holds(text)).map(|(file, _)| file).next()
}

/// One line on what is wrong, and a hint if the kapi lacks something.
pub(crate) fn explain(message: &str) -> (String, String) {
    let mut lacks: Vec<String> = Vec::new();
    let mut to_include: Vec<String> = Vec::new();
    let mut note = |kind: Missing, name: &str| {
        let can_be_included = matches!(kind, Missing::Function | Missing::Type | Missing::Name);
        if can_be_included && let Some(header) = header_with(name) {
            let text = format!("{name} from <{header}>");
            if !to_include.contains(&text) {
                to_include.push(text);
            }
            return;
        }
        let text = match kind {
            Missing::Function => format!("function {name}()"),
            Missing::Header => format!("header <{name}>"),
            Missing::Type => format!("type {name}"),
            Missing::Name => format!("name {name}"),
            Missing::Member => format!("structure member {name}"),
        };
        if !lacks.contains(&text) {
            lacks.push(text);
        }
    };
    for line in message.lines() {
        let line = format!("{line}\n");
        let found = MISSING.iter().find_map(|(kind, before, after)| {
            let (_, rest) = line.split_once(before)?;
            let (name, _) = rest.split_once(after)?;
            Some((*kind, name))
        });
        if let Some((kind, name)) = found {
            note(kind, name);
        } else if let Some((_, name)) =
            line.split_once("' undeclared").and_then(|(before, _)| before.rsplit_once('\''))
        {
            note(Missing::Name, name);
        }
    }
    if lacks.is_empty() && !to_include.is_empty() {
        let hint = "add the #include: a kernel may have it by accident of another header";
        return (
            format!("the file uses {} without including it", to_include.join(", ")),
            hint.to_owned(),
        );
    }
    if lacks.is_empty() {
        let first = message.lines().find(|l| l.contains("error")).unwrap_or("the compiler failed");
        return (first.trim().to_owned(), String::new());
    }
    let hint = "the kapi has what idle governors of Linux 6.1 and 6.12 use; if a kernel has this, \
                it takes a few lines in kapi/include";
    (format!("the kapi has no {}", lacks.join(", ")), hint.to_owned())
}
