// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compares the names that each header of the kapi provides with those of the kernel's header.

use crate::kernel::compile::{Job, compiler, write_headers};
use crate::kernel::{Configuration, Release, upstream};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use torpor_governor::hosting::Store;
use torpor_machine::units::Hz;

fn kapi() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kapi/include")
}

/// Returns the kapi's headers that kernels also have, by name.
fn headers() -> Vec<String> {
    fn collect(folder: &Path, name: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = format!("{name}{}", entry.file_name().to_str().unwrap());
            match entry.path().is_dir() {
                true => collect(&entry.path(), &format!("{name}/"), found),
                false => found.push(name),
            }
        }
    }
    let mut found = Vec::new();
    collect(&kapi(), "", &mut found);
    found.retain(|name| !name.starts_with("torpor/"));
    found.sort();
    found
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the macros defined, and the functions declared or called, in a preprocessed text.
fn names(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("#define ") {
            found.extend(rest.split(|c| !is_part(c)).next());
        } else if !line.starts_with('#') {
            for (at, _) in line.match_indices('(') {
                let before = line[..at].trim_end();
                let start = before.rfind(|c| !is_part(c)).map_or(0, |end| end + 1);
                found.insert(&before[start..]);
            }
        }
    }
    found
}

/// Returns the macros and inline functions that the kapi's headers define.
fn offered() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for header in headers() {
        let text = fs::read_to_string(kapi().join(header)).unwrap();
        for line in text.lines() {
            let name = match line.strip_prefix("#define ") {
                Some(rest) => rest.split(|c| !is_part(c)).next(),
                None if line.starts_with(|c: char| c.is_ascii_lowercase()) => {
                    line.split_once('(').and_then(|(head, _)| head.rsplit(|c| !is_part(c)).next())
                }
                None => None,
            };
            found.extend(name.filter(|n| !n.is_empty()).map(str::to_owned));
        }
    }
    // Names that belong to the kapi or the compiler.
    found.retain(|name| {
        let lower = name.to_lowercase();
        !["_kapi", "kapi", "config_", "__attribute__"].iter().any(|own| lower.starts_with(own))
    });
    found
}

/// Returns a source file that includes a header, and `linux/cpuidle.h` as every governor does.
fn included(header: &str) -> String {
    format!("#include <{header}>\n#include <linux/cpuidle.h>\n")
}

fn through_kapi(header: &str, release: &Release) -> String {
    let mut command = Command::new("cc");
    let code = release.major << 16 | release.minor << 8;
    command.args(["-E", "-dD", "-P", "-x", "c", "-std=gnu11", "-nostdinc", "-D__KERNEL__"]);
    command.args(["-DCONFIG_HZ=250", &format!("-DTORPOR_LINUX={code}"), "-I"]).arg(kapi());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp/headers/kapi.c");
    fs::write(&file, included(header)).unwrap();
    command.args(["-include", "linux/kconfig.h", "-include", "linux/compiler_types.h"]).arg(file);
    let output = command.output().expect("a compiler is here");
    assert!(output.status.success(), "{header}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the names that a header of the tree provides; None if the tree lacks it.
fn preprocessed(job: &Job<'_>, header: &str) -> Option<String> {
    let file = job.scratch.path().join("header.c");
    fs::write(&file, included(header)).unwrap();
    let mut command = compiler(job, "header", "-E", &file, "header.i");
    let output = command
        .args(["-dD", "-P"])
        .current_dir(job.scratch.path())
        .output()
        .expect("a compiler is here");
    let text = fs::read(job.scratch.path().join("header.i")).unwrap_or_default();
    output.status.success().then(|| String::from_utf8_lossy(&text).into_owned())
}

/// Names that the kernel's header provides and the kapi's does not, although the kapi has them.
fn lacking(version: &str) -> Option<BTreeMap<String, Vec<String>>> {
    let tree = upstream::kernel_sources(version, "the kapi's headers against a kernel's")?;
    let release = Release::of_makefile(&fs::read_to_string(tree.join("Makefile")).unwrap());
    let release = release.expect("it is a kernel's");
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp/headers");
    fs::create_dir_all(&cache).unwrap();
    let store = Store::new(Some(cache.join("cache")));
    let scratch = store.scratch().unwrap();
    let compiler = OsString::from("cc");
    let job = Job {
        kernel: version,
        release: &release,
        tree: &tree,
        config: &Configuration::default(),
        hz: Hz::H250,
        compiler: &compiler,
        version: "",
        store: &store,
        scratch: &scratch,
        stop: None,
        progress: &|_, _| {},
    };
    write_headers(&job).unwrap_or_else(|e| panic!("{e}"));
    let offered = offered();
    let mut all = BTreeMap::new();
    for header in headers() {
        // Some releases and architectures lack it.
        let Some(theirs) = preprocessed(&job, &header) else { continue };
        let ours = through_kapi(&header, &release);
        let (theirs, ours) = (names(&theirs), names(&ours));
        let lacks =
            |name: &&String| theirs.contains(name.as_str()) && !ours.contains(name.as_str());
        let lacks: Vec<String> = offered.iter().filter(lacks).cloned().collect();
        all.insert(header, lacks);
    }
    assert!(all.len() > 60, "{version}: {} headers were compared", all.len());
    all.retain(|_, lacks| !lacks.is_empty());
    Some(all)
}

#[test]
fn headers_provide_names_of_the_kernels() {
    let mut all = Vec::new();
    for version in ["6.1", "6.12"] {
        let Some(lacking) = lacking(version) else { continue };
        let list: Vec<String> = lacking
            .iter()
            .map(|(header, names)| format!("{header}: {}", names.join(" ")))
            .collect();
        all.extend(list.into_iter().map(|line| format!("{version}: {line}")));
    }
    assert!(all.is_empty(), "the kapi has these, but not there:\n{}", all.join("\n"));
}
