// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Notes on policies for every kind of result.

use torpor_governor::{Origin, Policy};

/// Returns notes on kernel options that a user's file tests: code for an unset option is silently
/// compiled out.
pub fn config_notes<'a>(policies: impl Iterator<Item = &'a Policy>) -> Vec<String> {
    let mut notes = Vec::new();
    for policy in policies.filter(|p| *p.origin() != Origin::Builtin && !p.config().is_empty()) {
        let asked: Vec<String> =
            policy.config().iter().map(|(name, value)| format!("{name} ({value})")).collect();
        let note = format!(
            "{} asks for {}; set what its kernel had otherwise, as in `,CONFIG_X=y`",
            policy.policy_label(),
            asked.join(", ")
        );
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}
