// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `operating-points-v2`: frequencies, and the power the kernel's energy model gives them.

use super::super::share::Opp;
use super::super::{Failure, note_once};
use super::tree::Node;

/// A CPU's table, as `drivers/opp/of.c` reads it.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Ascending, whatever the order of the nodes: the kernel sorts them, too.
    pub opps: Vec<Opp>,
    /// The longest `clock-latency-ns`, which is the policy's `transition_latency`.
    pub clock_latency_ns: Option<u32>,
}

/// Empty where the CPU has no table.
pub(super) fn read(cpu: Node<'_>, notes: &mut Vec<String>) -> Result<Table, Failure> {
    let Some(table) = cpu.target("operating-points-v2")? else {
        return Ok(Table::default());
    };
    let coefficient = cpu.u32("dynamic-power-coefficient")?;
    let mut rows: Vec<(Node<'_>, Opp)> = Vec::new();
    let mut clock_latency_ns = None;
    for node in table.children().filter(|node| node.is_available()) {
        if node.has("turbo-mode") {
            note_once(
                notes,
                format!("`{}` is a turbo mode, off by default: left out", node.path()),
            );
            continue;
        }
        let opp = Opp { freq_khz: frequency(node)?, power_uw: power(node, coefficient)? };
        rows.push((node, opp));
        clock_latency_ns = clock_latency_ns.max(node.u32("clock-latency-ns")?);
    }
    rows.sort_by_key(|(_, opp)| opp.freq_khz);
    if let Some(pair) = rows.windows(2).find(|pair| pair[0].1.freq_khz == pair[1].1.freq_khz) {
        let (first, khz) = (pair[0].0.path(), pair[0].1.freq_khz);
        let found = format!("is {khz} kHz, as is that of `{first}`");
        return Err(pair[1].0.failure("opp-hz", &found, "each frequency once in a table"));
    }
    let opps: Vec<Opp> = rows.into_iter().map(|(_, opp)| opp).collect();
    if coefficient.is_some() && opps.iter().any(|opp| opp.power_uw.is_none()) {
        note_once(
            notes,
            format!(
                "`{}` has OPPs without `opp-microvolt`: their power is not known",
                table.path()
            ),
        );
    }
    Ok(Table { opps, clock_latency_ns })
}

fn frequency(node: Node<'_>) -> Result<u32, Failure> {
    let hz = node.needed("opp-hz", node.u64("opp-hz")?)?;
    u32::try_from(hz / 1000)
        .ok()
        .filter(|khz| *khz > 0)
        .ok_or_else(|| node.failure("opp-hz", &format!("is {hz} Hz"), "1000 Hz to 4294967295 kHz"))
}

/// As `dev_pm_opp_of_register_em()`: the power itself, if the tree has it, or else
/// `dev_pm_opp_calc_power()`, which works in whole mV and MHz and rounds down to whole uW.
fn power(node: Node<'_>, coefficient: Option<u32>) -> Result<Option<u64>, Failure> {
    if let Some(power_uw) = node.u32("opp-microwatt")? {
        return Ok(Some(power_uw.into()));
    }
    let (Some(coefficient), Some(microvolt)) = (coefficient, node.u32("opp-microvolt")?) else {
        return Ok(None);
    };
    let (mv, mhz) = (u128::from(microvolt / 1000), u128::from(frequency(node)? / 1000));
    let of_coefficient = u128::from(coefficient).saturating_mul(mv).saturating_mul(mv);
    let power_uw = of_coefficient.saturating_mul(mhz) / 1_000_000;
    match u64::try_from(power_uw) {
        Ok(power_uw) => Ok(Some(power_uw).filter(|power_uw| *power_uw > 0)),
        Err(_) => Err(node.failure(
            "opp-microvolt",
            &format!("is {microvolt} uV, which makes {power_uw} uW"),
            "a voltage in uV",
        )),
    }
}
