// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A compiled C file with its parameters.

use crate::apart::{NoAnswer, Pulse, apart};
use crate::elf::ImageFile;
use crate::load::{self, Loaded};
use crate::memory::Plan;
use crate::params::Param;
use crate::{GovernorError, Label, Release, TreeSpec};
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
    Tree { tree: TreeSpec },
}

/// A parameter value that the user has chosen: `raw` in the low `size` bytes. If `size` is 0, the
/// policy's own function sets it from `text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenParam {
    pub name: String,
    pub text: String,
    pub size: usize,
    pub raw: u64,
}

/// A compiled source whose parameters are not yet known.
pub(crate) struct Compiled {
    pub name: String,
    pub label: Label,
    pub hz: Hz,
    pub origin: Origin,
    pub release: Release,
    pub source: Arc<str>,
    pub source_sha256: String,
    pub image: Arc<ImageFile>,
    pub config: BTreeMap<String, String>,
    /// Whether its code must run in a separate process.
    pub runs_apart: bool,
    /// Set when the user interrupts.
    pub stop: Option<Arc<AtomicBool>>,
}

/// Facts that are known only after loading the image.
#[derive(Serialize, Deserialize)]
struct Facts {
    params: Vec<Param>,
    settings: Vec<(String, String)>,
    rating: u32,
}

impl Policy {
    /// Loads the image once to read its parameters, and checks the chosen values. Returns the policy
    /// and its rating, which `rate` determines.
    pub(crate) fn new(
        compiled: Compiled,
        chosen: &[(String, String)],
        rate: impl FnOnce(&Policy) -> Result<u32, GovernorError>,
    ) -> Result<(Policy, u32), GovernorError> {
        let Compiled { runs_apart, stop, .. } = compiled;
        let mut policy = Policy {
            name: compiled.name,
            label: compiled.label,
            hz: compiled.hz,
            origin: compiled.origin,
            release: compiled.release,
            source: compiled.source,
            source_sha256: compiled.source_sha256,
            image: compiled.image,
            params: Vec::new(),
            chosen: chosen.to_vec(),
            settings: Vec::new(),
            config: compiled.config,
            runs_apart,
        };
        let facts = if runs_apart {
            let find = |_: &Pulse| policy.find_facts(rate).map_err(|e| e.to_string());
            let goes_on = |_| !stop.as_ref().is_some_and(|stop| stop.load(Relaxed));
            match apart(std::slice::from_ref(&policy.label), &mut { goes_on }, find) {
                Ok(facts) => facts.map_err(GovernorError::Other)?,
                Err(NoAnswer::Died(error)) => return Err(error),
                Err(NoAnswer::Interrupted) => return Err(GovernorError::Interrupted),
            }
        } else {
            policy.find_facts(rate)?
        };
        (policy.params, policy.settings) = (facts.params, facts.settings);
        Ok((policy, facts.rating))
    }

    fn find_facts(
        &self,
        rate: impl FnOnce(&Policy) -> Result<u32, GovernorError>,
    ) -> Result<Facts, GovernorError> {
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
        Ok(Facts { params, settings, rating: rate(self)? })
    }

    /// Returns whether its code must run in a separate process: instantiate it in [`apart`].
    pub fn runs_apart(&self) -> bool {
        self.runs_apart
    }

    /// Loads a private copy of the image for the CPUs, next to the blocks of `plan`.
    pub(crate) fn load(&self, cpus: &[(CpuId, u64)], plan: Plan) -> Result<Loaded, GovernorError> {
        load::load(&self.label, &self.image, self.hz, cpus, plan)
    }

    /// Returns the file name without `.c`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the size of the governor's static per-CPU data, in bytes.
    pub fn percpu_bytes(&self) -> usize {
        // The kapi has one word.
        self.image.percpu.len().saturating_sub(size_of::<u64>())
    }

    /// Returns the name that the user typed.
    pub fn label(&self) -> &str {
        &self.label.text
    }

    pub fn hz(&self) -> Hz {
        self.hz
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the release whose kernel interface it is compiled against: that of the tree, else the
    /// latest with all interfaces that the source uses.
    pub fn release(&self) -> Release {
        self.release
    }

    /// Returns the policy's C source, without included files.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the SHA-256 of [`Policy::source`], in hexadecimal.
    pub fn source_sha256(&self) -> &str {
        &self.source_sha256
    }

    /// Returns the module parameters with their defaults.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Returns the parameters' values: the chosen ones, else the defaults.
    pub fn param_settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    /// Returns each kernel option that the source tests, with its value: `y`, `n` if it is not set, or
    /// its definition.
    pub fn config(&self) -> &BTreeMap<String, String> {
        &self.config
    }

    /// Returns the chosen values, for a program that stores them itself.
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

    /// Returns the bytes of the shared object.
    pub fn image_bytes(&self) -> &[u8] {
        &self.image.bytes
    }

    /// Returns its kind and name, for messages.
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
