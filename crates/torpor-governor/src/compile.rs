// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compiles foreign governors with the user's compiler, once per source, tick rate and compiler.

use crate::builtin::KAPI;
use crate::child::{self, Failure, Ran};
use crate::config;
use crate::elf::ImageFile;
use crate::flags;
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
use torpor_machine::units::Hz;
use torpor_machine::units::shown;

/// A governor compiles in a second; a busy machine may need more.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);
/// The name of an image in its entry of the cache.
const IMAGE: &str = "image.so";
/// The governor's folder where it is compiled, if files around it are wanted.
const INNER: &str = "governor/";
/// More of an image than any governor needs; what is larger is not even read.
const IMAGE_MAX: u64 = 128 << 20;

#[derive(Debug)]
pub(crate) struct Compiler {
    program: OsString,
    store: Store,
    limit: Duration,
    pub stop: Option<Arc<AtomicBool>>,
    /// Output of `cc --version`: another compiler makes other code.
    version: OnceLock<String>,
}

/// A folder of the compiler's own, with a governor's files in it.
///
/// The governor's own has a fixed name there: what a user calls it, a compiler might take for an
/// option, a file of options, or a place to put something.
pub(crate) struct Stage {
    scratch: crate::store::Scratch,
    pub main: String,
    /// The governor's other files, and how messages are to name them.
    parts: Vec<(String, String)>,
    /// The governor's file and folder as messages are to name them.
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
        // It runs elsewhere than here.
        let is_path = Path::new(&program).components().count() > 1;
        let found = if is_path { std::path::absolute(&program).ok() } else { None };
        let program = found.map_or(program, PathBuf::into_os_string);
        Compiler { program, store, limit, stop, version: OnceLock::new() }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The image of `sources`, from the cache or fresh.
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
        let ran = child::run(command, scratch.path(), self.limit, &|| self.is_stopped());
        let ran = ran.map_err(|failure| match failure {
            Failure::Start(source) => self.missing(source),
            Failure::Scratch(source) => gone(scratch.path(), source),
            Failure::TimedOut => self.missing(io::ErrorKind::TimedOut.into()),
            Failure::Stopped => GovernorError::Interrupted,
        })?;
        Ok(self.version.get_or_init(|| format!("{:?}\n{}", self.program, ran.stdout)))
    }

    fn missing(&self, source: io::Error) -> GovernorError {
        let compiler = self.program.to_string_lossy().into_owned();
        GovernorError::NoCompiler { compiler, source }
    }

    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    fn compile(&self, label: &Label, sources: &Sources, hz: Hz) -> Result<Vec<u8>, GovernorError> {
        let stage = self.stage(sources)?;
        let hz = flags::hz_define(hz.get());
        let mut all: Vec<&str> = flags::image().collect();
        all.push(&hz);
        let parts = self.parts(label, sources, &stage, &all)?;
        let mut command = self.command(&stage);
        command.args(all).args(&sources.main_flags).args(["-include", config::HEADER]);
        command.arg("-I").arg(stage.kapi.join("include")).args(parts);
        // A source cannot be called so: names of sources end in `.c` or `.h`.
        command.arg("-o").arg(IMAGE).arg(&stage.main).arg(stage.kapi.join("image.c"));
        let ran = self.run(label, command, &stage)?;
        if !ran.status.success() {
            return Err(stage.error(label, &ran.stderr));
        }
        stage.product(label, IMAGE, IMAGE_MAX)
    }

    /// Compiles the governor's other files, each with flags of its own, and gives their objects.
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
            // Link flags, which only a compiler that links wants.
            command.args(flags.iter().filter(|flag| !flag.starts_with("-Wl,") && **flag != "-s"));
            command.args(&part.flags).args(["-include", config::HEADER]);
            command.arg("-I").arg(stage.kapi.join("include")).arg("-c").arg("-o").arg(&object);
            command.arg(staged);
            let ran = self.run(label, command, stage)?;
            if !ran.status.success() {
                return Err(stage.error(label, &ran.stderr));
            }
            objects.push(object);
        }
        Ok(objects)
    }

    /// A folder with the files in it, and the kapi next to it.
    pub(crate) fn stage(&self, sources: &Sources) -> Result<Stage, GovernorError> {
        let kapi = self.store.entry("kapi", &kapi_key(), "the kernel's interface", || {
            Ok(KAPI
                .iter()
                .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()))
                .collect())
        })?;
        let scratch = self.store.scratch()?;
        // A file of the folder around the governor's goes around its place here.
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
        // From the folder where the compiler runs, so that no user's name for a folder is in it.
        let kind = |path: &Path| path.file_name().unwrap_or_default().to_owned();
        let kapi = Path::new("../../kapi").join(kind(&kapi.path));
        let shown =
            |file: &str| shown::line(&format!("{}{file}", prefix(&sources.dir))).into_owned();
        let parts = sources.parts.iter();
        let parts = parts.map(|p| (format!("./{folder}{}", p.file), shown(&p.file))).collect();
        let shown = shown(&sources.main);
        Ok(Stage { scratch, main, parts, shown, kapi })
    }

    pub(crate) fn command(&self, stage: &Stage) -> Command {
        let mut command = Command::new(&self.program);
        // __FILE__, which BUG() reports, is the user's name for the file.
        let file = Path::new(&stage.shown).file_name().unwrap_or_default().to_string_lossy();
        command.arg(format!("-fmacro-prefix-map={}={file}", stage.main));
        command
    }

    /// To its end, whatever that is.
    pub(crate) fn run(
        &self,
        label: &Label,
        command: Command,
        stage: &Stage,
    ) -> Result<Ran, GovernorError> {
        child::run(command, stage.path(), self.limit, &|| self.is_stopped()).map_err(|failure| {
            match failure {
                Failure::Start(source) => self.missing(source),
                Failure::Scratch(source) => gone(stage.path(), source),
                Failure::TimedOut => GovernorError::CompileTime {
                    policy: label.clone(),
                    limit_s: self.limit.as_secs(),
                },
                Failure::Stopped => GovernorError::Interrupted,
            }
        })
    }
}

/// Returns the name of the governor's own file in the folder where it is compiled.
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

    /// The kapi's folder, as it is found from the stage.
    pub(crate) fn kapi(&self) -> &Path {
        &self.kapi
    }

    /// Returns the compiler's message, with files as the user knows them.
    pub(crate) fn message(&self, said: &str) -> String {
        let parts = self
            .parts
            .iter()
            .fold(said.to_owned(), |said, (staged, shown)| said.replace(staged, shown));
        let said = parts
            .replace(&self.main, &self.shown)
            .replace(&format!("{}/", self.kapi.display()), "kapi/")
            .replace(&format!("{}/", self.path().display()), "");
        shown::lines(&said).into_owned()
    }

    pub(crate) fn error(&self, label: &Label, said: &str) -> GovernorError {
        let message = self.message(said);
        let (summary, hint) = explain(&message);
        GovernorError::Compile { policy: label.clone(), summary, hint, message }
    }

    /// A file that the compiler has made.
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
        fs::read(&path).map_err(|e| cache_error(&path, e))
    }
}

pub(crate) fn put(path: &Path, text: &[u8]) -> Result<(), GovernorError> {
    fs::write(path, text).map_err(|e| cache_error(path, e))
}

/// Inputs of a cached file, hashed to its name.
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
            self.add(name.as_bytes());
            self.add(text);
        }
        self.add(config::header(sources).as_bytes());
        for (name, text) in KAPI {
            self.add(name.as_bytes());
            self.add(text.as_bytes());
        }
    }

    pub fn finish(self) -> String {
        self.0.finalize().iter().map(|b| format!("{b:02x}")).collect()
    }
}

fn kapi_key() -> String {
    let mut key = Key::default();
    for (name, text) in KAPI {
        key.add(name.as_bytes());
        key.add(text.as_bytes());
    }
    key.finish()[..16].to_owned()
}

fn prefix(dir: &Path) -> String {
    if dir.as_os_str().is_empty() { String::new() } else { format!("{}/", dir.display()) }
}

pub fn default_compiler() -> OsString {
    std::env::var_os("CC").filter(|v| !v.is_empty()).unwrap_or_else(|| OsStr::new("cc").to_owned())
}

/// Phrases with which compilers and linkers name what is missing, as (kind, how the name follows).
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

/// The error for a scratch folder in which no compiler can run.
fn gone(scratch: &Path, source: io::Error) -> GovernorError {
    GovernorError::Cache { path: scratch.to_owned(), source }
}

/// Returns everything that a compiler's or linker's messages call missing, each once.
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

fn in_words(kind: Missing, name: &str) -> String {
    match kind {
        Missing::Function => format!("function {name}()"),
        Missing::Header => format!("header <{name}>"),
        Missing::Type => format!("type {name}"),
        Missing::Name => format!("name {name}"),
        Missing::Member => format!("structure member {name}"),
    }
}

/// In words, what a compiler's or linker's messages say is missing.
pub fn missing_names(message: &str) -> Vec<String> {
    missing(message).iter().map(|(kind, name)| in_words(*kind, name)).collect()
}

/// One line on what is wrong, and a hint if the kapi lacks something.
pub(crate) fn explain(message: &str) -> (String, String) {
    let mut lacks: Vec<String> = Vec::new();
    let mut to_include: Vec<String> = Vec::new();
    for (kind, name) in missing(message) {
        let can_be_included = matches!(kind, Missing::Function | Missing::Type | Missing::Name);
        let (list, text) = match header_with(&name).filter(|_| can_be_included) {
            Some(header) => (&mut to_include, format!("{name} from <{header}>")),
            None => (&mut lacks, in_words(kind, &name)),
        };
        if !list.contains(&text) {
            list.push(text);
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
    let hint = "the kapi has what idle governors of Linux 3.7 to 7.3 use; if a kernel has this, \
                add a few lines to kapi/include";
    (format!("the kapi has no {}", lacks.join(", ")), hint.to_owned())
}
