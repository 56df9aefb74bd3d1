// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Maps a private copy of an image.

use crate::kernel::abi::{self, Calls};
use std::ffi::{CStr, CString, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::NonNull;
use torpor_governor::hosting::loader;

const CALLS: &CStr = c"khost_calls";

/// Private copy of an image, mapped until it is dropped.
pub(crate) struct Image {
    handle: NonNull<c_void>,
    calls: NonNull<Calls>,
    /// Memory file of the copy. The loader identifies libraries by path, so the number stays taken.
    _file: File,
}

impl Image {
    /// Maps another copy: to the dynamic loader, each memory file is a separate library.
    pub(crate) fn load(bytes: &[u8], hz: u32) -> Result<Image, String> {
        let fail = |what: &str, e: io::Error| format!("{what}: {e}");
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(c"torpor-kernel".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(fail("memfd_create", io::Error::last_os_error()));
        }
        // SAFETY: the descriptor was made just now, and has no other owner.
        let mut file = unsafe { File::from_raw_fd(fd) };
        file.write_all(bytes).map_err(|e| fail("write it into memory", e))?;
        // A forked process has its parent's libraries and not its files: numbers are free again.
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let path = CString::new(path).expect("no NUL in it");
        let loading = loader();
        // SAFETY: the image has no constructors; nothing in it runs yet.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let handle = NonNull::new(handle).ok_or_else(loader_error)?;
        // SAFETY: the handle is open.
        let calls = unsafe { libc::dlsym(handle.as_ptr(), CALLS.as_ptr()) };
        let Some(calls) = NonNull::new(calls.cast()) else {
            let reason = loader_error();
            // SAFETY: the handle is open, and nothing of it is kept.
            unsafe { libc::dlclose(handle.as_ptr()) };
            return Err(reason);
        };
        drop(loading);
        let image = Image { handle, calls, _file: file };
        image.check(hz)?;
        Ok(image)
    }

    fn check(&self, hz: u32) -> Result<(), String> {
        let calls = self.calls();
        let checks = [
            ("ABI version", calls.abi, abi::ABI),
            ("struct khost_cpu size", calls.cpu_size, size_of::<abi::Cpu>() as u32),
            ("struct khost_machine size", calls.machine_size, size_of::<abi::Machine>() as u32),
            ("struct khost_cluster size", calls.cluster_size, size_of::<abi::Cluster>() as u32),
            (
                "struct khost_task_setup size",
                calls.task_setup_size,
                size_of::<abi::TaskSetup>() as u32,
            ),
            ("struct khost_host size", calls.host_size, size_of::<abi::Host>() as u32),
            ("HZ", calls.hz, hz),
        ];
        for (what, image, ours) in checks {
            if image != ours {
                return Err(format!("its {what} is {image}, expected {ours}"));
            }
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn calls(&self) -> &Calls {
        // SAFETY: a constant of the image, which is mapped as long as this lives; its first fields
        // are checked before any other is used.
        unsafe { self.calls.as_ref() }
    }

    /// Returns the address of the call table, the anchor of its symbols.
    pub(crate) fn calls_address(&self) -> usize {
        self.calls.as_ptr() as usize
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _loader = loader();
        // SAFETY: the handle is open; whoever has pointers into the image has dropped them.
        unsafe { libc::dlclose(self.handle.as_ptr()) };
    }
}

fn loader_error() -> String {
    // SAFETY: the text, if any, stays until the thread's next call of the loader.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader gives no reason".to_owned();
    }
    // SAFETY: a C string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
