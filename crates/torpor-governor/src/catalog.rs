// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Finds governors and IO boosts by the names users give them.

use crate::builtin::{self, BuiltinFile};
use crate::compile::{self, Compiler};
use crate::elf::ImageFile;
use crate::params::Param;
use crate::policy::{Compiled, Origin, Policy};
use crate::program::{self, Build, Harness, Program};
use crate::spec::{GovernorSpec, IoBoostSpec, Place};
use crate::tree::Sources;
use crate::{Governor, GovernorError, IoBoost, Kind, Label, sha256_hex, tree};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use torpor_units::Hz;

/// Where a [`Catalog`] works and with what.
#[derive(Clone, Debug, Default)]
pub struct CatalogOptions {
    /// For compiled foreign governors; by default `$XDG_CACHE_HOME/torpor`.
    pub cache_dir: Option<PathBuf>,
    /// By default `$CC`, else `cc`.
    pub compiler: Option<OsString>,
}

/// Resolves names of governors and IO boosts: built-in ones at once, foreign ones by compiling them.
#[derive(Debug)]
pub struct Catalog {
    compiler: Compiler,
}

/// A governor or an IO boost that ships with Torpor.
#[derive(Clone, Debug)]
pub struct Builtin {
    pub kind: Kind,
    pub name: &'static str,
    pub summary: String,
    pub params: Vec<Param>,
    /// Of a governor.
    pub rating: Option<u32>,
    pub source: &'static str,
    pub source_sha256: String,
}

/// A governor's source as it stands: what else than userspace compiles it.
#[derive(Clone, Debug)]
pub struct SourceFiles {
    pub name: String,
    pub origin: Origin,
    /// The governor's own among `files`.
    pub main: String,
    /// By name: the governor's file, and those of its folder that it includes in quotes.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Catalog {
    pub fn new(options: CatalogOptions) -> Catalog {
        let cache = options.cache_dir.unwrap_or_else(compile::default_cache_dir);
        let program = options.compiler.unwrap_or_else(compile::default_compiler);
        Catalog { compiler: Compiler::new(program, cache) }
    }

    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        builtin::files(Kind::Governor).iter().map(|b| b.name)
    }

    pub fn ioboost_names() -> impl Iterator<Item = &'static str> {
        builtin::files(Kind::IoBoost).iter().map(|b| b.name)
    }

    pub fn builtins() -> Vec<Builtin> {
        let describe = |file: &BuiltinFile| {
            let governor = Governor::new(plain(file, Kind::Governor), &[]);
            let governor = governor.expect("a built-in governor loads");
            Builtin::new(file, &governor, Some(governor.rating()))
        };
        builtin::files(Kind::Governor).iter().map(describe).collect()
    }

    pub fn ioboosts() -> Vec<Builtin> {
        let describe = |file: &BuiltinFile| {
            let boost = IoBoost::new(plain(file, Kind::IoBoost), &[]);
            Builtin::new(file, &boost.expect("a built-in IO boost loads"), None)
        };
        builtin::files(Kind::IoBoost).iter().map(describe).collect()
    }

    /// Finds, compiles if need be, and checks the parameters.
    pub fn resolve(&self, spec: &GovernorSpec, hz: Hz) -> Result<Governor, GovernorError> {
        Governor::new(self.compiled(spec, hz)?, spec.params())
    }

    /// Finds, compiles if need be, and checks the parameters.
    pub fn resolve_ioboost(&self, spec: &IoBoostSpec, hz: Hz) -> Result<IoBoost, GovernorError> {
        IoBoost::new(self.compiled(&spec.0, hz)?, spec.params())
    }

    fn compiled(&self, spec: &GovernorSpec, hz: Hz) -> Result<Compiled, GovernorError> {
        let label = spec.label();
        if let Place::Builtin { name } = spec.place() {
            let file = builtin_file(label.kind, name)?;
            return Ok(compiled(file, label, hz));
        }
        let (name, origin, sources) = self.sources(spec)?;
        let image = Arc::new(self.compiler.image(&label, &sources, hz)?);
        let source = Arc::from(sources.main_text());
        Ok(Compiled { name, label, hz, origin, source, image })
    }

    /// Compiles a governor, any one of the three forms, into a program of its own.
    pub fn program(
        &self,
        spec: &GovernorSpec,
        hz: Hz,
        harness: &Harness<'_>,
        build: Build,
    ) -> Result<Program, GovernorError> {
        let (name, _, sources) = self.sources(spec)?;
        let path = program::compile(&self.compiler, spec, &sources, hz, harness, build)?;
        Ok(Program { path, governor: name, source_sha256: sha256_hex(sources.main_bytes()) })
    }

    /// Finds a governor's files, and compiles them only to check parameters, where there are any.
    pub fn source_files(&self, spec: &GovernorSpec) -> Result<SourceFiles, GovernorError> {
        if !spec.params().is_empty() {
            self.resolve(spec, Hz::H250)?;
        }
        let (name, origin, Sources { main, files, .. }) = self.sources(spec)?;
        Ok(SourceFiles { name, origin, main, files })
    }

    fn sources(&self, spec: &GovernorSpec) -> Result<(String, Origin, Sources), GovernorError> {
        let label = spec.label();
        Ok(match spec.place() {
            Place::Builtin { name } => {
                let source = builtin_file(label.kind, name)?.source;
                (name.clone(), Origin::Builtin, tree::from_text(name, source))
            }
            Place::File { path } => {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                (name, Origin::File { path: path.clone() }, tree::from_file(&label, path)?)
            }
            Place::Tree { name, tree, rev } => {
                let cache = self.compiler.cache();
                let sources = tree::from_tree(&label, name, tree, rev.as_deref(), cache)?;
                let origin = Origin::Tree { tree: tree.clone(), rev: rev.clone() };
                (name.clone(), origin, sources)
            }
        })
    }
}

impl Builtin {
    fn new(file: &BuiltinFile, policy: &Policy, rating: Option<u32>) -> Builtin {
        Builtin {
            kind: policy.policy_label().kind,
            name: file.name,
            summary: builtin::summary(file.source),
            params: policy.params().to_vec(),
            rating,
            source: file.source,
            source_sha256: sha256_hex(file.source.as_bytes()),
        }
    }
}

fn builtin_file(kind: Kind, name: &str) -> Result<&'static BuiltinFile, GovernorError> {
    let files = builtin::files(kind);
    files.iter().find(|b| b.name == name).ok_or_else(|| {
        let known = files.iter().map(|b| b.name).collect::<Vec<_>>().join(", ");
        GovernorError::Unknown { kind, name: name.to_owned(), known }
    })
}

/// As it is when only its name is given.
fn plain(file: &BuiltinFile, kind: Kind) -> Compiled {
    compiled(file, Label { kind, text: file.name.into() }, Hz::H250)
}

fn compiled(file: &BuiltinFile, label: Label, hz: Hz) -> Compiled {
    let image = ImageFile::parse(file.image(hz)).expect("the build has made a sound image");
    Compiled {
        name: file.name.to_owned(),
        label,
        hz,
        origin: Origin::Builtin,
        source: Arc::from(file.source),
        image: Arc::new(image),
    }
}
