// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Finds governors by the names users give them.

use crate::builtin::{self, BUILTINS};
use crate::elf::ImageFile;
use crate::governor::{Compiled, Governor, Origin};
use crate::params::Param;
use crate::spec::{GovernorSpec, Place};
use crate::{GovernorError, sha256_hex};
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
    #[allow(dead_code)]
    options: CatalogOptions,
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

impl Catalog {
    pub fn new(options: CatalogOptions) -> Catalog {
        Catalog { options }
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

    pub fn resolve(&self, spec: &GovernorSpec, hz: Hz) -> Result<Governor, GovernorError> {
        match spec.place() {
            Place::Builtin { name } => builtin_governor(name, &spec.to_string(), hz, spec.params()),
            _ => todo!(),
        }
    }
}

fn builtin_governor(
    name: &str,
    label: &str,
    hz: Hz,
    params: &[(String, String)],
) -> Result<Governor, GovernorError> {
    let Some(file) = BUILTINS.iter().find(|b| b.name == name) else {
        let known = Catalog::builtin_names().collect::<Vec<_>>().join(", ");
        return Err(GovernorError::Unknown { name: name.to_owned(), known });
    };
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
