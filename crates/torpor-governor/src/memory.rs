// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The memory of one instance: blocks with guard pages between them, so that a governor's access
//! beyond its data faults.

use std::io;
use std::ptr::NonNull;

/// Extra space in a block for the alignment by [`Memory::at_end`], in bytes.
pub(crate) const ALIGN_SLACK: usize = 64;

/// Location of a block, known before the memory is mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    start: usize,
    len: usize,
}

/// Collects blocks, then maps all of them.
pub(crate) struct Plan {
    page: usize,
    end: usize,
    blocks: Vec<Block>,
}

impl Plan {
    pub(crate) fn new() -> Plan {
        // SAFETY: no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        Plan { page, end: page, blocks: Vec::new() }
    }

    /// Adds whole pages for `len` bytes, followed by a guard page.
    pub(crate) fn block(&mut self, len: usize) -> Block {
        let block = Block { start: self.end, len: len.max(1).next_multiple_of(self.page) };
        self.end += block.len + self.page;
        self.blocks.push(block);
        block
    }

    pub(crate) fn map(self) -> io::Result<Memory> {
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                self.end,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).expect("mmap never gives the null page");
        let memory = Memory { base, len: self.end, page: self.page };
        for block in &self.blocks {
            memory.protect(block.start, block.len, libc::PROT_READ | libc::PROT_WRITE)?;
        }
        Ok(memory)
    }
}

/// Zeroed blocks; unmapped on drop.
pub(crate) struct Memory {
    base: NonNull<u8>,
    len: usize,
    page: usize,
}

impl Memory {
    fn protect(&self, start: usize, len: usize, protection: libc::c_int) -> io::Result<()> {
        // SAFETY: the range lies inside a mapping made here.
        match unsafe { libc::mprotect(self.base.as_ptr().add(start).cast(), len, protection) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn start(&self, block: Block) -> *mut u8 {
        assert!(block.start + block.len <= self.len, "the block is of another plan");
        // SAFETY: blocks lie inside the mapping.
        unsafe { self.base.as_ptr().add(block.start) }
    }

    /// Returns the place for `len` bytes in `block` that is closest to the guard page after it and
    /// aligned like `like`.
    pub(crate) fn at_end(&self, block: Block, len: usize, like: *const u8) -> *mut u8 {
        let latest = self.start(block).wrapping_add(block.len - len);
        let excess = (latest as usize).wrapping_sub(like as usize) % ALIGN_SLACK;
        let place = latest.wrapping_sub(excess);
        assert!(place >= self.start(block), "the block was planned without space to align");
        place
    }

    /// Makes the pages that hold `offset..offset + len` of `block` executable and read-only.
    pub(crate) fn make_code(&self, block: Block, offset: usize, len: usize) -> io::Result<()> {
        let first = (block.start + offset) / self.page * self.page;
        let end = (block.start + offset + len).next_multiple_of(self.page);
        self.protect(first, end - first, libc::PROT_READ | libc::PROT_EXEC)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: a mapping made here; only its owner has pointers into it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Memory {}
