// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One mail with its place in a series and its diff.

use crate::diff::{self, Diff};
use crate::error::Located;
use crate::mime::{self, Body, Fields};
use crate::subject::Tags;

#[derive(Debug, Clone)]
pub(crate) struct Letter {
    /// The file of a folder, or a number, where there is no subject.
    pub(crate) name: String,
    pub(crate) fields: Fields,
    pub(crate) tags: Tags,
    pub(crate) body: Body,
    /// Replies are searched for one only if nothing else is a patch.
    pub(crate) diff: Result<Diff, Located>,
    /// The diff is one that a reply quotes.
    pub(crate) is_quoted: bool,
    pub(crate) notes: Vec<String>,
}

impl Letter {
    /// Reads one mail, and one more letter for each further patch that is attached.
    pub(crate) fn read(mail: &[u8], name: &str) -> Result<Vec<Letter>, Located> {
        let (fields, body) = mime::read(mail)?;
        let tags = Tags::parse(fields.subject.as_deref().unwrap_or_default());
        let diff = Ok(Diff::default());
        let (name, notes) = (name.to_owned(), Vec::new());
        let letter = Letter { name, fields, tags, body, diff, is_quoted: false, notes };
        if letter.tags.is_reply { Ok(vec![letter]) } else { letter.with_diff() }
    }

    /// Reads the diff of the text, or else those that are attached.
    fn with_diff(mut self) -> Result<Vec<Letter>, Located> {
        self.diff = diff::parse(&self.body.text);
        if !self.has_whole_diff() {
            self.read_as_sent();
        }
        if self.body.attached.is_empty() || self.has_whole_diff() {
            return Ok(vec![self]);
        }
        self.attached()
    }

    pub(crate) fn has_whole_diff(&self) -> bool {
        self.diff.as_ref().is_ok_and(|diff| !diff.files.is_empty())
    }

    /// Also a damaged one.
    pub(crate) fn has_diff(&self) -> bool {
        self.diff.as_ref().map_or(true, |diff| !diff.files.is_empty())
    }

    pub(crate) fn subject(&self) -> String {
        match &self.fields.subject {
            Some(subject) => subject.clone(),
            None => self.name.clone(),
        }
    }

    /// The subject without brackets; without one, the first line of the text.
    pub(crate) fn title(&self) -> String {
        if !self.tags.title.is_empty() {
            return self.tags.title.clone();
        }
        let message = self.message();
        let first = message.lines().map(str::trim).find(|line| !line.is_empty());
        first.unwrap_or(&self.name).chars().take(200).collect()
    }

    /// The text above the diff.
    pub(crate) fn message(&self) -> String {
        let text = &self.body.text;
        let end = self.diff.as_ref().map_or(text.len(), |diff| diff.text_bytes.min(text.len()));
        String::from_utf8_lossy(&text[..end]).trim().to_owned()
    }

    /// The author: a `From:` at the beginning of the text is that of a forwarded patch.
    pub(crate) fn author(&self) -> Option<String> {
        let first = self.body.text.split(|&byte| byte == b'\n').find(|line| !line.is_empty());
        let inside = first.and_then(|line| line.strip_prefix(b"From: "));
        match inside {
            Some(author) => Some(String::from_utf8_lossy(author).trim().to_owned()),
            None => self.fields.author.clone(),
        }
    }

    /// Returns the values of a trailer, such as `base-commit`, wherever in the text it is.
    pub(crate) fn trailers(&self, name: &str) -> Vec<String> {
        let value = |line: &[u8]| {
            let value = line.strip_prefix(name.as_bytes())?.strip_prefix(b": ")?.trim_ascii();
            let is_id = (40..=64).contains(&value.len()) && value.iter().all(u8::is_ascii_hexdigit);
            is_id.then(|| String::from_utf8_lossy(value).to_ascii_lowercase())
        };
        self.body.text.split(|&byte| byte == b'\n').filter_map(value).collect()
    }

    /// Takes the text as it was sent where the flowed one has no whole diff.
    fn read_as_sent(&mut self) {
        let Some(as_sent) = &self.body.as_sent else { return };
        let read = diff::parse(as_sent);
        if read.as_ref().is_ok_and(|diff| !diff.files.is_empty()) {
            self.diff = read;
            self.body.text.clone_from(as_sent);
            self.notes.push(format!(
                "`{}` says format=flowed and is not: its diff is whole as it was sent",
                self.subject()
            ));
        }
    }

    /// Returns a letter for each attached patch. A text with a damaged diff gives way to them.
    fn attached(self) -> Result<Vec<Letter>, Located> {
        let mut letters = Vec::new();
        for (name, content) in &self.body.attached {
            for mail in crate::mailbox::split(content) {
                let (fields, body) = mime::read(&mail)?;
                let diff = diff::parse(&body.text);
                if diff.as_ref().is_ok_and(|diff| diff.files.is_empty()) {
                    continue;
                }
                letters.push((name, fields, body, diff));
            }
        }
        if letters.is_empty() {
            return Ok(vec![self]);
        }
        let is_single = letters.len() == 1;
        let letters = letters.into_iter().map(|(name, fields, body, diff)| {
            let mut letter = Letter { diff, ..self.clone() };
            letter.notes.push(format!("`{}`: the patch is the attached `{name}`", self.subject()));
            if !is_single {
                letter.name.clone_from(name);
                letter.fields.message_id = None;
            }
            let inner = Tags::parse(fields.subject.as_deref().unwrap_or_default());
            // One attachment is what its mail is about.
            if !is_single || !self.tags.is_patch && fields.subject.is_some() {
                letter.tags = Tags { is_reply: self.tags.is_reply, ..inner };
                letter.fields.subject = fields.subject.clone().or(Some(name.clone()));
            }
            if letter.tags.title.is_empty() {
                letter.tags.title.clone_from(name);
            }
            if !is_single || fields.subject.is_some() {
                letter.fields.author = fields.author.or(letter.fields.author);
                letter.body = body;
            }
            letter
        });
        Ok(letters.collect())
    }

    /// Reads the diffs of a reply: its own, or else the one that it quotes.
    pub(crate) fn read_reply(self) -> Result<Vec<Letter>, Located> {
        let mut letters = self.with_diff()?;
        if letters.iter().any(Letter::has_whole_diff) {
            let subject = letters[0].subject();
            letters[0].notes.push(format!("`{subject}` is a reply: its own diff is read"));
            return Ok(letters);
        }
        letters.truncate(1);
        letters[0].read_quoted();
        Ok(letters)
    }

    fn read_quoted(&mut self) {
        for (depth, is_spaced) in (1..=3).flat_map(|depth| [(depth, true), (depth, false)]) {
            let text = quoted(&self.body.text, depth, is_spaced);
            let read = diff::parse(&text);
            if read.as_ref().is_ok_and(|diff| !diff.files.is_empty()) {
                self.diff = read;
                self.body.text = text;
                self.is_quoted = true;
                self.notes.push(format!(
                    "`{}` is a reply: the diff is one that it quotes; all hunks that are there are \
                     whole",
                    self.subject()
                ));
                return;
            }
            // The first damage says most.
            if self.diff.is_ok() && read.is_err() {
                self.diff = read;
            }
        }
    }
}

/// Returns the lines quoted at least so deep, without their marks.
fn quoted(text: &[u8], depth: usize, is_spaced: bool) -> Vec<u8> {
    let mut inside = Vec::with_capacity(text.len());
    'lines: for line in text.split(|&byte| byte == b'\n') {
        let mut rest = line;
        for level in 0..depth {
            let Some(after) = rest.strip_prefix(b">") else { continue 'lines };
            let is_last = level + 1 == depth;
            rest = match after.strip_prefix(b" ") {
                Some(after) if is_spaced || !is_last => after,
                _ => after,
            };
        }
        inside.extend_from_slice(rest);
        inside.push(b'\n');
    }
    inside
}
