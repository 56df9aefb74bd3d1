// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Reads single values out of a sysfs tree that may be a copy, and so may hold anything.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use torpor_toml::parse_cpu_list;
use torpor_units::CpuId;

/// A sysfs value is one page at most.
const VALUE_BYTES_MAX: u64 = 4096;

/// Why a tree cannot be imported.
pub(super) struct Failure {
    pub reason: String,
    pub hint: String,
}

pub(super) struct Tree {
    /// The folder that holds `cpu0`, `cpu1` and so on.
    root: PathBuf,
}

impl Tree {
    /// Finds the CPUs in `root` itself, or where a copy of all of sysfs has them.
    pub fn open(root: &Path) -> Result<Tree, Failure> {
        let listing = fs::read_dir(root).map_err(|error| Failure {
            reason: error.to_string(),
            hint: "give /sys/devices/system/cpu, or a directory that holds a copy of it".into(),
        })?;
        drop(listing);
        ["", "cpu", "system/cpu", "devices/system/cpu", "sys/devices/system/cpu"]
            .into_iter()
            .map(|below| Tree { root: root.join(below) })
            .find(|tree| tree.cpus().is_ok_and(|cpus| !cpus.is_empty()))
            .ok_or_else(|| Failure {
                reason: "there are no directories cpu0, cpu1, … in it".to_owned(),
                hint: "give /sys/devices/system/cpu, or a directory that holds a copy of it".into(),
            })
    }

    /// The CPUs that have a directory, ascending.
    pub fn cpus(&self) -> Result<Vec<CpuId>, Failure> {
        self.numbered("", "cpu")?
            .into_iter()
            .map(|number| match parse_cpu_list(&number.to_string()) {
                Ok(cpus) => Ok(cpus[0]),
                Err(reason) => Err(Failure {
                    reason,
                    hint: "remove directories that no kernel makes".to_owned(),
                }),
            })
            .collect()
    }

    /// The numbers N for which `folder` holds a directory `prefixN`, ascending.
    pub fn numbered(&self, folder: &str, prefix: &str) -> Result<Vec<u64>, Failure> {
        let path = self.root.join(folder);
        let listing = match fs::read_dir(&path) {
            Ok(listing) => listing,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(folder, &error)),
        };
        let mut numbers = Vec::new();
        for entry in listing {
            let entry = entry.map_err(|error| unreadable(folder, &error))?;
            let name = entry.file_name();
            let Some(digits) = name.to_str().and_then(|name| name.strip_prefix(prefix)) else {
                continue;
            };
            // `cpu01` is not what a kernel writes; without this check it would shadow `cpu1`.
            let is_plain = digits.bytes().all(|b| b.is_ascii_digit())
                && (digits == "0" || !digits.starts_with('0'));
            if is_plain
                && entry.path().is_dir()
                && let Ok(number) = digits.parse()
            {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// A value without the blanks around it, or `None` if there is no such file.
    pub fn text(&self, path: &str) -> Result<Option<String>, Failure> {
        let full = self.root.join(path);
        let read = || {
            let meta = fs::metadata(&full)?;
            if !meta.is_file() {
                return Err(std::io::Error::other("not a regular file"));
            }
            let mut bytes = Vec::new();
            File::open(&full)?.take(VALUE_BYTES_MAX).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let clean: String =
                    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
                Ok(Some(clean.trim().to_owned()))
            }
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(unreadable(path, &error)),
        }
    }

    /// A value that must be there and be a whole number that fits the kernel's `unsigned int`.
    pub fn number(&self, path: &str) -> Result<u32, Failure> {
        let text = self.text(path)?.ok_or_else(|| Failure {
            reason: format!("`{path}` is not there"),
            hint: "copy the whole tree: `cp -rL` follows its links".to_owned(),
        })?;
        text.parse().map_err(|_| Failure {
            reason: format!("`{path}` holds `{text}`, not a number from 0 to {}", u32::MAX),
            hint: "a saved copy may be damaged; sysfs writes plain decimal numbers".to_owned(),
        })
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn unreadable(path: &str, error: &std::io::Error) -> Failure {
    Failure {
        reason: format!("`{path}` cannot be read: {error}"),
        hint: "check that the files of the tree are readable".to_owned(),
    }
}
