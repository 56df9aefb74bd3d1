// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Finds governors, IO boosts and cpufreq governors by the names that users give them.

use crate::builtin::{self, BuiltinFile, DeclaredParam};
use crate::compile::{self, Compiler};
use crate::config;
use crate::params::Param;
use crate::policy::{Compiled, Origin};
use crate::program::{self, Build, Harness, Program};
use crate::spec::{GovernorSpec, Place};
use crate::store::Store;
use crate::tree::{Part, Sources};
use crate::{
    Governor, GovernorError, Isolation, Kind, Label, Release, scheduler, sha256_hex, tree,
};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use torpor_machine::recent::Recent;
use torpor_machine::units::{Hz, UnknownName};

/// Folders and tools of a [`Catalog`].
#[derive(Clone, Debug, Default)]
pub struct CatalogOptions {
    /// Cache of compiled foreign governors; by default `$XDG_CACHE_HOME/torpor`. Torpor executes
    /// its files, so it must belong to the user.
    pub cache_dir: Option<PathBuf>,
    /// C compiler; by default `$CC`, else `cc`.
    pub compiler: Option<OsString>,
    /// Policies that run in a separate process.
    pub isolation: Isolation,
    /// Time limit of a compiler; two minutes unless given.
    pub compile_limit: Option<Duration>,
    /// Ends a running compiler and the call that waits for it when set.
    pub stop: Option<Arc<AtomicBool>>,
}

/// Governors that ship.
static RECENT: Recent<(GovernorSpec, Hz, Isolation), Governor, 64> = Recent::new();

/// Resolves names of governors: loads built-in ones and compiles the others. Finds the sources of IO
/// boosts and cpufreq governors.
#[derive(Debug)]
pub struct Catalog {
    compiler: Compiler,
    options: CatalogOptions,
}

/// A policy that ships with Torpor.
#[derive(Clone, Debug)]
pub struct Builtin {
    pub name: &'static str,
    pub summary: String,
    pub params: Vec<Param>,
    /// Rating of a governor.
    pub rating: Option<u32>,
    pub source: &'static str,
    pub source_sha256: String,
}

/// An IO boost that ships with Torpor.
#[derive(Clone, Debug)]
pub struct BuiltinBoost {
    pub name: &'static str,
    pub summary: String,
    pub params: Vec<DeclaredParam>,
    pub source: &'static str,
    pub source_sha256: String,
}

/// A policy's source files, for a kernel build.
#[derive(Clone, Debug)]
pub struct SourceFiles {
    pub name: String,
    pub origin: Origin,
    /// Name of the policy's own file in `files`.
    pub main: String,
    /// Compiler flags of `main`.
    pub main_flags: Vec<String>,
    /// The other files to compile, where a governor has several.
    pub parts: Vec<Part>,
    /// The policy's files and those they include in quotes, by path relative to its folder, with at
    /// most one leading `..`.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Catalog {
    pub fn new(options: CatalogOptions) -> Catalog {
        let program = options.compiler.clone().unwrap_or_else(compile::default_compiler);
        let store = Store::new(options.cache_dir.clone());
        let limit = options.compile_limit.unwrap_or(compile::LIMIT);
        let compiler = Compiler::new(program, store, limit, options.stop.clone());
        Catalog { compiler, options }
    }

    /// Returns the options that the catalog was created with.
    pub fn options(&self) -> &CatalogOptions {
        &self.options
    }

    /// Returns new notes for the user, such as "a cache entry was damaged and is rebuilt".
    pub fn take_notes(&self) -> Vec<String> {
        self.compiler.store().take_notes()
    }

    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        builtin::files(Kind::Governor).iter().map(|b| b.name)
    }

    pub fn ioboost_names() -> impl Iterator<Item = &'static str> {
        builtin::files(Kind::IoBoost).iter().map(|b| b.name)
    }

    pub fn builtins() -> Result<Vec<Builtin>, GovernorError> {
        let describe = |file: &'static BuiltinFile| {
            let label = Label { kind: Kind::Governor, text: file.name.into() };
            let governor = Governor::new(compiled(file, label, Hz::H250)?, &[])?;
            let source = file.source()?;
            Ok(Builtin {
                name: file.name,
                summary: builtin::summary(source),
                params: governor.params().to_vec(),
                rating: Some(governor.rating()),
                source,
                source_sha256: sha256_hex(source.as_bytes()),
            })
        };
        builtin::files(Kind::Governor).iter().map(describe).collect()
    }

    /// Describes the IO boosts that ship, with the parameters that their sources declare.
    pub fn ioboosts() -> Result<Vec<BuiltinBoost>, GovernorError> {
        let describe = |file: &'static BuiltinFile| {
            let source = file.source()?;
            Ok(BuiltinBoost {
                name: file.name,
                summary: builtin::summary(source),
                params: builtin::declared_params(source),
                source,
                source_sha256: sha256_hex(source.as_bytes()),
            })
        };
        builtin::files(Kind::IoBoost).iter().map(describe).collect()
    }

    /// Finds a governor, compiles it if necessary, and checks the parameters.
    pub fn resolve(&self, spec: &GovernorSpec, hz: Hz) -> Result<Governor, GovernorError> {
        let isolation = self.options.isolation;
        let ships = matches!(spec.place(), Place::Builtin { .. }) && spec.config().is_empty();
        if ships {
            let is_this = |key: &(GovernorSpec, Hz, Isolation)| {
                key.0 == *spec && (key.1, key.2) == (hz, isolation)
            };
            if let Some(governor) = RECENT.get(is_this) {
                return Ok(governor);
            }
        }
        let governor = Governor::new(self.compiled(spec, hz)?, spec.params())?;
        if ships {
            RECENT.keep((spec.clone(), hz, isolation), governor.clone());
        }
        Ok(governor)
    }

    fn compiled(&self, spec: &GovernorSpec, hz: Hz) -> Result<Compiled, GovernorError> {
        let label = spec.label();
        if let (Place::Builtin { name }, []) = (spec.place(), spec.config()) {
            let file = builtin_file(label.kind, name)?;
            let runs_apart = self.options.isolation == Isolation::All;
            return Ok(Compiled {
                runs_apart,
                stop: self.compiler.stop.clone(),
                ..compiled(file, label, hz)?
            });
        }
        let (name, origin, sources) = self.sources(spec)?;
        let image = Arc::new(self.compiler.image(&label, &sources, hz)?);
        let source: Arc<str> = Arc::from(String::from_utf8_lossy(&sources.text()));
        let source_sha256 = sha256_hex(source.as_bytes());
        let config = config::asked(&sources, hz);
        let release = sources.release;
        let runs_apart = match self.options.isolation {
            Isolation::Foreign => origin != Origin::Builtin,
            Isolation::All => true,
            Isolation::None => false,
        };
        let stop = self.compiler.stop.clone();
        Ok(Compiled {
            name,
            label,
            hz,
            origin,
            release,
            source,
            source_sha256,
            image,
            config,
            runs_apart,
            stop,
        })
    }

    /// Compiles a governor into a program, together with the harness.
    pub fn program(
        &self,
        spec: &GovernorSpec,
        hz: Hz,
        harness: &Harness<'_>,
        build: Build,
    ) -> Result<Program, GovernorError> {
        let (name, _, sources) = self.sources(spec)?;
        let path = program::compile(&self.compiler, spec, &sources, hz, harness, build)?;
        Ok(Program::new(path, name, &sources))
    }

    /// Finds a governor's files. Compiles them only to check parameters, if any are given.
    pub fn source_files(&self, spec: &GovernorSpec) -> Result<SourceFiles, GovernorError> {
        let files = self.unchecked_files(spec)?;
        if !spec.params().is_empty() {
            self.resolve(spec, Hz::H250)?;
        }
        Ok(files)
    }

    /// Finds a policy's files, for a kernel that checks parameters itself.
    pub fn unchecked_files(&self, spec: &GovernorSpec) -> Result<SourceFiles, GovernorError> {
        if let [(name, _), ..] = spec.config() {
            let reason = format!("{name} is set by the kernel that it runs in, not by its name");
            return Err(GovernorError::Setup { policy: spec.label(), reason });
        }
        let (name, origin, Sources { main, main_flags, parts, files, .. }) = self.sources(spec)?;
        Ok(SourceFiles { name, origin, main, main_flags, parts, files })
    }

    /// Returns whether the governor's kernel calls `select` for a driver with one state.
    pub fn asks_about_one_state(&self, spec: &GovernorSpec) -> Result<bool, GovernorError> {
        let (.., sources) = self.sources(spec)?;
        let store = self.compiler.store();
        tree::asks_about_one_state(&spec.label(), spec.place(), sources.release, store)
    }

    fn sources(&self, spec: &GovernorSpec) -> Result<(String, Origin, Sources), GovernorError> {
        let label = spec.label();
        let (name, origin, mut sources) = match spec.place() {
            Place::Builtin { name } => {
                let source = builtin_file(label.kind, name)?.source()?;
                (name.clone(), Origin::Builtin, tree::from_text(name, source))
            }
            Place::File { path } => {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let sources = match label.kind {
                    Kind::Scheduler => scheduler::from_file(&label, path)?,
                    _ => tree::from_file(&label, path)?,
                };
                (name, Origin::File { path: path.clone() }, sources)
            }
            Place::Folder { path } => {
                let sources = tree::from_folder(&label, path)?;
                let name = sources.main.trim_end_matches(".c").to_owned();
                (name, Origin::File { path: path.clone() }, sources)
            }
            Place::Tree { name, tree } => {
                let sources = tree::from_tree(&label, name, tree, self.compiler.store())?;
                (name.clone(), Origin::Tree { tree: tree.clone() }, sources)
            }
        };
        sources.config = spec.config().to_vec();
        Ok((name, origin, sources))
    }
}

fn builtin_file(kind: Kind, name: &str) -> Result<&'static BuiltinFile, GovernorError> {
    let files = builtin::files(kind);
    let file = if kind == Kind::Governor { builtin::file_name(name) } else { name };
    files.iter().find(|b| b.name == file).ok_or_else(|| {
        let tree = crate::spec::tree_hint(kind, name);
        let otherwise = format!("a file needs a path with `.c` (`./{name}.c`){tree}");
        UnknownName::new(kind.noun(), name, files.iter().map(|b| b.name), otherwise).into()
    })
}

fn compiled(file: &BuiltinFile, label: Label, hz: Hz) -> Result<Compiled, GovernorError> {
    let source = file.source()?;
    Ok(Compiled {
        name: file.name.to_owned(),
        label,
        hz,
        origin: Origin::Builtin,
        release: Release::default(),
        source: Arc::from(source),
        source_sha256: file.source_sha256(),
        image: Arc::new(file.image(hz)?),
        config: file.config(hz)?,
        runs_apart: false,
        stop: None,
    })
}
