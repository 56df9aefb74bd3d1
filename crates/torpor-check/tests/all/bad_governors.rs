// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Each bad governor in `bad/` has one flaw: the check finds it, nothing else, and the shortest
//! sequence that shows it.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use torpor_check::{Finding, KINDS, Kind, Options, Report, check};
use torpor_governor::{Catalog, CatalogOptions};

/// A governor's file, its flaw, and the smallest machine and number of calls that shows it.
struct Bad {
    file: &'static str,
    kind: Kind,
    cpus: usize,
    states: usize,
    calls: usize,
    /// Further condition for the smallest sequence.
    also: fn(&Finding) -> bool,
}

const BAD: &[Bad] = &[
    Bad { file: "index", kind: Kind::Index, cpus: 1, states: 1, calls: 3, also: |_| true },
    Bad {
        file: "disabled",
        kind: Kind::Disabled,
        cpus: 1,
        states: 2,
        calls: 1,
        also: |f| f.cpus[0].disabled == [1],
    },
    Bad {
        file: "latency",
        kind: Kind::Latency,
        cpus: 1,
        states: 2,
        calls: 1,
        also: |f| f.calls[0].latency_req_ns < f.states[1].exit_latency_ns,
    },
    Bad {
        file: "tick",
        kind: Kind::Tick,
        cpus: 1,
        states: 1,
        calls: 1,
        also: |f| f.states[0].is_polling,
    },
    Bad {
        file: "memory_table",
        kind: Kind::Memory,
        cpus: 1,
        states: 1,
        calls: 1,
        also: |f| f.cpu == 64 && f.words.contains("memory_table.c:11"),
    },
    Bad {
        file: "memory_ring",
        kind: Kind::Memory,
        cpus: 1,
        states: 1,
        calls: 9,
        also: |f| f.words.contains("index 8 out of bounds"),
    },
    Bad {
        file: "memory_states",
        kind: Kind::Memory,
        cpus: 1,
        states: 1,
        calls: 1,
        also: |f| f.words.contains("use-after-poison"),
    },
    Bad {
        file: "arithmetic",
        kind: Kind::Arithmetic,
        cpus: 1,
        states: 1,
        calls: 1,
        also: |f| f.calls[0].residency_ns == Some(0) && f.words.contains("division by zero"),
    },
    Bad {
        file: "overflow",
        kind: Kind::Arithmetic,
        cpus: 1,
        states: 1,
        calls: 1,
        also: |f| f.words.contains("signed integer overflow"),
    },
    Bad {
        file: "bug",
        kind: Kind::Bug,
        cpus: 1,
        states: 1,
        calls: 1,
        also: |f| f.calls[0].sleep_length_ns < 0,
    },
    Bad {
        file: "endless",
        kind: Kind::Endless,
        cpus: 1,
        states: 1,
        calls: 1,
        also: |f| f.calls[0].sleep_length_ns >= 1 << 31,
    },
    // Another CPU's call changes what the count says.
    Bad { file: "leak", kind: Kind::Leak, cpus: 2, states: 2, calls: 2, also: |_| true },
    // A decision, the other CPU's restart, and a second decision that the governor takes for its
    // first.
    Bad { file: "leak_enable", kind: Kind::Leak, cpus: 2, states: 2, calls: 3, also: |_| true },
    Bad {
        file: "uninitialised",
        kind: Kind::Uninitialised,
        cpus: 1,
        states: 2,
        calls: 1,
        also: |f| f.calls[0].nr_iowait == 0,
    },
    Bad {
        file: "slow",
        kind: Kind::Slow,
        cpus: 1,
        states: 1,
        calls: 1,
        also: |f| f.calls[0].nr_iowait > 0,
    },
];

fn catalog() -> Catalog {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    Catalog::new(CatalogOptions { cache_dir: Some(cache), ..Default::default() })
}

fn path(file: &str) -> String {
    format!("{}/tests/bad/{file}.c", env!("CARGO_MANIFEST_DIR"))
}

fn checked(file: &str, options: &Options) -> Report {
    let spec = path(file).parse().expect("a path is a governor's name");
    check(&catalog(), &spec, options, &mut |_| true).unwrap_or_else(|e| panic!("{file}: {e}"))
}

fn options(decisions: u64) -> Options {
    Options { decisions, ..Options::default() }
}

#[test]
fn each_flaw_shrinks_to_its_minimum() {
    let next = AtomicUsize::new(0);
    // Checks take longest of all tests here: one thread would work alone in the end.
    let work = || {
        let turns = std::iter::repeat_with(|| next.fetch_add(1, Relaxed));
        let mine = turns.map_while(|place| BAD.get(place));
        mine.filter_map(difference).collect::<Vec<_>>()
    };
    let wrong = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        [work(), other.join().expect("a check does not panic")].concat()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns how the findings in a bad governor differ from the expected one, if they do.
fn difference(bad: &Bad) -> Option<String> {
    let report = checked(bad.file, &options(50_000));
    let [finding] = &report.findings[..] else {
        let kinds: Vec<_> = report.findings.iter().map(|f| (f.kind, &f.what)).collect();
        return Some(format!("{}: one finding expected, not {kinds:?}", bad.file));
    };
    let found = (finding.kind, finding.cpus.len(), finding.states.len(), finding.calls.len());
    let is_same = found == (bad.kind, bad.cpus, bad.states, bad.calls) && (bad.also)(finding);
    (!is_same).then(|| format!("{}: {finding:#?}", bad.file))
}

/// Reports of both sanitizers, for any file name.
#[test]
fn findings_use_the_users_file_name() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("odd names");
    std::fs::create_dir_all(&dir).expect("the folder can be made");
    let bad = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    std::fs::copy(bad.join("bad.h"), dir.join("bad.h")).expect("it can be copied");
    for (file, place) in [("memory_table", ":11"), ("memory_states", ":")] {
        let path = dir.join(format!("my {file}, 1\n.c"));
        std::fs::copy(bad.join(format!("{file}.c")), &path).expect("it can be copied");
        let spec = path.to_str().expect("it is UTF-8").parse().expect("it is a governor's name");
        let report = check(&catalog(), &spec, &options(5_000), &mut |_| true).expect("it runs");
        let words = &report.findings[0].words;
        assert!(words.contains(&format!("my {file}, 1\\n.c{place}")), "{words}");
        assert!(!words.contains("hosted-governor"), "{words}");
    }
}

#[test]
fn every_breach_has_a_governor_and_a_definition() {
    for info in KINDS {
        assert!(BAD.iter().any(|bad| bad.kind == info.kind), "{}", info.name);
        assert!(info.definition.len() > info.title.len(), "{}", info.name);
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let files = std::fs::read_dir(dir).expect("it is there").count();
    assert_eq!(files, BAD.len() + 1, "every file but bad.h is expected something of");
}

/// The seed of a finding, with one decision, gives the same calls again.
#[test]
fn a_findings_seed_repeats_it() {
    let first = &checked("index", &options(200_000)).findings[0];
    let again = checked("index", &Options { seed: first.seed, ..options(1) });
    assert_eq!(again.sequences, 1);
    let json = |finding: &Finding| format!("{:?}", finding.calls);
    assert_eq!(json(&again.findings[0]), json(first));
}

#[test]
fn missing_sanitizer_library_names_the_package() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-asan");
    std::fs::create_dir_all(&dir).expect("the folder can be made");
    let compiler = dir.join("cc");
    let script = "#!/bin/sh\n# A compiler whose sanitizers are not installed.\n\
                  case \" $* \" in *' -o program '*fsanitize*|*fsanitize*' -o program '*)\n\
                  echo '/usr/bin/ld: cannot find -lasan: No such file or directory' >&2; exit 1;;\n\
                  esac\nexec cc \"$@\"\n";
    std::fs::write(&compiler, script).expect("the script can be written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&compiler, mode).expect("it can be made executable");
    let catalog = Catalog::new(CatalogOptions {
        cache_dir: Some(dir.join("cache")),
        compiler: Some(compiler.into()),
        ..Default::default()
    });
    let spec = "shallowest".parse().expect("a name");
    let error =
        check(&catalog, &spec, &options(1), &mut |_| true).expect_err("it cannot be linked");
    let text = error.to_string();
    assert!(text.contains("libasan") && text.contains("libclang-rt"), "{text}");
}
