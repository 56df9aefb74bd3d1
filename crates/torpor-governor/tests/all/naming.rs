// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Resolution of names, and its errors.

use crate::support::{catalog, resolve_error as error, source, try_resolve as resolve};
use proptest::prelude::*;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use torpor_governor::{
    Catalog, CatalogOptions, CpuSetup, Governor, GovernorSpec, Inputs, Origin, Setup,
};
use torpor_machine::units::{CpuId, Hz};

/// A fresh folder for one test.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn builtins_have_summaries_and_doc_blocks() {
    let names: Vec<&str> = Catalog::builtin_names().collect();
    for wanted in [
        "deepest",
        "haltpoll",
        "ladder",
        "menu",
        "menu-3.7",
        "menu-3.8",
        "menu-6.12",
        "shallowest",
        "teo",
        "teo-6.12",
        "tide",
    ] {
        assert!(names.contains(&wanted), "{names:?}");
    }
    for builtin in Catalog::builtins().unwrap() {
        assert!(builtin.summary.ends_with('.') && builtin.summary.len() > 20, "{builtin:?}");
        assert_eq!(builtin.source_sha256.len(), 64);
        for part in
            ["Idea:", "State kept", "Decision:", "Known weaknesses:", "Departures:", "References:"]
        {
            assert!(builtin.source.contains(part), "{}.c has no `{part}`", builtin.name);
        }
        assert!(builtin.source.contains("MODULE_LICENSE("));
        // Governor names in a kernel have at most 15 characters.
        assert!(builtin.name.len() < 16, "{}", builtin.name);
        let registered = builtin.source.lines().any(|line| {
            line.trim().strip_prefix(".name =").map(str::trim)
                == Some(format!("\"{}\",", builtin.name).as_str())
        });
        assert!(registered, "{}.c registers another name", builtin.name);
    }
    let error = error("menus");
    assert!(error.contains("`menus`") && error.contains("menu, "), "{error}");
}

#[test]
fn file_includes_headers_beside_it() {
    let dir = scratch("file");
    let path = write(&dir, "mine.c", &source("ANSWER", "#include \"mine.h\""));
    write(&dir, "mine.h", "#include \"deeper.h\"\n#define ANSWER (DEEPER - 1)\n");
    write(&dir, "deeper.h", "#define DEEPER 1\n");
    let governor = resolve(path.to_str().unwrap()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(governor.name(), "mine");
    assert_eq!(governor.origin(), &Origin::File { path });
    // A changed header is another governor.
    let before = governor.image_bytes().to_vec();
    write(&dir, "deeper.h", "#define DEEPER 3\n");
    let after = resolve(governor.label()).unwrap();
    assert_ne!(before, after.image_bytes());
}

#[test]
fn source_files_are_returned_unchanged() {
    let dir = scratch("source-files");
    let text = source("CHOICE", "#include \"choice.h\"\nthis need not compile;");
    let path = write(&dir, "pick.c", &text);
    write(&dir, "choice.h", "#define CHOICE 1\n");
    write(&dir, "other.h", "");
    let files = |text: &str| catalog().source_files(&text.parse()?);

    let found = files(path.to_str().unwrap()).unwrap();
    assert_eq!((found.name.as_str(), found.main.as_str()), ("pick", "pick.c"));
    assert_eq!(found.files.keys().collect::<Vec<_>>(), ["choice.h", "pick.c"]);
    assert_eq!(found.files["pick.c"], text.as_bytes());

    assert_eq!(files("teo,util_shift=5").unwrap().origin, Origin::Builtin);
    let error = files("teo,util_shfit=5").expect_err("no such parameter").to_string();
    assert!(error.contains("util_shift"), "{error}");
}

#[test]
fn a_name_may_hold_digits_points_and_dashes() {
    let dir = scratch("points");
    let path = write(&dir, "mine-3.8.c", &source("0", ""));
    assert_eq!(resolve(path.to_str().unwrap()).unwrap().name(), "mine-3.8");
    write(&dir, "linux-6.12/drivers/cpuidle/governors/mine-6.12.c", &source("0", ""));
    let tree = dir.join("linux-6.12");
    assert_eq!(resolve(&format!("mine-6.12@{}", tree.display())).unwrap().name(), "mine-6.12");
    let menu = resolve("menu-3.8,repeat_timer=0").unwrap();
    assert_eq!((menu.name(), menu.label()), ("menu-3.8", "menu-3.8,repeat_timer=0"));
    assert!(menu.param_settings().contains(&("repeat_timer".into(), "N".into())));
}

#[test]
fn a_missing_kernel_function_is_named() {
    let path = write(&scratch("function"), "mine.c", &source("irq_get_forecast(dev->cpu)", ""));
    let text = error(path.to_str().unwrap());
    let first = text.lines().next().unwrap();
    assert!(
        first.contains("does not compile: the kapi has no function irq_get_forecast()"),
        "{text}"
    );
    assert!(text.contains("hint:") && text.contains("mine.c:"), "{text}");
    assert!(
        text.contains("implicit declaration") || text.contains("undeclared function"),
        "{text}"
    );

    // Declared, but nowhere defined: the linker finds out.
    let declared = source("irq_get_forecast()", "int irq_get_forecast(void);");
    let path = write(&scratch("linked"), "mine.c", &declared);
    let text = error(path.to_str().unwrap());
    assert!(text.contains("the kapi has no function irq_get_forecast()"), "{text}");
    // The C library is not there either: no kernel has it.
    let path = write(&scratch("libc"), "mine.c", &source("getpid()", "int getpid(void);"));
    assert!(error(path.to_str().unwrap()).contains("no function getpid()"));
}

#[test]
fn missing_include_names_the_header() {
    let call = "tick_nohz_get_sleep_length((ktime_t *)0)";
    let path = write(&scratch("include"), "mine.c", &source(call, ""));
    let text = error(path.to_str().unwrap());
    let expected = "uses tick_nohz_get_sleep_length from <linux/tick.h> without including it";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_missing_header_is_named() {
    for (header, line) in [
        ("linux/energy_model.h", "#include <linux/energy_model.h>"),
        ("stdio.h", "#include <stdio.h>"),
        ("absent.h", "#include \"absent.h\""),
    ] {
        let path = write(&scratch("header"), "mine.c", &source("0", line));
        let text = error(path.to_str().unwrap());
        assert!(text.contains(&format!("the kapi has no header <{header}>")), "{text}");
    }
}

#[test]
fn other_compile_errors_show_the_compilers_line() {
    let path = write(&scratch("syntax"), "mine.c", &source("0 +", ""));
    let text = error(path.to_str().unwrap());
    assert!(text.lines().next().unwrap().contains("mine.c:"), "{text}");
    for (code, what) in [
        ("struct rq *rq; static int x = sizeof(*rq);", ""),
        ("static unknown_t x;", "type unknown_t"),
        ("static int x = CPUIDLE_STATE_SUM;", "name CPUIDLE_STATE_SUM"),
        ("static long f(struct cpuidle_device *d) { return d->mood; }", "structure member mood"),
    ] {
        let path = write(&scratch("names"), "mine.c", &source("0", code));
        let text = error(path.to_str().unwrap());
        assert!(text.contains(what), "{text}");
    }
}

#[test]
fn tree_can_be_folder_tarball_or_revision() {
    let dir = scratch("tree");
    let place = "drivers/cpuidle/governors/mine.c";
    write(&dir.join("linux"), place, &source("0", "#include \"gov.h\""));
    write(&dir.join("linux"), "drivers/cpuidle/governors/gov.h", "");
    write(&dir.join("linux"), "zzz", "after the folder");
    let linux = dir.join("linux");
    let in_folder = resolve(&format!("mine@{}", linux.display())).unwrap();

    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all("linux-9.9", &linux).unwrap();
    let tar = tar.into_inner().unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&tar).unwrap();
    let mut bz2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bz2.write_all(&tar).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
    xz.write_all(&tar).unwrap();
    for (name, bytes) in [
        ("linux.tar", tar.clone()),
        ("linux.tar.gz", gz.finish().unwrap()),
        ("linux.tar.bz2", bz2.finish().unwrap()),
        ("linux.tar.xz", xz.finish().unwrap()),
    ] {
        let path = dir.join(name);
        fs::write(&path, bytes).unwrap();
        let in_tarball =
            resolve(&format!("mine@{}", path.display())).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(in_tarball.source_sha256(), in_folder.source_sha256(), "{name}");
    }
    fs::write(dir.join("cut.tar"), &tar[..tar.len() / 4]).unwrap();
    assert!(error(&format!("mine@{}/cut.tar", dir.display())).contains("cut.tar"));

    let text = error(&format!("other@{}", linux.display()));
    assert!(
        text.contains("drivers/cpuidle/governors/other.c") && text.contains("it has mine"),
        "{text}"
    );
    assert!(error("mine@/nonexistent").contains("/nonexistent has no folder or tarball"));

    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("not run: git revisions: git is not on this machine");
        return;
    }
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(&linux).args(["-c", "user.name=t", "-c", "user.email=t@example.org"]);
        assert!(command.args(args).output().unwrap().status.success(), "git {args:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    git(&["tag", "first"]);
    write(&linux, place, &source("1", ""));
    git(&["commit", "-qam", "second"]);
    let at = |rev: &str| resolve(&format!("mine@{}:{rev}", linux.display()));
    assert_eq!(at("first").unwrap().source_sha256(), in_folder.source_sha256());
    assert_ne!(at("HEAD").unwrap().source_sha256(), in_folder.source_sha256());
    let text = at("v9").expect_err("no such revision").to_string();
    assert!(text.contains("v9"), "{text}");
    let text =
        resolve(&format!("other@{}:first", linux.display())).expect_err("no file").to_string();
    assert!(text.contains("governors/other.c at first"), "{text}");
}

#[test]
fn parameters_are_checked_on_resolution() {
    let code = "#include <linux/module.h>\n\
                static unsigned int depth = 3;\nmodule_param(depth, uint, 0644);\n\
                MODULE_PARM_DESC(depth, \"how deep\");\n\
                static bool brave = true;\nmodule_param_named(courage, brave, bool, 0444);";
    let path = write(&scratch("params"), "mine.c", &source("depth", code));
    let path = path.to_str().unwrap();
    let governor = resolve(&format!("{path},depth=0x2,courage=off")).unwrap();
    let described: Vec<_> = (governor.params().iter())
        .map(|p| (p.name.as_str(), p.kind.name(), p.default.as_str(), p.description.as_str()))
        .collect();
    assert_eq!(described, [("depth", "uint", "3", "how deep"), ("courage", "bool", "Y", "")]);
    assert_eq!(
        governor.param_settings(),
        [("depth".to_owned(), "2".to_owned()), ("courage".to_owned(), "N".to_owned())]
    );
    let text = error(&format!("{path},height=1"));
    assert!(text.contains("no parameter `height`; it has depth, courage"), "{text}");
    let text = error(&format!("{path},depth=-1"));
    assert!(
        text.contains("`-1` is not a value for depth: expected uint from 0 to 4294967295"),
        "{text}"
    );
    let text = error("menu,depth=1");
    assert!(text.contains("no parameter `depth`; it has none"), "{text}");
}

#[test]
fn missing_compiler_has_a_hint() {
    let dir = scratch("compiler");
    let path = write(&dir, "mine.c", &source("0", ""));
    let options = CatalogOptions {
        cache_dir: Some(dir.join("cache")),
        compiler: Some("no-such-compiler".into()),
        ..Default::default()
    };
    let spec: GovernorSpec = path.to_str().unwrap().parse().unwrap();
    let text = Catalog::new(options).resolve(&spec, Hz::H250).expect_err("no compiler").to_string();
    assert!(text.contains("`no-such-compiler`") && text.contains("hint: install gcc"), "{text}");
}

/// Images and messages of both compilers are understood.
#[test]
fn clang_compiles_governors() {
    if Command::new("clang").arg("--version").output().is_err() {
        eprintln!("not run: clang: it is not on this machine");
        return;
    }
    let dir = scratch("clang");
    let options = CatalogOptions {
        cache_dir: Some(dir.join("cache")),
        compiler: Some("clang".into()),
        ..Default::default()
    };
    let catalog = Catalog::new(options);
    let builtin = Catalog::builtins().unwrap().into_iter().find(|b| b.name == "menu").unwrap();
    let path = write(&dir, "menu.c", builtin.source);
    let spec: GovernorSpec = path.to_str().unwrap().parse().unwrap();
    let governor = catalog.resolve(&spec, Hz::H250).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(governor.rating(), 20);

    let path =
        write(&dir, "mine.c", &source("irq_get_forecast(dev->cpu)", "#include <linux/efi.h>"));
    let spec: GovernorSpec = path.to_str().unwrap().parse().unwrap();
    let text = catalog.resolve(&spec, Hz::H250).expect_err("a header is missing").to_string();
    assert!(text.contains("the kapi has no header <linux/efi.h>"), "{text}");
    write(&dir, "mine.c", &source("irq_get_forecast(dev->cpu)", ""));
    let text = catalog.resolve(&spec, Hz::H250).expect_err("a function is missing").to_string();
    assert!(text.contains("the kapi has no function irq_get_forecast()"), "{text}");
}

#[test]
fn damaged_cache_entry_is_rebuilt() {
    let dir = scratch("damaged");
    let path = write(&dir, "mine.c", &source("0", ""));
    let options = CatalogOptions { cache_dir: Some(dir.join("cache")), ..Default::default() };
    let catalog = Catalog::new(options);
    let spec: GovernorSpec = path.to_str().unwrap().parse().unwrap();
    let whole = catalog.resolve(&spec, Hz::H250).unwrap().image_bytes().to_vec();
    let images = fs::read_dir(dir.join("cache/images")).unwrap();
    let entry = images.map(|e| e.unwrap().path()).next().unwrap();
    for len in [0, 3, 64, whole.len() / 2] {
        fs::write(entry.join("image.so"), &whole[..len]).unwrap();
        assert_eq!(catalog.resolve(&spec, Hz::H250).unwrap().image_bytes(), whole);
        let notes = catalog.take_notes();
        assert!(notes.len() == 1 && notes[0].contains("mine.c") && notes[0].contains("damaged"));
    }
    let left = fs::read_dir(dir.join("cache/scratch")).unwrap().count();
    assert_eq!(left, 0, "nothing is left of the making");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn text_is_a_spec_or_an_error(
        text in prop_oneof![any::<String>(), "[a-z@:,=./ -]{0,12}"]
    ) {
        match text.parse::<GovernorSpec>() {
            Ok(spec) => prop_assert_eq!(spec.to_string(), text),
            Err(e) => prop_assert!(e.to_string().contains("NAME@TREE:REV")),
        }
    }

    #[test]
    fn a_sound_spec_comes_back_whole(
        name in "[a-z][a-z0-9_.-]{0,8}",
        tree in proptest::option::of("[a-z./]{1,10}"),
        rev in proptest::option::of("[a-z0-9][a-z0-9.^~-]{0,6}"),
        params in proptest::collection::btree_map("[a-z_]{1,6}", "[^,]{0,6}", 0..3),
    ) {
        let mut text = name;
        if let Some(tree) = tree {
            text += &format!("@{tree}");
            if let Some(rev) = rev {
                text += &format!(":{rev}");
            }
        }
        for (name, value) in &params {
            text += &format!(",{name}={value}");
        }
        let spec: GovernorSpec = text.parse().unwrap();
        prop_assert_eq!(spec.params().len(), params.len());
        prop_assert_eq!(spec.to_string(), text);
    }
}

#[test]
fn a_cpu_is_enabled_with_its_own_capacity() {
    // The governor stores the capacity when it is enabled, as 6.3's teo does.
    let text = "#include <linux/cpuidle.h>\n#include <linux/sched.h>\n\
        #include <linux/sched/topology.h>\n\
        static DEFINE_PER_CPU(unsigned long, seen);\n\
        static int on(struct cpuidle_driver *drv, struct cpuidle_device *dev)\n\
        { per_cpu(seen, dev->cpu) = arch_scale_cpu_capacity(dev->cpu); return 0; }\n\
        static int pick(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop)\n\
        { return per_cpu(seen, dev->cpu) == 160; }\n\
        static struct cpuidle_governor gov = { .name = \"mine\", .enable = on, .select = pick };\n\
        static int __init start(void) { return cpuidle_register_governor(&gov); }\n\
        postcore_initcall(start);\n";
    let path = write(&scratch("capacity"), "mine.c", text);
    let governor = resolve(path.to_str().unwrap()).unwrap_or_else(|e| panic!("{e}"));
    let states = crate::support::server_states();
    let big = CpuSetup::new(CpuId(0), &states);
    let little = CpuSetup { capacity: 160, ..CpuSetup::new(CpuId(1), &states) };
    let mut instance = governor.instantiate(&Setup { cpus: &[big, little] }).unwrap();
    assert_eq!(instance.select(0, &Inputs::default()).unwrap().state, 0);
    assert_eq!(instance.select(1, &Inputs::default()).unwrap().state, 1);
}

#[test]
fn file_names_may_be_arbitrary() {
    let dir = scratch("odd names");
    let text = source("sizeof(__FILE__) > 200", "#include \"it's $HOME.h\"");
    for folder in ["plain", "with, commas=1", "line\nend", "$(touch X)", "a=b", "@x", "-o"] {
        write(&dir.join(folder), "it's $HOME.h", "");
        for name in
            ["a b.c", "a,b.c", "q\"'.c", "n\nl.c", "$(touch X).c", ";touch X;.c", "-x.c", "@y.c"]
        {
            let path = write(&dir.join(folder), name, &text);
            let governor = resolve(path.to_str().unwrap()).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(format!("{}.c", governor.name()), name);
        }
    }
    // A file's name never reaches a shell, and reaches a terminal only escaped.
    assert!(!Path::new("X").exists() && !dir.join("X").exists());
    let path = write(&dir, "\x1b[2J\n.c", &source("0 +", ""));
    let text = error(path.to_str().unwrap());
    assert!(text.contains("\\u001b[2J\\n.c`") && !text.contains('\x1b'), "{text:?}");
    let path = write(&dir, "words.c", &source("0", "#error \"\x1b]0;mine\x07\""));
    let text = error(path.to_str().unwrap());
    assert!(text.contains("]0;mine") && !text.contains(['\x1b', '\x07']), "{text:?}");
    // A cache, too.
    for name in ["with space", "a=b", "a,b", "$(touch X)", "n\nl"] {
        let options = CatalogOptions { cache_dir: Some(dir.join(name)), ..Default::default() };
        let path = write(&dir, "mine.c", &source("0", "int f(void);\nint f(void) { BUG(); }"));
        let spec: GovernorSpec = path.to_str().unwrap().parse().unwrap();
        Catalog::new(options).resolve(&spec, Hz::H250).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn special_files_are_refused_without_waiting() {
    let dir = scratch("devices");
    let fifo = std::ffi::CString::new(dir.join("fifo.c").to_str().unwrap()).unwrap();
    // SAFETY: the name is a string.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    std::os::unix::fs::symlink("/dev/zero", dir.join("zero.c")).unwrap();
    fs::create_dir(dir.join("folder.c")).unwrap();
    for name in ["fifo.c", "zero.c", "folder.c"] {
        let text = error(dir.join(name).to_str().unwrap());
        assert!(text.contains("not a regular file") && text.contains(name), "{text}");
    }
    fs::File::create(dir.join("huge.c")).unwrap().set_len(1 << 30).unwrap();
    let text = error(dir.join("huge.c").to_str().unwrap());
    assert!(text.contains("larger than 16 MiB"), "{text}");
}

#[test]
fn huge_statics_are_reported() {
    let big = |more: &str| source("big[dev->cpu]++", more);
    for text in ["static volatile char big[100 << 20];", "static char big[200 << 20] = { 1 };"] {
        let path = write(&scratch("huge"), "mine.c", &big(text));
        let text = error(path.to_str().unwrap());
        assert!(text.contains("MiB") && text.contains("statics of such a size"), "{text}");
    }
}

#[test]
fn chosen_kernel_options_are_reported() {
    let text = "#ifdef CONFIG_CPU_IDLE_GOV_X\n#define ANSWER CONFIG_DEPTH\n#else\n\
                #define ANSWER 0\n#endif\n#if HZ != CONFIG_HZ || !defined(CONFIG_SMP)\n#error\n#endif";
    let path = write(&scratch("config"), "mine.c", &source("ANSWER", text));
    let path = path.to_str().unwrap();
    let chosen = |governor: &Governor| {
        let states = crate::support::server_states();
        let setup = Setup { cpus: &[CpuSetup::new(CpuId(0), &states)] };
        let mut instance = governor.instantiate(&setup).unwrap();
        instance.select(0, &Inputs::default()).unwrap().state
    };
    let config = |governor: &Governor| -> Vec<String> {
        governor.config().iter().map(|(name, value)| format!("{name}={value}")).collect()
    };
    let plain = resolve(path).unwrap();
    assert_eq!(chosen(&plain), 0);
    let n = ["CONFIG_CPU_IDLE_GOV_X=n", "CONFIG_DEPTH=n", "CONFIG_HZ=250", "CONFIG_SMP=y"];
    assert_eq!(config(&plain), n);
    let set = resolve(&format!("{path},CONFIG_CPU_IDLE_GOV_X=y,CONFIG_DEPTH=2")).unwrap();
    assert_eq!(chosen(&set), 2);
    let y = ["CONFIG_CPU_IDLE_GOV_X=y", "CONFIG_DEPTH=2", "CONFIG_HZ=250", "CONFIG_SMP=y"];
    assert_eq!(config(&set), y);
    assert!(error(&format!("{path},CONFIG_SMP=n")).contains("#error"));
    assert_eq!(resolve("menu,CONFIG_X=y").unwrap().name(), "menu");
}
