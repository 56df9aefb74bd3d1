// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The field numbers of Perfetto's protocol.
//!
//! Source: protos/perfetto/trace of the Perfetto project, as shipped in its Python package 0.59.1.
//! A number never changes its meaning.

use super::wire::Fields;
use crate::tracepoint::{Context, FIELDS_MAX, Spec, Values, spec};

/// First number of events that the trace itself describes (`GenericEventDescriptor`).
pub(crate) const EVENT_NUMBERS: usize = 1024;
/// `FtraceEvent.generic`, an event that holds its own names.
pub(crate) const GENERIC: u32 = 327;

/// Decodes an `FtraceEvent` into an event of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder {
    pub spec: &'static Spec,
    /// Index in `spec.fields` by proto field number, or `NO_SLOT`.
    slots: [u8; SLOTS],
}

const SLOTS: usize = 32;
const NO_SLOT: u8 = u8::MAX;

impl Decoder {
    #[inline]
    pub(crate) fn slot(&self, number: u32) -> Option<usize> {
        match self.slots.get(number as usize) {
            Some(&slot) if slot != NO_SLOT => Some(usize::from(slot)),
            _ => None,
        }
    }

    /// Creates a decoder. `numbers` are in the order of `spec.fields`, 0 for a field that Perfetto
    /// lacks.
    fn new(spec: &'static Spec, numbers: &[u8]) -> Decoder {
        assert!(numbers.len() == spec.fields.len() && numbers.len() <= FIELDS_MAX);
        let mut slots = [NO_SLOT; SLOTS];
        for (slot, &number) in numbers.iter().enumerate().filter(|&(_, &number)| number != 0) {
            slots[usize::from(number)] = slot as u8;
        }
        Decoder { spec, slots }
    }
}

/// Reads the fields of an event's message into the spec's slots and records the event. Returns
/// `None` if the message does not parse.
#[inline]
pub(crate) fn record(
    spec: &'static Spec,
    slot: impl Fn(u32) -> Option<usize>,
    payload: &[u8],
    context: &mut Context<'_>,
) -> Option<()> {
    let mut values = Values::default();
    let mut fields = Fields::new(payload);
    while let Some((number, value)) = fields.next_field() {
        if let Some(slot) = slot(number) {
            values[slot] = Some(value.into());
        }
    }
    if fields.fault().is_some() {
        return None;
    }
    spec.record(context, &values);
    Some(())
}

/// Decoded events: number in `FtraceEvent`, tracepoint, field numbers in the order of its `Spec`.
const DECODED: &[(usize, &str, &[u8])] = &[
    (3, "print", &[2]),
    (4, "sched_switch", &[2, 4, 6, 5]),
    (11, "cpu_frequency", &[1, 2]),
    (13, "cpu_idle", &[1, 2]),
    (17, "sched_wakeup", &[2, 5, 4]),
    (18, "sched_blocked_reason", &[1, 3]),
    (20, "sched_waking", &[2, 5]),
    (21, "ipi_entry", &[1]),
    (22, "ipi_exit", &[1]),
    (23, "ipi_raise", &[1, 2]),
    (24, "softirq_entry", &[1]),
    (25, "softirq_exit", &[1]),
    (26, "softirq_raise", &[1]),
    (36, "irq_handler_entry", &[1, 2]),
    (37, "irq_handler_exit", &[1]),
    (114, "sched_wakeup_new", &[2, 5]),
    (551, "hrtimer_start", &[1, 2, 3, 4]),
    (552, "hrtimer_cancel", &[1]),
    (553, "hrtimer_expire_entry", &[1, 3, 2]),
    (554, "hrtimer_expire_exit", &[1]),
    (555, "timer_start", &[1, 2, 3, 7, 6]),
    (556, "timer_cancel", &[1]),
    (557, "timer_expire_entry", &[1, 3, 2]),
    (559, "local_timer_entry", &[]),
    (560, "local_timer_exit", &[]),
];

/// Returns a tracepoint's number, and its fields' numbers in the order of its spec.
pub(crate) fn number_of(name: &str) -> Option<(u32, &'static [u8])> {
    let row = DECODED.iter().find(|(_, known, _)| *known == name)?;
    Some((row.0 as u32, row.2))
}

/// Returns the decoders, indexed by the event's number.
pub(crate) fn decoders() -> Vec<Option<Decoder>> {
    let mut decoders = vec![None; EVENT_NUMBERS];
    for &(number, name, numbers) in DECODED {
        let spec = spec(name).expect("the table names only tracepoints that have a spec");
        decoders[number] = Some(Decoder::new(spec, numbers));
    }
    decoders
}

/// Names of events that are only counted, as far as they are common in recordings of scheduling and
/// power. Others are counted as `perfetto_event_<number>`.
const COUNTED: &[(u32, &str)] = &[
    (12, "cpu_frequency_limits"),
    (14, "clock_enable"),
    (15, "clock_disable"),
    (16, "clock_set_rate"),
    (19, "sched_cpu_hotplug"),
    (50, "binder_transaction"),
    (51, "binder_transaction_received"),
    (52, "binder_set_priority"),
    (53, "binder_lock"),
    (54, "binder_locked"),
    (55, "binder_unlock"),
    (56, "workqueue_activate_work"),
    (57, "workqueue_execute_end"),
    (58, "workqueue_execute_start"),
    (59, "workqueue_queue_work"),
    (60, "regulator_disable"),
    (62, "regulator_enable"),
    (65, "regulator_set_voltage"),
    (67, "cgroup_attach_task"),
    (80, "tracing_mark_write"),
    (113, "suspend_resume"),
    (235, "task_newtask"),
    (236, "task_rename"),
    (237, "sched_process_exec"),
    (238, "sched_process_exit"),
    (239, "sched_process_fork"),
    (240, "sched_process_free"),
    (241, "sched_process_hang"),
    (242, "sched_process_wait"),
    (313, "rss_stat"),
    (320, "clk_enable"),
    (321, "clk_disable"),
    (322, "clk_set_rate"),
    (323, "binder_transaction_alloc_buf"),
    (324, "signal_deliver"),
    (325, "signal_generate"),
    (326, "oom_score_adj_update"),
    (328, "mm_event_record"),
    (329, "sys_enter"),
    (330, "sys_exit"),
    (331, "zero"),
    (332, "gpu_frequency"),
    (340, "gpu_mem_total"),
    (341, "thermal_temperature"),
    (342, "cdev_update"),
    (343, "cpuhp_exit"),
    (344, "cpuhp_multi_enter"),
    (345, "cpuhp_enter"),
    (346, "cpuhp_latency"),
    (348, "dpu_tracing_mark_write"),
    (349, "g2d_tracing_mark_write"),
    (350, "mali_tracing_mark_write"),
    (352, "cpuhp_pause"),
    (353, "sched_pi_setprio"),
    (359, "rss_stat_throttled"),
    (404, "wakeup_source_activate"),
    (405, "wakeup_source_deactivate"),
    (408, "console"),
    (414, "dma_fence_init"),
    (415, "dma_fence_emit"),
    (416, "dma_fence_signaled"),
    (417, "dma_fence_wait_start"),
    (418, "dma_fence_wait_end"),
    (421, "sched_cpu_util_cfs"),
    (437, "funcgraph_entry"),
    (438, "funcgraph_exit"),
    (481, "suspend_resume_minimal"),
    (487, "sched_switch_with_ctrs"),
    (489, "rpm_status"),
    (491, "sched_migrate_task"),
    (504, "device_pm_callback_start"),
    (505, "device_pm_callback_end"),
    (508, "dcvsh_freq"),
    (540, "sched_wakeup_task_attr"),
    (558, "timer_expire_exit"),
    (614, "psci_domain_idle_exit"),
    (615, "psci_domain_idle_enter"),
    (616, "long_irq"),
    (617, "long_softirq"),
];

pub(crate) fn event_name(number: u32) -> String {
    let decoded = DECODED.iter().find(|(known, ..)| *known == number as usize);
    let counted = COUNTED.iter().find(|(known, _)| *known == number);
    match (decoded, counted) {
        (Some((_, name, _)), _) | (None, Some((_, name))) => (*name).to_owned(),
        (None, None) => format!("perfetto_event_{number}"),
    }
}

/// Fields of `TracePacket`.
pub(crate) mod packet {
    use super::super::wire::Value;

    pub(crate) const FTRACE_EVENTS: u32 = 1;
    pub(crate) const CLOCK_SNAPSHOT: u32 = 6;
    pub(crate) const TIMESTAMP: u32 = 8;
    pub(crate) const SEQUENCE_ID: u32 = 10;
    pub(crate) const INTERNED_DATA: u32 = 12;
    pub(crate) const FTRACE_STATS: u32 = 34;
    pub(crate) const TRACE_STATS: u32 = 35;
    pub(crate) const PREVIOUS_DROPPED: u32 = 42;
    pub(crate) const SYSTEM_INFO: u32 = 45;
    pub(crate) const COMPRESSED: u32 = 50;
    pub(crate) const CPU_INFO: u32 = 67;
    pub(crate) const ZSTD_COMPRESSED: u32 = 133;
    /// The largest number, that of the test event.
    const MAX: u32 = 900;

    /// Returns whether a packet can have this field. The low numbers are messages, except the
    /// writer's user (3), the time (8) and the sequence (10, 13).
    pub(crate) fn can_hold(number: u32, value: Value<'_>) -> bool {
        match number {
            3 | 8 | 10 | 13 => value.bytes().is_none(),
            1..=15 => value.bytes().is_some(),
            _ => number <= MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_one_name() {
        let mut numbers: Vec<u32> = DECODED.iter().map(|row| row.0 as u32).collect();
        numbers.extend(COUNTED.iter().map(|row| row.0));
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
        assert_eq!(event_name(13), "cpu_idle");
        assert_eq!(event_name(999), "perfetto_event_999");
    }

    #[test]
    fn a_decoder_maps_numbers_to_the_specs_order() {
        let switch = decoders()[4].expect("sched_switch is decoded");
        // next_pid is field 6 of SchedSwitchFtraceEvent and third in the spec.
        assert_eq!(switch.slot(6), Some(2));
        assert_eq!(switch.slot(1), None);
        assert_eq!(switch.slot(u32::MAX), None);
    }
}
