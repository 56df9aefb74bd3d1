# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Names for packages that add to Torpor, and their modules: as in __init__.pyi.
# ruff: noqa: I001
# fmt: off
from torpor import exporting as exporting
from torpor._engine import Moments as Moments, Spans as Spans, WholeFile as WholeFile
from torpor._engine import half_width as half_width, platform_content as platform_content
from torpor._engine import spans as spans, unknown_name as unknown_name
from torpor._engine import workload_content as workload_content
from torpor.cli import options as options, progress as progress, sweeping as sweeping
from torpor.cli import values as values
from torpor.cli.console import fail as fail, print_note as print_note, table_text as table_text
from torpor.cli.console import write_post as write_post, write_stdout as write_stdout
from torpor.cli.deliver import check as check, print_post as print_post, write_page as write_page
from torpor.cli.deliver import write_report as write_report
from torpor.cli.exits import EXIT_FINDING as EXIT_FINDING
from torpor.cli.finished import finished_runs as finished_runs
from torpor.cli.sources import obtain as obtain
from torpor.cli.options import argument as argument, like as like, option as option
from torpor.cli.parsing import Command as Command, Group as Group
from torpor.machine.toml import toml_file as toml_file
from torpor.results import numbers as numbers, shapes as shapes, types as types
from torpor.machine.catalog import class_of as class_of, power_of as power_of
from torpor.results.catalogue import distances as distances
from torpor.results.comparison import format_number as format_number
from torpor.results.files import cause as cause, write_whole as write_whole
from torpor.results.kind import Input as Input, Kind as Kind
from torpor.results.kinds import posted as posted
from torpor.results.picture import COLOURS as COLOURS, POINTED as POINTED, Chart as Chart
from torpor.results.picture import Picture as Picture, Point as Point, Rows as Rows
from torpor.results.picture import Series as Series, stacked as stacked
from torpor.results.record import headed as headed, with_columns as with_columns
from torpor.results.sentences import cannot_show as cannot_show
from torpor.results.table import UNKNOWN as UNKNOWN, Brief as Brief, Cell as Cell, Post as Post
from torpor.results.table import Table as Table, Verdict as Verdict
from torpor.results.table import counted as counted, minus as minus, number as number, word as word
from torpor.results.text import csv_text as csv_text
from torpor.run.options import MachineOptions as MachineOptions, PartOptions as PartOptions
from torpor.run.options import documented as documented, to_json as to_json
from torpor.run.recordings import recorded_on as recorded_on
from torpor.run.sweeps import axes as axes, commits as commits
from torpor.run.sweeps import contrasts as contrasts, parts as parts
from torpor.run.sweeps.axes import expand_governors as expand_governors
from torpor.run.sweeps.identity import file_hash as file_hash
from torpor.run.sweeps.ranks import change_unit as change_unit, metric_info as metric_info
from torpor.run.sweeps.run import Progress as Progress, Swept as Swept
from torpor.view.chart import svg as svg
from torpor.view.report.page import render_posts as render_posts
