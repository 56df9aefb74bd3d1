# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The library: what `torpor.replay` gives back, and how its tables open elsewhere."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import torpor
from processes import ran


@pytest.fixture(scope="module")
def pl():
    return pytest.importorskip("polars", reason="not run, because polars is not installed")


@pytest.fixture(scope="module")
def pa():
    return pytest.importorskip("pyarrow", reason="not run, because pyarrow is not installed")


@pytest.fixture(scope="module")
def replay(recording):
    return torpor.replay(recording, platform="pixel6", governors=["menu", "teo", "oracle"])


def test_every_public_name_can_be_imported():
    assert [name for name in torpor.__all__ if not hasattr(torpor, name)] == []
    assert dir(torpor) == sorted(torpor.__all__)
    assert not hasattr(torpor, "nothing")


def test_decisions_have_the_columns_that_are_documented(replay):
    assert " ".join(replay.decisions.column_names) == (
        "trace governor cpu time_ns state stop_tick tick_stopped_before sleep_length_ns source "
        "residency_ns latency_ns outcome wake span util nr_iowait to_tick_ns event_ns cause "
        "energy_uj regret_uj relative_energy_us relative_regret_us got"
    )


def test_decisions_add_up_to_the_states_and_metrics(replay, pa):
    pc = pytest.importorskip("pyarrow.compute")
    decisions, states = pa.table(replay.decisions), pa.table(replay.states)
    for run in replay.runs:
        mine = decisions.filter(pc.equal(decisions["governor"].cast("string"), run["governor"]))
        counted = states.filter(pc.equal(states["governor"], run["governor"]))
        assert mine.num_rows == run["metrics"]["sleeps"] == pc.sum(counted["usage"]).as_py()
        above = pc.sum(pc.equal(mine["outcome"].cast("string"), "above")).as_py()
        assert above == pc.sum(counted["above"]).as_py()
        assert 100 * above / mine.num_rows == pytest.approx(run["metrics"]["above_pct"])
        assert pc.sum(mine["residency_ns"]).as_py() == pc.sum(counted["time_ns"]).as_py()
        assert run["latency"]["count"] == mine.num_rows - mine["latency_ns"].null_count


def test_the_histogram_counts_every_wakeup(replay, pl):
    counts = pl.DataFrame(replay.latency).group_by("governor").agg(pl.col("count").sum())
    summed = {r["governor"]: r["latency"]["count"] for r in replay.runs}
    assert dict(counts.iter_rows()) == summed


def test_decisions_are_lists_of_pythons_own_values(replay):
    columns = replay.decisions.to_dict()
    assert set(columns["governor"]) == {run["governor"] for run in replay.runs}
    assert {len(column) for column in columns.values()} == {replay.decisions.num_rows}
    assert {type(columns[name][0]) for name in ("cpu", "state", "time_ns")} == {int}
    assert type(columns["stop_tick"][0]) is bool and None in columns["latency_ns"]


def test_polars_opens_a_table(replay, pl):
    frame = pl.DataFrame(replay.summary)
    assert frame["governor"].to_list() == ["menu", "teo", "oracle"]
    assert frame["idle_power_mw"].dtype == pl.Float64
    assert frame["wakeups"].dtype == pl.Int64


def test_pandas_takes_a_table_as_rows(replay):
    pandas = pytest.importorskip("pandas", reason="not run, because pandas is not installed")
    frame = pandas.DataFrame(replay.summary)
    assert list(frame.columns) == replay.summary.column_names
    assert len(frame) == len(replay.summary)


@pytest.mark.parametrize("name", ["summary", "states", "latency", "decisions"])
def test_files_equal_the_table(replay, name, tmp_path, pa):
    pq = pytest.importorskip("pyarrow.parquet")
    ipc = pytest.importorskip("pyarrow.ipc")
    table = pa.table(getattr(replay, name))
    replay.write_table(name, tmp_path / "t.parquet")
    replay.write_table(name, tmp_path / "t.arrow")
    with ipc.open_file(tmp_path / "t.arrow") as file:
        assert file.read_all().equals(table)
    assert pq.read_table(tmp_path / "t.parquet").to_pylist() == table.to_pylist()


def test_a_stream_may_be_taken_twice_or_never(replay, pa):
    table = replay.summary
    table.__arrow_c_stream__()
    assert pa.table(table).equals(pa.table(table))


def test_unwritable_recording_path_is_refused(recording, tmp_path):
    with pytest.raises(torpor.EngineError, match="no/where"):
        torpor.convert_trace(recording, tmp_path / "no" / "where")
    with pytest.raises(torpor.TraceError, match="absent"):
        torpor.convert_trace("absent", tmp_path / "out")


def test_bytes_do_not_depend_on_the_thread_count(recording):
    texts = {
        torpor.replay(
            recording, platform="pixel6", governors=["menu", "teo"], threads=threads
        ).to_json()
        for threads in (1, 2, 3)
    }
    assert len(texts) == 1


def test_import_loads_no_submodules():
    code = "import sys, torpor.cli; print([m for m in sys.modules if m.startswith('torpor')])"
    done = ran(sys.executable, "-c", code, check=True)
    assert done.stdout.strip() == "['torpor', 'torpor.cli.exits', 'torpor.cli']"


def test_terminals_and_notebooks_show_the_table(replay):
    assert any(line.startswith("wake-ups  ") for line in str(replay).splitlines())
    html = replay._repr_html_()
    assert "<table" in html
    assert "too deep" in html
    assert repr(replay) == "<torpor.Replay of 1 on pixel6: menu, teo, oracle>"


def test_decisions_are_kept_only_on_request(recording):
    replay = torpor.replay(recording, platform="pixel6", governors="menu", decisions=False)
    with pytest.raises(torpor.EngineError, match="decisions=True"):
        _ = replay.decisions


def test_a_bare_number_is_no_latency_limit(recording):
    for bare in (50, "50"):
        with pytest.raises(torpor.TorporError, match=r"option `latency_limit`: .*50us"):
            torpor.replay(recording, platform="pixel6", latency_limit=bare)


def test_options_are_kept_as_given_and_as_resolved(recording):
    def options(**given):
        result = torpor.replay(recording, platform="pixel6", governors="menu", **given)
        return result.to_dict()["options"]

    plain = options()
    assert (plain["hz"], plain["given"]) == (250, {})
    given = {"start": "1s", "cpus": "0", "cpu_map": {0: 4}, "recorded_on": "i5-10600k"}
    resolved = options(**given, threads=1, isolate=False)
    assert resolved["given"] == given | {"cpu_map": {"0": 4}}
    assert (resolved["start_ns"], resolved["cpus"]) == (1_000_000_000, [0])
    assert resolved.keys() == plain.keys()


def test_unknown_option_lists_the_valid_ones(recording):
    with pytest.raises(TypeError, match=r"'latency_limits'.*'latency_limit'"):
        torpor.replay(recording, platform="pixel6", latency_limits="50us")


def test_a_latency_limit_keeps_to_shallow_states(recording, pl):
    replay = torpor.replay(
        recording, platform="pixel6", governors=["menu", "deepest", "oracle"], latency_limit="10us"
    )
    assert pl.DataFrame(replay.decisions)["state"].unique().to_list() == [0]


def test_a_disabled_state_is_not_entered(recording, pl):
    replay = torpor.replay(
        recording, platform="i5-10600k", governors=["menu", "oracle"], disabled_states=[(0, 2), 1]
    )
    assert set(pl.DataFrame(replay.decisions)["state"].unique()) <= {0, 3}
    assert replay.to_dict()["options"]["disabled_states"] == [
        {"cpu": 0, "state": 2},
        {"cpu": None, "state": 1},
    ]


def test_unmeasured_energy_is_not_known(recording, pl):
    name = next(p["name"] for p in torpor.platforms() if not p["has_power"])
    replay = torpor.replay(recording, platform=name, governors=["menu", "teo"])
    assert pl.DataFrame(replay.summary)["idle_power_mw"].to_list() == [None, None]


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (torpor.TraceError, {"traces": "absent.perf.data"}),
        (torpor.TorporError, {"traces": []}),
        (torpor.TorporError, {"governors": []}),
        (torpor.PlatformError, {"platform": None}),
        (torpor.PlatformError, {"platform": "pixel-6"}),
        (torpor.PlatformError, {"recorded_on": "pixel-6"}),
        (torpor.GovernorError, {"governors": "no_such_governor"}),
        (torpor.GovernorError, {"governors": "menu,nothing=1"}),
        (torpor.EngineError, {"disabled_states": [9]}),
        (torpor.EngineError, {"cpu_map": {0: 99}}),
        (torpor.TorporError, {"hz": 123}),
    ],
)
def test_errors_have_one_base(recording, error, arguments):
    arguments = {"traces": recording, "platform": "pixel6", "governors": "menu"} | arguments
    with pytest.raises(error) as caught:
        torpor.replay(arguments.pop("traces"), **arguments)
    assert isinstance(caught.value, torpor.TorporError)
    assert str(caught.value)


def test_missing_result_is_an_error_of_both_kinds(tmp_path):
    with pytest.raises(torpor.TorporError, match=r"absent.json`: No such file") as caught:
        torpor.load(tmp_path / "absent.json")
    assert isinstance(caught.value, FileNotFoundError)


def test_numbers_out_of_range_name_the_range(recording):
    with pytest.raises(torpor.TorporError, match=r"`seeds`: found .*, expected a whole"):
        torpor.simulate("periodic", platform="pixel6", seeds=-1)


def test_rows_of_a_table_are_dicts(replay):
    rows = list(replay.summary)
    assert [row["governor"] for row in rows] == replay.summary.to_dict()["governor"]


def test_error_in_the_progress_callback_ends_the_replay(recording):
    def refuse(what, done, total):
        raise RuntimeError(what)

    # A short replay may be over before the first report.
    try:
        torpor.replay([recording] * 40, platform="pixel6", progress=refuse)
    except RuntimeError as error:
        assert str(error)
    else:
        pytest.fail("the callback's error was lost")


def test_a_thread_is_called_back_on_itself(recording):
    """Work for one thread stays on the caller's, unless that is Python's main thread."""
    calls = []

    def note(what, done, total):
        calls.append((threading.get_ident(), done))
        if len(calls) == 3:
            raise RuntimeError(what)

    def replay():
        torpor.replay([recording] * 100, platform="pixel6", threads=1, progress=note)

    with ThreadPoolExecutor(1) as pool:
        own = pool.submit(threading.get_ident).result()
        with pytest.raises(RuntimeError):
            pool.submit(replay).result()
    assert [thread for thread, _ in calls] == [own] * 3


def test_other_threads_run_during_a_replay(recording):
    ticks = []
    is_over = threading.Event()

    def tick():
        while not is_over.wait(0.001):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    started = time.monotonic()
    torpor.replay([recording] * 20, platform="pixel6", governors=["menu"])
    ended = time.monotonic()
    is_over.set()
    thread.join()
    assert sum(started < t < ended for t in ticks) > 5


def test_loaded_recording_replays_like_its_file(recording):
    trace = torpor.load_trace(recording)
    assert trace.info["format"] == "perf.data"
    for options in (
        {"platform": "pixel6", "by": "irq"},
        {"platform": "i5-10600k", "recorded_on": "i5-10600k", "start": "2s", "cpu_map": {0: 3}},
    ):
        assert trace.replay(**options).to_json() == torpor.replay(recording, **options).to_json()
