# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The commands under their headings. This table is the one place where their modules are loaded."""

import click

from torpor import __version__, _engine
from torpor.cli.console import write_stdout
from torpor.cli.parsing import Command, Group, LazyGroup
from torpor.results import entry_points

_GOVERNOR = {
    "list": Command("catalog.governors", "List the built-in governors and their parameters."),
    "check": Command("check", "Drive governors with random and adversarial legal calls."),
    "tune": Command("tune", "Search for parameters that no others beat in all objectives."),
}
_PLATFORM = {
    "list": Command("catalog.platforms", "List the machines that ship with Torpor."),
    "show": Command("catalog.show_platform", "Print a machine's TOML."),
    "import": Command("catalog.import_platform", "Describe a machine by its sysfs or device tree."),
    "calibrate": Command("calibrate", "Measure the power of this machine's idle states."),
    "measure": Command("measure", "Measure wake-up latencies and refills from recordings."),
}
_WORKLOAD = {
    "list": Command("catalog.workloads", "List the workloads that ship with Torpor."),
    "show": Command("catalog.show_workload", "Print a workload's TOML."),
    "extract": Command("extraction.extract", "Extract a workload from a recording."),
    "idle-predict": Command("idle_predict", "Print the workload idle-predict, or run it here."),
}
_TRACE = {
    "info": Command("recording.info", "Report what a recording contains, lacks and lost."),
    "stats": Command("recording.stats", "Show what the recorded machine did."),
    "convert": Command("recording.convert", "Write a recording in another format."),
}
_STORE = {
    "list": Command("store.list_points", "Show what a store holds."),
    "gc": Command("store.gc", "Make one file of all, with what killed sweeps left."),
    "merge": Command("store.merge", "Add the points of other stores to one."),
    "export": Command("store.export", "Write all points to one file."),
}
_KERNEL = {
    "status": Command("kernel.status", "Report the kernel's governors and Torpor's modules."),
    "build": Command("kernel.build", "Build governors as modules."),
    "load": Command("kernel.load", "Load governors into the running kernel."),
    "use": Command("kernel.use", "Make a governor the current one."),
    "unload": Command("kernel.unload", "Unload Torpor's governors."),
    "restore": Command("kernel.restore", "Undo the changes of a command that was killed."),
    "fetch": Command("kernel.fetch", "Fetch the source of a kernel to simulate."),
}
_SECTIONS: dict[str, dict[str, Command | Group]] = {
    "Run governors": {
        "try": Command("trial.attempt_series", "Try a patch series: what changes, and for whom."),
        "replay": Command("replay", "Replay recordings against governors, and compare them."),
        "simulate": Command("simulate", "Simulate a workload under each governor."),
        "sweep": Command("sweep", "Run every combination of governors, inputs and settings."),
    },
    "Inputs": {
        "governor": Group("List, check and tune governors.", _GOVERNOR),
        "platform": Group("List, show, import, calibrate and measure machines.", _PLATFORM),
        "workload": Group("List, show and extract workloads.", _WORKLOAD),
        "trace": Group("Inspect and convert recordings.", _TRACE),
        "schema": Command("catalog.schema", "Print the JSON schema of a TOML file."),
    },
    "Results": {
        "show": Command("saved.show", "Explain a saved result, and show its tables."),
        "compare": Command("saved.compare", "Compare saved results of any kind side by side."),
        "gate": Command("gate", "Fail if a candidate is worse than a base beyond limits."),
        "store": Group("Maintain the points of a sweep.", _STORE),
    },
    "This machine": {
        "record": Command("record", "Record idle states, wake-ups and timers.", True),
        "stat": Command("stat", "Show the counters of the idle states as they move.", True),
        "shadow": Command("shadow", "Run other governors in the shadow of this machine's."),
        "snapshot": Command("counters.snapshot", "Save the idle states and their counters."),
        "diff": Command("counters.diff", "Count what happened between snapshots."),
        "ab": Command("ab", "Compare governors by running a command under each.", True),
        "kernel": Group("Governors in the running kernel; kernel sources.", _KERNEL),
    },
    "Trust": {
        "fidelity": Command("fidelity", "Verify that a replay decides as the recorded kernel did."),
        "doctor": Command("doctor", "Report what works on this machine, and what to install."),
    },
}

#: Packages that the extras of pyproject.toml bring.
_EXTRAS = {"tune": "optuna", "cluster": "distributed", "fit": "scipy"}


_HELP = """Run Linux CPU-idle governors against recordings and report what each one costs.

Exit status: 0 success; 1 success, with a finding (a governor failed, a recording is damaged);
2 failure; 130 (SIGINT), 143 (SIGTERM) or 129 (SIGHUP): ended by that signal.
"""


def _show_version(ctx: click.Context, _param: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not ctx.resilient_parsing:
        from importlib.util import find_spec

        commit = f"commit {_engine.COMMIT}" if _engine.COMMIT else "commit not known"
        formats = [known["name"] for known in _engine.trace_formats()["formats"]]
        extras = [extra for extra, module in _EXTRAS.items() if find_spec(module) is not None]
        others = entry_points.listed("torpor.commands").values()
        extras += sorted({home.partition(".")[0] for home in others})
        write_stdout(
            f"torpor {__version__} ({commit}; {_engine.TARGET}, abi3 from CPython 3.10)\n"
            f"recordings: {', '.join(formats)}; tables: Arrow, Parquet; "
            f"extras: {', '.join(extras) or 'none'}"
        )
        ctx.exit()


_VERSION = click.Option(
    ["--version"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Print the version, the commit, the target and the features.",
)

app = LazyGroup(_SECTIONS, name="torpor", help=_HELP, params=[_VERSION])
