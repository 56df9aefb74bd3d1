// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Details of a verification beyond the counts of `guest_corpus.rs`; and, if available, recordings
//! outside the project, with the agreement that `docs/fidelity.md` states. A change that loses a
//! decision must say why.

use std::path::{Path, PathBuf};
use torpor_engine::Unwatched;
use torpor_engine::verify::{Fidelity, VerifyOptions, VerifyRequest, verify};
use torpor_governor::Catalog;

/// Verifies one of the project's recordings on the machine of its sysfs dump.
fn own(name: &str, options: VerifyOptions) -> Fidelity {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("tests/data/guest").join(name);
    let before = folder.join("sysfs-before.txt");
    let request = VerifyRequest {
        trace: folder.join("trace.dat.gz"),
        platform: torpor_machine::platform::resolve(before.to_str().unwrap()).unwrap(),
        governors: vec![],
        counters: None,
        options,
    };
    verify(&request, &Catalog::new(Default::default()), &Unwatched).unwrap()
}

/// Returns a guest's recording, or `None` if the recordings are not available.
fn guest(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("../shared/traces/guest").join(name);
    if !path.exists() {
        eprintln!("not run: ../shared/traces/guest/{name} is absent");
        return None;
    }
    Some(path)
}

/// Verifies a recording on the machine of its sysfs dump.
fn verified(name: &str, options: VerifyOptions) -> Option<Fidelity> {
    let folder = guest(name)?;
    let snapshot = |file| torpor_machine::counters::read(&folder.join(file)).unwrap();
    let before = folder.join("sysfs-before.txt");
    let request = VerifyRequest {
        trace: folder.join("trace.dat"),
        platform: torpor_machine::platform::resolve(before.to_str().unwrap()).unwrap(),
        governors: vec![],
        counters: Some((snapshot("sysfs-before.txt"), snapshot("sysfs-after.txt"))),
        options,
    };
    Some(verify(&request, &Catalog::new(Default::default()), &Unwatched).unwrap())
}

fn without_probes() -> VerifyOptions {
    VerifyOptions { fit: true, ..VerifyOptions::default() }
}

/// Returns (agreeing, compared) of a governor.
fn agreement(fidelity: &Fidelity, governor: &str) -> (u64, u64) {
    let found = fidelity.governors.iter().find(|g| g.governor == governor).unwrap();
    (found.agreeing, fidelity.decisions.compared)
}

#[test]
fn with_probes_every_decision_agrees() {
    if let Some(small) = verified(
        "x86-6.12-menu-probes",
        VerifyOptions { probes: true, fit: true, ..Default::default() },
    ) {
        // 417 idle entries and 2 selects that none followed.
        assert_eq!(agreement(&small, "menu-6.12"), (419, 419));
        assert_eq!((small.decisions.hidden, small.decisions.resets), (2, 1));
        assert_eq!(small.verdict.best, ["menu-6.12"]);
        assert!(small.disagreements.is_empty() && small.assumptions.is_empty());
        assert!(small.verdict.control_agreement.unwrap() < 0.75);
    }
    if let Some(rich) = verified(
        "x86-6.12-menu-rich",
        VerifyOptions { probes: true, fit: true, ..Default::default() },
    ) {
        assert_eq!(agreement(&rich, "menu-6.12"), (11_345, 11_345));
        assert_eq!(rich.verdict.best, ["menu-6.12"]);
        assert_eq!(rich.verdict.control.as_deref(), Some("teo-6.12"));
        assert!(rich.verdict.control_agreement.unwrap() < 0.80);
        let ours = &rich.governors[0];
        assert_eq!(ours.tick_agreeing, ours.tick_decisions);
    }
}

#[test]
fn a_busy_machine_agrees_by_its_tracepoints_alone() {
    let Some(rich) = verified("x86-6.12-menu-rich", without_probes()) else { return };
    assert_eq!(agreement(&rich, "menu-6.12"), (11_328, 11_335));
    assert!(agreement(&rich, "teo-6.12").0 < 9_100);
    assert_eq!(rich.verdict.best, ["menu-6.12"]);
    // Without the stand-in for RCU 6 % of the decisions are lost.
    let chosen = rich.assumptions.iter().find(|t| t.is_chosen).unwrap();
    assert_eq!((chosen.entry_delay_ns, chosen.rcu_stand_in), (1_700, true));
    let without = rich.assumptions.iter().filter(|t| !t.rcu_stand_in);
    assert!(without.map(|t| t.agreeing).max().unwrap() < 10_700);
}

#[test]
fn small_recordings_agree_by_their_tracepoints_alone() {
    for (name, governor, agreeing, compared) in [
        ("x86-6.12-menu-idle-predict", "menu-6.12", 346, 350),
        ("x86-6.12-menu-probes", "menu-6.12", 416, 417),
        ("x86-6.12-teo-mix-cpufreq", "teo-6.12", 937, 938),
        ("arm64-6.12-teo-mix-psci", "teo-6.12", 994, 995),
    ] {
        let Some(fidelity) = verified(name, without_probes()) else { return };
        assert_eq!(agreement(&fidelity, governor), (agreeing, compared), "{name}");
        assert_eq!(fidelity.governors[0].governor, governor, "{name}");
    }
}

#[test]
fn fitting_is_noted_and_can_be_turned_off() {
    let unfitted = VerifyOptions { fit: false, ..without_probes() };
    let fidelity = own("amd64-6.12-menu-mix", unfitted);
    assert_eq!(agreement(&fidelity, "menu-6.12"), (487, 501));
    assert!(fidelity.assumptions.is_empty());
    let fitted = own("amd64-6.12-menu-mix", without_probes());
    assert_eq!(fitted.assumptions.iter().filter(|t| t.is_chosen).count(), 1);
    assert_eq!(fitted.assumptions[0].agreeing, 487, "the first is the default");
    assert_eq!(agreement(&fitted, "menu-6.12"), (489, 501));
    assert!(fitted.notes.iter().any(|note| note.contains("fitted to this recording")));
}

/// A load that leaves one state in 92 % of the decisions cannot distinguish governors.
#[test]
fn ambiguous_recording_is_noted() {
    let Some(fidelity) = verified("x86-6.12-teo-mix-cpufreq", without_probes()) else { return };
    // Its kernel is 6.12, which decides between releases of teo.
    assert_eq!(fidelity.verdict.best, ["teo-6.12"], "{:?}", fidelity.verdict);
    assert!(fidelity.verdict.control_agreement.unwrap() > 0.98);
    assert!(fidelity.notes.iter().any(|note| note.contains("says little")));
}

#[test]
fn same_recording_gives_same_bytes() {
    let json = || serde_json::to_string(&own("arm64-6.12-menu-mix", without_probes())).unwrap();
    assert_eq!(json(), json());
}

#[test]
fn a_machine_that_was_not_recorded_is_refused() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let request = VerifyRequest {
        trace: root.join("tests/data/guest/amd64-6.12-menu-mix/trace.dat.gz"),
        // Two CPUs of this machine would do; it has two states, and the recording enters state 3.
        platform: torpor_machine::platform::resolve("pixel6").unwrap(),
        governors: vec![],
        counters: None,
        options: VerifyOptions { probes: true, fit: true, ..Default::default() },
    };
    let error = verify(&request, &Catalog::new(Default::default()), &Unwatched).unwrap_err();
    assert!(error.to_string().contains("was not made on platform `pixel6`"), "{error}");
}
