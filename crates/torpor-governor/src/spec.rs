// SPDX-License-Identifier: MIT OR GPL-2.0-only
use crate::{GovernorError, Kind, Label, TreeSpec};
use std::ffi::OsStr;
use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::str::FromStr;

/// Returns the forms in which such a policy can be named, for errors.
pub(crate) fn forms(kind: Kind) -> &'static str {
    match kind {
        Kind::Governor => {
            "NAME, PATH.c, FOLDER/, NAME@TREE or NAME@TREE:REV, the last two with optional `+SERIES` \
             or `+SERIES:N`, each with optional `,param=value` or `,CONFIG_X=y`"
        }
        Kind::IoBoost => "NAME or PATH.c, each with optional `,param=value` or `,CONFIG_X=y`",
        Kind::Cpufreq => "NAME or PATH.c, each with optional `,tunable=value`",
        Kind::Scheduler => "`eevdf`, the kernel's own, or PATH.c with optional `,variable=value`",
    }
}

/// Returns the hint on kernel trees, which have idle governors as files but no other policies.
pub(crate) fn tree_hint(kind: Kind, name: &str) -> String {
    match kind {
        Kind::Governor => format!(", a kernel tree an `@` (`{name}@TREE`)"),
        Kind::IoBoost | Kind::Cpufreq | Kind::Scheduler => String::new(),
    }
}

/// Name of a governor with its parameters, as the user typed it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GovernorSpec {
    kind: Kind,
    text: String,
    place: Place,
    params: Vec<(String, String)>,
    config: Vec<(String, String)>,
}

/// Location of a policy's source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    Builtin {
        name: String,
    },
    File {
        path: PathBuf,
    },
    /// Several files that form one governor; one of them registers it. Governors only.
    Folder {
        path: PathBuf,
    },
    /// `drivers/cpuidle/governors/NAME.c` of a kernel tree. Governors only.
    Tree {
        name: String,
        tree: TreeSpec,
    },
}

impl GovernorSpec {
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the module parameters in the order given.
    pub fn params(&self) -> &[(String, String)] {
        &self.params
    }

    /// Returns the kernel options that the user sets, in the order given: `CONFIG_` names with
    /// `y`, `n` or a number.
    pub fn config(&self) -> &[(String, String)] {
        &self.config
    }

    /// Parses an argument of a command line or a file name.
    pub fn from_os(text: &OsStr) -> Result<GovernorSpec, GovernorError> {
        let Some(text) = text.to_str() else {
            let policy = Label { kind: Kind::Governor, text: text.to_string_lossy().into() };
            let reason = "its name is not UTF-8, the encoding of results; rename it, or give it a \
                          symbolic link";
            return Err(GovernorError::Spec { policy, reason: reason.to_owned() });
        };
        text.parse()
    }

    pub fn label(&self) -> Label {
        Label { kind: self.kind, text: self.text.as_str().into() }
    }

    fn parse(kind: Kind, text: &str) -> Result<GovernorSpec, GovernorError> {
        let error = |reason| {
            let policy = Label { kind, text: text.into() };
            GovernorError::Spec { policy, reason }
        };
        let (place, settings) = split(text);
        let place = parse_place(kind, place).map_err(error)?;
        let (mut params, mut config) = (Vec::new(), Vec::new());
        for part in joined(settings) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| error(format!("`{part}` has no `=`: a parameter is NAME=VALUE")))?;
            // The oracle's bound is written `latency<=50us`.
            let is_oracle = matches!(&place, Place::Builtin { name } if name == "oracle");
            let name = name.strip_suffix('<').filter(|_| is_oracle).unwrap_or(name);
            if !is_identifier(name) {
                return Err(error(format!(
                    "`{name}` is not a parameter name: expected letters, digits and `_`"
                )));
            }
            let all: &mut Vec<(String, String)> = match name.starts_with("CONFIG_") {
                true => &mut config,
                false => &mut params,
            };
            if all.iter().any(|(n, _)| n == name) {
                return Err(error(format!("parameter `{name}` is given twice")));
            }
            if name.starts_with("CONFIG_") && !is_config_value(value) {
                return Err(error(format!(
                    "`{value}` is not a value for {name}: expected y, n or a number"
                )));
            }
            all.push((name.to_owned(), value.to_owned()));
        }
        Ok(GovernorSpec { kind, text: text.to_owned(), place, params, config })
    }
}

impl fmt::Display for GovernorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for GovernorSpec {
    type Err = GovernorError;

    fn from_str(text: &str) -> Result<GovernorSpec, GovernorError> {
        GovernorSpec::parse(Kind::Governor, text)
    }
}

/// Defines the spec of another kind of policy. It dereferences to a [`GovernorSpec`] whose place is
/// never [`Place::Folder`] or [`Place::Tree`].
macro_rules! spec_of_kind {
    ($(#[$doc:meta])* $name:ident, $kind:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub struct $name(GovernorSpec);


        impl Deref for $name {
            type Target = GovernorSpec;

            fn deref(&self) -> &GovernorSpec {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = GovernorError;

            fn from_str(text: &str) -> Result<$name, GovernorError> {
                GovernorSpec::parse($kind, text).map($name)
            }
        }
    };
}

spec_of_kind! {
    /// Name of an IO boost, as the user typed it.
    IoBoostSpec, Kind::IoBoost
}

spec_of_kind! {
    /// Name of a cpufreq governor, as the user typed it.
    CpufreqSpec, Kind::Cpufreq
}

spec_of_kind! {
    /// Name of a scheduler, as the user typed it.
    SchedulerSpec, Kind::Scheduler
}

/// Splits a name from its parameters. Names of folders and files can contain commas, so a comma
/// starts the parameters only if `NAME=` follows it.
pub fn split(text: &str) -> (&str, Vec<&str>) {
    let is_param = |part: &str| part.split_once('=').is_some_and(|(name, _)| is_identifier(name));
    let commas = || text.match_indices(',').map(|(at, _)| at);
    let first = commas().find(|at| is_param(&text[at + 1..]));
    let place = &text[..first.unwrap_or(text.len())];
    // A parameter without `=`, not part of the name: `menu,x`, `./mine.c,x`.
    let is_path = place.contains(['/', '@']) || place.ends_with(".c");
    let mistake = match is_path && (place.ends_with(".c") || place.contains('@')) {
        true => None,
        false if is_path => commas().find(|at| text[..*at].ends_with(".c")),
        false => commas().next(),
    };
    let end = mistake.or(first).unwrap_or(text.len());
    (&text[..end], text[end..].split(',').skip(1).collect())
}

/// Joins the numbers of an array, `NAME=1,2,3`, which have no `=`.
fn joined(settings: Vec<&str>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for part in settings {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        match joined.last_mut().filter(|_| is_number) {
            Some(last) => {
                last.push(',');
                last.push_str(part);
            }
            None => joined.push(part.to_owned()),
        }
    }
    joined
}

fn is_config_value(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = match digits.strip_prefix("0x") {
        Some(hex) => !hex.is_empty() && hex.chars().all(|c| c.is_ascii_hexdigit()),
        None => !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()),
    };
    is_number || matches!(text, "y" | "n")
}

fn parse_place(kind: Kind, text: &str) -> Result<Place, String> {
    if text.is_empty() {
        return Err("it has no name".to_owned());
    }
    if text.contains('\0') {
        return Err("it has a NUL byte".to_owned());
    }
    let named = |name: &str| {
        let article = if kind == Kind::IoBoost { "an" } else { "a" };
        is_file_stem(name).then(|| name.to_owned()).ok_or_else(|| {
            format!(
                "`{name}` is not the name of {article} {kind}: expected letters, digits, `_`, `-` \
                 and `.`"
            )
        })
    };
    // An `@` belongs to a path if a `/` comes before it: `./a@b/mine.c`.
    if let Some((name, tree)) = text.split_once('@').filter(|(name, _)| !name.contains('/')) {
        if kind != Kind::Governor {
            return Err(format!("kernel trees have no files of {kind}s"));
        }
        let name = named(name)?;
        if tree.is_empty() {
            return Err("the tree after `@` is empty".to_owned());
        }
        return Ok(Place::Tree { name, tree: TreeSpec::parse(tree)? });
    }
    if text.ends_with('/') && kind == Kind::Governor {
        return Ok(Place::Folder { path: text.into() });
    }
    if text.ends_with(".c") {
        return Ok(Place::File { path: text.into() });
    }
    if text.contains('/') {
        return Err(match kind {
            Kind::Governor => "a path must end in `.c`, or in `/` for a folder".to_owned(),
            _ => "a path must end in `.c`".to_owned(),
        });
    }
    Ok(Place::Builtin { name: named(text)? })
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_file_stem(text: &str) -> bool {
    // `menu-3.8` is a name; `.` and `..` are paths.
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
        assert_eq!(parse("./nap/,x=1").place(), &Place::Folder { path: "./nap/".into() });
        assert_eq!(parse("menu-3.8,x=1").place(), &Place::Builtin { name: "menu-3.8".into() });
        assert_eq!(
            parse("teo-6.12@a/linux-6.12:v6.12.1").place(),
            &Place::Tree {
                name: "teo-6.12".into(),
                tree: TreeSpec::parse("a/linux-6.12:v6.12.1").unwrap(),
            }
        );
        assert_eq!(parse("dir/teo-6.12.c").place(), &Place::File { path: "dir/teo-6.12.c".into() });
        let tree = |text| Place::Tree { name: "teo".into(), tree: TreeSpec::parse(text).unwrap() };
        assert_eq!(parse("teo@../linux").place(), &tree("../linux"));
        assert_eq!(parse("teo@../linux:v6.6").place(), &tree("../linux:v6.6"));
        let haltpoll = parse("haltpoll@x.tar.xz,guest_halt_poll_ns=1000,a=");
        assert_eq!(
            haltpoll.params(),
            [("guest_halt_poll_ns".into(), "1000".into()), ("a".into(), String::new())]
        );
    }

    #[test]
    fn wrong_form_lists_the_allowed_ones() {
        for (text, part) in [
            ("", "it has no name"),
            ("menu,x", "`x` has no `=`"),
            ("./mine.c,x", "`x` has no `=`"),
            ("menu,1-x=2", "`1-x` is not a parameter name"),
            ("menu,x=1,x=2", "given twice"),
            ("me nu", "is not the name of a governor"),
            ("@tree", "is not the name of a governor"),
            ("..", "is not the name of a governor"),
            (".hidden@tree", "is not the name of a governor"),
            ("menu@", "the tree after `@` is empty"),
            ("menu@tree:", "the revision after `:` is empty"),
            ("menu@tree:--output=x", "is not a revision of `tree`"),
            ("dir/menu", "must end in `.c`"),
        ] {
            let error = text.parse::<GovernorSpec>().expect_err(text).to_string();
            assert!(error.contains(part) && error.contains("NAME@TREE:REV"), "{text}: {error}");
        }
    }

    #[test]
    fn file_names_may_contain_any_character() {
        let path = |text: &str| match parse(text) {
            GovernorSpec { place: Place::File { path }, params, .. } => (path, params.len()),
            other => panic!("{other:?}"),
        };
        for name in [
            "./a,b.c",
            "./a b.c",
            "./it's.c",
            "./\"q\".c",
            "./a\nb.c",
            "./$(touch X).c",
            "./a;b.c",
            "./a,b/c=d,e.c",
            "-x.c",
            "./a=b.c",
            "./,.c",
            "./ä.c",
            "./\x1b[2J.c",
        ] {
            assert_eq!(path(name), (name.into(), 0));
            assert_eq!(path(&format!("{name},x=1,y=2.c")), (name.into(), 2), "{name}");
        }
        let tree = "menu@/src/a,b/linux,6.1,CONFIG_X=y";
        assert_eq!(
            parse(tree).place(),
            &Place::Tree { name: "menu".into(), tree: TreeSpec::whole("/src/a,b/linux,6.1") }
        );
        use std::os::unix::ffi::OsStrExt;
        let error = GovernorSpec::from_os(OsStr::from_bytes(b"./\xff.c")).expect_err("no UTF-8");
        assert!(error.to_string().contains("not UTF-8"), "{error}");
    }

    #[test]
    fn config_names_set_kernel_options() {
        let spec = parse("./teo.c,CONFIG_CPU_IDLE_GOV_TEO_UTIL_AWARE=y,x=1,CONFIG_NR_CPUS=0x40");
        let config = [("CONFIG_CPU_IDLE_GOV_TEO_UTIL_AWARE", "y"), ("CONFIG_NR_CPUS", "0x40")];
        assert_eq!(spec.config(), config.map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert_eq!(spec.params(), [("x".into(), "1".into())]);
        for value in ["yes", "m", "", "1;x", "0x", "-"] {
            let text = format!("menu,CONFIG_X={value}");
            let error = text.parse::<GovernorSpec>().expect_err(value).to_string();
            assert!(error.contains("y, n or a number"), "{error}");
        }
    }

    #[test]
    fn io_boost_has_same_forms_but_no_tree() {
        let boost: IoBoostSpec = "iowait,boost_min=64".parse().unwrap();
        assert_eq!(boost.place(), &Place::Builtin { name: "iowait".into() });
        assert_eq!(boost.params(), [("boost_min".into(), "64".into())]);
        for (text, part) in [
            ("iowait@6.12", "kernel trees have no files"),
            ("io wait", "is not the name of an IO boost"),
        ] {
            let error = text.parse::<IoBoostSpec>().expect_err(text).to_string();
            let parts = [part, "IO boost `", "expected NAME or PATH.c, each"];
            assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
        }
    }
}
