// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Common parts of governors and IO boosts: a C file, compiled, with its parameters.

use crate::apart::{NoAnswer, Pulse, apart};
use crate::elf::ImageFile;
use crate::load::{self, Loaded};
use crate::memory::Plan;
use crate::params::Param;
use crate::{GovernorError, Label, Release};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use torpor_machine::units::{CpuId, Hz};

/// A compiled policy with its parameters.
pub struct Policy {
    name: String,
    label: Label,
    hz: Hz,
    origin: Origin,
    release: Release,
    source: Arc<str>,
    source_sha256: String,
    image: Arc<ImageFile>,
    params: Vec<Param>,
    /// Values that the user has chosen, as text.
    chosen: Vec<(String, String)>,
    settings: Vec<(String, String)>,
    config: BTreeMap<String, String>,
    runs_apart: bool,
}

/// Origin of a policy's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Builtin,
    File { path: PathBuf },
    Tree { tree: PathBuf, rev: Option<String> },
}

/// A value that the user chose, as a program stores it: `raw` in the low `size` bytes, or, where
/// `size` is 0, by the policy's own function, which takes the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenParam {
    pub name: String,
    pub text: String,
    pub size: usize,
    pub raw: u64,
}

/// A source and its image, before the parameters are known.
pub(crate) struct Compiled {
    pub name: String,
    pub label: Label,
    pub hz: Hz,
    pub origin: Origin,
    pub release: Release,
    pub source: Arc<str>,
    pub image: Arc<ImageFile>,
    pub config: BTreeMap<String, String>,
    /// Its code runs in processes of its own only.
    pub runs_apart: bool,
    /// The user wants no more of it.
    pub stop: Option<Arc<AtomicBool>>,
}

/// Facts that only its own code contains.
#[derive(Serialize, Deserialize)]
struct Learnt {
    params: Vec<Param>,
    settings: Vec<(String, String)>,
    rating: u32,
}

impl Policy {
    /// Loads the image once to learn its parameters, checks the chosen values, and has `start` try
    /// the policy; what that gives comes back.
    pub(crate) fn new(
        compiled: Compiled,
        chosen: &[(String, String)],
        start: impl FnOnce(&Policy) -> Result<u32, GovernorError>,
    ) -> Result<(Policy, u32), GovernorError> {
        let Compiled { name, label, hz, origin, release, source, image, config, runs_apart, stop } =
            compiled;
        let source_sha256 = crate::sha256_hex(source.as_bytes());
        let mut policy = Policy {
            name,
            label,
            hz,
            origin,
            release,
            source,
            source_sha256,
            image,
            params: Vec::new(),
            chosen: chosen.to_vec(),
            settings: Vec::new(),
            config,
            runs_apart,
        };
        let learnt = if runs_apart {
            let learn = |_: &Pulse| policy.learn(start).map_err(|e| e.to_string());
            let goes_on = |_| !stop.as_ref().is_some_and(|stop| stop.load(Relaxed));
            match apart(&policy.label, &mut { goes_on }, learn) {
                Ok(learnt) => learnt.map_err(GovernorError::Told)?,
                Err(NoAnswer::Died(error)) => return Err(error),
                Err(NoAnswer::Interrupted) => return Err(GovernorError::Interrupted),
            }
        } else {
            policy.learn(start)?
        };
        (policy.params, policy.settings) = (learnt.params, learnt.settings);
        Ok((policy, learnt.rating))
    }

    fn learn(
        &self,
        start: impl FnOnce(&Policy) -> Result<u32, GovernorError>,
    ) -> Result<Learnt, GovernorError> {
        let mut loaded = self.load(&[(CpuId(0), 1024)], Plan::new())?;
        let params = loaded.params.iter().map(|p| Param {
            name: p.name.clone(),
            kind: p.kind,
            default: p.show(),
            description: p.description.clone(),
        });
        let params: Vec<Param> = params.collect();
        for (name, value) in &self.chosen {
            loaded.set_param(name, value)?;
        }
        let settings = loaded.params.iter().map(|p| (p.name.clone(), p.show())).collect();
        Ok(Learnt { params, settings, rating: start(self)? })
    }

    /// Whether its code runs in processes of its own only: who instantiates it is to do so in
    /// [`apart`].
    pub fn runs_apart(&self) -> bool {
        self.runs_apart
    }

    /// A private copy of the image for the CPUs, next to the blocks of `plan`.
    pub(crate) fn load(&self, cpus: &[(CpuId, u64)], plan: Plan) -> Result<Loaded, GovernorError> {
        load::load(&self.label, &self.image, self.hz, cpus, plan)
    }

    /// The file's name without `.c`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of static per-CPU data, without the image's own.
    pub fn percpu_bytes(&self) -> usize {
        self.image.percpu.len().saturating_sub(size_of::<u64>())
    }

    /// As the user typed it.
    pub fn label(&self) -> &str {
        &self.label.text
    }

    pub fn hz(&self) -> Hz {
        self.hz
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The kernel whose interface it is compiled against: the tree's, else the latest that has what
    /// the source uses.
    pub fn release(&self) -> Release {
        self.release
    }

    /// The policy's own file; quoted includes are not part of it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the SHA-256 of [`Policy::source`], in hexadecimal.
    pub fn source_sha256(&self) -> &str {
        &self.source_sha256
    }

    /// The module parameters that the source declares, with their defaults.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// The parameters as they will be: the chosen values, else the defaults.
    pub fn param_settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    /// Each symbol of the kernel's configuration that the source asks for, with its value here:
    /// `y`, `n` for one that is not set, or what it is defined as.
    pub fn config(&self) -> &BTreeMap<String, String> {
        &self.config
    }

    /// The chosen values for a program that stores them itself.
    pub fn stored_params(&self) -> Vec<ChosenParam> {
        let kind = |name: &str| {
            let param = self.params.iter().find(|p| p.name == name);
            param.expect("resolving has checked the names").kind
        };
        let chosen = self.chosen.iter().map(|(name, text)| {
            let kind = kind(name);
            let raw = kind.parse(text).unwrap_or(0);
            ChosenParam { name: name.clone(), text: text.clone(), size: kind.size(), raw }
        });
        chosen.collect()
    }

    /// The shared object's bytes.
    pub fn image_bytes(&self) -> &[u8] {
        &self.image.bytes
    }

    /// Returns its name in messages.
    pub fn policy_label(&self) -> &Label {
        &self.label
    }

    pub(crate) fn chosen_params(&self) -> &[(String, String)] {
        &self.chosen
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("label", &self.label)
            .field("hz", &self.hz)
            .field("origin", &self.origin)
            .field("source_sha256", &self.source_sha256)
            .finish_non_exhaustive()
    }
}
