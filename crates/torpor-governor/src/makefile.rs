// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Reads the files of a governor and their compiler flags from the Makefile of its folder.

use std::collections::BTreeMap;

/// Assignments of a Kbuild Makefile. Conditionals and functions are not evaluated.
pub(crate) struct Makefile {
    values: BTreeMap<String, String>,
}

/// Limit of the expansion of variables that refer to each other.
const DEPTH_MAX: usize = 8;

impl Makefile {
    pub(crate) fn parse(text: &str) -> Makefile {
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        for line in text.replace("\\\n", " ").lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((name, value)) = line.split_once('=') else { continue };
            let adds = name.ends_with('+');
            let name = name.trim_end_matches(['+', ':', '?']).trim();
            let old = values.remove(name).filter(|_| adds).unwrap_or_default();
            values.insert(name.to_owned(), format!("{old} {}", value.trim()).trim().to_owned());
        }
        Makefile { values }
    }

    /// Returns the C files of the object that the Makefile builds: `NAME-y := a.o b.o`, `NAME-objs`,
    /// or a single `obj-y += NAME.o`. Empty if it builds no object or several.
    pub(crate) fn parts(&self) -> Vec<String> {
        let objects = |value: &str| -> Vec<String> {
            let value = self.expand(value, 0);
            let stems = value.split_whitespace().filter_map(|word| word.strip_suffix(".o"));
            stems.map(|stem| format!("{stem}.c")).collect()
        };
        let is_list = |name: &str| ["obj", "lib", "subdir"].contains(&name);
        let composite = |name: &str| {
            let (stem, kind) = name.rsplit_once('-')?;
            let is_one = matches!(kind, "y" | "objs") || kind.starts_with("$(");
            (is_one && !is_list(stem) && !stem.contains("flags")).then(|| stem.to_owned())
        };
        let mut made: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in &self.values {
            if let Some(stem) = composite(name) {
                made.entry(stem).or_default().extend(objects(value));
            }
        }
        if made.is_empty() {
            let lists = self.values.iter().filter(|(name, _)| name.starts_with("obj-"));
            let all: Vec<String> = lists.flat_map(|(_, value)| objects(value)).collect();
            return if all.len() == 1 { all } else { Vec::new() };
        }
        let mut made = made.into_values();
        made.next().filter(|_| made.next().is_none()).unwrap_or_default()
    }

    /// Returns the machine flags (`-m`), macros (`-D`) and optimization levels (`-O`) that the
    /// Makefile adds for a file. Other flags are ignored; some could run programs.
    pub(crate) fn flags(&self, file: &str) -> Vec<String> {
        let object = file.strip_suffix(".c").map(|stem| format!("CFLAGS_{stem}.o"));
        let names = [Some("ccflags-y".to_owned()), object];
        let values = names.into_iter().flatten().filter_map(|name| self.values.get(&name));
        let all: String = values.map(|value| self.expand(value, 0) + " ").collect();
        let is_used = |flag: &&str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.+".contains(c);
            ["-m", "-D", "-O"].iter().any(|kind| flag.starts_with(kind))
                && flag.len() > 2
                && flag.chars().all(plain)
        };
        all.split_whitespace().filter(is_used).map(str::to_owned).collect()
    }

    /// Replaces `$(NAME)`. Variables of the kernel's build, such as `CC_FLAGS_FPU`, are empty, since
    /// userspace does not need them.
    fn expand(&self, value: &str, depth: usize) -> String {
        let mut text = String::new();
        let mut rest = value;
        while let Some((before, after)) = rest.split_once("$(") {
            let Some((name, tail)) = after.split_once(')') else { break };
            text.push_str(before);
            if let Some(value) = self.values.get(name).filter(|_| depth < DEPTH_MAX) {
                text.push_str(&self.expand(value, depth + 1));
            }
            rest = tail;
        }
        text + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_composite_object_names_its_parts() {
        let text = "# comment\nWIDE := -mavx \\\n  -mavx2\nobj-$(CONFIG_X) += gov.o\n\
                    gov-y := one.o\ngov-y += two.o\nCFLAGS_two.o += $(WIDE) $(CC_FLAGS_FPU) -Wall\n\
                    CFLAGS_REMOVE_two.o += -mno-sse\nccflags-y := -DX=1 -fplugin=bad.so\n";
        let makefile = Makefile::parse(text);
        assert_eq!(makefile.parts(), ["one.c", "two.c"]);
        assert_eq!(makefile.flags("one.c"), ["-DX=1"]);
        assert_eq!(makefile.flags("two.c"), ["-DX=1", "-mavx", "-mavx2"]);
    }

    #[test]
    fn only_a_single_object_is_the_governor() {
        let parts = |text| Makefile::parse(text).parts();
        assert_eq!(parts("obj-y += mine.o\n"), ["mine.c"]);
        assert!(parts("obj-y += ladder.o\nobj-$(CONFIG_M) += menu.o\n").is_empty());
        assert!(parts("a-y := x.o\nb-y := y.o\n").is_empty());
        assert!(parts("all:\n\tmake -C $(KDIR) M=$(PWD)\n").is_empty());
    }

    #[test]
    fn a_circle_of_variables_ends() {
        let makefile = Makefile::parse("A = $(B)\nB = $(A)\ngov-y := $(A) one.o\n");
        assert_eq!(makefile.parts(), ["one.c"]);
    }
}
