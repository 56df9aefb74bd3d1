// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Policies that are linked with a kernel and are not of its tree: those that ship with Torpor, and
//! the user's files.

use crate::kernel::compile::{self, Job, execute, read, shown, unreadable};
use crate::kernel::contents::Contents;
use crate::kernel::{KHOST, KernelError, scheduler};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use torpor_governor::hosting::{Key, Ran, ioboost_calls, missing_names};
use torpor_governor::{Catalog, CatalogOptions, GovernorError, IoBoostSpec, SourceFiles};

/// Makes mismatches errors instead of warnings, since a policy may be of another release.
const FLAGS: &[&str] = &[
    "-Werror=implicit-function-declaration",
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
];
/// Name of the copy of a policy's file.
pub(crate) const STAGED: &str = "hosted-policy.c";
/// Link name of a foreign policy.
pub(crate) const FOREIGN: &str = "foreign";
/// Makes a policy's symbols local, so that they cannot clash with the kernel's. `schedutil_gov`
/// stays global, so that the kernel's comparisons with schedutil apply to the linked governor.
const NAMES: &[&str] = &[
    "--keep-global-symbol=schedutil_gov",
    "--redefine-sym=cpufreq_register_governor=khost_register_cpufreq",
];

/// Kinds of policies, in the order of `enum khost_policy_kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicyKind {
    Idle,
    Cpufreq,
    IoBoost,
    Scheduler,
}

/// Source files of a policy.
pub(crate) struct PolicyFiles<'a> {
    pub kind: PolicyKind,
    /// Name in messages.
    pub label: &'a str,
    /// Link name.
    pub linked: &'a str,
    pub files: &'a SourceFiles,
}

/// Policy in an image. `kind` is `tree` for an idle governor of the kernel's own tree.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LinkedPolicy {
    pub kind: String,
    pub name: String,
    pub params: Vec<String>,
}

impl PolicyKind {
    pub(crate) fn name(self) -> &'static str {
        ["cpuidle", "cpufreq", "ioboost", "sched"][self as usize]
    }
}

impl LinkedPolicy {
    /// Kind of the tree's own idle governors.
    pub(crate) const TREE: &'static str = "tree";

    pub(crate) fn takes(&self, params: &[(String, String)]) -> bool {
        params.iter().all(|(name, _)| self.params.contains(name))
    }
}

impl PolicyFiles<'_> {
    pub(crate) fn object(&self) -> String {
        format!("policy-{}-{}.o", self.kind.name(), self.linked)
    }

    pub(crate) fn module(&self) -> String {
        format!("{}{}", mark(self.linked), module(&self.files.name))
    }

    /// Returns the command that compiles a file of the policy's as the kernel's own.
    pub(crate) fn compiler(&self, job: &Job<'_>, file: &Path, object: &str) -> Command {
        compiler(job, self, file, &[], object)
    }

    fn folder(&self) -> PathBuf {
        Path::new("policies").join(format!("{}-{}", self.kind.name(), self.linked))
    }
}

/// Prefix of a foreign module, since the tree may have one with the same name.
pub(crate) fn mark(linked: &str) -> char {
    if linked == FOREIGN { '@' } else { '+' }
}

/// Prefix of a parameter on a kernel's command line.
pub(crate) fn module(policy: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    policy.chars().map(|c| if is_part(c) { c } else { '_' }).collect()
}

/// Returns the idle governors and IO boosts that ship with Torpor.
pub(crate) fn shipped() -> Result<Vec<(PolicyKind, SourceFiles)>, GovernorError> {
    let catalog = Catalog::new(CatalogOptions::default());
    let idle = Catalog::builtin_names()
        .map(|name| Ok((PolicyKind::Idle, catalog.unchecked_files(&name.parse()?)?)));
    let boosts = Catalog::ioboost_names().map(|name| {
        let spec: IoBoostSpec = name.parse()?;
        Ok((PolicyKind::IoBoost, catalog.unchecked_files(&spec)?))
    });
    idle.chain(boosts).collect()
}

/// Returns a hash of everything that an image is made of, except the tree and the compiler.
pub(crate) fn made_with() -> Result<String, GovernorError> {
    let mut key = Key::default();
    let flags = FLAGS.iter().chain(scheduler::FLAGS).copied();
    compile::flags().chain(flags).for_each(|flag| key.add(flag.as_bytes()));
    for (name, text) in KHOST {
        key.add(name.as_bytes());
        key.add(text.as_bytes());
    }
    for (name, text) in ioboost_calls()? {
        key.add(name.as_bytes());
        key.add(&text);
    }
    for (kind, files) in shipped()? {
        key.add(kind.name().as_bytes());
        add_files(&mut key, &files);
    }
    Ok(key.finish())
}

pub(crate) fn add_files(key: &mut Key, files: &SourceFiles) {
    let parts = files.parts.iter().map(|part| (&part.file, &part.flags));
    for (file, flags) in [(&files.main, &files.main_flags)].into_iter().chain(parts) {
        key.add(file.as_bytes());
        flags.iter().for_each(|flag| key.add(flag.as_bytes()));
    }
    for (name, text) in &files.files {
        key.add(name.as_bytes());
        key.add(text);
    }
}

/// Returns the sorted names of a module's parameters, from the strings `module.name` in its object.
pub(crate) fn params_of(object: &[u8], module: &str) -> Vec<String> {
    let prefix = format!("{module}.");
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let name = |text: &[u8]| {
        let at = text.windows(prefix.len()).position(|part| part == prefix.as_bytes())?;
        let name = &text[at + prefix.len()..];
        let is_name = !name.is_empty() && name.iter().all(is_part);
        is_name.then(|| String::from_utf8_lossy(name).into_owned())
    };
    let names: BTreeSet<String> = object.split(|byte| *byte == 0).filter_map(name).collect();
    names.into_iter().collect()
}

/// Compiles a policy, or finds its object in the cache; returns the other files that the compiler
/// read.
pub(crate) fn compile_policy(
    job: &Job<'_>,
    contents: &Contents<'_>,
    policy: &PolicyFiles<'_>,
) -> Result<BTreeSet<String>, KernelError> {
    let folder = policy.folder();
    let staged = stage(job, policy, &folder)?;
    let parts = policy.files.parts.iter();
    let parts = parts.map(|part| (folder.join(&part.file), &part.flags));
    let object = policy.object();
    let mut commands = Vec::new();
    for (file, flags) in [(staged, &policy.files.main_flags)].into_iter().chain(parts) {
        let part = match policy.files.parts.is_empty() {
            true => object.clone(),
            false => folder.join(format!("part-{}.o", commands.len())).display().to_string(),
        };
        commands.push((compiler(job, policy, &file, flags, &part), part));
    }
    if policy.kind == PolicyKind::Scheduler {
        commands[0] = program(job, &folder);
    }
    let mut key = compile::command_key(job, &commands[0].0);
    if policy.kind == PolicyKind::Scheduler {
        scheduler::GENERATOR.iter().for_each(|source| key.add(source));
    }
    NAMES.iter().for_each(|flag| key.add(flag.as_bytes()));
    add_files(&mut key, policy.files);
    compile::cached_object(job, contents, key, &object, || {
        if policy.kind == PolicyKind::Scheduler {
            let (command, part) = commands.remove(0);
            return scheduler::compile(job, contents, policy, &folder, command, &part);
        }
        let parts: Vec<String> = commands.iter().map(|(_, part)| part.clone()).collect();
        for (command, _) in commands {
            done(job, policy, execute(job, command)?)?;
        }
        join(job, policy, &parts)?;
        let mut inputs = BTreeSet::new();
        for part in parts {
            let list = read(job, &format!("{part}.d"))?;
            inputs.extend(contents.listed(&String::from_utf8_lossy(&list)));
        }
        // Its own files are in the key.
        inputs.retain(|name| !Path::new(name).starts_with(&folder));
        Ok(inputs)
    })
}

/// Returns the command that compiles a scheduler's program, and its assembly.
fn program(job: &Job<'_>, folder: &Path) -> (Command, String) {
    let part = "policy-program.s".to_owned();
    (scheduler::program(job, folder, "-S", &part), part)
}

/// Returns the command that compiles a file of a policy.
fn compiler(
    job: &Job<'_>,
    policy: &PolicyFiles<'_>,
    file: &Path,
    flags: &[String],
    object: &str,
) -> Command {
    let mut command = compile::compiler(job, &policy.module(), "-c", file, object);
    command.args(FLAGS).args(flags);
    command.arg(format!("-DKHOST_POLICY_KIND={}", policy.kind as u32));
    command.arg(format!("-DKHOST_POLICY_NAME=\"{}\"", policy.linked));
    if policy.kind == PolicyKind::Cpufreq {
        command.args(["-include", "khost/include/khost/scheduler.h"]);
    }
    let (staged, name) = (policy.folder().join(STAGED), module(&policy.files.name));
    command.arg(format!("-fmacro-prefix-map={}={name}", staged.display()));
    command
}

/// Makes one object of a policy's parts, with the names that an image expects.
pub(crate) fn join(
    job: &Job<'_>,
    policy: &PolicyFiles<'_>,
    objects: &[String],
) -> Result<(), KernelError> {
    let object = policy.object();
    if objects != [object.clone()] {
        let mut together = Command::new(job.compiler);
        together.args(["-r", "-nostdlib", "-o", &object]).args(objects);
        done(job, policy, execute(job, together)?)?;
    }
    let mut command = Command::new(compile::tool(job.compiler, "objcopy"));
    command.args(NAMES).arg("--remove-section=.BTF").arg(&object);
    done(job, policy, execute(job, command)?)
}

/// Copies a policy's files to a separate folder; returns the path of the file that registers it.
fn stage(job: &Job<'_>, policy: &PolicyFiles<'_>, folder: &Path) -> Result<PathBuf, KernelError> {
    let place = job.scratch.path().join(folder);
    let failed = |error| unreadable(job, &place, error);
    fs::create_dir_all(&place).map_err(failed)?;
    for (name, text) in &policy.files.files {
        // The compiler could mistake the user's file name for an option or another language.
        let name = if *name == policy.files.main { STAGED } else { name };
        let path = place.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&place)).map_err(failed)?;
        fs::write(path, text).map_err(failed)?;
    }
    Ok(folder.join(STAGED))
}

/// Returns the error for a tool that failed on a policy's files.
pub(crate) fn done(job: &Job<'_>, policy: &PolicyFiles<'_>, ran: Ran) -> Result<(), KernelError> {
    if ran.status.success() {
        return Ok(());
    }
    let staged = policy.folder().join(STAGED).display().to_string();
    let message = shown(job, &ran.stderr).replace(&staged, &policy.files.main);
    let missing = missing_names(&message);
    let first = || message.lines().find(|l| l.contains("error")).unwrap_or("it does not link");
    Err(KernelError::Governor {
        kernel: job.kernel.to_owned(),
        release: job.release.to_string().into(),
        governor: policy.label.into(),
        summary: match missing.is_empty() {
            true => first().trim().to_owned(),
            false => format!("it has no {}", missing.join(", ")),
        },
        message: torpor_machine::units::shown::lines(&message).into_owned(),
    })
}

/// Returns a policy's object, and an image of the kernel's objects with it.
pub(crate) fn link_with(
    job: &Job<'_>,
    objects: &[(String, Vec<u8>)],
    policy: &PolicyFiles<'_>,
) -> Result<(Vec<u8>, Vec<u8>), KernelError> {
    let no_calls = compile::write_headers(job)?;
    if let (PolicyKind::IoBoost, Some(message)) = (policy.kind, no_calls) {
        return Err(KernelError::IoBoost {
            kernel: job.kernel.to_owned(),
            release: job.release.to_string().into(),
            message,
        });
    }
    compile_policy(job, &compile::contents(job), policy)?;
    let object = policy.object();
    // First, since the linker takes the first of equal symbols.
    let mut names = vec![object.clone()];
    for (name, bytes) in objects.iter().filter(|(name, _)| *name != object) {
        let path = job.scratch.path().join(name);
        fs::write(&path, bytes).map_err(|error| unreadable(job, &path, error))?;
        names.push(name.clone());
    }
    done(job, policy, compile::run_linker(job, &names)?)?;
    Ok((read(job, &object)?, read(job, compile::IMAGE)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_from_an_object() {
        let object = b"\x7fELF\0+teo.util_mode\0+teo.license=GPL\0\x01+teo.own_timer\0teo.x\0";
        assert_eq!(params_of(object, "+teo"), ["own_timer", "util_mode"]);
    }
}
