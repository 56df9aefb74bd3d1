// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Configuration of a hosted kernel: `khost/config.h`, which is fixed, and the options of
//! `khost/options.txt`, which the user sets by a `.config` or one by one.

use crate::kernel::{KHOST, KernelError, Release};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;
use torpor_machine::units::{Hz, Packing, closest, read_regular};

/// Size limit of an unpacked `.config`.
const BYTES_MAX: u64 = 16 << 20;
const HZ: &str = "HZ";

/// An option of `khost/options.txt`.
struct Opt {
    name: &'static str,
    default: &'static str,
    /// First release that has it; none if the oldest has it.
    since: Option<Release>,
    selects: Vec<&'static str>,
    /// Index of the choice that it is part of.
    choice: Option<usize>,
    /// Option without which a `.config` does not have this one.
    parent: Option<&'static str>,
}

struct List {
    options: Vec<Opt>,
    /// Names of the choices.
    choices: Vec<&'static str>,
    /// Options that cannot be set, with the reason.
    refused: Vec<(&'static str, &'static str)>,
    fixed: Vec<Fixed>,
}

/// An option that has the same value in every hosted kernel.
struct Fixed {
    name: &'static str,
    value: &'static str,
    reason: &'static str,
}

static LIST: LazyLock<List> = LazyLock::new(List::read);

impl List {
    fn read() -> List {
        let text = embedded("options.txt");
        let mut list = List {
            options: Vec::new(),
            choices: Vec::new(),
            refused: Vec::new(),
            fixed: Vec::new(),
        };
        let (mut choice, mut parent) = (None, None);
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
            match head {
                "choice" => {
                    choice = Some(list.choices.len());
                    list.choices.push(rest);
                }
                "if" => parent = Some(rest),
                "end" => (choice, parent) = (None, None),
                "fixed" => {
                    let (option, reason) = rest.split_once(' ').expect("it has a reason");
                    let (name, value) = option.split_once('=').expect("it has a value");
                    list.fixed.push(Fixed { name, value, reason });
                }
                "refused" => list.refused.push(rest.split_once(' ').expect("it has a reason")),
                _ => {
                    let (name, value) = head.split_once('=').expect("an option has a default");
                    let (default, since) = match value.split_once('@') {
                        Some((default, since)) => (default, Release::from_parts(since)),
                        None => (value, None),
                    };
                    let selects = rest.split_whitespace().collect();
                    list.options.push(Opt { name, default, since, selects, choice, parent });
                }
            }
        }
        list
    }

    fn find(&self, name: &str) -> Option<&Opt> {
        self.options.iter().find(|option| option.name == name)
    }
}

fn embedded(name: &str) -> &'static str {
    KHOST.iter().find(|(file, _)| *file == name).expect("it is embedded").1
}

/// Values of the options that can be set, by name without `CONFIG_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    values: BTreeMap<&'static str, String>,
    /// Tick rate, if the user set it.
    pub hz: Option<Hz>,
    /// Options of a `.config` that have no effect here.
    pub without_effect: Vec<String>,
    /// Options of a `.config` that have another value in a hosted kernel, with the file's.
    pub not_taken: BTreeMap<String, String>,
}

impl Default for Configuration {
    fn default() -> Configuration {
        let options = LIST.options.iter();
        let values = options.map(|option| (option.name, option.default.to_owned())).collect();
        let (without_effect, not_taken) = (Vec::new(), BTreeMap::new());
        Configuration { values, hz: None, without_effect, not_taken }
    }
}

impl Configuration {
    /// Reads settings such as `config=/boot/config-6.12.48` and `CONFIG_PREEMPT=y`; later ones win.
    pub(crate) fn of(settings: &[String]) -> Result<Configuration, String> {
        let mut config = Configuration::default();
        for setting in settings {
            match setting.split_once('=') {
                Some(("config", path)) => config.take_file(Path::new(path))?,
                Some((name, value)) if name.starts_with("CONFIG_") => config.set(name, value)?,
                _ => {
                    return Err(format!(
                        "`{setting}` is no setting: expected `config=FILE` or `CONFIG_X=y`"
                    ));
                }
            }
        }
        Ok(config)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let bare = name.trim_start_matches("CONFIG_");
        if let Some((_, lacks)) = LIST.refused.iter().find(|(known, _)| *known == bare) {
            return match value {
                "n" => Ok(()),
                _ => Err(format!("{name}={value} cannot be hosted: it needs {lacks}")),
            };
        }
        if let Some(fixed) = LIST.fixed.iter().find(|fixed| fixed.name == bare) {
            return match value == fixed.value {
                true => Ok(()),
                false => Err(format!(
                    "{name} is {} in every hosted kernel: {}",
                    fixed.value, fixed.reason
                )),
            };
        }
        let Some(option) = LIST.find(bare) else { return Err(unknown(name)) };
        let is_number = option.default.parse::<u32>().is_ok();
        let fits = match is_number {
            true => value.parse::<u32>().is_ok(),
            false => matches!(value, "y" | "n" | "m"),
        };
        if !fits {
            let allowed = if is_number { "a number" } else { "y, m or n" };
            return Err(format!("`{value}` is not a value for {name}: expected {allowed}"));
        }
        if bare == HZ {
            let hz = value.parse().ok().and_then(Hz::from_u32);
            self.hz = Some(hz.ok_or_else(|| {
                format!("{name}={value}: expected 100, 250, 300 or 1000, as kernel/Kconfig.hz has")
            })?);
        }
        let of_choice = || LIST.options.iter().filter(|o| o.choice == option.choice);
        match (option.choice, value) {
            (Some(choice), "n") if self.is_set(bare) => {
                let others: Vec<&str> =
                    of_choice().filter(|o| o.name != bare).map(|o| o.name).collect();
                return Err(format!(
                    "{name}=n leaves no {}: set one of {} instead",
                    LIST.choices[choice],
                    others.join(", ")
                ));
            }
            (Some(_), "y" | "m") => {
                of_choice().for_each(|other| drop(self.values.insert(other.name, "n".to_owned())));
            }
            _ => {}
        }
        let value = if value == "m" { "y" } else { value };
        self.values.insert(option.name, value.to_owned());
        Ok(())
    }

    fn is_set(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|value| value == "y")
    }

    /// Takes the options of a `.config`, which does not name those that it does not set.
    fn take_file(&mut self, path: &Path) -> Result<(), String> {
        let shown = path.display();
        let bytes = read_regular(path).map_err(|error| format!("read {shown}: {error}"))?;
        let bytes = match Packing::of(&bytes) {
            Some(packing) => packing.unpack(&bytes, BYTES_MAX, &|| true).bytes,
            None => bytes,
        };
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('='));
        let given: BTreeMap<&str, &str> = lines.collect();
        if given.is_empty() {
            return Err(format!(
                "{shown} has no line such as `CONFIG_HZ=250`\n\
                 hint: a configuration is /boot/config-RELEASE, /proc/config.gz, or .config in a \
                 tree where a kernel was built"
            ));
        }
        if !given.contains_key(HZ) {
            return Err(format!(
                "{shown} has no line `CONFIG_HZ=N`, as a defconfig, which leaves out defaults\n\
                 hint: `make` writes the whole configuration to .config"
            ));
        }
        for (name, _) in &LIST.refused {
            given.get(name).map_or(Ok(()), |value| self.set(name, value))?;
        }
        for option in &LIST.options {
            let has_parent = option.parent.is_none_or(|parent| given.contains_key(parent));
            let value = match (given.get(option.name), option.default.parse::<u32>()) {
                _ if !has_parent => continue,
                (Some(value), _) => value,
                // The one that is set unsets the others.
                (None, Err(_)) if option.choice.is_none() => "n",
                (None, _) => continue,
            };
            self.set(option.name, value).map_err(|error| format!("{shown}: {error}"))?;
        }
        self.without_effect = without_effect(given.keys().copied());
        let of_file = LIST.fixed.iter().map(|f| (f, given.get(f.name).copied().unwrap_or("n")));
        self.not_taken = of_file
            .filter(|(fixed, value)| *value != fixed.value)
            .map(|(fixed, value)| (format!("CONFIG_{}", fixed.name), value.to_owned()))
            .collect();
        Ok(())
    }

    /// Returns the options that are set or selected, with their values for the compiler.
    fn defines(&self) -> BTreeMap<&str, &str> {
        let set = self.values.iter().filter(|(name, value)| **name != HZ && *value != "n");
        let mut all: BTreeMap<&str, &str> = set
            .map(|(name, value)| (*name, if value == "y" { "1" } else { value.as_str() }))
            .collect();
        let mut open: Vec<&str> = all.keys().copied().collect();
        let mut unset = BTreeSet::new();
        while let Some(option) = open.pop().map(|name| LIST.find(name)) {
            for selected in option.iter().flat_map(|option| &option.selects) {
                match selected.strip_prefix('-') {
                    Some(name) => drop(unset.insert(name)),
                    None if all.insert(selected, "1").is_none() => open.push(selected),
                    None => {}
                }
            }
        }
        all.retain(|name, _| !unset.contains(name));
        all
    }

    /// Returns the text of `generated/autoconf.h`.
    pub(crate) fn header(&self, hz: Hz) -> String {
        let hz = hz.get();
        let mut text = embedded("config.h").to_owned();
        for (name, value) in self.defines() {
            text += &format!("#define CONFIG_{name} {value}\n");
        }
        text + &format!("#define CONFIG_HZ {hz}\n#define CONFIG_HZ_{hz} 1\n")
    }

    /// Returns what identifies it, without the tick rate.
    pub(crate) fn key(&self) -> String {
        self.defines().iter().map(|(name, value)| format!("{name}={value}\n")).collect()
    }

    pub(crate) fn is_default(&self) -> bool {
        self.key() == Configuration::default().key()
    }

    /// Whether a file that needs the option is compiled.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.defines().contains_key(option)
    }

    /// Returns the options that differ from the default, with their values.
    pub fn changed(&self) -> BTreeMap<String, String> {
        let default = Configuration::default();
        let differs = |(name, value): &(&&str, &String)| default.values[**name] != **value;
        let changed = self.values.iter().filter(differs);
        changed.map(|(name, value)| (format!("CONFIG_{name}"), value.clone())).collect()
    }

    /// Returns an error if a release does not have an option that is set.
    pub(crate) fn check(&self, release: &Release) -> Result<(), String> {
        let number = |release: &Release| (release.major, release.minor);
        for option in LIST.options.iter().filter(|option| self.is_set(option.name)) {
            if let Some(since) = option.since.as_ref().filter(|s| number(release) < number(s)) {
                let (name, first) = (option.name, format!("{}.{}", since.major, since.minor));
                return Err(format!("CONFIG_{name} is of Linux {first}; this is {release}"));
            }
        }
        Ok(())
    }
}

/// Returns the options that neither the list nor the fixed part has.
fn without_effect<'a>(given: impl Iterator<Item = &'a str>) -> Vec<String> {
    let fixed = embedded("config.h").lines().filter_map(|line| {
        line.strip_prefix("#define CONFIG_")?.split_once(' ').map(|(name, _)| name)
    });
    let selected = LIST.options.iter().flat_map(|option| &option.selects);
    let mut known: BTreeSet<&str> = fixed.collect();
    known.extend(selected.map(|name| name.trim_start_matches('-')));
    known.extend(LIST.options.iter().map(|option| option.name));
    known.extend(LIST.fixed.iter().map(|fixed| fixed.name));
    let is_rate = |name: &str| name.strip_prefix("HZ_").is_some_and(|hz| hz.parse::<u32>().is_ok());
    given.filter(|name| !known.contains(name) && !is_rate(name)).map(str::to_owned).collect()
}

fn unknown(name: &str) -> String {
    let known: Vec<String> =
        LIST.options.iter().map(|option| format!("CONFIG_{}", option.name)).collect();
    let near = closest(name, known.iter().map(String::as_str));
    let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    format!(
        "{name} has no effect on a hosted kernel{near}\nhint: those that have one are {}",
        known.join(", ")
    )
}

impl KernelError {
    pub(crate) fn config(kernel: &dyn std::fmt::Display, message: String) -> KernelError {
        KernelError::Config { kernel: kernel.to_string(), message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(settings: &[&str]) -> Result<Configuration, String> {
        Configuration::of(&settings.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>())
    }

    fn of_file(text: &str) -> Result<Configuration, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        of(&[&format!("config={}", file.path().display())])
    }

    #[test]
    fn member_of_a_choice_unsets_the_others() {
        let config = of(&["CONFIG_PREEMPT=y"]).unwrap();
        assert!(config.has("PREEMPT_RCU") && !config.has("PREEMPT_NONE_BUILD"));
        let error = of(&["CONFIG_PREEMPT=y", "CONFIG_PREEMPT=n"]).unwrap_err();
        assert!(error.contains("PREEMPT_VOLUNTARY"), "{error}");
    }

    #[test]
    fn selected_options_follow_their_selectors() {
        let settings = ["CONFIG_NO_HZ_FULL=y", "CONFIG_PREEMPT_NONE=y", "CONFIG_PREEMPT_DYNAMIC=y"];
        let config = of(&settings).unwrap();
        assert!(config.has("RCU_NOCB_CPU") && config.has("VIRT_CPU_ACCOUNTING_GEN"));
        assert!(config.has("PREEMPT_NONE") && !config.has("PREEMPT_NONE_BUILD"));
    }

    #[test]
    fn fixed_options_are_not_taken() {
        let error = of(&["CONFIG_FAIR_GROUP_SCHED=n"]).unwrap_err();
        assert!(error.contains("is y in every hosted kernel: control groups"), "{error}");
        assert_eq!(of(&["CONFIG_FAIR_GROUP_SCHED=y"]), Ok(Configuration::default()));
        let text = "CONFIG_HZ=250\nCONFIG_FAIR_GROUP_SCHED=y\nCONFIG_SCHED_AUTOGROUP=y\n";
        let config = of_file(text).unwrap();
        let not_taken: Vec<&str> = config.not_taken.keys().map(String::as_str).collect();
        assert_eq!(not_taken, ["CONFIG_CFS_BANDWIDTH", "CONFIG_SCHED_AUTOGROUP"]);
        assert!(config.without_effect.is_empty(), "{:?}", config.without_effect);
    }

    #[test]
    fn changed_options_are_listed() {
        let config = of(&["CONFIG_UCLAMP_BUCKETS_COUNT=20", "CONFIG_SCHED_MC=y"]).unwrap();
        let changed = [("CONFIG_UCLAMP_BUCKETS_COUNT".to_owned(), "20".to_owned())];
        assert_eq!(config.changed(), BTreeMap::from(changed));
        assert!(!config.is_default() && of(&["CONFIG_SCHED_MC=y"]).unwrap().is_default());
    }

    #[test]
    fn wrong_settings_are_explained() {
        for (setting, part) in [
            ("CONFIG_PREMPT=y", "did you mean CONFIG_PREEMPT?"),
            ("CONFIG_PREEMPT_RT=y", "rtmutex"),
            ("CONFIG_PREEMPT=3", "expected y, m or n"),
            ("CONFIG_UCLAMP_BUCKETS_COUNT=y", "expected a number"),
            ("CONFIG_HZ=24", "expected 100, 250, 300 or 1000"),
            ("config=/nowhere/config", "read /nowhere/config"),
            ("x=y", "is no setting"),
        ] {
            let error = of(&[setting]).unwrap_err();
            assert!(error.contains(part), "{setting}: {error}");
        }
    }

    #[test]
    fn a_file_unsets_what_it_does_not_name() {
        let config = of_file(
            "CONFIG_HZ_1000=y\nCONFIG_HZ=1000\nCONFIG_PREEMPT=y\n# CONFIG_SCHED_MC is not set\n\
             CONFIG_EXT4_FS=m\nCONFIG_NO_HZ_IDLE=y\n",
        )
        .unwrap();
        assert_eq!(config.hz, Some(Hz::H1000));
        assert!(!config.has("SCHED_MC") && !config.has("UCLAMP_TASK") && config.has("PREEMPT"));
        // Without CPU_FREQ, nothing is known of its governors.
        assert!(config.has("CPU_FREQ_GOV_SCHEDUTIL"));
        assert_eq!(config.without_effect, ["EXT4_FS"]);
        assert!(of_file("CONFIG_PREEMPT=y\n").unwrap_err().contains("defconfig"));
        assert!(of_file("hello\n").unwrap_err().contains("/boot/config-RELEASE"));
    }

    #[test]
    fn settings_after_a_file_win() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "CONFIG_HZ=250\nCONFIG_PREEMPT=y\n").unwrap();
        let path = format!("config={}", file.path().display());
        let config = of(&[&path, "CONFIG_PREEMPT_NONE=y"]).unwrap();
        assert!(config.has("PREEMPT_NONE") && !config.has("PREEMPT_COUNT"));
    }
}
