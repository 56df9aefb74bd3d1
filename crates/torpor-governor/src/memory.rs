// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One instance's memory: blocks with pages between them that cannot be touched, so that a
//! governor that writes past what it owns is caught at once.

use std::io;
use std::ptr::NonNull;

/// Space to move what lies in a block so that its alignment is as wanted: see [`Memory::at_end`].
pub(crate) const ALIGN_SLACK: usize = 64;

/// Location of a block; computed before the memory exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    start: usize,
    len: usize,
}

/// Collects blocks, then maps them all.
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

    /// Whole pages for `len` bytes, an untouchable page after them.
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

    /// The place in `block` from which `len` bytes end as close to the untouchable page after it
    /// as an alignment equal to `like`'s allows.
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
        // SAFETY: a mapping made here; whoever held pointers into it is gone with its owner.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

// SAFETY: plain memory, used by one owner at a time.
unsafe impl Send for Memory {}
