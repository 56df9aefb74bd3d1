// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The decisions of a replay as Arrow columns: too many for JSON, from which other tables are made.
//!
//! All columns are nullable: null means unknown. Texts that repeat in every row are
//! dictionaries.

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int32Builder, Int64Builder, StringDictionaryBuilder,
    UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Field, Schema};
use std::sync::Arc;
use torpor_engine::input::WakeStamp;
use torpor_engine::model::{SleepEnd, Verdict};
use torpor_engine::outcome::{Outcome, RunOutcome};
use torpor_engine::stats::Ended;
use torpor_machine::units::{Duration, Energy};
use torpor_result::RELATIVE_UNIT;
use torpor_trace::Names;

type Table = Result<RecordBatch, ArrowError>;
type Word = StringDictionaryBuilder<Int32Type>;

/// Makes columns of rows: the builder of each, and its value in a row, if known.
macro_rules! columns {
    ($rows:expr, $row:pat => $($name:ident: $builder:ty = $value:expr;)*) => {{
        let rows = $rows;
        $(let mut $name = <$builder>::new();)*
        for $row in rows {
            $($name.append_option($value);)*
        }
        let columns: Vec<(&str, arrow_array::ArrayRef)> =
            vec![$((stringify!($name), std::sync::Arc::new($name.finish()))),*];
        columns
    }};
}
pub(crate) use columns;

/// One row a decision, in order of trace, governor, CPU and time. If the machine's power is not
/// known, energies are null, and relative ones are the time in the shallowest state that takes the
/// same energy.
pub(crate) fn decisions(outcome: &Outcome) -> Table {
    let has_power = outcome.platform.has_power;
    let uj = |energy: Energy| has_power.then(|| energy.as_uj_f64());
    // fJ of uW are ns.
    let relative =
        |energy: Energy| (!has_power).then(|| energy.0 as f64 / RELATIVE_UNIT.0 as f64 / 1e3);
    let kept = outcome.traces.iter().flat_map(|t| &t.decisions);
    let rows = runs(outcome)
        .zip(kept)
        .flat_map(|((path, run), decisions)| decisions.iter().map(move |d| (path, run, d)));
    batch(columns! { rows, (path, run, d) =>
        trace: Word = Some(path);
        governor: Word = Some(&run.governor);
        cpu: UInt32Builder = Some(run.cpus[d.slot].cpu);
        time_ns: Int64Builder = Some(d.from.0);
        state: Int32Builder = Some(i32::from(d.state));
        stop_tick: BooleanBuilder = Some(d.stop_tick);
        tick_stopped_before: BooleanBuilder = Some(d.tick_was_stopped);
        sleep_length_ns: Int64Builder =
            Some(d.sleep_length).filter(|&length| length != Duration::MAX).map(Duration::ns);
        source: Word = Some(d.source.key());
        residency_ns: Int64Builder = Some(d.resume.since(d.from).ns());
        latency_ns: Int64Builder = d.latency.map(Duration::ns);
        outcome: Word = Some(verdict(d.verdict));
        wake: Word = Some(match d.end {
            SleepEnd::Event => "event",
            SleepEnd::Tick => "tick",
            SleepEnd::GovernorTimer => "governor_timer",
            SleepEnd::PollTimeout => "poll_timeout",
        });
        span: UInt32Builder = Some(d.span);
        util: UInt64Builder = Some(d.util);
        nr_iowait: UInt16Builder = Some(d.nr_iowait);
        to_tick_ns: Int64Builder = d.to_tick.map(Duration::ns);
        event_ns: Int64Builder = Some(d.event.0);
        cause: Word = Some(self::cause(d.is_resched, d.stamp));
        energy_uj: Float64Builder = uj(d.energy);
        regret_uj: Float64Builder = uj(d.regret);
        relative_energy_us: Float64Builder = relative(d.energy);
        relative_regret_us: Float64Builder = relative(d.regret);
        got: UInt16Builder = Some(d.got.into());
    })
}

/// One row a recorded sleep, in order of time.
pub(crate) fn sleeps(mut sleeps: Vec<Ended>, names: &Names) -> Table {
    sleeps.sort_by_key(|sleep| (sleep.entry, sleep.cpu));
    let rows = sleeps.iter().map(|sleep| (sleep, sleep.cause(names)));
    batch(columns! { rows, (sleep, (ended_by, named)) =>
        cpu: UInt32Builder = Some(sleep.cpu.0);
        time_ns: Int64Builder = Some(sleep.entry.0);
        state: Int32Builder = Some(sleep.state as i32);
        residency_ns: Int64Builder = Some(sleep.exit.since(sleep.entry).ns());
        kind: Word = Some(ended_by);
        name: Word = Some(named).filter(|named| !named.is_empty());
        latency_ns: Int64Builder = sleep.latency.map(|latency| latency.ns());
        task: Word = sleep.ran.flatten().map(|comm| names.text(comm));
    })
}

pub(crate) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fit => "fit",
        Verdict::Above => "above",
        Verdict::Below => "below",
    }
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

/// Every run with the path of its trace.
fn runs(outcome: &Outcome) -> impl Iterator<Item = (&str, &RunOutcome)> {
    outcome.traces.iter().flat_map(|t| t.runs.iter().map(|run| (t.trace.path.as_str(), run)))
}

pub(crate) fn batch<'a>(columns: impl IntoIterator<Item = (&'a str, ArrayRef)>) -> Table {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns
        .into_iter()
        .map(|(name, array)| {
            let mut field = Field::new(name, array.data_type().clone(), true);
            let units = [("_ns", "ns"), ("_uj", "uJ"), ("_us", "us")];
            if let Some((_, unit)) = units.iter().find(|(ending, _)| name.ends_with(ending)) {
                field = field.with_metadata([("unit".to_owned(), (*unit).to_owned())].into());
            }
            (field, array)
        })
        .unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}
