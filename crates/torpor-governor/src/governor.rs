// SPDX-License-Identifier: MIT OR GPL-2.0-only
use crate::elf::ImageFile;
use crate::instance::{CpuSetup, Instance, Setup, StateDesc};
use crate::params::Param;
use crate::{GovernorError, load};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use torpor_units::{CpuId, Duration, Hz};

/// A compiled governor with its parameters, ready to be instantiated. Cheap to clone.
#[derive(Clone)]
pub struct Governor(Arc<Inner>);

struct Inner {
    name: String,
    label: String,
    hz: Hz,
    origin: Origin,
    source: Arc<str>,
    source_sha256: String,
    image: Arc<ImageFile>,
    params: Vec<Param>,
    /// Values that the user has chosen, as text.
    chosen: Vec<(String, String)>,
    settings: Vec<(String, String)>,
    rating: u32,
}

/// Where a governor's source came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Builtin,
    File { path: PathBuf },
    Tree { tree: PathBuf, rev: Option<String> },
}

/// A value that the user chose, as a program stores it: `raw` in the low `size` bytes, or, where
/// `size` is 0, by the governor's own function, which takes the text.
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
    pub label: String,
    pub hz: Hz,
    pub origin: Origin,
    pub source: Arc<str>,
    pub image: Arc<ImageFile>,
}

impl Governor {
    /// Loads the image once to learn its parameters and rating, and checks the chosen values.
    pub(crate) fn new(
        compiled: Compiled,
        chosen: &[(String, String)],
    ) -> Result<Governor, GovernorError> {
        let Compiled { name, label, hz, origin, source, image } = compiled;
        let source_sha256 = crate::sha256_hex(source.as_bytes());
        let states = [StateDesc {
            name: "probe".into(),
            exit_latency: Duration::ZERO,
            target_residency: Duration::ZERO,
            is_polling: false,
            is_disabled: false,
        }];
        let setup = Setup { cpus: &[CpuSetup::new(CpuId(0), &states)] };
        let (loaded, _) = load::load(&label, &image, hz, &setup)?;
        let params = loaded.params.iter().map(|p| Param {
            name: p.name.clone(),
            kind: p.kind,
            default: p.show(),
            description: p.description.clone(),
        });
        let params: Vec<Param> = params.collect();
        for (name, value) in chosen {
            load::store_param(&label, &loaded.params, name, value)?;
        }
        let settings = loaded.params.iter().map(|p| (p.name.clone(), p.show())).collect();
        let mut governor = Governor(Arc::new(Inner {
            name,
            label,
            hz,
            origin,
            source,
            source_sha256,
            image,
            params,
            chosen: chosen.to_vec(),
            settings,
            rating: 0,
        }));
        // Only what its init has registered can say, so it must run once.
        let rating = governor.instantiate(&setup)?.rating();
        Arc::get_mut(&mut governor.0).expect("nobody else has it yet").rating = rating;
        Ok(governor)
    }

    /// Loads a private image for the CPUs of a run.
    pub fn instantiate(&self, setup: &Setup<'_>) -> Result<Instance, GovernorError> {
        Instance::new(self, setup)
    }

    /// The file's name without `.c`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// As the user typed it.
    pub fn label(&self) -> &str {
        &self.0.label
    }

    pub fn hz(&self) -> Hz {
        self.0.hz
    }

    pub fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// The governor's own file; quoted includes are not part of it.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// Of [`Governor::source`], in hexadecimal.
    pub fn source_sha256(&self) -> &str {
        &self.0.source_sha256
    }

    /// The module parameters that the source declares, with their defaults.
    pub fn params(&self) -> &[Param] {
        &self.0.params
    }

    /// The parameters as they will be: the chosen values, else the defaults.
    pub fn param_settings(&self) -> Vec<(String, String)> {
        self.0.settings.clone()
    }

    /// The chosen values for a program that stores them itself.
    pub fn stored_params(&self) -> Vec<ChosenParam> {
        let kind = |name: &str| {
            let param = self.0.params.iter().find(|p| p.name == name);
            param.expect("resolving has checked the names").kind
        };
        let chosen = self.0.chosen.iter().map(|(name, text)| {
            let kind = kind(name);
            let raw = kind.parse(text).unwrap_or(0);
            ChosenParam { name: name.clone(), text: text.clone(), size: kind.size(), raw }
        });
        chosen.collect()
    }

    /// The rating it registers with: in a kernel, the highest becomes the current governor.
    pub fn rating(&self) -> u32 {
        self.0.rating
    }

    /// The shared object's bytes.
    pub fn image_bytes(&self) -> &[u8] {
        &self.0.image.bytes
    }

    pub(crate) fn image(&self) -> &ImageFile {
        &self.0.image
    }

    pub(crate) fn chosen_params(&self) -> &[(String, String)] {
        &self.0.chosen
    }
}

impl fmt::Debug for Governor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Governor")
            .field("label", &self.0.label)
            .field("hz", &self.0.hz)
            .field("origin", &self.0.origin)
            .field("source_sha256", &self.0.source_sha256)
            .finish_non_exhaustive()
    }
}
