# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Records a running machine: the trace, and the facts that a trace lacks.

One module a concern: :mod:`events` and :mod:`probes` are what to record, :mod:`tracefs` and
:mod:`perf` are how, :mod:`machine`, :mod:`counters`, :mod:`governor` and :mod:`poke` deal with the
machine, :mod:`session` has the order of things, :mod:`recipes` the same as scripts for others.
Only the standard library is needed.
"""

from torpor.machine.record.errors import RecordError
from torpor.machine.record.machine import Machine
from torpor.machine.record.session import Plan, Recording, record

__all__ = ["Machine", "Plan", "RecordError", "Recording", "record"]
