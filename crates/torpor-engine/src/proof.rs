// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What an oracle proves of the other columns of its replay.

use crate::error::EngineError;
use crate::oracle::Aim;
use crate::outcome::Proof;
use torpor_machine::units::{Duration, Energy};
use torpor_result::Sums;

/// Cost of a column.
pub(crate) struct Column {
    label: String,
    energy: Energy,
    delay: Duration,
    /// An oracle could have made its decisions.
    is_bounded: bool,
    oracle: Option<Claim>,
}

/// An oracle's objective, its proof, and what its decisions cost at most above the cheapest.
#[derive(Clone, Copy)]
pub(crate) struct Claim {
    pub aim: Aim,
    pub proof: Proof,
    pub slack: Energy,
}

/// The least energy that any decisions consume, as far as is known.
pub(crate) struct Least<'a> {
    pub proof: Proof,
    /// The bound, if there is one.
    pub bound: Option<Energy>,
    pub found: Energy,
    /// The column that made the cheapest decisions, if it is not the oracle.
    pub found_by: Option<&'a str>,
}

impl Least<'_> {
    /// Returns the share by which the energy found is above the bound, in percent.
    pub(crate) fn gap_pct(&self) -> Option<f64> {
        let bound = self.bound.filter(|bound| *bound > Energy::ZERO)?;
        Some((self.found - bound).as_uj_f64() / bound.as_uj_f64() * 100.0)
    }
}

impl Column {
    pub(crate) fn new(label: String, sums: &Sums, oracle: Option<Claim>) -> Column {
        let idle = &sums.idle;
        // The oracle keeps to the limits, arms no timers, and polls up to the kernel's limit or to
        // an interrupt.
        let beyond = [
            idle.forbidden,
            idle.governor_timer_starts,
            idle.own_poll_limits,
            idle.poll_interrupts,
        ];
        Column {
            label,
            energy: sums.total(),
            delay: idle.delays.total(),
            is_bounded: beyond == [0; 4],
            oracle,
        }
    }

    fn shown(energy: Energy, has_power: bool) -> String {
        let unit = if has_power { "uJ" } else { "units of energy" };
        format!("{:.4} {unit}", energy.as_uj_f64())
    }
}

/// Checks that no column that an oracle bounds is below its proof. With a price of delay, it bounds
/// the energy of columns with as little delay.
pub(crate) fn check(columns: &[Column], path: &str, has_power: bool) -> Result<(), EngineError> {
    for oracle in columns {
        let Some(Claim { aim, proof, slack }) = oracle.oracle else { continue };
        let least = oracle.energy - slack;
        let is_below = |column: &&Column| {
            let is_comparable = aim == Aim::Energy || column.delay <= oracle.delay;
            column.is_bounded && is_comparable && column.energy < least
        };
        if proof == Proof::Open {
            continue;
        }
        if let Some(column) = columns.iter().find(is_below) {
            return Err(EngineError::BelowProof {
                path: path.into(),
                governor: column.label.as_str().into(),
                energy: Column::shown(column.energy, has_power).into(),
                oracle: oracle.label.as_str().into(),
                least: Column::shown(least, has_power).into(),
            });
        }
    }
    Ok(())
}

/// Returns the least energy by the oracle of energy, if it is among the columns. If cheaper decisions
/// than the oracle's may exist, another column may have found some.
pub(crate) fn least(columns: &[Column]) -> Option<Least<'_>> {
    let of_energy = |column: &&Column| column.oracle.is_some_and(|own| own.aim == Aim::Energy);
    let oracle = columns.iter().find(of_energy)?;
    let Claim { proof, slack, .. } = oracle.oracle?;
    let bound = (proof != Proof::Open).then_some(oracle.energy - slack);
    let is_cheaper = |column: &&Column| column.is_bounded && column.energy < oracle.energy;
    let cheapest = columns.iter().filter(is_cheaper).min_by_key(|column| column.energy);
    let cheapest = cheapest.filter(|_| proof != Proof::Exact);
    let found = cheapest.map_or(oracle.energy, |column| column.energy);
    let found_by = cheapest.map(|column| column.label.as_str());
    let proof = if bound == Some(found) { Proof::Exact } else { proof };
    Some(Least { proof, bound, found, found_by })
}

#[cfg(test)]
mod tests {
    use super::*;
    use torpor_result::CpuTotals;

    fn column(label: &str, uj: f64, oracle: Option<(Aim, Proof)>) -> Column {
        let claim = |(aim, proof)| Claim { aim, proof, slack: Energy::from_uj(1.0) };
        Column {
            label: label.to_owned(),
            energy: Energy::from_uj(uj),
            delay: Duration(3),
            is_bounded: true,
            oracle: oracle.map(claim),
        }
    }

    #[test]
    fn column_below_a_proof_is_an_error() {
        let judged = |uj, aim, proof, change: fn(&mut Column)| {
            let mut teo = column("teo", uj, None);
            change(&mut teo);
            check(&[column("oracle", 6.0, Some((aim, proof))), teo], "a.dat", true)
        };
        for (aim, proof) in [
            (Aim::Energy, Proof::Exact),
            (Aim::Energy, Proof::Bound),
            (Aim::Price(Default::default()), Proof::Exact),
        ] {
            assert!(judged(5.0, aim, proof, |_| ()).is_ok());
            let error = judged(4.5, aim, proof, |_| ()).unwrap_err().to_string();
            for part in ["a.dat", "`teo`", "4.5000 uJ", "`oracle`", "5.0000 uJ", "report"] {
                assert!(error.contains(part), "{part}: {error}");
            }
        }
        assert!(judged(4.5, Aim::Energy, Proof::Open, |_| ()).is_ok());
        assert!(judged(4.5, Aim::Energy, Proof::Exact, |teo| teo.is_bounded = false).is_ok());
        // It has more delay than decisions that trade delay for energy.
        let late = |teo: &mut Column| teo.delay = Duration(4);
        assert!(judged(4.5, Aim::Price(Default::default()), Proof::Exact, late).is_ok());
        assert!(judged(4.5, Aim::Energy, Proof::Exact, late).is_err());
    }

    #[test]
    fn unless_exact_the_cheapest_column_counts() {
        let least_of = |proof, uj| {
            let columns = [
                column("menu", uj, None),
                column("oracle", 6.0, Some((Aim::Energy, proof))),
                Column { is_bounded: false, ..column("forbidden", 1.0, None) },
            ];
            least(&columns).map(|least| {
                let by = least.found_by.map(str::to_owned);
                (least.bound.map(Energy::as_uj_f64), least.found.as_uj_f64(), by)
            })
        };
        assert_eq!(least_of(Proof::Bound, 7.0), Some((Some(5.0), 6.0, None)));
        assert_eq!(least_of(Proof::Bound, 5.5), Some((Some(5.0), 5.5, Some("menu".to_owned()))));
        assert_eq!(least_of(Proof::Open, 7.0), Some((None, 6.0, None)));
        assert_eq!(least_of(Proof::Open, 5.5), Some((None, 5.5, Some("menu".to_owned()))));
        assert!(least(&[column("menu", 7.0, None)]).is_none());
    }

    #[test]
    fn decisions_beyond_an_oracle_are_not_bounded() {
        let is_bounded = |idle: CpuTotals| {
            Column::new("x".to_owned(), &Sums { idle, ..Sums::default() }, None).is_bounded
        };
        let none = CpuTotals::default;
        assert!(is_bounded(none()));
        for beyond in [
            CpuTotals { forbidden: 1, ..none() },
            CpuTotals { governor_timer_starts: 1, ..none() },
            CpuTotals { own_poll_limits: 1, ..none() },
            CpuTotals { poll_interrupts: 1, ..none() },
        ] {
            assert!(!is_bounded(beyond));
        }
    }
}
