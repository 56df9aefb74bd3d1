// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Resolves kernels by name, and caches compiled images by content.
//!
//! A kernel goes through four stages, each of which has a key:
//!
//! 1. *Source*: what `--kernel` names. `6.12` is an installed package, `~/linux:v6.18` a revision
//!    that is unpacked into a scratch folder, `6.12+series.mbox` a copy with patches. Its key hashes
//!    the hosted files' names and contents.
//! 2. *Objects*: one for each hosted file, of `khost/`, and of each policy that ships. Each is cached
//!    by the contents of the files that the compiler read, so a patch to one file compiles one file.
//! 3. *Image*: the objects, linked. An image that ships with Torpor skips stages 2 and 3.
//! 4. *Image with foreign policies*: `-g ./my.c` compiles one more object and links all again, so
//!    that a governor costs a second instead of a whole kernel.
//!
//! The cache keeps stages 2 to 4. For example, `-k 6.1 -g ./my.c` twice compiles 6.1 and `my.c`
//! the first time, and reads one file the second time; after an edit of `my.c` it compiles only
//! that file and links.

use crate::kernel::compile::{self, Job, Product};
use crate::kernel::contents::{Contents, SEARCH, cached, entry, of_tree};
use crate::kernel::patched;
use crate::kernel::policy::{self, FOREIGN, LinkedPolicy, PolicyFiles, PolicyKind};
use crate::kernel::source::{Packed, Source};
use crate::kernel::{
    Configuration, KernelError, KernelSpec, Release, scheduler, shipped, symbols, unknown,
};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use torpor_governor::hosting::{self, Failure, Files, Key, Scratch, Store, default_compiler, run};
use torpor_governor::{
    Catalog, CatalogOptions, CpufreqSpec, GovernorError, GovernorSpec, IoBoostSpec, Place,
    SchedulerSpec, SourceFiles,
};
use torpor_machine::units::{Hz, read_regular};

/// Default of `--kernel`.
pub const DEFAULT_KERNEL: &str = "6.12";

const MAKEFILE: &str = "Makefile";
const HOSTED: &str = "hosted";
const SOURCE: &str = "source-sha256";
/// Name of the list of an image's files of the tree.
const INPUTS: &str = "tree-inputs";
const POLICIES: &str = "policies.json";
/// Folder of a cache entry with the object files of its image.
const OBJECTS: &str = "objects/";

/// Time to look for a patch in a repository's history.
const PATCH_LIMIT: Duration = Duration::from_secs(5);

/// Folders and tools that [`Kernels`] works with.
#[derive(Clone, Debug, Default)]
pub struct KernelsOptions {
    /// Cache of compiled kernels, by default `$XDG_CACHE_HOME/torpor`. Only the user may be able to
    /// write to it, since its contents are executed.
    pub cache_dir: Option<PathBuf>,
    /// C compiler; by default `$CC`, else `cc`.
    pub compiler: Option<OsString>,
    /// Flag that stops a running compiler, and so whoever waits for it.
    pub stop: Option<Arc<AtomicBool>>,
}

/// Resolves names of kernels, and compiles those that are not cached.
pub struct Kernels {
    store: Store,
    compiler: OsString,
    stop: Option<Arc<AtomicBool>>,
    version: OnceLock<String>,
    /// See [`policy::made_with`].
    made_with: OnceLock<String>,
    /// Unpacked tarballs and revisions, by identity: unpacking takes long. Patched copies of trees.
    unpacked: Mutex<HashMap<String, Arc<Scratch>>>,
}

/// Idle governor to start a kernel with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleGovernor {
    /// `None` for the one with the highest rating.
    pub name: Option<String>,
    /// Whether it comes from outside the kernel's tree.
    pub is_foreign: bool,
    pub params: Vec<(String, String)>,
    /// Link name of a foreign governor.
    pub(crate) linked: Option<String>,
}

/// IO boost that the scheduler calls instead of schedutil's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoBoost {
    pub name: String,
    pub params: Vec<(String, String)>,
    pub(crate) linked: String,
}

/// A sched_ext scheduler that has the kernel's normal tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduler {
    pub name: String,
    pub params: Vec<(String, String)>,
    pub(crate) linked: String,
}

/// A compiled kernel, ready to be started any number of times.
#[derive(Clone)]
pub struct Kernel {
    /// Name as the user gave it.
    pub name: String,
    pub release: Release,
    pub hz: Hz,
    pub config: Arc<Configuration>,
    /// Files of the tree that were compiled.
    pub hosted: Vec<String>,
    pub governor: IdleGovernor,
    pub io_boost: Option<IoBoost>,
    pub scheduler: Option<Scheduler>,
    /// File of a foreign frequency governor, which is used whatever its name is.
    pub cpufreq: Option<String>,
    /// Hash of the names and contents of those files.
    pub source_sha256: String,
    /// All files of the tree that the compiler read; empty for a shipped image.
    pub inputs: Arc<Vec<String>>,
    pub(crate) policies: Arc<Vec<LinkedPolicy>>,
    spec: KernelSpec,
    /// Hash of its sources, independent of the compiler and host.
    key: String,
    /// Name of its cache entry; none for a shipped image.
    stored: Option<String>,
    objects: Arc<Vec<(String, Vec<u8>)>>,
    pub(crate) image: Arc<Vec<u8>>,
}

impl Kernels {
    pub fn new(options: KernelsOptions) -> Kernels {
        Kernels {
            store: Store::new(options.cache_dir),
            compiler: options.compiler.unwrap_or_else(default_compiler),
            stop: options.stop,
            version: OnceLock::new(),
            made_with: OnceLock::new(),
            unpacked: Mutex::default(),
        }
    }

    /// Creates one with the cache, compiler and stop flag of a catalog.
    pub fn of(catalog: &Catalog) -> Kernels {
        let CatalogOptions { cache_dir, compiler, stop, .. } = catalog.options().clone();
        Kernels::new(KernelsOptions { cache_dir, compiler, stop })
    }

    /// Returns the notes for the user since the last call.
    pub fn take_notes(&self) -> Vec<String> {
        self.store.take_notes()
    }

    /// Returns the shipped image of a release if there is one, else compiles the source.
    pub fn resolve(
        &self,
        spec: &KernelSpec,
        hz: Hz,
        progress: compile::Progress<'_>,
    ) -> Result<Kernel, KernelError> {
        if let Some((image, manifest)) = self.find_shipped(spec, hz)? {
            return self.shipped(spec, hz, image, manifest);
        }
        self.resolve_source(spec, hz, progress)
    }

    /// Whether a kernel can be resolved on this machine: its image ships, or its source is here.
    pub fn has(&self, spec: &KernelSpec, hz: Hz) -> Result<bool, KernelError> {
        if self.find_shipped(spec, hz)?.is_some() {
            return Ok(true);
        }
        match spec.find() {
            Err(KernelError::NoSource { .. } | KernelError::NotFound { .. }) => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// Returns the shipped image of a kernel, which has the default configuration.
    fn find_shipped(
        &self,
        spec: &KernelSpec,
        hz: Hz,
    ) -> Result<Option<(Vec<u8>, shipped::Manifest)>, KernelError> {
        let config = spec.configuration()?;
        match config.is_default() {
            true => shipped::find(spec, config.hz.unwrap_or(hz), self.made_with()?),
            false => Ok(None),
        }
    }

    fn shipped(
        &self,
        spec: &KernelSpec,
        hz: Hz,
        image: Vec<u8>,
        manifest: shipped::Manifest,
    ) -> Result<Kernel, KernelError> {
        let release = Release::from_parts(&manifest.release);
        let reason = || "its manifest names no release".to_owned();
        let kernel = spec.to_string();
        let release = release.ok_or_else(|| KernelError::Image { kernel, reason: reason() })?;
        let config = spec.configuration()?;
        let hz = config.hz.unwrap_or(hz);
        Ok(Kernel {
            name: spec.to_string(),
            release,
            hz,
            hosted: manifest.hosted,
            governor: IdleGovernor::default(),
            io_boost: None,
            scheduler: None,
            cpufreq: None,
            key: content_key(self.made_with()?, &manifest.source_sha256, &config, hz),
            config: Arc::new(config),
            source_sha256: manifest.source_sha256,
            inputs: Arc::default(),
            policies: Arc::new(manifest.policies),
            spec: spec.clone(),
            stored: None,
            objects: Arc::default(),
            image: Arc::new(image),
        })
    }

    /// Compiles a kernel, or finds it in the cache, even if its image ships with Torpor.
    pub fn resolve_source(
        &self,
        spec: &KernelSpec,
        hz: Hz,
        progress: compile::Progress<'_>,
    ) -> Result<Kernel, KernelError> {
        self.resolve_source_for(None, spec, hz, progress)
    }

    /// Compiles a kernel for a policy, which is tried first if the kernel is not in the cache: it
    /// takes a second to see that it does not fit, and a minute to compile what it does not fit.
    fn resolve_source_for(
        &self,
        policy: Option<&PolicyFiles<'_>>,
        spec: &KernelSpec,
        hz: Hz,
        progress: compile::Progress<'_>,
    ) -> Result<Kernel, KernelError> {
        let name = spec.to_string();
        let config = spec.configuration()?;
        let hz = config.hz.unwrap_or(hz);
        let (stored, mut files) = match self.source(spec)? {
            Source::Folder(tree) => self.of_folder(policy, spec, &config, hz, &tree, progress)?,
            Source::Packed { from, identity } => {
                let mut key = self.base_key(&config, hz)?;
                key.add(identity.as_bytes());
                let key = key.finish();
                let files = entry(&self.store, "kernels", &key, &name, || {
                    let tree = self.unpacked(spec, &from, &identity)?;
                    self.compile(policy, spec, &config, hz, tree.path(), progress)
                })?;
                (key, files)
            }
        };
        let text = |name: &str| String::from_utf8_lossy(&files[name]).into_owned();
        let broken =
            |reason: &str| KernelError::Image { kernel: name.clone(), reason: reason.to_owned() };
        let release = Release::of_makefile(&text(MAKEFILE))
            .ok_or_else(|| broken("its release is not kept with it"))?;
        let policies = serde_json::from_slice(&files[POLICIES])
            .map_err(|_| broken("its policies are not kept with it"))?;
        let lines = |name: &str| text(name).lines().map(str::to_owned).collect();
        let (hosted, inputs, source_sha256) = (lines(HOSTED), lines(INPUTS), text(SOURCE));
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
            scheduler: None,
            cpufreq: None,
            key: content_key(self.made_with()?, &source_sha256, &config, hz),
            config: Arc::new(config),
            source_sha256,
            inputs: Arc::new(inputs),
            policies: Arc::new(policies),
            spec: spec.clone(),
            stored: Some(stored),
            objects,
            image,
        })
    }

    /// Returns the kernel with an idle governor. A name selects the tree's own governor, unless
    /// only Torpor's governor of that name has the given parameters. Any other file is compiled
    /// against the kernel's headers and linked.
    pub fn with_governor(
        &self,
        kernel: &Kernel,
        catalog: &Catalog,
        spec: &GovernorSpec,
        progress: compile::Progress<'_>,
    ) -> Result<Kernel, KernelError> {
        let params = spec.params().to_vec();
        if let (Place::Builtin { name }, []) = (spec.place(), spec.config()) {
            check_governor(kernel, name)?;
            let own = kernel.policy(LinkedPolicy::TREE, name);
            let file = hosting::file_name(name);
            let ours = kernel.policy(PolicyKind::Idle.name(), file);
            let linked = match (own, ours) {
                (Some(own), Some(ours)) if !own.takes(&params) && ours.takes(&params) => Some(true),
                (Some(_), _) => Some(false),
                (None, ours) => ours.map(|_| true),
            };
            if let Some(is_foreign) = linked {
                let (name, linked) = (Some(name.clone()), is_foreign.then(|| file.to_owned()));
                let governor = IdleGovernor { name, is_foreign, params, linked };
                return Ok(Kernel { governor, ..kernel.clone() });
            }
        }
        let sources = catalog.unchecked_files(spec)?;
        let linked =
            self.with_policy(kernel, PolicyKind::Idle, &spec.to_string(), &sources, progress)?;
        let (name, foreign) = (Some(sources.name), Some(FOREIGN.to_owned()));
        let governor = IdleGovernor { name, is_foreign: true, params, linked: foreign };
        Ok(Kernel { governor, ..linked })
    }

    /// Returns the kernel with an IO boost instead of schedutil's own.
    pub fn with_io_boost(
        &self,
        kernel: &Kernel,
        catalog: &Catalog,
        spec: &IoBoostSpec,
        progress: compile::Progress<'_>,
    ) -> Result<Kernel, KernelError> {
        let params = spec.params().to_vec();
        if let Place::Builtin { name } = spec.place() {
            if kernel.policy(PolicyKind::IoBoost.name(), name).is_some() {
                let io_boost = IoBoost { name: name.clone(), params, linked: name.clone() };
                return Ok(Kernel { io_boost: Some(io_boost), ..kernel.clone() });
            }
        }
        let sources = catalog.unchecked_files(spec)?;
        let linked =
            self.with_policy(kernel, PolicyKind::IoBoost, &spec.to_string(), &sources, progress)?;
        let io_boost = IoBoost { name: sources.name, params, linked: FOREIGN.to_owned() };
        Ok(Kernel { io_boost: Some(io_boost), ..linked })
    }

    /// Returns the kernel with a foreign frequency governor.
    pub fn with_cpufreq(
        &self,
        kernel: &Kernel,
        catalog: &Catalog,
        spec: &CpufreqSpec,
        progress: compile::Progress<'_>,
    ) -> Result<Kernel, KernelError> {
        let sources = catalog.unchecked_files(spec)?;
        let linked =
            self.with_policy(kernel, PolicyKind::Cpufreq, &spec.to_string(), &sources, progress)?;
        Ok(Kernel { cpufreq: Some(sources.name.clone()), ..linked })
    }

    /// Returns the kernel with a sched_ext scheduler, and with the class that it is of.
    pub fn with_scheduler(
        &self,
        kernel: &Kernel,
        catalog: &Catalog,
        spec: &SchedulerSpec,
        progress: compile::Progress<'_>,
    ) -> Result<Kernel, KernelError> {
        let sources = catalog.unchecked_files(spec)?;
        let with_class;
        let kernel = match kernel.config.has(scheduler::OPTION) {
            true => kernel,
            false => {
                let spec = kernel.spec.with_option(scheduler::OPTION);
                with_class = self.resolve(&spec, kernel.hz, progress)?;
                &with_class
            }
        };
        let linked =
            self.with_policy(kernel, PolicyKind::Scheduler, &spec.to_string(), &sources, progress)?;
        let params = spec.params().to_vec();
        let scheduler = Scheduler { name: sources.name, params, linked: FOREIGN.to_owned() };
        Ok(Kernel { scheduler: Some(scheduler), ..linked })
    }

    /// Returns the kernel with a foreign policy, compiled against its headers.
    fn with_policy(
        &self,
        kernel: &Kernel,
        kind: PolicyKind,
        label: &str,
        files: &SourceFiles,
        progress: compile::Progress<'_>,
    ) -> Result<Kernel, KernelError> {
        let policy = PolicyFiles { kind, label, linked: FOREIGN, files };
        let kernel = &self.with_objects_for(Some(&policy), kernel, progress)?;
        let stored = kernel.stored.as_deref().unwrap_or_default();
        let key = key_with(stored, kind, files);
        let object_file = format!("{OBJECTS}{}", policy.object());
        let mut entry = entry(&self.store, "kernels", &key, label, || {
            let found = self.source(&kernel.spec)?;
            let unpacked;
            let tree = match &found {
                Source::Folder(tree) => tree.as_path(),
                Source::Packed { from, identity } => {
                    unpacked = self.unpacked(&kernel.spec, from, identity)?;
                    unpacked.path()
                }
            };
            let scratch = self.store.scratch()?;
            let job = self.job(kernel, tree, &scratch)?;
            let (object, image) = policy::link_with(&job, &kernel.objects, &policy)
                .map_err(|error| self.with_patch(&kernel.spec, error))?;
            let object = (object_file.clone(), object);
            Ok(Files::from([(compile::IMAGE.to_owned(), image), object]))
        })?;
        let image = Arc::new(entry.remove(compile::IMAGE).unwrap_or_default());
        let mut objects = Vec::clone(&kernel.objects);
        let object = entry.remove(&object_file).unwrap_or_default();
        objects.retain(|(name, _)| *name != policy.object());
        objects.push((policy.object(), object));
        Ok(Kernel {
            key: key_with(&kernel.key, kind, files),
            stored: Some(key),
            objects: Arc::new(objects),
            image,
            ..kernel.clone()
        })
    }

    fn job<'a>(
        &'a self,
        kernel: &'a Kernel,
        tree: &'a Path,
        scratch: &'a Scratch,
    ) -> Result<Job<'a>, KernelError> {
        Ok(Job {
            kernel: &kernel.name,
            release: &kernel.release,
            tree,
            config: &kernel.config,
            hz: kernel.hz,
            compiler: &self.compiler,
            version: self.version()?,
            store: &self.store,
            scratch,
            stop: self.stop.as_deref(),
            progress: &|_, _| {},
        })
    }

    /// Returns the kernel with its object files. A shipped image has none, so it is compiled.
    pub(crate) fn with_objects(
        &self,
        kernel: &Kernel,
        progress: compile::Progress<'_>,
    ) -> Result<Kernel, KernelError> {
        self.with_objects_for(None, kernel, progress)
    }

    fn with_objects_for(
        &self,
        policy: Option<&PolicyFiles<'_>>,
        kernel: &Kernel,
        progress: compile::Progress<'_>,
    ) -> Result<Kernel, KernelError> {
        if kernel.stored.is_some() {
            return Ok(kernel.clone());
        }
        let compiled = self.resolve_source_for(policy, &kernel.spec, kernel.hz, progress)?;
        if compiled.source_sha256 != kernel.source_sha256 {
            self.store.note(format!(
                "kernel `{}`: the source found here is Linux {}; the image that ships with Torpor \
                 is of Linux {}",
                kernel.name, compiled.release, kernel.release
            ));
        }
        let Kernel { governor, io_boost, scheduler, cpufreq, .. } = kernel.clone();
        Ok(Kernel { governor, io_boost, scheduler, cpufreq, ..compiled })
    }

    /// Adds to an error the patch that likely brings what the kernel lacks.
    fn with_patch(&self, spec: &KernelSpec, mut error: KernelError) -> KernelError {
        if let KernelError::Compile { message, .. } | KernelError::Governor { message, .. } =
            &mut error
        {
            let names = hosting::missing_names(message);
            let functions = names.iter().filter_map(|name| name.strip_prefix("function "));
            let mut functions = functions.filter_map(|name| name.strip_suffix("()"));
            let found = functions.find_map(|name| Some((name, self.patch_with(spec, name)?)));
            if let Some((name, patch)) = found {
                *message = format!("{}\nhint: {name}() is likely of {patch}", message.trim_end());
            }
        }
        error
    }

    /// Returns the patch that adds a function: one in the tree's folder, or a commit that the
    /// revision does not contain.
    fn patch_with(&self, spec: &KernelSpec, name: &str) -> Option<String> {
        let (tree, rev) = match spec.find().ok()? {
            Source::Folder(tree) => (tree, "HEAD".to_owned()),
            Source::Packed { from: Packed::Git { tree, commit }, .. } => (tree, commit),
            Source::Packed { .. } => return None,
        };
        let scratch = self.store.scratch().ok()?;
        let mut git = Command::new("git");
        git.arg("-C").arg(tree.canonicalize().ok()?).env("LC_ALL", "C");
        git.args(["log", "--all", "--reverse", "--no-merges", "--format=%h %s"]);
        git.arg(format!("-S{name}(")).args(["--not", &rev]);
        let is_stopped = || self.stop.as_deref().is_some_and(|stop| stop.load(Relaxed));
        let listed = run(git, scratch.path(), PATCH_LIMIT, &is_stopped).ok()?;
        let first = listed.stdout.lines().next().map(str::to_owned);
        first.or_else(|| patch_beside(&tree, name))
    }

    /// Finds a kernel's source. Patches go into a copy of the tree.
    fn source(&self, spec: &KernelSpec) -> Result<Source, KernelError> {
        let found = spec.find()?;
        let Some(series) = spec.series() else { return Ok(found) };
        let unpacked;
        let tree = match &found {
            Source::Folder(tree) => tree.as_path(),
            Source::Packed { from, identity } => {
                unpacked = self.unpacked(spec, from, identity)?;
                unpacked.path()
            }
        };
        let changes = patched::changes(tree, series)
            .map_err(|message| KernelError::Patch { kernel: spec.to_string(), message })?;
        let mut key = Key::default();
        key.add(tree.as_os_str().as_encoded_bytes());
        for (path, content) in &changes {
            key.add(path.as_bytes());
            key.add(&[u8::from(content.is_some())]);
            key.add(content.as_deref().unwrap_or_default());
        }
        let key = key.finish();
        let mut all = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = all.get(&key) {
            return Ok(Source::Folder(copy.path().to_owned()));
        }
        let copy = self.store.scratch()?;
        patched::copy(tree, copy.path(), &changes).map_err(|source| {
            let (kernel, path) = (spec.to_string(), copy.path().to_owned());
            KernelError::Read { kernel, path, source }
        })?;
        let place = copy.path().to_owned();
        all.insert(key, Arc::new(copy));
        Ok(Source::Folder(place))
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

    /// Returns an image of a tree that can change, and the key of its entry.
    fn of_folder(
        &self,
        policy: Option<&PolicyFiles<'_>>,
        spec: &KernelSpec,
        config: &Configuration,
        hz: Hz,
        tree: &Path,
        progress: compile::Progress<'_>,
    ) -> Result<(String, Files), KernelError> {
        let release = spec.release(tree)?;
        config.check(&release).map_err(|message| KernelError::config(spec, message))?;
        let mut key = self.base_key(config, hz)?;
        for hosted in self.hosted(spec, config, tree)?.into_iter().chain(compile::MAKEFILES) {
            key.add(hosted.as_bytes());
            key.add(&self.read(spec, &tree.join(hosted))?);
        }
        // Folders of the scratch folder have no part in it: `base_key` hashes their files.
        let contents = Contents::new(tree, tree, SEARCH);
        let found =
            cached(&self.store, "kernels", key.finish(), &spec.to_string(), &contents, || {
                let files = self.compile(policy, spec, config, hz, tree, progress)?;
                let inputs = String::from_utf8_lossy(&files[INPUTS]).lines().map(of_tree).collect();
                Ok((files, inputs))
            })?;
        Ok((found.key, found.files))
    }

    fn compile(
        &self,
        policy: Option<&PolicyFiles<'_>>,
        spec: &KernelSpec,
        config: &Configuration,
        hz: Hz,
        tree: &Path,
        progress: compile::Progress<'_>,
    ) -> Result<Files, KernelError> {
        let (name, release) = (spec.to_string(), spec.release(tree)?);
        config.check(&release).map_err(|message| KernelError::config(spec, message))?;
        let hosted = self.hosted(spec, config, tree)?;
        let scratch = self.store.scratch()?;
        let job = Job {
            kernel: &name,
            release: &release,
            tree,
            config,
            hz,
            compiler: &self.compiler,
            version: self.version()?,
            store: &self.store,
            scratch: &scratch,
            stop: self.stop.as_deref(),
            progress,
        };
        if let Some(policy) = policy {
            let scratch = self.store.scratch()?;
            let job = Job { scratch: &scratch, ..job };
            compile::write_headers(&job)?;
            policy::compile_policy(&job, &compile::contents(&job), policy)
                .map_err(|error| self.with_patch(spec, error))?;
        }
        let Product { image, objects, inputs, policies } =
            compile::compile(&job, &hosted, &policy::shipped()?)
                .map_err(|error| self.with_patch(spec, error))?;
        let makefile = self.read(spec, &tree.join(MAKEFILE))?;
        let source = source_sha256(tree, inputs.iter().map(String::as_str));
        let inputs: Vec<String> = inputs.into_iter().collect();
        let policies = serde_json::to_vec(&policies).expect("names are text");
        let mut files = Files::from([
            (compile::IMAGE.to_owned(), image),
            (MAKEFILE.to_owned(), makefile),
            (HOSTED.to_owned(), hosted.join("\n").into_bytes()),
            (INPUTS.to_owned(), inputs.join("\n").into_bytes()),
            (SOURCE.to_owned(), source.into_bytes()),
            (POLICIES.to_owned(), policies),
        ]);
        let objects =
            objects.into_iter().map(|(name, object)| (format!("{OBJECTS}{name}"), object));
        files.extend(objects);
        Ok(files)
    }

    fn hosted(
        &self,
        spec: &KernelSpec,
        config: &Configuration,
        tree: &Path,
    ) -> Result<Vec<&'static str>, KernelError> {
        compile::hosted_of(tree, config).map_err(|missing| KernelError::NoKernel {
            kernel: spec.to_string(),
            missing: missing.to_owned(),
        })
    }

    fn read(&self, spec: &KernelSpec, path: &Path) -> Result<Vec<u8>, KernelError> {
        read_regular(path).map_err(|source| KernelError::Read {
            kernel: spec.to_string(),
            path: path.to_owned(),
            source,
        })
    }

    /// Returns a key of everything that an image depends on, except its tree.
    fn base_key(&self, config: &Configuration, hz: Hz) -> Result<Key, KernelError> {
        let mut key = Key::default();
        // An older Torpor gives the files of an entry other names.
        key.add(INPUTS.as_bytes());
        key.add(self.version()?.as_bytes());
        key.add(&hz.get().to_le_bytes());
        key.add(config.key().as_bytes());
        key.add(self.made_with()?.as_bytes());
        Ok(key)
    }

    /// Returns a hash of everything that Torpor adds to a kernel.
    pub fn made_with(&self) -> Result<&str, KernelError> {
        if let Some(known) = self.made_with.get() {
            return Ok(known);
        }
        let made_with = policy::made_with()?;
        Ok(self.made_with.get_or_init(|| made_with))
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
        // Debian's `cc` is `gcc`.
        let is_host = ["cc", "gcc"].iter().any(|name| self.compiler == *name);
        let version = match ran.stdout.split_once(' ') {
            Some(("cc" | "gcc", version)) if is_host => version.to_owned(),
            _ => format!("{:?}\n{}", self.compiler, ran.stdout),
        };
        Ok(self.version.get_or_init(|| version))
    }
}

/// Refuses a governor of the tree that the configuration leaves out: Torpor's of the same name would
/// decide instead.
fn check_governor(kernel: &Kernel, name: &str) -> Result<(), KernelError> {
    let file = format!("{}{name}.c", compile::OWN_GOVERNORS);
    let option = compile::hosted().find(|hosted| hosted.name == file).and_then(|h| h.option);
    match option.filter(|option| !kernel.config.has(option)) {
        None => Ok(()),
        Some(option) => Err(KernelError::Config {
            kernel: kernel.name.clone(),
            message: format!(
                "its configuration has no governor {name}\n\
                 hint: add `,CONFIG_{option}=y` to the kernel's name"
            ),
        }),
    }
}

/// Returns the first file of `git format-patch` in a folder that adds a function, and its subject.
fn patch_beside(folder: &Path, name: &str) -> Option<String> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut paths: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "patch")).collect();
    paths.sort();
    paths.iter().find_map(|path| {
        let text = String::from_utf8_lossy(&read_regular(path).ok()?).into_owned();
        let call = format!("{name}(");
        text.lines().find(|line| line.starts_with('+') && line.contains(&call))?;
        let subject = text.lines().find_map(|line| line.strip_prefix("Subject: "));
        let file = path.file_name()?.to_string_lossy();
        Some(format!("{file} \"{}\"", subject.unwrap_or_default()))
    })
}

/// Returns a hash of the names and contents of files of a tree.
fn source_sha256<'a>(tree: &Path, inputs: impl Iterator<Item = &'a str>) -> String {
    let mut key = Key::default();
    for input in inputs {
        key.add(input.as_bytes());
        // A missing file changes the hash.
        key.add(&read_regular(&tree.join(input)).unwrap_or_default());
    }
    key.finish()
}

fn content_key(made_with: &str, source_sha256: &str, config: &Configuration, hz: Hz) -> String {
    let mut key = Key::default();
    key.add(made_with.as_bytes());
    key.add(source_sha256.as_bytes());
    key.add(config.key().as_bytes());
    key.add(&hz.get().to_le_bytes());
    key.finish()
}

fn key_with(kernel: &str, kind: PolicyKind, files: &SourceFiles) -> String {
    let mut key = Key::default();
    for part in [kernel, &files.name, kind.name()] {
        key.add(part.as_bytes());
    }
    policy::add_files(&mut key, files);
    key.finish()
}

impl Kernel {
    /// Returns the parameters of its policies, as on a kernel's command line.
    pub(crate) fn params(&self) -> impl Iterator<Item = (String, &str)> {
        let IdleGovernor { name, params, linked, .. } = &self.governor;
        let governor = name.iter().map(move |name| (name, linked.as_ref(), params));
        let boosts = self.io_boost.iter();
        let boosts = boosts.map(|boost| (&boost.name, Some(&boost.linked), &boost.params));
        let schedulers = self.scheduler.iter().map(|s| (&s.name, Some(&s.linked), &s.params));
        governor.chain(boosts).chain(schedulers).flat_map(|(policy, linked, params)| {
            let mark = linked.map_or(String::new(), |linked| policy::mark(linked).to_string());
            // Parameters of a shipped policy have its file's name, even if the user gave an alias.
            let file = linked.filter(|linked| *linked != FOREIGN).unwrap_or(policy);
            let module = mark + &policy::module(file);
            params.iter().map(move |(name, value)| (format!("{module}.{name}"), &value[..]))
        })
    }

    /// Returns the link names of the policies that replace the tree's own, by kind.
    pub(crate) fn linked(&self) -> [&str; 4] {
        [
            self.governor.linked.as_deref().unwrap_or_default(),
            self.cpufreq.as_ref().map_or("", |_| FOREIGN),
            self.io_boost.as_ref().map_or("", |boost| &boost.linked),
            self.scheduler.as_ref().map_or("", |scheduler| &scheduler.linked),
        ]
    }

    fn policy(&self, kind: &str, name: &str) -> Option<&LinkedPolicy> {
        self.policies.iter().find(|policy| policy.kind == kind && policy.name == name)
    }

    /// Returns the policies in its image: the tree's idle governors (kind `tree`), and Torpor's.
    pub fn policies(&self) -> &[LinkedPolicy] {
        &self.policies
    }

    /// Returns the functions of the tree that the host does not know. A run that reaches one ends.
    pub fn unknown_functions(&self) -> Vec<String> {
        let object = self.objects.iter().find(|(name, _)| name == unknown::UNIT);
        object.map_or_else(Vec::new, |(_, object)| symbols::functions(object))
    }

    /// Returns the name of its idle governor in results if it is the tree's own: `menu@6.12.117`.
    pub fn own_governor(&self) -> Option<String> {
        let name = self.governor.name.as_ref().filter(|_| !self.governor.is_foreign)?;
        Some(format!("{name}@{}", self.release))
    }

    /// Returns a hash of its sources, the same on every machine.
    pub fn id(&self) -> &str {
        &self.key
    }

    pub fn image_bytes(&self) -> &[u8] {
        &self.image
    }
}
