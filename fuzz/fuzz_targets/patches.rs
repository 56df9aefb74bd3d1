// SPDX-License-Identifier: MIT OR GPL-2.0-only
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use torpor_patch::{FileDiff, Op, Series, apply};

fuzz_target!(|bytes: &[u8]| {
    let Ok(series) = Series::from_bytes("fuzz", bytes) else { return };
    assert!(series.patches.windows(2).all(|pair| pair[0].number < pair[1].number));
    let files = || series.patches.iter().flat_map(|patch| &patch.files);
    files().for_each(is_sound);
    assert_eq!(series.patch_id(0..=u32::MAX).len(), 40);
    // The lines before each patch, so that hunks find places.
    let old = |file: &FileDiff| -> Vec<u8> {
        file.hunks.iter().flat_map(|h| h.old()).flatten().copied().collect()
    };
    let base: BTreeMap<String, Vec<u8>> =
        files().filter_map(|file| Some((file.source()?.to_owned(), old(file)))).collect();
    match apply(&series, 0..=u32::MAX, &base) {
        Ok(overlay) => assert!(overlay.files.keys().all(|path| is_below(path))),
        Err(rejects) => assert!(!rejects.0.is_empty() && !rejects.to_string().is_empty()),
    }
});

fn is_below(path: &str) -> bool {
    !path.starts_with('/') && path.split('/').all(|part| !["", ".", ".."].contains(&part))
}

fn is_sound(file: &FileDiff) {
    assert!(is_below(&file.path) && file.old_path.iter().all(|path| is_below(path)));
    for hunk in &file.hunks {
        let count = |without| hunk.lines.iter().filter(|line| line.op != without).count();
        assert_eq!(count(Op::Add), hunk.old_count as usize);
        assert_eq!(count(Op::Remove), hunk.new_count as usize);
    }
}
