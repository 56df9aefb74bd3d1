# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The commands and their groups."""

import importlib.util
import inspect
import json
from collections.abc import Callable
from typing import Any

import typer

from torpor import __version__
from torpor.cli import catalog, completion, kernel, recording, store
from torpor.cli.ab import ab
from torpor.cli.calibrate import calibrate
from torpor.cli.check import check
from torpor.cli.console import write_stdout
from torpor.cli.contest import contest
from torpor.cli.counters import diff, snapshot
from torpor.cli.doctor import doctor
from torpor.cli.extraction import extract
from torpor.cli.fidelity import fidelity
from torpor.cli.gate import gate
from torpor.cli.history import bisect, ladder
from torpor.cli.idle_predict import idle_predict
from torpor.cli.once import DefaultGroup, OnceCommand
from torpor.cli.record import record
from torpor.cli.replay import replay
from torpor.cli.reproduce import reproduce
from torpor.cli.saved import compare, explain
from torpor.cli.serve import serve
from torpor.cli.simulate import simulate
from torpor.cli.spans import spans
from torpor.cli.stat import stat
from torpor.cli.study import adaptation, io_boost
from torpor.cli.sweep import page, show, sweep
from torpor.cli.tune import tune

# Plain help and plain usage errors: they are read in logs and pipes as often as on a terminal,
# and importing what colours them takes longer than a short replay.
_SETTINGS = {
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "no_args_is_help": True,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


class _App(typer.Typer):
    def command(self, name: str | None = None, **options: Any) -> Any:
        add = super().command

        def complete_and_add(function: Callable[..., None]) -> Any:
            completion.attach(function)
            # Left alone, typer cuts summaries at the end of a line.
            summary, _, _ = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
            short_help = " ".join(summary.split())
            return add(name, cls=OnceCommand, short_help=short_help, **options)(function)

        return complete_and_add


app = _App(**_SETTINGS)  # type: ignore[arg-type]
workload_app = _App(
    help="Show a workload, extract one from a recording, or run one.",
    **_SETTINGS,  # type: ignore[arg-type]
)
platform_app = _App(help="Show or import a machine.", **_SETTINGS)  # type: ignore[arg-type]
trace_app = _App(help="Inspect a recording.", **_SETTINGS)  # type: ignore[arg-type]

sweep_app = _App(
    cls=DefaultGroup,
    help="Run many points, or show them. `torpor sweep SPEC.toml` is `torpor sweep run SPEC.toml`.",
    **_SETTINGS,  # type: ignore[arg-type]
)
store_app = _App(help="Look after a sweep's store.", **_SETTINGS)  # type: ignore[arg-type]
study_app = _App(
    help="Studies over many settings.",
    **_SETTINGS,  # type: ignore[arg-type]
)
kernel_app = _App(
    help="Governors in the running kernel; kernel sources.",
    **_SETTINGS,  # type: ignore[arg-type]
)


#: A package that only an extra of pyproject.toml brings.
_EXTRAS = {"tune": "optuna", "cluster": "distributed", "plot": "altair"}


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from torpor import _engine

        commit = f"commit {_engine.COMMIT}" if _engine.COMMIT else "commit not known"
        formats = [known["name"] for known in json.loads(_engine.trace_formats())["formats"]]
        extras = [
            extra
            for extra, module in _EXTRAS.items()
            if importlib.util.find_spec(module) is not None
        ]
        write_stdout(
            f"torpor {__version__} ({commit}; {_engine.TARGET}, abi3 from CPython 3.10)\n"
            f"recordings: {', '.join(formats)}; tables: Arrow, Parquet; "
            f"extras: {', '.join(extras) or 'none'}"
        )
        raise typer.Exit


@app.callback()
def _torpor(
    version: bool = typer.Option(
        False,
        "--version",
        help="Print the version, the commit, the target and the features.",
        callback=_show_version,
        is_eager=True,
    ),
) -> None:
    """Run Linux CPU-idle governors against recordings and report what each one costs.

    Exit status: 0 success; 1 success, with a finding (a governor failed, a recording is damaged);
    2 failure; 130 (SIGINT), 143 (SIGTERM) or 129 (SIGHUP): ended by that signal.
    """


app.command()(replay)
app.command()(fidelity)
app.command()(simulate)
app.command()(reproduce)
app.command()(explain)
app.command()(compare)
app.command()(check)
app.command()(snapshot)
app.command()(diff)
# Options after the command to run belong to that command.
app.command(context_settings={"allow_interspersed_args": False})(stat)
app.command(context_settings={"allow_interspersed_args": False})(record)
app.command(context_settings={"allow_interspersed_args": False})(ab)
app.command()(gate)
app.command()(serve)
app.command()(catalog.governors)
app.command()(catalog.platforms)
app.command()(catalog.workloads)
app.command()(catalog.schema)
app.command()(doctor)
workload_app.command("show")(catalog.show_workload)
workload_app.command("extract")(extract)
workload_app.command("idle-predict")(idle_predict)
app.add_typer(workload_app, name="workload")
platform_app.command("show")(catalog.show)
platform_app.command("import")(catalog.import_)
platform_app.command("calibrate")(calibrate)
app.add_typer(platform_app, name="platform")
sweep_app.command("run")(sweep)
sweep_app.command("show")(show)
sweep_app.command("page")(page)
app.add_typer(sweep_app, name="sweep")
app.command()(ladder)
app.command()(bisect)
app.command()(tune)
app.command()(contest)
app.command()(spans)
store_app.command()(store.ls)
store_app.command()(store.gc)
store_app.command()(store.merge)
store_app.command()(store.export)
app.add_typer(store_app, name="store")
study_app.command("io-boost")(io_boost)
study_app.command()(adaptation)
app.add_typer(study_app, name="study")
trace_app.command("info")(recording.info)
trace_app.command("stats")(recording.stats)
trace_app.command("convert")(recording.convert)
app.add_typer(trace_app, name="trace")
for each in (
    *(kernel.build, kernel.load, kernel.use, kernel.unload),
    *(kernel.restore, kernel.status, kernel.fetch),
):
    kernel_app.command()(each)
app.add_typer(kernel_app, name="kernel")
