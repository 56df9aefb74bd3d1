// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Which mails of a file are the series, and in which order.

use crate::error::{Fault, Located};
use crate::letter::Letter;
use crate::limits;
use crate::patch_id;
use crate::subject::Version;
use std::collections::{BTreeMap, BTreeSet};

/// The mails of one series.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) version: Version,
    pub(crate) cover: Option<Letter>,
    /// By number.
    pub(crate) patches: BTreeMap<u32, Letter>,
    /// The total that subjects name.
    pub(crate) total: Option<u32>,
    pub(crate) notes: Vec<String>,
}

/// Takes all letters as patches, in their order, as quilt's `series` has them.
pub(crate) fn take_all(letters: Vec<Letter>) -> Result<Chosen, Located> {
    let letters: Vec<Letter> = letters.into_iter().filter(Letter::has_diff).collect();
    if letters.is_empty() {
        return Err(Fault::NoPatch.into());
    }
    number(letters, Chosen::default())
}

/// Chooses the newest version of the series.
pub(crate) fn choose(letters: Vec<Letter>) -> Result<Chosen, Located> {
    let mut seen = BTreeSet::new();
    let letters = letters.into_iter().filter(|letter| match &letter.fields.message_id {
        Some(id) => seen.insert(id.clone()),
        None => true,
    });
    let (replies, mails): (Vec<_>, Vec<_>) = letters.partition(|letter| letter.tags.is_reply);
    let (covers, mails): (Vec<_>, Vec<_>) =
        mails.into_iter().partition(|letter| letter.tags.number == Some(0));
    let (mut patches, texts): (Vec<_>, Vec<_>) = mails.into_iter().partition(Letter::has_diff);
    // Half a diff in a discussion is no patch.
    let is_patch = |letter: &Letter| letter.has_whole_diff() || letter.tags.is_patch;
    if patches.iter().any(is_patch) {
        patches.retain(is_patch);
    }
    if patches.is_empty() {
        return choose_reply(replies, &covers);
    }
    let newest = |letter: &Letter| Version { is_update: false, ..letter.tags.version };
    let version = patches.iter().map(newest).max().unwrap_or_default();
    let mut chosen = Chosen { version, ..Chosen::default() };
    let of_newest = |letter: &&Letter| newest(letter) == version;
    let totals: BTreeSet<u32> =
        patches.iter().filter(of_newest).filter_map(|letter| letter.tags.total).collect();
    if totals.len() > 1 {
        return Err(several(patches.iter().filter(of_newest)));
    }
    chosen.total = totals.first().copied();
    let (older_covers, mut covers): (Vec<_>, Vec<_>) = covers
        .into_iter()
        .filter(|cover| cover.tags.total == chosen.total)
        .partition(|cover| newest(cover) != version);
    covers.sort_by_key(|cover| cover.fields.time_s);
    chosen.cover = covers.pop();
    let (members, others): (Vec<_>, Vec<_>) =
        patches.into_iter().partition(|letter| letter.tags.total == chosen.total);
    leave_out(&others, &mut chosen);
    if chosen.total.is_none() {
        let (members, older): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|letter| newest(letter) == version);
        leave_out(&older, &mut chosen);
        return number(members, chosen);
    }
    for text in texts.iter().filter(|text| text.tags.number.is_some() && newest(text) == version) {
        chosen.notes.push(format!("`{}` holds no diff", text.subject()));
    }
    place(members, older_covers, chosen)
}

/// Takes the one reply that holds a whole diff, if nothing else is a patch. One of its own comes
/// before one that is quoted.
fn choose_reply(replies: Vec<Letter>, covers: &[Letter]) -> Result<Chosen, Located> {
    let (mut whole, mut damaged) = (Vec::new(), None);
    for reply in replies {
        let letters = reply.read_reply()?;
        if letters.iter().any(Letter::has_whole_diff) {
            whole.push(letters);
        } else if let Err(fault) = &letters[0].diff {
            damaged.get_or_insert(fault.clone());
        }
    }
    whole.sort_by_key(|letters| letters[0].is_quoted);
    let Some(first) = whole.first() else {
        let none = if covers.is_empty() { Fault::NoPatch } else { Fault::OnlyCover };
        return Err(damaged.unwrap_or(none.into()));
    };
    let id = |letters: &[Letter]| {
        let files = |letter: &Letter| letter.diff.as_ref().map_or(Vec::new(), |d| d.files.clone());
        letters.iter().map(|letter| patch_id::of_patch(&files(letter))).collect::<Vec<_>>()
    };
    let is_other = |letters: &&Vec<Letter>| {
        letters[0].is_quoted == first[0].is_quoted && id(letters) != id(first)
    };
    match whole.iter().find(is_other) {
        Some(other) => Err(several([&first[0], &other[0]].into_iter())),
        None => number(whole.swap_remove(0), Chosen::default()),
    }
}

/// Numbers patches without `n/m` by their order.
fn number(letters: Vec<Letter>, mut chosen: Chosen) -> Result<Chosen, Located> {
    too_many(letters.len())?;
    if letters.len() > 1 {
        chosen.notes.push(format!(
            "{} patches without numbers are taken in the order of the file",
            letters.len()
        ));
    }
    chosen.patches = (1..).zip(letters).collect();
    Ok(chosen)
}

/// Places numbered patches; the newest of each number counts.
fn place(
    members: Vec<Letter>,
    mut older_covers: Vec<Letter>,
    mut chosen: Chosen,
) -> Result<Chosen, Located> {
    let newest = chosen.version;
    let is_newest = |letter: &Letter| letter.tags.version >= newest;
    let answered: BTreeSet<String> = members
        .iter()
        .filter(|letter| is_newest(letter))
        .chain(&chosen.cover)
        .flat_map(|letter| letter.fields.references.iter().cloned())
        .collect();
    let mut numbers: BTreeMap<u32, Vec<Letter>> = BTreeMap::new();
    for letter in members {
        numbers.entry(letter.tags.number.unwrap_or_default()).or_default().push(letter);
    }
    // The same thread: one answers the other, or both the same mail.
    let is_answered = numbers.values().flatten().any(|letter| {
        let mut ids = letter.fields.references.iter().chain(&letter.fields.message_id);
        !is_newest(letter) && ids.any(|id| answered.contains(id))
    });
    let (mut older, mut kept) = (Vec::new(), Vec::new());
    for (number, mut letters) in numbers {
        letters.sort_by_key(|letter| (letter.tags.version, letter.fields.time_s));
        let last = letters.pop().expect("an entry has a letter");
        refuse_other_series(&last, letters.last())?;
        older.extend(letters);
        if is_newest(&last) {
            chosen.patches.insert(number, last);
        } else if is_answered {
            kept.push(format!("{number}"));
            chosen.patches.insert(number, last);
        } else {
            older.push(last);
        }
    }
    if !kept.is_empty() {
        older_covers.sort_by_key(|cover| (cover.tags.version, cover.fields.time_s));
        chosen.cover = chosen.cover.or(older_covers.pop());
        chosen.notes.push(format!(
            "v{newest} replaces some patches of an earlier version; {} {} of that one",
            kept.join(", "),
            if kept.len() == 1 { "is" } else { "are" },
        ));
    }
    leave_out(&older, &mut chosen);
    too_many(chosen.patches.len())?;
    Ok(chosen)
}

/// Two patches of equal version and number are one patch only if their titles are equal.
fn refuse_other_series(last: &Letter, before: Option<&Letter>) -> Result<(), Located> {
    match before {
        Some(before)
            if before.tags.version == last.tags.version && before.tags.title != last.tags.title =>
        {
            Err(several([before, last].into_iter()))
        }
        _ => Ok(()),
    }
}

fn several<'a>(letters: impl Iterator<Item = &'a Letter>) -> Located {
    let subjects: BTreeSet<String> = letters.map(Letter::subject).collect();
    Fault::SeveralSeries(subjects.into_iter().take(4).collect()).into()
}

fn leave_out(letters: &[Letter], chosen: &mut Chosen) {
    if letters.is_empty() {
        return;
    }
    let subjects: Vec<_> =
        letters.iter().take(3).map(|letter| format!("`{}`", letter.subject())).collect();
    let rest = match letters.len() - subjects.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    chosen.notes.push(format!(
        "v{} is read; left out: {}{rest}",
        chosen.version,
        subjects.join(", ")
    ));
}

fn too_many(count: usize) -> Result<(), Located> {
    match count > limits::PATCHES {
        true => Err(Fault::TooMany { unit: "patches", max: limits::PATCHES }.into()),
        false => Ok(()),
    }
}
