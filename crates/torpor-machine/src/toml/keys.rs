// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Keys of a file, and their values.

/// Kind of a key's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Text,
    /// One string, or an array of them.
    Texts,
    /// A name without blanks, as a command line can take it.
    Word,
    /// A kernel CPU list in a string, such as `"0-3,7"`.
    Cpus,
    /// A number that is not negative, at most `max`.
    Number {
        max: f64,
    },
    /// A whole number that is not negative, at most `max`.
    Integer {
        max: f64,
    },
    Numbers {
        max: f64,
    },
    Bool,
    Choice(&'static [&'static str]),
    /// Some of these, in an array, each once.
    Choices(&'static [&'static str]),
    Hz,
    Tables(&'static Shape),
    /// A number as above, or a table.
    NumberOr {
        max: f64,
        shape: &'static Shape,
    },
}

pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub is_required: bool,
    pub doc: &'static str,
}

pub const fn required(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, is_required: true, doc }
}

pub const fn optional(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, is_required: false, doc }
}

/// Declares the keys of a table: `required` or `optional`, then name, kind and doc of each.
#[macro_export]
macro_rules! shape {
    ($($need:ident $name:ident: $kind:expr, $doc:expr;)*) => {
        $crate::toml::Shape { keys: &[$($crate::toml::$need(stringify!($name), $kind, $doc)),*] }
    };
}

/// The keys of one kind of table.
pub struct Shape {
    pub keys: &'static [Key],
}

impl PartialEq for Shape {
    fn eq(&self, other: &Shape) -> bool {
        std::ptr::eq(self, other)
    }
}

impl std::fmt::Debug for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| key.name)).finish()
    }
}
