// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The policies that ship with Torpor, as files that were built with this crate.

use crate::elf::ImageFile;
use crate::{GovernorError, Kind, config};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use torpor_machine::units::{Hz, read_regular};

pub(crate) struct BuiltinFile {
    pub name: &'static str,
    source: Shipped,
    /// For 100, 250, 300 and 1000 Hz. IO boosts have none: they run only in hosted kernels.
    images: Option<[Shipped; 4]>,
}

/// A file of the folder `policies`, read once.
pub(crate) struct Shipped {
    path: &'static str,
    sha256: [u8; 32],
    bytes: OnceLock<Vec<u8>>,
    /// Kernel options that a source tests.
    options: OnceLock<BTreeSet<String>>,
}

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Other names of governors, with the release that each mirrors. In a simulation `menu` is the
/// kernel's own.
const ALIASES: [(&str, &str); 2] = [("menu-6.1", "menu"), ("teo-6.1", "teo")];

/// Returns the file name of a built-in governor, without `.c`.
pub fn file_name(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, file)| file)
}

/// Name of the folder next to the installed extension.
const INSTALLED: &str = "policies";
/// Environment variable with the folder, if it is neither next to the program nor in Cargo's output.
const POLICIES_ENV: &str = "TORPOR_POLICIES";

pub(crate) fn files(kind: Kind) -> &'static [BuiltinFile] {
    match kind {
        Kind::Governor => &GOVERNORS,
        Kind::IoBoost => &IOBOOSTS,
        // Those are part of the kernel.
        Kind::Cpufreq | Kind::Scheduler => &[],
    }
}

impl Shipped {
    const fn new(path: &'static str, sha256: [u8; 32]) -> Shipped {
        Shipped { path, sha256, bytes: OnceLock::new(), options: OnceLock::new() }
    }

    /// Reads the file. Refuses one that was not built with this program, because results identify
    /// policies by their source, and images are run.
    fn bytes(&self) -> Result<&[u8], GovernorError> {
        if let Some(bytes) = self.bytes.get() {
            return Ok(bytes);
        }
        let path = shipped_folder(INSTALLED, POLICIES_ENV, MADE_IN).join(self.path);
        let refuse = |reason: String| GovernorError::Shipped { path: path.clone(), reason };
        let bytes = read_regular(&path).map_err(|e| refuse(e.to_string()))?;
        if <[u8; 32]>::from(Sha256::digest(&bytes)) != self.sha256 {
            return Err(refuse("it is not the file that was built with this program".to_owned()));
        }
        Ok(self.bytes.get_or_init(|| bytes))
    }
}

/// Returns the files that add the calls of an IO boost to a kernel's scheduler, by path in the
/// repository: a script, and the files that it copies into a tree.
pub fn ioboost_calls() -> Result<Vec<(String, Vec<u8>)>, GovernorError> {
    let calls = IOBOOST_CALLS
        .iter()
        .map(|(name, file)| Ok((format!("kernel/ioboost/{name}"), file.bytes()?.to_vec())));
    let is_header = |name: &&str| {
        IOBOOSTS.iter().any(|boost| name.trim_end_matches(".h").starts_with(boost.name))
            || *name == "ioboost.h"
    };
    let headers = KAPI.iter().filter_map(|(path, text)| {
        let name = path.strip_prefix("include/").filter(is_header)?;
        Some(Ok((format!("governors/ioboost/{name}"), text.as_bytes().to_vec())))
    });
    calls.chain(headers).collect()
}

/// Returns a folder of files that ship with Torpor: the one in the environment variable, else the
/// one next to the extension, else the one in Cargo's output.
pub fn shipped_folder(name: &str, env: &str, made_in: &str) -> PathBuf {
    if let Some(named) = std::env::var_os(env).filter(|name| !name.is_empty()) {
        return named.into();
    }
    let own = own_file();
    let above: Vec<&Path> = own.ancestors().skip(1).take(3).collect();
    let built = above.iter().map(|dir| dir.join(made_in));
    let mut places = above.iter().map(|dir| dir.join(name)).take(1).chain(built);
    places.find(|dir| dir.is_dir()).unwrap_or_else(|| above[0].join(name))
}

/// Returns the path of the program or extension that contains this code.
fn own_file() -> PathBuf {
    let code = own_file as fn() -> PathBuf as *const c_void;
    // SAFETY: dladdr() only writes the structure; if it succeeds, the name is a string.
    let name = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let is_found = libc::dladdr(code, &mut info) != 0 && !info.dli_fname.is_null();
        is_found.then(|| CStr::from_ptr(info.dli_fname).to_bytes().to_owned())
    };
    let library = name.map(|name| PathBuf::from(OsStr::from_bytes(&name)));
    // The name of a program is argv[0], which can be anything.
    let library = library.filter(|path| path.extension().is_some_and(|e| e == "so"));
    let path = library.or_else(|| std::env::current_exe().ok()).unwrap_or_default();
    path.canonicalize().unwrap_or(path)
}

/// Returns the part of the kapi that is compiled into every image.
pub(crate) fn image_source() -> &'static str {
    KAPI.iter().find(|(name, _)| *name == "image.c").expect("the build embeds it").1
}

impl BuiltinFile {
    pub(crate) fn source(&self) -> Result<&str, GovernorError> {
        Ok(std::str::from_utf8(self.source.bytes()?).expect("the build has read it as text"))
    }

    pub(crate) fn source_sha256(&self) -> String {
        crate::hex(&self.source.sha256)
    }

    /// Returns the kernel options that the source tests, with their values.
    pub(crate) fn config(&self, hz: Hz) -> Result<BTreeMap<String, String>, GovernorError> {
        let source = self.source.bytes()?;
        let names = self.source.options.get_or_init(|| config::names([source]));
        Ok(config::values(names, &[], hz))
    }

    pub(crate) fn image(&self, hz: Hz) -> Result<ImageFile, GovernorError> {
        let i = Hz::ALL.iter().position(|h| *h == hz).expect("ALL has every rate");
        let images = self.images.as_ref().expect("a governor has images");
        let image = ImageFile::parse(images[i].bytes()?.to_vec());
        Ok(image.expect("the build has made a sound image"))
    }
}

/// Returns the first sentence of the *Idea* paragraph in a policy's DOC block, on one line.
pub(crate) fn summary(source: &str) -> String {
    let idea = source.split_once("* Idea:").map_or("", |(_, idea)| idea);
    let lines = idea.lines().map(|line| line.trim().trim_start_matches('*').trim());
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty() && *line != "/").collect();
    let text = paragraph.join(" ");
    match text.find(". ") {
        Some(end) => text[..=end].to_owned(),
        None => text,
    }
}

/// A module parameter that a source declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredParam {
    pub name: String,
    /// Type, as written in `module_param()`.
    pub kind: String,
    /// `MODULE_PARM_DESC()`, empty without.
    pub description: String,
}

/// Returns the parameters of a source in their order.
pub(crate) fn declared_params(source: &str) -> Vec<DeclaredParam> {
    let mut params: Vec<DeclaredParam> = Vec::new();
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("module_param(") {
            let mut parts = rest.split(',').map(str::trim);
            if let (Some(name), Some(kind)) = (parts.next(), parts.next()) {
                let (name, kind) = (name.to_owned(), kind.to_owned());
                params.push(DeclaredParam { name, kind, description: String::new() });
            }
        } else if let Some((name, rest)) =
            line.strip_prefix("MODULE_PARM_DESC(").and_then(|rest| rest.split_once(','))
        {
            let text = rest.split_once('"').and_then(|(_, rest)| rest.rsplit_once('"'));
            if let (Some(param), Some((text, _))) =
                (params.iter_mut().find(|param| param.name == name), text)
            {
                param.description = text.to_owned();
            }
        }
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_from_the_source() {
        let source = "static unsigned int x = 3;\nmodule_param(x, uint, 0644);\n\
                      MODULE_PARM_DESC(x, \"how many (default 3)\");\nmodule_param(y, bool, 0);\n";
        let param = |name: &str, kind: &str, description: &str| DeclaredParam {
            name: name.into(),
            kind: kind.into(),
            description: description.into(),
        };
        let expected = [param("x", "uint", "how many (default 3)"), param("y", "bool", "")];
        assert_eq!(declared_params(source), expected);
    }
}
