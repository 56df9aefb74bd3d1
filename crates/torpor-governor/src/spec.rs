// SPDX-License-Identifier: MIT OR GPL-2.0-only
use crate::{GovernorError, Kind, Label};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The forms it can be named in, for errors and help.
pub(crate) fn forms(kind: Kind) -> &'static str {
    match kind {
        Kind::Governor => {
            "NAME, PATH.c, NAME@TREE or NAME@TREE:REV, each with optional `,param=value`"
        }
        Kind::IoBoost => "NAME or PATH.c, each with optional `,param=value`",
    }
}

/// Kernel trees have governors of their own, but no IO boosts as files.
pub(crate) fn tree_hint(kind: Kind, name: &str) -> String {
    match kind {
        Kind::Governor => format!(", a kernel tree an `@` (`{name}@TREE`)"),
        Kind::IoBoost => String::new(),
    }
}

/// How a user names a governor. Prints as it was typed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GovernorSpec {
    kind: Kind,
    text: String,
    place: Place,
    params: Vec<(String, String)>,
}

/// How a user names an IO boost. Prints as it was typed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IoBoostSpec(pub(crate) GovernorSpec);

/// Where a policy's source is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    Builtin {
        name: String,
    },
    File {
        path: PathBuf,
    },
    /// `drivers/cpuidle/governors/NAME.c` of a kernel tree: a folder, a tarball, or, with `rev`, a
    /// revision of a git repository. Governors only.
    Tree {
        name: String,
        tree: PathBuf,
        rev: Option<String>,
    },
}

impl GovernorSpec {
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// In the order they were given.
    pub fn params(&self) -> &[(String, String)] {
        &self.params
    }

    pub(crate) fn label(&self) -> Label {
        Label { kind: self.kind, text: self.text.as_str().into() }
    }

    fn parse(kind: Kind, text: &str) -> Result<GovernorSpec, GovernorError> {
        let error = |reason| {
            let policy = Label { kind, text: text.into() };
            GovernorError::Spec { policy, reason }
        };
        let mut parts = text.split(',');
        let place = parse_place(kind, parts.next().unwrap_or("")).map_err(error)?;
        let mut params: Vec<(String, String)> = Vec::new();
        for part in parts {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| error(format!("`{part}` has no `=`: a parameter is NAME=VALUE")))?;
            if !is_identifier(name) {
                return Err(error(format!(
                    "`{name}` is no parameter's name: letters, digits and `_` make one"
                )));
            }
            if params.iter().any(|(n, _)| n == name) {
                return Err(error(format!("parameter `{name}` is given twice")));
            }
            params.push((name.to_owned(), value.to_owned()));
        }
        Ok(GovernorSpec { kind, text: text.to_owned(), place, params })
    }
}

impl IoBoostSpec {
    /// Never [`Place::Tree`].
    pub fn place(&self) -> &Place {
        self.0.place()
    }

    /// In the order they were given.
    pub fn params(&self) -> &[(String, String)] {
        self.0.params()
    }
}

impl fmt::Display for GovernorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for IoBoostSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for GovernorSpec {
    type Err = GovernorError;

    fn from_str(text: &str) -> Result<GovernorSpec, GovernorError> {
        GovernorSpec::parse(Kind::Governor, text)
    }
}

impl FromStr for IoBoostSpec {
    type Err = GovernorError;

    fn from_str(text: &str) -> Result<IoBoostSpec, GovernorError> {
        GovernorSpec::parse(Kind::IoBoost, text).map(IoBoostSpec)
    }
}

fn parse_place(kind: Kind, text: &str) -> Result<Place, String> {
    if text.is_empty() {
        return Err("it has no name".to_owned());
    }
    if text.contains('\0') {
        return Err("it has a NUL byte".to_owned());
    }
    // An `@` belongs to a path if a `/` comes before it: `./a@b/mine.c`.
    if let Some((name, tree)) = text.split_once('@').filter(|(name, _)| !name.contains('/')) {
        if kind != Kind::Governor {
            return Err(format!("kernel trees have no files of {kind}s"));
        }
        if !is_file_stem(name) {
            return Err(format!(
                "`{name}` is no {kind}'s name: letters, digits, `_`, `-` and `.` make one"
            ));
        }
        let (tree, rev) = match tree.rsplit_once(':') {
            Some((_, "")) => return Err("the revision after `:` is empty".to_owned()),
            Some((tree, rev)) if rev.starts_with('-') => {
                return Err(format!("`{rev}` is no revision of `{tree}`"));
            }
            Some((tree, rev)) => (tree, Some(rev.to_owned())),
            None => (tree, None),
        };
        if tree.is_empty() {
            return Err("the tree after `@` is empty".to_owned());
        }
        return Ok(Place::Tree { name: name.to_owned(), tree: tree.into(), rev });
    }
    if text.ends_with(".c") {
        return Ok(Place::File { path: text.into() });
    }
    if text.contains('/') {
        return Err("a path must end in `.c`".to_owned());
    }
    if !is_file_stem(text) {
        return Err(format!(
            "`{text}` is no {kind}'s name: letters, digits, `_`, `-` and `.` make one"
        ));
    }
    Ok(Place::Builtin { name: text.to_owned() })
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_file_stem(text: &str) -> bool {
    // A name such as `menu-3.8` is fine; one that begins with a point is a path's.
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.starts_with(|c: char| c != '.') && text.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> GovernorSpec {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn each_form_names_its_place() {
        assert_eq!(parse("menu").place(), &Place::Builtin { name: "menu".into() });
        assert_eq!(parse("./my_teo.c").place(), &Place::File { path: "./my_teo.c".into() });
        assert_eq!(parse("./a@b/mine.c").place(), &Place::File { path: "./a@b/mine.c".into() });
        assert_eq!(parse("menu-3.8,x=1").place(), &Place::Builtin { name: "menu-3.8".into() });
        assert_eq!(
            parse("teo-6.12@a/linux-6.12:v6.12.1").place(),
            &Place::Tree {
                name: "teo-6.12".into(),
                tree: "a/linux-6.12".into(),
                rev: Some("v6.12.1".into())
            }
        );
        assert_eq!(parse("dir/teo-6.12.c").place(), &Place::File { path: "dir/teo-6.12.c".into() });
        let tree = |rev: Option<&str>| Place::Tree {
            name: "teo".into(),
            tree: "../linux".into(),
            rev: rev.map(Into::into),
        };
        assert_eq!(parse("teo@../linux").place(), &tree(None));
        assert_eq!(parse("teo@../linux:v6.6").place(), &tree(Some("v6.6")));
        let haltpoll = parse("haltpoll@x.tar.xz,guest_halt_poll_ns=1000,a=");
        assert_eq!(
            haltpoll.params(),
            [("guest_halt_poll_ns".into(), "1000".into()), ("a".into(), String::new())]
        );
    }

    #[test]
    fn a_wrong_form_is_told_what_is_allowed() {
        for (text, part) in [
            ("", "it has no name"),
            ("menu,x", "`x` has no `=`"),
            ("menu,x=1,x=2", "given twice"),
            ("me nu", "no governor's name"),
            ("@tree", "no governor's name"),
            ("..", "no governor's name"),
            (".hidden@tree", "no governor's name"),
            ("menu@", "the tree after `@` is empty"),
            ("menu@tree:", "the revision after `:` is empty"),
            ("menu@tree:--output=x", "no revision"),
            ("dir/menu", "must end in `.c`"),
        ] {
            let error = text.parse::<GovernorSpec>().expect_err(text).to_string();
            assert!(error.contains(part) && error.contains("NAME@TREE:REV"), "{text}: {error}");
        }
    }

    #[test]
    fn an_io_boost_is_named_alike_but_has_no_tree() {
        let boost: IoBoostSpec = "iowait,boost_min=64".parse().unwrap();
        assert_eq!(boost.place(), &Place::Builtin { name: "iowait".into() });
        assert_eq!(boost.params(), [("boost_min".into(), "64".into())]);
        for (text, part) in
            [("iowait@6.12", "kernel trees have no files"), ("io wait", "no IO boost's name")]
        {
            let error = text.parse::<IoBoostSpec>().expect_err(text).to_string();
            let told = [part, "IO boost `", "expected NAME or PATH.c, each"];
            assert!(told.iter().all(|t| error.contains(t)), "{text}: {error}");
        }
    }
}
