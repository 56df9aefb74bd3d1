// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Reads patch mails and says what of them applies to a tree: `try_apply TREE MAIL...`.

use std::path::{Path, PathBuf};
use torpor_patch::{Folder, Series, apply};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let tree = Folder(PathBuf::from(arguments.next().expect("usage: try_apply TREE MAIL...")));
    for path in arguments {
        let series = match Series::read(Path::new(&path)) {
            Ok(series) => series,
            Err(error) => {
                println!("{path}: unreadable: {error}");
                continue;
            }
        };
        for note in &series.notes {
            println!("{path}: note: {note}");
        }
        let id = series.patch_id(1..=u32::MAX);
        match apply(&series, 1..=u32::MAX, &tree) {
            Ok(overlay) => println!("{path}: applies: {} files, id {id}", overlay.files.len()),
            Err(rejects) => println!("{path}: {} rejects, id {id}\n{rejects}", rejects.0.len()),
        }
    }
}
