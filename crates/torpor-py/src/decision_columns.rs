// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Columns of single decisions for authors of governors: further inputs, cause of the wake-up, cost.

use arrow_array::ArrayRef;
use arrow_array::builder::{
    Float64Builder, Int64Builder, StringDictionaryBuilder, UInt16Builder, UInt32Builder,
    UInt64Builder,
};
use arrow_array::types::Int32Type;
use std::sync::Arc;
use torpor_engine::decision::Decision;
use torpor_engine::input::WakeStamp;
use torpor_machine::units::{Duration, Energy};
use torpor_result::RELATIVE_UNIT;

/// Returns the columns. If the machine's power is not known, energies are null, and relative ones are
/// the time in the shallowest state that takes the same energy.
pub(crate) fn columns<'a>(
    decisions: impl Iterator<Item = &'a Decision>,
    has_power: bool,
) -> Vec<(&'static str, ArrayRef)> {
    let mut span = UInt32Builder::new();
    let mut util = UInt64Builder::new();
    let mut nr_iowait = UInt16Builder::new();
    let mut to_tick_ns = Int64Builder::new();
    let mut event_ns = Int64Builder::new();
    let mut cause = StringDictionaryBuilder::<Int32Type>::new();
    let mut energy_uj = Float64Builder::new();
    let mut regret_uj = Float64Builder::new();
    let mut relative_energy_us = Float64Builder::new();
    let mut relative_regret_us = Float64Builder::new();
    let mut got = UInt16Builder::new();
    // fJ of uW are ns.
    let relative =
        |energy: Energy| (!has_power).then(|| energy.0 as f64 / RELATIVE_UNIT.0 as f64 / 1e3);
    for decision in decisions {
        span.append_value(decision.span);
        util.append_value(decision.util);
        nr_iowait.append_value(decision.nr_iowait);
        to_tick_ns.append_option(decision.to_tick.map(Duration::ns));
        event_ns.append_value(decision.event.0);
        cause.append_value(self::cause(decision.is_resched, decision.stamp));
        energy_uj.append_option(has_power.then(|| decision.energy.as_uj_f64()));
        regret_uj.append_option(has_power.then(|| decision.regret.as_uj_f64()));
        relative_energy_us.append_option(relative(decision.energy));
        relative_regret_us.append_option(relative(decision.regret));
        got.append_value(decision.got.into());
    }
    vec![
        ("span", Arc::new(span.finish())),
        ("util", Arc::new(util.finish())),
        ("nr_iowait", Arc::new(nr_iowait.finish())),
        ("to_tick_ns", Arc::new(to_tick_ns.finish())),
        ("event_ns", Arc::new(event_ns.finish())),
        ("cause", Arc::new(cause.finish())),
        ("energy_uj", Arc::new(energy_uj.finish())),
        ("regret_uj", Arc::new(regret_uj.finish())),
        ("relative_energy_us", Arc::new(relative_energy_us.finish())),
        ("relative_regret_us", Arc::new(relative_regret_us.finish())),
        ("got", Arc::new(got.finish())),
    ]
}

/// Returns the cause of the wake-up.
pub(crate) fn cause(is_resched: bool, stamp: WakeStamp) -> &'static str {
    match stamp {
        _ if is_resched => "task",
        WakeStamp::WakingEvent => "other_cpu",
        WakeStamp::TimerExpiry => "timer",
        WakeStamp::InterruptEvent => "interrupt",
        WakeStamp::ExitStamp => "unknown",
    }
}
