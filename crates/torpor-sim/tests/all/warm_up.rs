// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Time before a run that does not count, seeds that disagree, and slices that tasks ask for.

use crate::support::{big_little, catalog, count, frames, load, machine, request, run};
use torpor_engine::Unwatched;
use torpor_machine::units::{Duration, Energy};
use torpor_sim::machine::Counted;

const MS: i64 = 1_000_000;

/// Frames on two clusters from `warm_up` on, for `ms`.
fn counted(warm_up: i64, ms: i64) -> Counted {
    let mut request = request(big_little(), frames(""), &["menu"], ms);
    request.options.warm_up = Duration(warm_up * MS);
    request.options.cpufreq = vec!["schedutil".parse().unwrap()];
    count(&request).unwrap()
}

/// Everything that adds up over time.
fn sums(run: &Counted) -> Vec<i128> {
    let mut sums = vec![i128::from(run.span.0), i128::from(run.ipis), i128::from(run.events)];
    for cpu in &run.cpus {
        sums.extend([cpu.task_time, cpu.overhead].map(|time| i128::from(time.0)));
        sums.extend(cpu.busy_at.iter().map(|time| i128::from(time.0)));
        sums.extend(cpu.totals.states.iter().map(|state| i128::from(state.time.0)));
    }
    for kind in &run.kinds {
        sums.extend([kind.wakeups, kind.passes, kind.migrations].map(i128::from));
        sums.push(i128::from(kind.cpu_time.0));
    }
    for domain in &run.domains {
        sums.push(i128::from(domain.transitions));
        sums.extend(domain.time_at.iter().map(|time| i128::from(time.0)));
    }
    sums.extend(run.static_energy.iter().chain(&run.shared_energy).map(|Energy(e)| e));
    sums
}

#[test]
fn warm_up_and_measured_part_add_up() {
    let (whole, first, second) = (counted(0, 300), counted(0, 130), counted(130, 170));
    assert_eq!(second.span, Duration(170 * MS));
    let parts = sums(&first).into_iter().zip(sums(&second)).map(|(a, b)| a + b);
    for (number, (whole, parts)) in sums(&whole).into_iter().zip(parts).enumerate() {
        // Work that ends after the boundary is rounded to ns once more.
        assert!((whole - parts).abs() <= 2, "{number}: {whole} against {parts}");
    }
}

#[test]
fn warm_up_is_limited_and_shown() {
    let mut request = request(machine(2, ""), frames(""), &["menu"], 50);
    request.options.warm_up = Duration(20 * MS);
    let notes = run(&request).notes;
    assert!(notes[0].contains("after 0.020000 s that do not count"), "{notes:?}");
    assert!(notes[0].contains("the machine's only ones"), "{notes:?}");
    request.options.warm_up = Duration(i64::MAX / 4);
    let error = torpor_sim::run(&request, &catalog(), &Unwatched).err().unwrap().to_string();
    assert!(error.contains("a warm-up lasts at most 30 days"), "{error}");
}

/// A task whose sleeps are all short or all long, depending on the seed.
#[test]
fn seeds_that_disagree_are_named() {
    let task = |sleep: &str| {
        let text = format!(
            "[[task]]\nname = \"t\"\nphase = [{{ run_us = 20 }}, {{ wait = \"c\" }}]\n\
             [[interrupt]]\nname = \"i\"\nwake = \"c\"\ninterval_us = {sleep}\n"
        );
        let mut request = request(machine(1, ""), load(&text), &["deepest"], 10);
        request.options.seeds = 6;
        run(&request).notes.into_iter().find(|note| note.contains("seeds disagree"))
    };
    let told = task("{ dist = \"exponential\", mean = 300 }").expect("six seeds differ");
    assert!(told.contains("under deepest: too deep sleeps from"), "{told}");
    assert_eq!(task("1000"), None);
}

/// A run that is held against its oracle runs once more for its strips; another keeps them at once.
#[test]
fn strips_are_of_the_measured_part() {
    let strips = |oracle| {
        let mut request = request(big_little(), frames(""), &["menu", "teo"], 60);
        request.options.warm_up = Duration(40 * MS);
        request.options.strip = true;
        request.options.against_oracle = oracle;
        serde_json::to_value(run(&request).strips).unwrap()
    };
    let once = strips(None);
    assert_eq!(once, strips(Some(torpor_engine::oracle::Aim::Energy)));
    assert!(once.as_array().is_some_and(|strips| !strips.is_empty()), "{once}");
}

/// EEVDF lets a task run for its slice before another has its turn; ticks come every 4 ms.
#[test]
fn longer_slice_means_fewer_preemptions() {
    let preemptions = |slice: &str| {
        let text =
            format!("[[task]]\nname = \"t\"\ncount = 3\n{slice}phase = [{{ run_us = 1000 }}]\n");
        let counted = count(&request(machine(1, ""), load(&text), &["menu"], 1_000)).unwrap();
        counted.kinds[0].preemptions
    };
    let (own, long) = (preemptions(""), preemptions("slice_us = 20000\n"));
    assert!((240..=260).contains(&own), "{own}");
    assert!((45..=55).contains(&long), "{long}");
}
