// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Memory that a hosted kernel allocates.

use std::ffi::c_void;
use std::ptr::NonNull;

pub(crate) const LINE: usize = 64;
const HUGE_PAGE: usize = 2 << 20;
/// Address space of an instance's memory; unused pages take no memory.
const REGION: usize = 32 << 20;

/// Memory of an instance, in huge pages if available: 256 CPUs with thousands of tasks use more
/// small pages than a TLB has entries.
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

/// Stacks per mapping.
const STACKS: usize = 64;
/// Number of different offsets at which stacks begin, so that they do not all share a few sets of
/// the host's caches.
const PLACES: usize = 64;

/// The size of the host's pages: 4 KiB on x86-64; 4, 16 or 64 KiB on aarch64.
fn page_size() -> usize {
    // SAFETY: it asks for a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("every system has a page size")
}

/// Stacks of a kernel's threads, each with a guard page below it, so that an overflow ends the run.
pub(crate) struct Stacks {
    start: NonNull<c_void>,
    page: usize,
    stride: usize,
    used: usize,
}

impl Stacks {
    pub(crate) fn new(stack_size: usize) -> Option<Stacks> {
        Stacks::with_page(stack_size, page_size())
    }

    fn with_page(stack_size: usize, page: usize) -> Option<Stacks> {
        let stride = page + (stack_size + PLACES * LINE).next_multiple_of(page);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let size = stride * STACKS;
        // SAFETY: fresh memory, wherever there is some.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0) };
        let start = NonNull::new(memory).filter(|_| memory != libc::MAP_FAILED)?;
        Some(Stacks { start, page, stride, used: 0 })
    }

    pub(crate) fn take(&mut self) -> Option<*mut c_void> {
        let guard = self.start.as_ptr().wrapping_byte_add(self.used * self.stride);
        // SAFETY: the page belongs to this mapping, and nothing uses it.
        if self.used == STACKS || !unsafe { forbid(guard, self.page) } {
            return None;
        }
        let place = self.used % PLACES * LINE;
        self.used += 1;
        Some(guard.wrapping_byte_add(self.page + place))
    }

    /// Whether an address lies in a guard page.
    pub(crate) fn guards(&self, address: usize) -> bool {
        let offset = address.wrapping_sub(self.start.as_ptr() as usize);
        offset < self.used * self.stride && offset % self.stride < self.page
    }
}

/// Makes a page inaccessible.
///
/// # Safety
/// The caller owns the page, and it holds nothing.
unsafe fn forbid(page: *mut c_void, size: usize) -> bool {
    // Since Linux 6.13; libc has no name for it yet. Without it each page splits the mapping, which
    // took 2 of the 12 ms in which a kernel with 256 CPUs starts.
    const MADV_GUARD_INSTALL: libc::c_int = 102;
    // SAFETY: as the caller promises.
    unsafe {
        libc::madvise(page, size, MADV_GUARD_INSTALL) == 0
            || libc::mprotect(page, size, libc::PROT_NONE) == 0
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size; the kernel that had it is gone or never runs again.
        unsafe { libc::munmap(self.start.as_ptr(), self.stride * STACKS) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size; the kernel that had it is gone or never runs again.
        unsafe { libc::munmap(self.start.as_ptr(), self.size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of a host may be larger than a stack.
    #[test]
    fn stacks_are_guarded_with_any_page_size() {
        const SIZE: usize = 16 << 10;
        for page in [4 << 10, 16 << 10, 64 << 10].into_iter().filter(|page| *page >= page_size()) {
            let mut stacks = Stacks::with_page(SIZE, page).expect("there is memory");
            for _ in 0..STACKS {
                let stack = stacks.take().expect("so many are mapped");
                // SAFETY: the stack was taken just now, and has this size.
                unsafe { stack.cast::<u8>().write_bytes(1, SIZE) };
                let bottom = stack as usize;
                assert!(!stacks.guards(bottom) && !stacks.guards(bottom + SIZE - 1));
                assert!(stacks.guards(bottom - PLACES * LINE), "{page}");
            }
            assert!(stacks.take().is_none(), "there are no more");
        }
    }
}
