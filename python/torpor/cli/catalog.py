# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor governor list`, `torpor platform`, `torpor workload`, `torpor schema`: what ships."""

import json
from pathlib import Path
from typing import Annotated

import click

from torpor.cli import options
from torpor.cli.console import print_note, stdout_width, table_text, write_stdout
from torpor.cli.deliver import write_toml
from torpor.cli.options import argument, option
from torpor.machine import catalog as library
from torpor.results.table import Table, word

#: The widest listing, even in a pipe.
_LISTING_WIDTH = 120


def governors(
    is_ioboost: Annotated[bool, option("--ioboost", "List the IO boosts instead.")] = False,
    is_cpufreq: Annotated[bool, option("--cpufreq", "List the cpufreq governors instead.")] = False,
    form: options.TextOrJson = "text",
) -> None:
    """List the built-in governors and their parameters."""
    if is_ioboost and is_cpufreq:
        raise click.BadParameter("one list at a time: --ioboost or --cpufreq")
    if is_ioboost:
        found, heading, others = library.ioboosts(), "IO boost", "PATH.c"
    elif is_cpufreq:
        found, heading, others = library.cpufreq_governors(), "cpufreq governor", "PATH.c"
    else:
        found, heading = library.governors(), "governor"
        others = "PATH.c, NAME@TREE or NAME@TREE:REV, such as teo@linux-6.12.tar.xz"
    rows = [[g["name"], g["summary"], ", ".join(_param(p) for p in g["params"])] for g in found]
    notes = [f"Others: {others}."]
    if not is_ioboost and not is_cpufreq:
        notes.append("IO boosts: `torpor governor list --ioboost`.")
        notes.append("cpufreq governors: `torpor governor list --cpufreq`.")
    _print(found, [heading, "", "parameters"], rows, notes, is_json=form == "json")


def platforms(form: options.TextOrJson = "text") -> None:
    """List the machines that ship with Torpor."""
    found = library.platforms()
    rows = [
        [
            p["name"],
            p["title"],
            str(p["cpus"]),
            " ".join(p["states"]),
            "known" if p["has_power"] else "not known",
        ]
        for p in found
    ]
    headings = ["platform", "", "CPUs", "idle states", "power"]
    note = "To import your own machine: `torpor platform import -o mine.toml`."
    _print(found, headings, rows, [note], is_json=form == "json")


def workloads(form: options.TextOrJson = "text") -> None:
    """List the workloads that ship with Torpor."""
    found = library.workloads()
    rows = [[w["name"], w["title"], ", ".join(w["tasks"])] for w in found]
    note = "To write your own workload: `torpor workload show NAME`."
    _print(found, ["workload", "", "tasks"], rows, [note], is_json=form == "json")


def show_workload(
    name: Annotated[str, argument("WORKLOAD", "A workload that ships with Torpor.")],
) -> None:
    """Print a workload's TOML, to read or to start from."""
    write_toml("workload", library.workload_toml(name), None)


def show_platform(name: Annotated[str, argument("PLATFORM", "A built-in machine.")]) -> None:
    """Print a built-in machine's TOML, to read or to start from."""
    write_toml("platform", library.platform_toml(name), None)


def import_platform(
    root: Annotated[
        str, argument("ROOT", "The folder, any dump of it, or a .dts, .dtsi or .dtb.")
    ] = "/sys/devices/system/cpu",
    output: Annotated[Path | None, option("--output -o FILE", "Default: stdout.")] = None,
    name: options.MachineName = None,
    title: options.MachineTitle = None,
    hz: options.MachineHz = None,
    energy_model: Annotated[
        Path | None, option("PATH", "Also a dump of /sys/kernel/debug/energy_model.")
    ] = None,
) -> None:
    """Describe this machine, a dump of its /sys/devices/system/cpu, or a device tree, as TOML."""
    if name is None:
        name = output.stem if output is not None else "imported"
    toml, notes = library.import_platform(
        root, name=name, title=title, hz=hz, energy_model=energy_model
    )
    write_toml("platform", toml, output)
    for note in notes:
        print_note(f"note: {note}")


def schema(
    kind: Annotated[str, argument("KIND", "platform, workload or study.")],
    is_path: Annotated[bool, option("--path", "Write it to the cache, print its path.")] = False,
) -> None:
    """Print the JSON schema of a TOML file, with which editors complete and check it."""
    from torpor.ask import toml_schemas

    if is_path:
        write_stdout(str(toml_schemas.toml_schema_path(kind)))
    else:
        write_stdout(json.dumps(toml_schemas.toml_schema(kind), indent=1))


def _param(param: library.Param) -> str:
    default = param.get("default")
    return param["name"] if default is None else f"{param['name']}={default}"


def _print(
    found: object, headings: list[str], rows: list[list[str]], notes: list[str], *, is_json: bool
) -> None:
    """Print what ships, and what else there is."""
    if is_json:
        write_stdout(json.dumps(found, indent=1))
        return
    cells = [[word(text) for text in row] for row in rows]
    table = Table("", "", headings, cells, keys=len(headings))
    write_stdout(table_text(table, width=min(stdout_width(), _LISTING_WIDTH)))
    for note in notes:
        print_note(note)
