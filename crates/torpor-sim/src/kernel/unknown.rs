// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Functions of a tree that the host does not know. Each ends a run that reaches it, as those of
//! `khost/src/unreached.c` do; so a release that nobody has tried is hosted as far as it goes.

use super::compile::{Job, read};
use super::error::KernelError;
use super::symbols;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The source that defines them, below the scratch folder.
pub(crate) const SOURCE: &str = "khost/src/unknown.c";

/// Returns which of `names` these objects refer to as to variables.
pub(crate) fn variables(
    job: &Job<'_>,
    objects: &[String],
    names: &BTreeSet<String>,
) -> Result<BTreeSet<String>, KernelError> {
    let mut found = BTreeSet::new();
    for object in objects {
        found.append(&mut symbols::not_called(&read(job, object)?, names));
    }
    Ok(found)
}

/// Returns the source of functions of these names that end the run.
pub(crate) fn source(names: &BTreeSet<String>) -> String {
    let mut text = "void khost_unreached(const char *name) __attribute__((noreturn));\n".to_owned();
    for name in names {
        writeln!(text, "void {name}(void) {{ khost_unreached(\"{name}\"); }}").expect("a String");
    }
    text
}
