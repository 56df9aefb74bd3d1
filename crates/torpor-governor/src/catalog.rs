// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Finds governors by the names users give them.

use crate::builtin::{self, BUILTINS};
use crate::compile::{self, Compiler};
use crate::elf::ImageFile;
use crate::governor::{Compiled, Governor, Origin};
use crate::params::Param;
use crate::program::{self, Build, Harness, Program};
use crate::spec::{GovernorSpec, Place};
use crate::tree::Sources;
use crate::{GovernorError, sha256_hex, tree};
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

/// Resolves governor names: built-in ones at once, foreign ones by compiling them.
#[derive(Debug)]
pub struct Catalog {
    compiler: Compiler,
}

/// A governor that ships with Torpor.
#[derive(Clone, Debug)]
pub struct Builtin {
    pub name: &'static str,
    pub summary: String,
    pub params: Vec<Param>,
    pub rating: u32,
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
        BUILTINS.iter().map(|b| b.name)
    }

    pub fn builtins() -> Vec<Builtin> {
        let describe = |file: &builtin::BuiltinFile| {
            let governor = builtin_governor(file.name, file.name, Hz::H250, &[])
                .expect("a built-in governor loads");
            Builtin {
                name: file.name,
                summary: builtin::summary(file.source),
                params: governor.params().to_vec(),
                rating: governor.rating(),
                source: file.source,
                source_sha256: sha256_hex(file.source.as_bytes()),
            }
        };
        BUILTINS.iter().map(describe).collect()
    }

    /// Finds, compiles if need be, and checks the parameters.
    pub fn resolve(&self, spec: &GovernorSpec, hz: Hz) -> Result<Governor, GovernorError> {
        let label = spec.to_string();
        if let Place::Builtin { name } = spec.place() {
            return builtin_governor(name, &label, hz, spec.params());
        }
        let (name, origin, sources) = self.sources(spec)?;
        let image = Arc::new(self.compiler.image(&label, &sources, hz)?);
        let source = Arc::from(sources.main_text());
        let compiled = Compiled { name, label, hz, origin, source, image };
        Governor::new(compiled, spec.params())
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
        let label = spec.to_string();
        Ok(match spec.place() {
            Place::Builtin { name } => {
                (name.clone(), Origin::Builtin, tree::from_text(name, builtin_file(name)?.source))
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

fn builtin_file(name: &str) -> Result<&'static builtin::BuiltinFile, GovernorError> {
    BUILTINS.iter().find(|b| b.name == name).ok_or_else(|| {
        let known = Catalog::builtin_names().collect::<Vec<_>>().join(", ");
        GovernorError::Unknown { name: name.to_owned(), known }
    })
}

fn builtin_governor(
    name: &str,
    label: &str,
    hz: Hz,
    params: &[(String, String)],
) -> Result<Governor, GovernorError> {
    let file = builtin_file(name)?;
    let image = ImageFile::parse(file.image(hz)).expect("the build has made a sound image");
    let compiled = Compiled {
        name: name.to_owned(),
        label: label.to_owned(),
        hz,
        origin: Origin::Builtin,
        source: Arc::from(file.source),
        image: Arc::new(image),
    };
    Governor::new(compiled, params)
}
