// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! TOML files that ship with Torpor, and the lookup of a name or path on the command line.

use crate::toml::document::Document;
use crate::toml::keys::Shape;
use crate::toml::params::{Param, set_params, split_params};
use crate::units::{UnknownName, open_input};
use std::io;
use std::path::Path;

/// The TOML files of one folder of the repository.
pub struct Builtins {
    /// Kind of thing in errors, such as `platform`.
    pub kind: &'static str,
    /// Folder in errors, such as `platforms`.
    pub folder: &'static str,
    /// File stem and text of each file, in the order of their names.
    pub files: &'static [(&'static str, &'static str)],
}

/// A name or path as typed, without the numbers after it.
pub struct Typed<'a> {
    pub name: &'a str,
    pub params: Vec<Param<'a>>,
    /// The numbers as typed, from their first comma.
    pub suffix: &'a str,
}

impl<'a> Typed<'a> {
    /// Splits `NAME,path=number`; the error says which part is wrong.
    pub fn new(typed: &'a str) -> Result<Typed<'a>, String> {
        let (name, params) = split_params(typed)?;
        Ok(Typed { name, params, suffix: &typed[name.len()..] })
    }

    /// Whether this is a path: no file can hide a built-in.
    pub fn is_path(&self) -> bool {
        self.name.contains('/') || self.name.ends_with(".toml")
    }

    /// Sets the typed numbers.
    pub fn fill(&self, document: &mut Document, shape: &'static Shape) -> Result<(), String> {
        if self.params.is_empty() {
            return Ok(());
        }
        set_params(document.content_mut(), &self.params, shape)
    }
}

impl Builtins {
    /// Reads each file; a broken one is a bug.
    pub fn read_all<T, E: std::fmt::Display>(
        &self,
        read: impl Fn(&str, &'static str) -> Result<T, E>,
    ) -> impl Iterator<Item = (&'static str, &'static str, T)> {
        self.files.iter().map(move |&(name, text)| {
            let made = read(&self.origin(name), text)
                .unwrap_or_else(|error| panic!("a shipped {} is broken: {error}", self.kind));
            (name, text, made)
        })
    }

    pub fn contains(&self, name: &str) -> bool {
        self.files.iter().any(|(known, _)| *known == name)
    }

    /// Returns the name in errors and the text of a built-in. `hint` is for an unknown name.
    pub fn find(&self, name: &str, hint: &str) -> Result<(String, &'static str), UnknownName> {
        match self.files.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Ok((self.origin(name), text)),
            None => {
                let known = self.files.iter().map(|(known, _)| *known);
                Err(UnknownName::new(self.kind, name, known, hint))
            }
        }
    }

    fn origin(&self, name: &str) -> String {
        format!("{}/{name}.toml", self.folder)
    }
}

/// Reads the text of a file of the user's.
pub fn read_text(path: &Path) -> io::Result<String> {
    open_input(path).and_then(io::read_to_string)
}
