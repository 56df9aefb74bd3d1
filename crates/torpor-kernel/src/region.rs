// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Memory that a hosted kernel allocates.

use std::ffi::c_void;
use std::ptr::NonNull;

pub(crate) const LINE: usize = 64;
const HUGE_PAGE: usize = 2 << 20;
/// What is not used takes no memory.
const REGION: usize = 32 << 20;

/// Memory of an instance, in huge pages where the system has them: a machine of 256 CPUs and some
/// thousand tasks is spread over more small pages than a TLB has entries.
pub(crate) struct Region {
    start: NonNull<c_void>,
    size: usize,
    pub(crate) used: usize,
}

impl Region {
    pub(crate) fn new(at_least: usize) -> Option<Region> {
        let size = at_least.max(REGION).next_multiple_of(HUGE_PAGE) + HUGE_PAGE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: fresh memory, wherever there is some.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0) };
        if memory == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: it was mapped just now. That it is refused does no harm.
        unsafe { libc::madvise(memory, size, libc::MADV_HUGEPAGE) };
        let used = memory.align_offset(HUGE_PAGE);
        Some(Region { start: NonNull::new(memory)?, size, used })
    }

    pub(crate) fn take(&mut self, size: usize) -> Option<*mut c_void> {
        let end = self.used.checked_add(size).filter(|end| *end <= self.size)?;
        let memory = self.start.as_ptr().wrapping_byte_add(self.used);
        self.used = end;
        Some(memory)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size; the kernel that had it is gone or never runs again.
        unsafe { libc::munmap(self.start.as_ptr(), self.size) };
    }
}
