// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Finds a kernel's source: a release's package, a folder, a tarball or a revision.

use crate::kernel::{Configuration, KernelError, compile};
use std::fmt;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use torpor_governor::hosting::{self, Scratch, Store};
use torpor_governor::{SeriesSpec, TreeSpec};
use torpor_machine::units::read_regular;

/// Files of a tree that hosting needs.
const WANTED: &[&str] = &[
    "COPYING",
    "Makefile",
    "drivers/base",
    "drivers/cpufreq",
    "drivers/cpuidle",
    "include",
    "io_uring",
    "kernel",
    "lib",
    "mm",
];
/// Oldest release that can be hosted.
const OLDEST: (u32, u32) = (6, 1);

/// Name of a kernel as the user types it; it is displayed unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelSpec {
    text: String,
    tree: TreeSpec,
    /// Settings of its configuration.
    settings: Vec<String>,
}

/// Release of a tree, from its Makefile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    pub major: u32,
    pub minor: u32,
    pub sublevel: u32,
}

/// Location of a kernel's source.
pub(crate) enum Source {
    Folder(PathBuf),
    /// Source that is unpacked only to compile it. The text identifies its content.
    Packed {
        from: Packed,
        identity: String,
    },
}

pub(crate) enum Packed {
    Tarball(PathBuf),
    Git { tree: PathBuf, commit: String },
}

impl FromStr for KernelSpec {
    type Err = std::convert::Infallible;

    /// Takes a text that is no name of a tree as a path, which is not found.
    fn from_str(text: &str) -> Result<KernelSpec, Self::Err> {
        let (name, settings) = hosting::split_settings(text);
        let tree = TreeSpec::parse(name).unwrap_or_else(|_| TreeSpec::whole(name));
        let settings = settings.into_iter().map(str::to_owned).collect();
        Ok(KernelSpec { text: text.to_owned(), tree, settings })
    }
}

impl fmt::Display for KernelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.sublevel)
    }
}

impl Release {
    /// Reads `6.12.117` or `6.12`.
    pub(crate) fn from_parts(text: &str) -> Option<Release> {
        let mut parts = text.split('.').map(|part| part.parse().ok());
        let (major, minor) = (parts.next()??, parts.next()??);
        let sublevel = parts.next().unwrap_or(Some(0))?;
        parts.next().is_none().then_some(Release { major, minor, sublevel })
    }

    pub fn of_makefile(text: &str) -> Option<Release> {
        let number = |name: &str| {
            let line = text.lines().take(20).find_map(|line| {
                let (key, value) = line.split_once('=')?;
                (key.trim() == name).then(|| value.trim())
            });
            line?.parse().ok()
        };
        Some(Release {
            major: number("VERSION")?,
            minor: number("PATCHLEVEL")?,
            sublevel: number("SUBLEVEL").unwrap_or(0),
        })
    }
}

impl KernelSpec {
    /// Returns the patches on top of the tree.
    pub(crate) fn series(&self) -> Option<&SeriesSpec> {
        self.tree.series.as_ref()
    }

    /// Returns the kernel with another option set.
    pub(crate) fn with_option(&self, option: &str) -> KernelSpec {
        let setting = format!("CONFIG_{option}=y");
        let text = format!("{},{setting}", self.text);
        let settings = self.settings.iter().cloned().chain([setting]).collect();
        KernelSpec { text, settings, tree: self.tree.clone() }
    }

    /// Returns its name without the settings.
    pub(crate) fn tree(&self) -> String {
        self.tree.to_string()
    }

    /// Reads its configuration.
    pub fn configuration(&self) -> Result<Configuration, KernelError> {
        Configuration::of(&self.settings).map_err(|message| KernelError::config(self, message))
    }

    /// Finds the tree, without its patches.
    pub(crate) fn find(&self) -> Result<Source, KernelError> {
        let kernel = || self.text.clone();
        if let Some(rev) = &self.tree.rev {
            return self.find_revision(rev);
        }
        let found = hosting::locate(&self.tree.tree).ok_or_else(|| self.not_found())?;
        let read_error =
            |source| KernelError::Read { kernel: kernel(), path: found.clone(), source };
        if found.is_dir() {
            return Ok(Source::Folder(found.canonicalize().map_err(read_error)?));
        }
        // Opening it checks its format; the whole is read only to compile it.
        hosting::open_tarball(&found).map_err(|source| KernelError::Tarball {
            kernel: kernel(),
            path: found.clone(),
            source,
        })?;
        let identity = hosting::tarball_key("kernel", &found).map_err(read_error)?;
        Ok(Source::Packed { from: Packed::Tarball(found), identity })
    }

    fn not_found(&self) -> KernelError {
        let kernel = self.tree();
        match Release::from_parts(&kernel) {
            Some(_) => KernelError::NoSource { kernel },
            None => KernelError::NotFound { kernel },
        }
    }

    fn find_revision(&self, rev: &str) -> Result<Source, KernelError> {
        let error = |message: String| KernelError::Git {
            kernel: self.text.clone(),
            tree: self.tree.tree.clone(),
            message,
        };
        let commit = hosting::git::commit(&self.tree.tree, rev).map_err(error)?;
        let from = Packed::Git { tree: self.tree.tree.clone(), commit: commit.clone() };
        Ok(Source::Packed { from, identity: commit })
    }

    /// Returns the tree's release if it can be hosted.
    pub(crate) fn release(&self, tree: &Path) -> Result<Release, KernelError> {
        let no_kernel = |missing: &str| KernelError::NoKernel {
            kernel: self.text.clone(),
            missing: missing.to_owned(),
        };
        let text = read_regular(&tree.join("Makefile")).map_err(|_| no_kernel("Makefile"))?;
        let release = Release::of_makefile(&String::from_utf8_lossy(&text))
            .ok_or_else(|| no_kernel("VERSION and PATCHLEVEL in its Makefile"))?;
        if (release.major, release.minor) < OLDEST {
            return Err(KernelError::TooOld {
                kernel: self.text.clone(),
                release: release.to_string(),
                oldest: format!("{}.{}", OLDEST.0, OLDEST.1),
                lacks: compile::lacks(tree),
            });
        }
        for needed in [
            "kernel/sched/core.c",
            "kernel/sched/Makefile",
            "include/linux/sched.h",
            "include/asm-generic",
        ] {
            if !tree.join(needed).exists() {
                return Err(no_kernel(needed));
            }
        }
        Ok(release)
    }

    /// Unpacks the files that hosting needs into a temporary folder.
    pub(crate) fn unpack(&self, from: &Packed, store: &Store) -> Result<Scratch, KernelError> {
        let scratch = store.scratch()?;
        match from {
            Packed::Tarball(path) => {
                let damaged = |source| KernelError::Tarball {
                    kernel: self.text.clone(),
                    path: path.clone(),
                    source,
                };
                let archive = hosting::open_tarball(path).map_err(damaged)?;
                unpack_wanted(archive, scratch.path()).map_err(damaged)?;
            }
            Packed::Git { tree, commit } => {
                let error = |message: String| KernelError::Git {
                    kernel: self.text.clone(),
                    tree: tree.clone(),
                    message,
                };
                let blobs = hosting::git::list(tree, commit, WANTED).map_err(error)?;
                if blobs.is_empty() {
                    return Err(error(format!("no kernel at {commit}: it has no Makefile")));
                }
                let put = |blob: &hosting::git::Blob, text: &[u8]| {
                    put(scratch.path(), Path::new(&blob.path), &mut &*text)
                };
                hosting::git::read(tree, &blobs, put).map_err(error)?;
            }
        }
        Ok(scratch)
    }
}

fn unpack_wanted(mut archive: hosting::Archive, to: &Path) -> io::Result<()> {
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let inside: PathBuf = path.components().skip(1).collect();
        if entry.header().entry_type().is_file() {
            put(to, &inside, &mut entry)?;
        }
    }
    Ok(())
}

/// Whether hosting needs a file of a tree.
pub(crate) fn is_wanted(inside: &Path) -> bool {
    WANTED.iter().any(|wanted| inside.starts_with(wanted))
        && inside.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Writes a file of a tree if hosting needs it and its path stays in the folder.
fn put(to: &Path, inside: &Path, text: &mut dyn Read) -> io::Result<()> {
    if !is_wanted(inside) {
        return Ok(());
    }
    let place = to.join(inside);
    std::fs::create_dir_all(place.parent().unwrap_or(to))?;
    io::copy(text, &mut std::fs::File::create(place)?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_follows_the_last_colon() {
        let spec: KernelSpec = "../linux:v6.12".parse().unwrap();
        let tree = spec.tree;
        assert_eq!((tree.tree.to_str(), tree.rev.as_deref()), (Some("../linux"), Some("v6.12")));
        let spec: KernelSpec = "6.12".parse().unwrap();
        assert_eq!((spec.tree.tree.to_str(), spec.tree.rev), (Some("6.12"), None));
    }

    #[test]
    fn a_makefile_names_the_release() {
        let text = "# SPDX\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION =\n";
        assert_eq!(Release::of_makefile(text).unwrap().to_string(), "6.12.117");
        assert_eq!(Release::of_makefile("all:\n\techo\n"), None);
    }
}
