// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compiles foreign governors with the user's compiler, once per source, tick rate and compiler.

use crate::builtin::KAPI;
use crate::child::{self, Failure, Ran};
use crate::config;
use crate::elf::ImageFile;
use crate::flags;
use crate::release::has_word;
use crate::store::{Files, Store, cache_error};
use crate::tree::Sources;
use crate::{GovernorError, Label};
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use torpor_machine::units::{Hz, read_regular, shown};

/// A governor compiles in a second; a busy machine may need more.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);
/// Name of an image in its cache entry.
const IMAGE: &str = "image.so";
/// The governor's folder in the stage, if it includes files of the folder above.
const INNER: &str = "governor/";
/// Larger images are not read, in bytes.
const IMAGE_MAX: u64 = 128 << 20;

#[derive(Debug)]
pub(crate) struct Compiler {
    program: OsString,
    store: Store,
    limit: Duration,
    pub stop: Option<Arc<AtomicBool>>,
    /// Output of `cc --version`, which is part of cache keys.
    version: OnceLock<String>,
}

/// A temporary folder with a governor's files, in which the compiler runs.
///
/// The governor's main file has a fixed name there, because a compiler could take the user's name for
/// an option.
pub(crate) struct Stage {
    scratch: crate::store::Scratch,
    pub main: String,
    /// The governor's other files: path in the stage, and path in messages.
    parts: Vec<(String, String)>,
    /// Path of the main file in messages.
    shown: String,
    kapi: PathBuf,
}

impl Compiler {
    pub(crate) fn new(
        program: OsString,
        store: Store,
        limit: Duration,
        stop: Option<Arc<AtomicBool>>,
    ) -> Compiler {
        // It runs in another folder.
        let is_path = Path::new(&program).components().count() > 1;
        let found = if is_path { std::path::absolute(&program).ok() } else { None };
        let program = found.map_or(program, PathBuf::into_os_string);
        Compiler { program, store, limit, stop, version: OnceLock::new() }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the image of `sources`, from the cache or newly compiled.
    pub(crate) fn image(
        &self,
        label: &Label,
        sources: &Sources,
        hz: Hz,
    ) -> Result<ImageFile, GovernorError> {
        let key = self.key(sources, hz)?;
        let made = || {
            let bytes = self.compile(label, sources, hz)?;
            Ok(Files::from([(IMAGE.to_owned(), bytes)]))
        };
        let mut entry = self.store.entry("images", &key, &label.to_string(), made)?;
        let bytes = entry.files.remove(IMAGE).unwrap_or_default();
        ImageFile::parse(bytes)
            .map_err(|reason| GovernorError::Image { policy: label.clone(), reason })
    }

    fn key(&self, sources: &Sources, hz: Hz) -> Result<String, GovernorError> {
        let mut key = Key::default();
        key.add(self.version()?.as_bytes());
        key.add(&hz.get().to_le_bytes());
        flags::image().for_each(|flag| key.add(flag.as_bytes()));
        key.add_sources(sources);
        Ok(key.finish())
    }

    pub(crate) fn version(&self) -> Result<&str, GovernorError> {
        if let Some(version) = self.version.get() {
            return Ok(version);
        }
        let scratch = self.store.scratch()?;
        let mut command = Command::new(&self.program);
        command.arg("--version");
        let timed_out = || self.missing(io::ErrorKind::TimedOut.into());
        let ran = self.spawn(command, scratch.path(), timed_out)?;
        Ok(self.version.get_or_init(|| format!("{:?}\n{}", self.program, ran.stdout)))
    }

    fn spawn(
        &self,
        command: Command,
        folder: &Path,
        timed_out: impl FnOnce() -> GovernorError,
    ) -> Result<Ran, GovernorError> {
        let is_stopped = || self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
        child::run(command, folder, self.limit, &is_stopped).map_err(|failure| match failure {
            Failure::Start(source) => self.missing(source),
            Failure::Scratch(source) => cache_error(folder, source),
            Failure::TimedOut => timed_out(),
            Failure::Stopped => GovernorError::Interrupted,
        })
    }

    fn missing(&self, source: io::Error) -> GovernorError {
        let compiler = self.program.to_string_lossy().into_owned();
        GovernorError::NoCompiler { compiler, source }
    }

    fn compile(&self, label: &Label, sources: &Sources, hz: Hz) -> Result<Vec<u8>, GovernorError> {
        let stage = self.stage(sources)?;
        let hz = flags::hz_define(hz.get());
        let mut all: Vec<&str> = flags::image().collect();
        all.push(&hz);
        let parts = self.parts(label, sources, &stage, &all)?;
        let mut command = self.command(&stage);
        command.args(all).args(&sources.main_flags).args(stage.kapi_args()).args(parts);
        // No source has this name: sources end in `.c` or `.h`.
        command.arg("-o").arg(IMAGE).arg(&stage.main).arg(stage.kapi.join("image.c"));
        self.make(label, command, &stage)?;
        stage.product(label, IMAGE, IMAGE_MAX)
    }

    /// Compiles the governor's other files, each with its own flags; returns the objects.
    pub(crate) fn parts(
        &self,
        label: &Label,
        sources: &Sources,
        stage: &Stage,
        flags: &[&str],
    ) -> Result<Vec<String>, GovernorError> {
        let mut objects = Vec::new();
        for (at, (part, (staged, _))) in sources.parts.iter().zip(&stage.parts).enumerate() {
            let object = format!("part-{at}.o");
            let mut command = self.command(stage);
            // Without link flags, of which `-c` warns.
            command.args(flags.iter().filter(|flag| !flag.starts_with("-Wl,") && **flag != "-s"));
            command.args(&part.flags).args(stage.kapi_args());
            command.arg("-c").arg("-o").arg(&object).arg(staged);
            self.make(label, command, stage)?;
            objects.push(object);
        }
        Ok(objects)
    }

    /// Writes the files to a new stage, and the kapi next to it.
    pub(crate) fn stage(&self, sources: &Sources) -> Result<Stage, GovernorError> {
        let kapi = self.store.entry("kapi", &kapi_key(), "the kernel's interface", || {
            Ok(KAPI
                .iter()
                .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()))
                .collect())
        })?;
        let scratch = self.store.scratch()?;
        // The stage must contain the folder above the governor's if that is included from.
        let has_outer = sources.files.keys().any(|name| name.starts_with("../"));
        let folder = if has_outer { INNER } else { "" };
        let place = scratch.path().join(folder);
        fs::create_dir_all(&place).map_err(|e| cache_error(&place, e))?;
        let main = staged_name(sources);
        for (name, text) in &sources.files {
            let is_main = *name == sources.main;
            put(&place.join(if is_main { &main } else { name }), text)?;
        }
        let main = format!("{folder}{main}");
        put(&scratch.path().join(config::HEADER), config::header(sources).as_bytes())?;
        // Relative to the stage, so that it does not contain folder names of the user.
        let kapi = Path::new("../../kapi").join(kapi.path.file_name().unwrap_or_default());
        let shown =
            |file: &str| shown::line(&format!("{}{file}", prefix(&sources.dir))).into_owned();
        let parts = sources.parts.iter();
        let parts = parts.map(|p| (format!("./{folder}{}", p.file), shown(&p.file))).collect();
        let shown = shown(&sources.main);
        Ok(Stage { scratch, main, parts, shown, kapi })
    }

    pub(crate) fn command(&self, stage: &Stage) -> Command {
        let mut command = Command::new(&self.program);
        // BUG() reports __FILE__, which must be the user's name of the file.
        let file = Path::new(&stage.shown).file_name().unwrap_or_default().to_string_lossy();
        command.arg(format!("-fmacro-prefix-map={}={file}", stage.main));
        command
    }

    /// Runs the compiler; its failure is in the result's status.
    pub(crate) fn run(
        &self,
        label: &Label,
        command: Command,
        stage: &Stage,
    ) -> Result<Ran, GovernorError> {
        self.spawn(command, stage.path(), || GovernorError::CompileTime {
            policy: label.clone(),
            limit_s: self.limit.as_secs(),
        })
    }

    /// Runs the compiler; its failure is an error.
    pub(crate) fn make(
        &self,
        label: &Label,
        command: Command,
        stage: &Stage,
    ) -> Result<(), GovernorError> {
        let ran = self.run(label, command, stage)?;
        if ran.status.success() { Ok(()) } else { Err(stage.error(label, &ran.stderr)) }
    }
}

/// Returns the name of the governor's main file in the stage.
pub(crate) fn staged_name(sources: &Sources) -> String {
    let mut main = "hosted-governor.c".to_owned();
    while sources.files.contains_key(&main) && sources.main != main {
        main.insert(0, '_');
    }
    main
}

impl Stage {
    pub(crate) fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// Returns the arguments that make the kapi's headers and the kernel options visible.
    pub(crate) fn kapi_args(&self) -> [OsString; 4] {
        let include = self.kapi.join("include").into_os_string();
        ["-include".into(), config::HEADER.into(), "-I".into(), include]
    }

    /// Returns the compiler's output with the user's names of files.
    pub(crate) fn message(&self, output: &str) -> String {
        let parts = self.parts.iter();
        let text =
            parts.fold(output.to_owned(), |text, (staged, shown)| text.replace(staged, shown));
        let text = text
            .replace(&self.main, &self.shown)
            .replace(&format!("{}/", self.kapi.display()), "kapi/")
            .replace(&format!("{}/", self.path().display()), "");
        shown::lines(&text).into_owned()
    }

    pub(crate) fn error(&self, label: &Label, output: &str) -> GovernorError {
        let message = self.message(output);
        let (summary, hint) = explain(&message);
        GovernorError::Compile { policy: label.clone(), summary, hint, message }
    }

    /// Reads a file that the compiler has made, of up to `most` bytes.
    pub(crate) fn product(
        &self,
        label: &Label,
        name: &str,
        most: u64,
    ) -> Result<Vec<u8>, GovernorError> {
        let path = self.path().join(name);
        let len = fs::metadata(&path).map_err(|e| cache_error(&path, e))?.len();
        if len > most {
            let reason = format!(
                "it requires {} MiB; the maximum is {}: a governor needs no statics of such a size",
                len >> 20,
                most >> 20
            );
            return Err(GovernorError::Image { policy: label.clone(), reason });
        }
        read_regular(&path).map_err(|e| cache_error(&path, e))
    }
}

pub(crate) fn put(path: &Path, text: &[u8]) -> Result<(), GovernorError> {
    fs::write(path, text).map_err(|e| cache_error(path, e))
}

/// Hash of all inputs of a cached file; its name.
#[derive(Default)]
pub struct Key(Sha256);

impl Key {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn add_sources(&mut self, sources: &Sources) {
        self.add(sources.main.as_bytes());
        let parts = sources.parts.iter().map(|part| (&part.file, &part.flags));
        for (file, flags) in [(&sources.main, &sources.main_flags)].into_iter().chain(parts) {
            self.add(file.as_bytes());
            flags.iter().for_each(|flag| self.add(flag.as_bytes()));
        }
        for (name, text) in &sources.files {
            self.add_file(name, text);
        }
        self.add(config::header(sources).as_bytes());
        self.add_kapi();
    }

    pub(crate) fn add_file(&mut self, name: &str, text: &[u8]) {
        self.add(name.as_bytes());
        self.add(text);
    }

    fn add_kapi(&mut self) {
        for (name, text) in KAPI {
            self.add_file(name, text.as_bytes());
        }
    }

    pub fn finish(self) -> String {
        self.0.finalize().iter().map(|b| format!("{b:02x}")).collect()
    }
}

fn kapi_key() -> String {
    let mut key = Key::default();
    key.add_kapi();
    key.finish()[..16].to_owned()
}

fn prefix(dir: &Path) -> String {
    if dir.as_os_str().is_empty() { String::new() } else { format!("{}/", dir.display()) }
}

pub fn default_compiler() -> OsString {
    std::env::var_os("CC").filter(|v| !v.is_empty()).unwrap_or_else(|| OsStr::new("cc").to_owned())
}

/// Messages of compilers and linkers about missing names: kind, text before the name, text after it.
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

/// Returns the kapi's header that contains a function, type or name.
fn header_with(name: &str) -> Option<&'static str> {
    let mut headers =
        KAPI.iter().filter_map(|(file, text)| Some((file.strip_prefix("include/")?, text)));
    headers.find(|(_, text)| has_word(text, name)).map(|(file, _)| file)
}

/// Returns all that a compiler's or linker's messages call missing, each once.
fn missing(message: &str) -> Vec<(Missing, String)> {
    let mut all: Vec<(Missing, String)> = Vec::new();
    for line in message.lines() {
        let line = format!("{line}\n");
        let found = MISSING.iter().find_map(|(kind, before, after)| {
            let (_, rest) = line.split_once(before)?;
            let (name, _) = rest.split_once(after)?;
            Some((*kind, name.to_owned()))
        });
        let undeclared = || {
            let (_, name) = line.split_once("' undeclared")?.0.rsplit_once('\'')?;
            Some((Missing::Name, name.to_owned()))
        };
        all.extend(found.or_else(undeclared).filter(|found| !all.contains(found)));
    }
    all
}

fn described(kind: Missing, name: &str) -> String {
    match kind {
        Missing::Function => format!("function {name}()"),
        Missing::Header => format!("header <{name}>"),
        Missing::Type => format!("type {name}"),
        Missing::Name => format!("name {name}"),
        Missing::Member => format!("structure member {name}"),
    }
}

/// Describes what a compiler's or linker's messages call missing: "function f()".
pub fn missing_names(message: &str) -> Vec<String> {
    missing(message).iter().map(|(kind, name)| described(*kind, name)).collect()
}

/// Returns a summary in one line, and a hint if the kapi lacks something.
pub(crate) fn explain(message: &str) -> (String, String) {
    let mut lacks: Vec<String> = Vec::new();
    let mut to_include: Vec<String> = Vec::new();
    for (kind, name) in missing(message) {
        let can_be_included = matches!(kind, Missing::Function | Missing::Type | Missing::Name);
        let (list, text) = match header_with(&name).filter(|_| can_be_included) {
            Some(header) => (&mut to_include, format!("{name} from <{header}>")),
            None => (&mut lacks, described(kind, &name)),
        };
        if !list.contains(&text) {
            list.push(text);
        }
    }
    if lacks.is_empty() && !to_include.is_empty() {
        let hint = "add the #include: in a kernel another header may happen to include it";
        return (
            format!("the file uses {} without including it", to_include.join(", ")),
            hint.to_owned(),
        );
    }
    if lacks.is_empty() {
        let first = message.lines().find(|l| l.contains("error")).unwrap_or("the compiler failed");
        return (first.trim().to_owned(), String::new());
    }
    let hint = "the kapi has what idle governors of Linux 3.7 to 7.3 use; if a kernel has this, \
                add a few lines to kapi/include";
    (format!("the kapi has no {}", lacks.join(", ")), hint.to_owned())
}
