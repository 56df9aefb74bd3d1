// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Huge pages: a long list of events would otherwise fault at every 57th event.

/// Asks for huge pages for the room of a list.
pub(crate) fn advise<T>(list: &mut Vec<T>) {
    let room = list.spare_capacity_mut();
    let from = (room.as_mut_ptr() as usize).next_multiple_of(PAGE_BYTES);
    let end = (room.as_mut_ptr() as usize).saturating_add(size_of_val(room));
    if from < end {
        // SAFETY: the range lies in the list's own memory. The advice changes no content, and its
        // failure is harmless.
        unsafe { libc::madvise(from as *mut _, end.wrapping_sub(from), libc::MADV_HUGEPAGE) };
    }
}

/// The largest page of any architecture that Linux is built for by default.
const PAGE_BYTES: usize = 64 << 10;
