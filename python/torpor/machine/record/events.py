# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The tracepoints to record, and what a replay loses without them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from torpor.machine.record.errors import RecordError


@dataclass(frozen=True)
class Kind:
    """Tracepoints for the same event; kernels and architectures differ in which they have."""

    names: tuple[str, ...]
    #: Consequence for a replay if the kernel has none of them; empty if there is none.
    without: str = ""


def _all(system: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{system}:{name}" for name in names)


def _pairs(system: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{system}:{name}_{edge}" for name in names for edge in ("entry", "exit"))


CPU_IDLE = "power:cpu_idle"

KINDS = (
    Kind((CPU_IDLE,), "nothing can be replayed"),
    Kind(
        ("power:cpu_idle_miss",),
        "the kernel's own above and below cannot be compared sleep by sleep",
    ),
    Kind(("power:cpu_frequency",), "the lowest operating point is assumed"),
    Kind(("sched:sched_switch",), "ticks cannot be distinguished from wake-ups"),
    Kind(("sched:sched_waking",), "a wake-up shows only as the exit from idle"),
    # If they are missing, the next switch names the woken CPU.
    Kind(("sched:sched_wakeup", "sched:sched_wakeup_new")),
    # Android's kernels have it; elsewhere sched_switch is enough.
    Kind(("sched:sched_blocked_reason",)),
    Kind(_pairs("irq", "irq_handler"), "device interrupts cannot be distinguished"),
    Kind(
        _all("irq", "softirq_raise", "softirq_entry", "softirq_exit"),
        "it is not known when RCU kept the tick",
    ),
    # Linux 6.4 has the senders on every architecture; arm and arm64 had these before.
    Kind(
        _all("ipi", "ipi_send_cpu", "ipi_send_cpumask", "ipi_raise"),
        "the sender of an inter-processor interrupt is not known",
    ),
    Kind(
        _pairs("ipi", "ipi")
        + _pairs(
            "irq_vectors",
            "local_timer",
            "reschedule",
            "call_function",
            "call_function_single",
            "irq_work",
            "x86_platform_ipi",
            "thermal_apic",
            "threshold_apic",
            "deferred_error_apic",
            "error_apic",
            "spurious_apic",
        ),
        "timer and inter-processor interrupts show only by their effects",
    ),
    Kind(
        _all("timer", "hrtimer_start", "hrtimer_cancel") + _pairs("timer", "hrtimer_expire"),
        "the time to the next timer is inferred from the tasks that woke",
    ),
    Kind(
        _all("timer", "timer_start", "timer_cancel", "timer_expire_entry"),
        "the timer wheel is not known",
    ),
    Kind(("timer:tick_stop",), "it is not known whether the tick was stopped"),
)

#: perf itself is woken by irq_work: the kernel refuses it the event that each record would raise.
NOT_FOR_PERF = frozenset({"irq_vectors:irq_work_exit"})


@dataclass(frozen=True)
class Choice:
    """Events of :data:`KINDS` that a kernel has."""

    names: tuple[str, ...]
    missing: tuple[str, ...]
    #: A sentence for each kind of which nothing can be recorded.
    notes: tuple[str, ...]


def everything() -> tuple[str, ...]:
    return tuple(name for kind in KINDS for name in kind.names)


def choose(tracefs: Path, refused: Iterable[str] = ()) -> Choice:
    """Return the events that a kernel has; an error if it cannot record idle states at all."""
    missing = {n for n in everything() if not event_dir(tracefs, n).is_dir()} | set(refused)
    if CPU_IDLE in missing:
        raise RecordError(
            f"this kernel has no tracepoint {CPU_IDLE}: `{event_dir(tracefs, CPU_IDLE)}` is "
            "missing",
            "it requires CONFIG_CPU_IDLE or an idle loop of the kernel's own, and CONFIG_TRACING",
        )
    return Choice(
        tuple(n for n in everything() if n not in missing),
        tuple(n for n in everything() if n in missing),
        tuple(
            f"{_names(kind)}: not in this kernel; {kind.without}"
            for kind in KINDS
            if kind.without and missing.issuperset(kind.names)
        ),
    )


def event_dir(tracefs: Path, name: str) -> Path:
    system, _, event = name.partition(":")
    return tracefs / "events" / system / event


def _names(kind: Kind) -> str:
    """Name a kind briefly: a system once, however many events of it there are."""
    if len(kind.names) <= 4:
        return ", ".join(kind.names)
    return ", ".join(sorted({f"{name.partition(':')[0]}:*" for name in kind.names}))
