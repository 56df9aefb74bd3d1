// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Kernel images that ship with Torpor. They are files and not part of the extension, which links
//! crates with licenses that are incompatible with GPL version 2. `scripts/kernel_images.py` makes
//! them.

use crate::kernel::policy::LinkedPolicy;
use crate::kernel::{KernelError, KernelSpec, Release};
use std::path::Path;
use torpor_governor::hosting;
use torpor_machine::units::{Hz, read_regular};

/// Folder of the images, next to the extension or in the build.
const FOLDER: &str = "kernels";
const MANIFEST: &str = "manifest.json";
/// Environment variable with another folder.
const IMAGES_ENV: &str = "TORPOR_KERNEL_IMAGES";

/// Manifest: the sources and settings of a release's images.
#[derive(serde::Deserialize)]
pub(crate) struct Manifest {
    pub release: String,
    pub source_sha256: String,
    /// See [`crate::kernel::policy::made_with`]. Images of another version of Torpor are not used.
    made_with: String,
    pub hosted: Vec<String>,
    pub policies: Vec<LinkedPolicy>,
    images: Vec<ImageFile>,
}

#[derive(Clone, serde::Deserialize)]
struct ImageFile {
    file: String,
    arch: String,
    hz: u32,
    sha256: String,
}

/// Returns the shipped image if `spec` names a release that has one for this machine. A damaged
/// image is an error.
pub(crate) fn find(
    spec: &KernelSpec,
    hz: Hz,
    made_with: &str,
) -> Result<Option<(Vec<u8>, Manifest)>, KernelError> {
    let folder = hosting::shipped_folder(FOLDER, IMAGES_ENV, env!("TORPOR_KERNEL_IMAGES_BUILT"));
    find_in(&folder, spec, hz, made_with)
}

fn find_in(
    folder: &Path,
    spec: &KernelSpec,
    hz: Hz,
    made_with: &str,
) -> Result<Option<(Vec<u8>, Manifest)>, KernelError> {
    let Some((manifest, file)) = listed(folder, &spec.tree(), hz, made_with) else {
        return Ok(None);
    };
    let path = folder.join(&file.file);
    let bytes = read_regular(&path).map_err(|source| KernelError::Read {
        kernel: spec.to_string(),
        path: path.clone(),
        source,
    })?;
    match hosting::sha256_hex(&bytes) == file.sha256 {
        true => Ok(Some((bytes, manifest))),
        false => Err(KernelError::Image {
            kernel: spec.to_string(),
            reason: format!("{} is damaged; install Torpor anew", path.display()),
        }),
    }
}

fn listed(folder: &Path, named: &str, hz: Hz, made_with: &str) -> Option<(Manifest, ImageFile)> {
    let asked = Release::from_parts(named).filter(|_| !Path::new(named).exists())?;
    let manifest = read_regular(&folder.join(MANIFEST)).ok()?;
    let manifest: Manifest = serde_json::from_slice(&manifest).ok()?;
    let release = Release::from_parts(&manifest.release)?;
    let is_asked = (release.major, release.minor) == (asked.major, asked.minor)
        && (named.matches('.').count() == 1 || release == asked);
    if !is_asked || manifest.made_with != made_with {
        return None;
    }
    let fits = |image: &&ImageFile| image.arch == std::env::consts::ARCH && image.hz == hz.get();
    let image = manifest.images.iter().find(fits)?.clone();
    Some((manifest, image))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env::consts::ARCH;
    use std::fs;

    fn shipped(folder: &Path, name: &str, hz: Hz, made_with: &str) -> Option<Vec<u8>> {
        let found = find_in(folder, &name.parse().unwrap(), hz, made_with);
        found.unwrap().map(|(image, _)| image)
    }

    #[test]
    fn image_is_found_by_release_and_hz() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = format!(
            r#"{{"release": "6.12.117", "source_sha256": "s", "made_with": "m", "hosted": [],
                "policies": [], "images": [
                {{"file": "a.so", "arch": "none", "hz": 250, "sha256": ""}},
                {{"file": "b.so", "arch": "{ARCH}", "hz": 250, "sha256": "{}"}}]}}"#,
            hosting::sha256_hex(b"image"),
        );
        fs::write(dir.path().join(MANIFEST), manifest).unwrap();
        fs::write(dir.path().join("b.so"), "image").unwrap();
        let find = |name: &str, hz, made_with: &str| shipped(dir.path(), name, hz, made_with);
        for name in ["6.12", "6.12.117"] {
            assert_eq!(find(name, Hz::H250, "m").as_deref(), Some(&b"image"[..]), "{name}");
        }
        for name in ["6.1", "6.12.116", "6.12.0", "/usr/src/6.12", "linux"] {
            assert_eq!(find(name, Hz::H250, "m"), None, "{name}");
        }
        assert_eq!(find("6.12", Hz::H100, "m"), None);
        assert_eq!(find("6.12", Hz::H250, "of an older Torpor"), None);
        fs::write(dir.path().join("b.so"), "damaged").unwrap();
        let error = find_in(dir.path(), &"6.12".parse().unwrap(), Hz::H250, "m");
        assert!(error.err().expect("it is damaged").to_string().contains("b.so is damaged"));
    }
}
