// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The policies that were compiled with this crate.

use crate::Kind;
use torpor_units::Hz;

pub(crate) struct BuiltinFile {
    pub name: &'static str,
    pub source: &'static str,
    /// For 100, 250, 300 and 1000 Hz.
    pub images: [&'static [u8]; 4],
}

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

pub(crate) fn files(kind: Kind) -> &'static [BuiltinFile] {
    match kind {
        Kind::Governor => GOVERNORS,
        Kind::IoBoost => IOBOOSTS,
    }
}

/// The part of the kapi that is compiled with every policy.
pub(crate) fn image_source() -> &'static str {
    KAPI.iter().find(|(name, _)| *name == "image.c").expect("the build embeds it").1
}

impl BuiltinFile {
    pub fn image(&self, hz: Hz) -> &'static [u8] {
        let i = Hz::ALL.iter().position(|h| *h == hz).expect("ALL has every rate");
        self.images[i]
    }
}

/// The first sentence of the *Idea* paragraph in a policy's DOC block, on one line.
pub(crate) fn summary(source: &str) -> String {
    let mut words = Vec::new();
    let mut inside = false;
    for line in source.lines() {
        let line = line.trim().trim_start_matches('*').trim();
        match line.strip_prefix("Idea:") {
            Some(rest) => {
                inside = true;
                words.extend(rest.split_whitespace());
            }
            None if inside && (line.is_empty() || line == "/") => break,
            None if inside => words.extend(line.split_whitespace()),
            None => {}
        }
    }
    let text = words.join(" ");
    match text.find(". ") {
        Some(end) => text[..=end].to_owned(),
        None => text,
    }
}
