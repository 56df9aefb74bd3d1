// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Kernels by name: found, compiled once, kept by content.

use crate::compile::{self, Job, PolicyFiles, PolicyKind, Product};
use crate::source::{Packed, Source};
use crate::{KHOST, KernelError, KernelSpec, Release};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use torpor_governor::hosting::{self, Failure, Files, Key, Scratch, Store, default_compiler, run};
use torpor_governor::{
    Catalog, CatalogOptions, CpufreqSpec, GovernorError, GovernorSpec, IoBoostSpec, Place,
    SourceFiles,
};
use torpor_units::Hz;

const RELEASE: &str = "release";
const HOSTED: &str = "hosted";
/// The folder of an entry that has what its image is linked of.
const OBJECTS: &str = "objects/";

/// Where [`Kernels`] works and with what.
#[derive(Clone, Debug, Default)]
pub struct KernelsOptions {
    /// For compiled kernels; by default `$XDG_CACHE_HOME/torpor`. It has to be the user's own: what
    /// lies in it is run.
    pub cache_dir: Option<PathBuf>,
    /// By default `$CC`, else `cc`.
    pub compiler: Option<OsString>,
    /// Set it to end a compiler that runs, and with it what waits for it.
    pub stop: Option<Arc<AtomicBool>>,
}

/// Resolves names of kernels, by compiling them where the cache does not have them.
pub struct Kernels {
    store: Store,
    compiler: OsString,
    stop: Option<Arc<AtomicBool>>,
    version: OnceLock<String>,
    /// Trees of tarballs and revisions, by what tells them apart: to unpack one takes long.
    unpacked: Mutex<HashMap<String, Arc<Scratch>>>,
}

/// The idle governor that a kernel is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleGovernor {
    /// `None`: the kernel's highest rated.
    pub name: Option<String>,
    /// From elsewhere than the kernel's own tree: it is the only one of its image.
    pub is_foreign: bool,
    pub params: Vec<(String, String)>,
}

/// What its scheduler calls in place of schedutil's own IO boost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoBoost {
    pub name: String,
    pub params: Vec<(String, String)>,
}

/// A compiled kernel, ready to be started any number of times.
#[derive(Clone)]
pub struct Kernel {
    /// As the user named it.
    pub name: String,
    pub release: Release,
    pub hz: Hz,
    /// The tree's files that it is made of.
    pub hosted: Vec<String>,
    pub governor: IdleGovernor,
    pub io_boost: Option<IoBoost>,
    /// A frequency governor from elsewhere, by its file, which decides whatever its name is.
    pub cpufreq: Option<String>,
    calls_io_boost: bool,
    spec: KernelSpec,
    /// Of its content.
    key: String,
    objects: Arc<Vec<(String, Vec<u8>)>>,
    pub(crate) image: Arc<Vec<u8>>,
}

/// What precedes a parameter's name on a kernel's command line.
fn module(policy: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    policy.chars().map(|c| if is_part(c) { c } else { '_' }).collect()
}

impl Kernels {
    pub fn new(options: KernelsOptions) -> Kernels {
        Kernels {
            store: Store::new(options.cache_dir),
            compiler: options.compiler.unwrap_or_else(default_compiler),
            stop: options.stop,
            version: OnceLock::new(),
            unpacked: Mutex::default(),
        }
    }

    /// Works where a catalog of governors does, and with the same.
    pub fn of(catalog: &Catalog) -> Kernels {
        let CatalogOptions { cache_dir, compiler, stop, .. } = catalog.options().clone();
        Kernels::new(KernelsOptions { cache_dir, compiler, stop })
    }

    /// What happened on the way that a user should know; each is reported once.
    pub fn take_notes(&self) -> Vec<String> {
        self.store.take_notes()
    }

    pub fn resolve(
        &self,
        spec: &KernelSpec,
        hz: Hz,
        progress: compile::Progress<'_>,
    ) -> Result<Kernel, KernelError> {
        self.resolve_as(&Variant { spec, hz, calls_io_boost: false }, progress)
    }

    /// The same, with a scheduler that calls an IO boost, once it has one: without, it is as it was.
    pub fn resolve_for_io_boosts(
        &self,
        spec: &KernelSpec,
        hz: Hz,
        progress: compile::Progress<'_>,
    ) -> Result<Kernel, KernelError> {
        self.resolve_as(&Variant { spec, hz, calls_io_boost: true }, progress)
    }

    fn resolve_as(
        &self,
        variant: &Variant<'_>,
        progress: compile::Progress<'_>,
    ) -> Result<Kernel, KernelError> {
        let &Variant { spec, hz, calls_io_boost } = variant;
        let name = spec.to_string();
        let (key, mut files) = match spec.find()? {
            Source::Folder(tree) => self.of_folder(variant, &tree, progress)?,
            Source::Packed { from, identity } => {
                let mut key = self.base_key(variant)?;
                key.add(identity.as_bytes());
                let key = key.finish();
                let files = self.entry("kernels", &key, &name, || {
                    let tree = self.unpacked(spec, &from, &identity)?;
                    Ok(self.compile(variant, tree.path(), progress)?.0)
                })?;
                (key, files)
            }
        };
        let text = |name: &str| String::from_utf8_lossy(&files[name]).into_owned();
        let release = Release::of_makefile(&text(RELEASE)).ok_or_else(|| KernelError::Image {
            kernel: name.clone(),
            reason: "its release is not kept with it".to_owned(),
        })?;
        let hosted = text(HOSTED).lines().map(str::to_owned).collect();
        let image = Arc::new(files.remove(compile::IMAGE).unwrap_or_default());
        let objects = files
            .into_iter()
            .filter_map(|(name, object)| Some((name.strip_prefix(OBJECTS)?.to_owned(), object)));
        let objects = Arc::new(objects.collect());
        Ok(Kernel {
            name,
            release,
            hz,
            hosted,
            governor: IdleGovernor::default(),
            io_boost: None,
            cpufreq: None,
            calls_io_boost,
            spec: spec.clone(),
            key,
            objects,
            image,
        })
    }

    /// The kernel with an idle governor. Those of its tree are found by their names; any other's
    /// file is compiled against the kernel's headers and linked in place of them.
    pub fn with_governor(
        &self,
        kernel: &Kernel,
        catalog: &Catalog,
        spec: &GovernorSpec,
    ) -> Result<Kernel, KernelError> {
        let params = spec.params().to_vec();
        if let (Place::Builtin { name }, []) = (spec.place(), spec.config()) {
            if kernel.hosted.contains(&format!("drivers/cpuidle/governors/{name}.c")) {
                let name = Some(name.clone());
                let governor = IdleGovernor { name, is_foreign: false, params };
                return Ok(Kernel { governor, ..kernel.clone() });
            }
        }
        let sources = catalog.unchecked_files(spec)?;
        let name = Some(sources.name.clone());
        let linked = self.with_policy(kernel, PolicyKind::Idle, &spec.to_string(), &sources)?;
        Ok(Kernel { governor: IdleGovernor { name, is_foreign: true, params }, ..linked })
    }

    /// A kernel that was resolved for IO boosts, with one.
    pub fn with_io_boost(
        &self,
        kernel: &Kernel,
        catalog: &Catalog,
        spec: &IoBoostSpec,
    ) -> Result<Kernel, KernelError> {
        assert!(kernel.calls_io_boost, "it was resolved for IO boosts");
        let sources = catalog.unchecked_ioboost_files(spec)?;
        let (name, params) = (sources.name.clone(), spec.params().to_vec());
        let linked = self.with_policy(kernel, PolicyKind::IoBoost, &spec.to_string(), &sources)?;
        Ok(Kernel { io_boost: Some(IoBoost { name, params }), ..linked })
    }

    /// The kernel with a frequency governor from elsewhere.
    pub fn with_cpufreq(
        &self,
        kernel: &Kernel,
        catalog: &Catalog,
        spec: &CpufreqSpec,
    ) -> Result<Kernel, KernelError> {
        let sources = catalog.unchecked_cpufreq_files(spec)?;
        let linked = self.with_policy(kernel, PolicyKind::Cpufreq, &spec.to_string(), &sources)?;
        Ok(Kernel { cpufreq: Some(sources.name.clone()), ..linked })
    }

    /// The kernel with a policy from elsewhere, compiled against its headers.
    fn with_policy(
        &self,
        kernel: &Kernel,
        kind: PolicyKind,
        label: &str,
        files: &SourceFiles,
    ) -> Result<Kernel, KernelError> {
        let key = key_with(kernel, kind, files);
        let mut entry = self.entry("kernels", &key, label, || {
            let found = kernel.spec.find()?;
            let unpacked;
            let tree = match &found {
                Source::Folder(tree) => tree.as_path(),
                Source::Packed { from, identity } => {
                    unpacked = self.unpacked(&kernel.spec, from, identity)?;
                    unpacked.path()
                }
            };
            let scratch = self.store.scratch()?;
            let job = Job {
                kernel: &kernel.name,
                release: &kernel.release,
                tree,
                hz: kernel.hz,
                calls_io_boost: kernel.calls_io_boost,
                compiler: &self.compiler,
                scratch: &scratch,
                stop: self.stop.as_deref(),
                progress: &|_, _| {},
            };
            let policy = PolicyFiles { kind, label, module: &module(&files.name), files };
            let (object, image) = compile::with_policy(&job, &kernel.objects, &policy)?;
            let object = (format!("{OBJECTS}{}", kind.object()), object);
            Ok(Files::from([(compile::IMAGE.to_owned(), image), object]))
        })?;
        let image = Arc::new(entry.remove(compile::IMAGE).unwrap_or_default());
        let mut objects = Vec::clone(&kernel.objects);
        let object = entry.remove(&format!("{OBJECTS}{}", kind.object())).unwrap_or_default();
        objects.push((kind.object().to_owned(), object));
        Ok(Kernel { key, objects: Arc::new(objects), image, ..kernel.clone() })
    }

    fn unpacked(
        &self,
        spec: &KernelSpec,
        from: &Packed,
        identity: &str,
    ) -> Result<Arc<Scratch>, KernelError> {
        let mut unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tree) = unpacked.get(identity) {
            return Ok(tree.clone());
        }
        let tree = Arc::new(spec.unpack(from, &self.store)?);
        unpacked.insert(identity.to_owned(), tree.clone());
        Ok(tree)
    }

    /// What a tree's image is made from is known only once it was compiled: first the list of its
    /// inputs by the hosted files, then the image by the content of all on that list. A header that
    /// is not on it can matter only if a file on it has changed.
    fn of_folder(
        &self,
        variant: &Variant<'_>,
        tree: &Path,
        progress: compile::Progress<'_>,
    ) -> Result<(String, Files), KernelError> {
        let spec = variant.spec;
        let name = spec.to_string();
        spec.release(tree)?;
        let mut key = self.base_key(variant)?;
        for hosted in self.hosted(spec, tree)?.into_iter().chain(["Makefile"]) {
            key.add(hosted.as_bytes());
            key.add(&self.read(spec, &tree.join(hosted))?);
        }
        let key = key.finish();
        let fresh: RefCell<Option<Files>> = RefCell::new(None);
        let list = self.entry("kernel-inputs", &key, &name, || {
            let (files, inputs) = self.compile(variant, tree, progress)?;
            *fresh.borrow_mut() = Some(files);
            Ok(Files::from([("list".to_owned(), inputs.into_bytes())]))
        })?;
        let mut whole = Key::default();
        whole.add(key.as_bytes());
        for input in String::from_utf8_lossy(&list["list"]).lines() {
            whole.add(input.as_bytes());
            // One that is gone makes another image, or none.
            whole.add(&fs::read(tree.join(input)).unwrap_or_default());
        }
        let key = whole.finish();
        let files = self.entry("kernels", &key, &name, || match fresh.take() {
            Some(files) => Ok(files),
            None => Ok(self.compile(variant, tree, progress)?.0),
        })?;
        Ok((key, files))
    }

    fn compile(
        &self,
        variant: &Variant<'_>,
        tree: &Path,
        progress: compile::Progress<'_>,
    ) -> Result<(Files, String), KernelError> {
        let &Variant { spec, hz, calls_io_boost } = variant;
        let (name, release) = (spec.to_string(), spec.release(tree)?);
        let hosted = self.hosted(spec, tree)?;
        let scratch = self.store.scratch()?;
        let job = Job {
            kernel: &name,
            release: &release,
            tree,
            hz,
            calls_io_boost,
            compiler: &self.compiler,
            scratch: &scratch,
            stop: self.stop.as_deref(),
            progress,
        };
        let Product { image, objects, inputs } = compile::compile(&job, &hosted)?;
        let makefile = self.read(spec, &tree.join("Makefile"))?;
        let mut files = Files::from([
            (compile::IMAGE.to_owned(), image),
            (RELEASE.to_owned(), makefile),
            (HOSTED.to_owned(), hosted.join("\n").into_bytes()),
        ]);
        let objects =
            objects.into_iter().map(|(name, object)| (format!("{OBJECTS}{name}"), object));
        files.extend(objects);
        let inputs: Vec<String> = inputs.into_iter().collect();
        Ok((files, inputs.join("\n")))
    }

    fn hosted(&self, spec: &KernelSpec, tree: &Path) -> Result<Vec<&'static str>, KernelError> {
        compile::hosted_of(tree).map_err(|missing| KernelError::NoKernel {
            kernel: spec.to_string(),
            missing: missing.to_owned(),
        })
    }

    fn read(&self, spec: &KernelSpec, path: &Path) -> Result<Vec<u8>, KernelError> {
        fs::read(path).map_err(|source| KernelError::Read {
            kernel: spec.to_string(),
            path: path.to_owned(),
            source,
        })
    }

    /// [`Store::entry`], with our errors.
    fn entry(
        &self,
        kind: &str,
        key: &str,
        what: &str,
        make: impl FnOnce() -> Result<Files, KernelError>,
    ) -> Result<Files, KernelError> {
        let mut failed = None;
        let entry = self.store.entry(kind, key, what, || {
            make().map_err(|error| {
                failed = Some(error);
                GovernorError::Interrupted
            })
        });
        match (entry, failed) {
            (_, Some(error)) => Err(error),
            (Ok(entry), None) => Ok(entry.files),
            (Err(error), None) => Err(error.into()),
        }
    }

    /// What an image depends on apart from its tree.
    fn base_key(&self, variant: &Variant<'_>) -> Result<Key, KernelError> {
        let mut key = Key::default();
        key.add(self.version()?.as_bytes());
        key.add(&variant.hz.get().to_le_bytes());
        compile::flags().for_each(|flag| key.add(flag.as_bytes()));
        for (name, text) in KHOST {
            key.add(name.as_bytes());
            key.add(text.as_bytes());
        }
        let calls = if variant.calls_io_boost { hosting::ioboost_calls()? } else { Vec::new() };
        for (name, text) in calls {
            key.add(name.as_bytes());
            key.add(&text);
        }
        Ok(key)
    }

    fn version(&self) -> Result<&str, KernelError> {
        if let Some(version) = self.version.get() {
            return Ok(version);
        }
        let scratch = self.store.scratch()?;
        let mut command = Command::new(&self.compiler);
        command.arg("--version");
        let ran = run(command, scratch.path(), Duration::from_secs(60), &|| false);
        let no_compiler = |source| GovernorError::NoCompiler {
            compiler: self.compiler.to_string_lossy().into_owned(),
            source,
        };
        let ran = ran.map_err(|failure| match failure {
            Failure::Start(source) => no_compiler(source),
            Failure::Scratch(source) => {
                GovernorError::Cache { path: scratch.path().to_owned(), source }
            }
            _ => no_compiler(std::io::ErrorKind::TimedOut.into()),
        })?;
        Ok(self.version.get_or_init(|| format!("{:?}\n{}", self.compiler, ran.stdout)))
    }
}

/// A kernel as it is compiled.
struct Variant<'a> {
    spec: &'a KernelSpec,
    hz: Hz,
    calls_io_boost: bool,
}

/// The key of a kernel's image with a policy from elsewhere.
fn key_with(kernel: &Kernel, kind: PolicyKind, files: &SourceFiles) -> String {
    let mut key = Key::default();
    for part in [kernel.key.as_str(), &files.main, kind.object()] {
        key.add(part.as_bytes());
    }
    let parts = files.parts.iter().map(|part| (&part.file, &part.flags));
    for (file, flags) in [(&files.main, &files.main_flags)].into_iter().chain(parts) {
        key.add(file.as_bytes());
        flags.iter().for_each(|flag| key.add(flag.as_bytes()));
    }
    for (name, text) in &files.files {
        key.add(name.as_bytes());
        key.add(text);
    }
    key.finish()
}

impl Kernel {
    /// Parameters of its policies, as a kernel's command line has them.
    pub(crate) fn params(&self) -> impl Iterator<Item = (String, &str)> {
        let governor = self.governor.name.iter().map(|name| (name, &self.governor.params));
        let boost = self.io_boost.iter().map(|boost| (&boost.name, &boost.params));
        governor.chain(boost).flat_map(|(policy, params)| {
            let policy = module(policy);
            params.iter().map(move |(name, value)| (format!("{policy}.{name}"), &value[..]))
        })
    }

    /// Tells it apart by the content of all it is made from.
    pub fn id(&self) -> &str {
        &self.key
    }

    /// What is run, to the byte.
    pub fn image_bytes(&self) -> &[u8] {
        &self.image
    }
}
