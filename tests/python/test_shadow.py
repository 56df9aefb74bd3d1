# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`torpor shadow`: what Python makes of the engine's windows, and what it takes of the machine."""

import json
import math
import os
import re
import shutil
import signal
import sys
import urllib.error
import urllib.request
from collections import deque
from pathlib import Path

import pytest

import torpor
from processes import start, wait_for, wait_until_listening
from torpor import TorporError
from torpor.ask.fleet import fleet
from torpor.cli.shadow import _table
from torpor.machine.record.errors import RecordError
from torpor.results.kinds import explain, posted
from torpor.run.shadow import feed, live, metrics, rollup
from torpor.run.sweeps.axes import Point
from torpor.view.report.page import render

MINUTE_NS = rollup.MINUTE_NS
#: 2026-01-01, 00:00 UTC.
BEGIN = 1_767_225_600 // 60


def a_run(energy_uj: float, *, delay_ns: int = 5000, error: str | None = None) -> dict:
    """One governor's window as the engine gives it."""
    return {
        "sleeps": 100,
        "above": 3,
        "below": 7,
        "delay_sum_ns": delay_ns,
        "latency_sum_ns": 40_000,
        "latency_count": 80,
        "idle_energy_uj": energy_uj,
        "relative_energy": None,
        "clusters": [{"name": "cores", "idle_energy_uj": energy_uj}],
        "error": error,
    }


@pytest.fixture
def scripted(monkeypatch):
    """Have the engine's session give these windows, whatever it is pushed."""

    def put(*windows: tuple[int, list[dict]]):
        class Session:
            def __init__(self, request):
                self.request = json.loads(request)
                self.pushed = b""

            def push(self, data):
                self.pushed += data

            def advance(self, until_end):
                closed = [
                    {
                        "start_ns": n * MINUTE_NS,
                        "duration_ns": MINUTE_NS,
                        "lost": lost,
                        "runs": runs,
                    }
                    for n, (lost, runs) in enumerate(windows if until_end else [])
                ]
                settled = len(windows) * MINUTE_NS
                found = {
                    "events": len(self.pushed),
                    "lost_events": 3,
                    "settled_ns": settled,
                    "cpus": 2,
                }
                return {**found, "windows": closed}

        monkeypatch.setattr(torpor._engine, "ShadowSession", Session, raising=False)

    return put


def ran(tmp_path, tell=lambda _shadow, _new: None, **plan) -> live.Shadow:
    """Run a shadow over a file."""
    file = tmp_path / "growing"
    file.write_bytes(b"x" * 3000)
    shadow = live.Shadow(live.Plan("pixel6", ["menu", "teo"], source=file, **plan))
    shadow.run(tell)
    return shadow


def test_a_tally_is_the_engines_paired_interval():
    base, other = [10.0, 11.0, 12.5, 9.0], [9.0, 10.5, 11.0, 9.5]
    tally = live.Tally()
    for pair in zip(base, other, strict=True):
        tally.add(*pair, at_ns=0)
    # Differences -1, -0.5, -1.5, 0.5: standard error 0.42696, t of 3 degrees of freedom 3.18245.
    half = 3.18245 * 0.42696
    expected = [100 * end / 10.625 for end in (-0.625, -0.625 - half, -0.625 + half)]
    assert list(tally.change) == pytest.approx(expected, rel=1e-4) and tally.sign == 0


def test_a_verdict_holds_since_it_changed():
    tally = live.Tally()
    for minute, other in enumerate([11.0, 8.0, 8.1, 7.9, 8.0, 8.0, 8.1]):
        tally.add(10.0, other, at_ns=minute)
    assert tally.sign == -1 and tally.since_ns == 5


def test_windows_with_losses_count_for_nothing(scripted, tmp_path):
    good = (0, [a_run(60e6), a_run(54e6)])
    scripted(good, (9, [a_run(1.0), a_run(1.0)]), good)
    shadow = ran(tmp_path)
    assert (shadow.windows, shadow.lossy_windows, shadow.lost_events) == (2, 1, 3)
    assert shadow.events == 3000 and shadow.judged == "idle_power_mw"
    assert shadow.sums["teo"].energy_uj == {"cores": 108e6}
    assert shadow.tallies["teo"].change == pytest.approx((-10, -10, -10))


def test_a_governor_that_fails_ends_alone(scripted, tmp_path):
    good = (0, [a_run(60e6), a_run(54e6)])
    scripted(good, good, (0, [a_run(60e6), a_run(0, error="teo: SIGSEGV in select()")]))
    shadow = ran(tmp_path)
    assert shadow.sums["teo"].error == "teo: SIGSEGV in select()"
    assert shadow.sums["menu"].sleeps == 300 and shadow.tallies["teo"].count == 2


def test_growing_file_is_read_to_its_end(tmp_path):
    file = tmp_path / "growing"
    file.write_bytes(b"ab")
    with feed.Following(file, follow=True) as grows, file.open("ab", buffering=0) as more:
        assert list(grows.pieces()) == [b"ab"] and not grows.is_over
        more.write(b"cd")
        assert list(grows.pieces()) == [b"cd"]
        grows.end()
        assert list(grows.pieces()) == [] and grows.is_over


def test_a_long_file_is_read_in_parts(tmp_path):
    file = tmp_path / "long"
    with file.open("wb") as sparse:
        sparse.truncate(20 << 20)
    with feed.Following(file, follow=False) as whole:
        sizes = []
        while not whole.is_over:
            sizes.append(sum(map(len, whole.pieces())))
            assert whole.is_behind or whole.is_over
    assert sum(sizes) == 20 << 20 and max(sizes) == 8 << 20


def test_a_pipe_ends_with_its_writer(tmp_path, monkeypatch):
    reader, writer = os.pipe()
    monkeypatch.setattr(os, "dup", lambda _input: reader)
    with feed.Following(Path("-"), follow=False) as pipe:
        assert list(pipe.pieces()) == [] and not pipe.is_over
        os.write(writer, b"ab")
        os.close(writer)
        assert list(pipe.pieces()) == [b"ab"] and pipe.is_over


def test_readings_leave_room_in_any_pipe(tmp_path, monkeypatch):
    """Or a writer waits for each of them, and perf behind it loses events."""
    reader, writer = os.pipe()
    monkeypatch.setattr(feed, "_PIPE_BYTES", 1 << 12)
    monkeypatch.setattr(os, "dup", lambda _input: reader)
    with feed.Following(Path("-"), follow=False) as pipe:
        os.set_blocking(writer, False)
        assert 0 < pipe.room_bytes < os.write(writer, bytes(1 << 21))
    os.close(writer)


#: Does what `perf record -o -` does with its pipes and signals.
PERF = """\
#!{python}
import os, signal, sys
option = dict(zip(sys.argv, sys.argv[1:]))
commands, answers = map(int, option["--control"].removeprefix("fd:").split(","))
assert option["--output"] == "-" and "power:cpu_idle" in option["--event"]
def finish(*_):
    os.write(1, b"tail")
    sys.exit(0)
signal.signal(signal.SIGINT, finish)
assert os.read(commands, 64) == b"enable\\n"
os.write(1, b"head")
{then}
while os.read(commands, 64) == b"ping\\n":
    os.write(1, b"more")
    os.write(answers, b"ack\\n")
"""


@pytest.fixture
def perf(tmp_path, monkeypatch):
    """Put a stand-in for perf in front of the machine's."""

    def put(then=""):
        script = tmp_path / "bin" / "perf"
        script.parent.mkdir()
        script.write_text(PERF.format(python=sys.executable, then=then))
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")

    return put


def read_until(recorder, wanted: bytes) -> bytes:
    """Read what perf writes until it ends so."""
    found = b""

    def has_come() -> bool:
        nonlocal found
        found += b"".join(recorder.pieces())
        return found.endswith(wanted)

    wait_for(has_come)
    return found


def test_recorder_requests_perfs_buffer(fake, perf):
    perf()
    with feed.Recorder(fake.machine) as recorder:
        read_until(recorder, b"head")
        recorder.ask()
        assert read_until(recorder, b"more") == b"more"
        recorder.end()
        assert read_until(recorder, b"tail") == b"tail"
        wait_for(lambda: recorder.is_over or list(recorder.pieces()))


def test_a_perf_that_fails_ends_the_shadow(fake, perf):
    perf("sys.exit('event syntax error')")
    failed = pytest.raises(RecordError, match=r"status 1:\n  event syntax error")
    with feed.Recorder(fake.machine) as recorder, failed:
        wait_for(lambda: b"" in recorder.pieces())


def test_forbidden_recording_names_the_setting(fake, monkeypatch):
    monkeypatch.setattr(feed.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(feed, "_has_perfmon", lambda: False)
    monkeypatch.setattr(feed.perf, "why_unusable", lambda: None)
    fake.put("proc/sys/kernel/perf_event_paranoid", "2\n")
    with pytest.raises(RecordError, match=r"paranoid is 2(.|\n)*sysctl kernel.perf_event_paranoid"):
        feed.Recorder(fake.machine)
    fake.put("proc/sys/kernel/perf_event_paranoid", "-1\n")
    assert feed.Recorder(fake.machine) is not None
    shutil.rmtree(fake.tracefs / "events")
    with pytest.raises(RecordError, match="remount,mode=755"):
        feed.Recorder(fake.machine)


def test_a_budget_takes_events_first_then_minutes(monkeypatch):
    now_s = [0.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: now_s[0])

    class Meter:
        cpu_ns = 0

        def read(self):
            pass

    meter, notes = Meter(), deque()
    budget = live._Budget(0.005, meter)
    for level, pause_s in ((1, 0.0), (2, 180.0)):
        budget.begin()
        now_s[0] += 60
        meter.cpu_ns += 1_200_000_000
        assert budget.is_over(notes) and budget.level == level
        assert budget.pause_s == pytest.approx(pause_s)
    meter.cpu_ns += 10**12
    assert budget.pause_s == 540 and len(notes) == 2


def test_a_part_without_a_sleep_ends_no_shadow(scripted, monkeypatch):
    scripted()
    shadow = live.Shadow(live.Plan("pixel6", ["menu"], budget=0.01))

    def advance(until_end):
        raise torpor.TorporError("recording holds no sleep\nhint: wait")

    monkeypatch.setattr(shadow._session, "advance", advance, raising=False)
    over = feed.Feed()
    over.is_over = True
    assert not shadow._watch(over, None, math.inf, lambda _new: False, lambda *_: None)
    assert list(shadow.notes) == ["recording holds no sleep"]


# OpenMetrics, as https://prometheus.io/docs/specs/om/open_metrics_spec/ has it.
_SAMPLE = re.compile(
    r'(?P<name>[a-z_]+)(?:\{(?P<labels>(?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+)\})? '
    r"(?P<value>-?[0-9.]+(?:e[-+]?[0-9]+)?)"
)
_SUFFIX = {"counter": "_total", "gauge": "", "info": "_info"}


def parse(text: str) -> dict[str, float]:
    """Return the samples of a strict reader; fail for what one would refuse."""
    *lines, last, end = text.split("\n")
    assert (last, end) == ("# EOF", "")
    kinds: dict[str, str] = {}
    found: dict[str, float] = {}
    for line in lines:
        if line.startswith("# "):
            _, what, family, rest = line.split(" ", 3)
            if what == "TYPE":
                assert family not in kinds, "a family is in one piece"
                kinds[family] = rest
            # A unit is the name's last word.
            assert what in ("TYPE", "HELP", "UNIT") and list(kinds)[-1] == family
            assert what != "UNIT" or family.endswith(f"_{rest}")
            continue
        sample = _SAMPLE.fullmatch(line)
        assert sample, line
        family, kind = list(kinds.items())[-1]
        assert sample["name"] == family + _SUFFIX[kind]
        assert line.rpartition(" ")[0] not in found
        found[line.rpartition(" ")[0]] = float(sample["value"])
    return found


def test_openmetrics_pass_a_strict_parser(scripted, tmp_path):
    scripted(*[(0, [a_run(60e6), a_run(54e6 + n)]) for n in range(3)])
    shadow = ran(tmp_path)
    odd = 'my\\gov "x"\n.c'
    shadow.sums[odd] = live.Sums(sleeps=1)
    found = parse(metrics.openmetrics(shadow))
    assert found['torpor_shadow_idle_energy_joules_total{governor="menu",cluster="cores"}'] == 180
    assert found['torpor_shadow_sleeps_total{governor="my\\\\gov \\"x\\"\\n.c"}'] == 1
    bounds = [
        found[
            'torpor_shadow_difference_percent{governor="teo",metric="idle_power_mw",'
            f'bound="{bound}"}}'
        ]
        for bound in ("low", "mean", "high")
    ]
    assert bounds == sorted(bounds) and bounds[1] == pytest.approx(-10, abs=1e-3)
    dashboard = json.loads(Path(metrics.__file__).with_name("grafana.json").read_text())
    asked = set(re.findall(r"torpor_shadow_[a-z_]+", json.dumps(dashboard)))
    assert asked <= {name.partition("{")[0] for name in found}


def test_only_this_machine_reads_metrics():
    with metrics.Exporter(0) as exporter:
        address = f"http://127.0.0.1:{exporter.port}/metrics"
        with urllib.request.urlopen(address) as answer:
            assert answer.headers["Content-Type"] == metrics.CONTENT_TYPE
            assert answer.read() == b"# EOF\n"
        foreign = urllib.request.Request(address, headers={"Host": "evil.example:80"})
        with pytest.raises(urllib.error.HTTPError, match="421"):
            urllib.request.urlopen(foreign)


def minutes(folder, host, values, *, machine_class="server", **more):
    """Write minutes of (menu's power, teo's power) as a shadow does."""
    point = Point("shadow", host, machine_class, "", options='{"under": "menu"}')
    windows = [
        live.Window(
            (BEGIN + minute) * MINUTE_NS,
            MINUTE_NS,
            0,
            {
                governor: live.values_of(a_run(power * 60e3), MINUTE_NS, 2)
                for governor, power in zip(("menu", "teo"), powers, strict=True)
                if power is not None
            },
        )
        for minute, powers in values.items()
    ]
    with rollup.Rollup(folder, point, ["menu", "teo"], **more) as kept:
        kept.add(windows)
    return kept


def test_fleet_shows_where_a_governor_is_worse(tmp_path):
    # teo takes 10 % less, but for 3 o'clock, when it takes 20 % more.
    for host in ("a", "b", "c"):
        factors = {h: (1.2 if h == 3 else 0.9) + 0.01 * (ord(host) - 98) for h in range(24)}
        values = {60 * h + m: (100.0 + m, (100 + m) * factors[h]) for h in factors for m in (0, 30)}
        minutes(tmp_path / host, host, values)
    minutes(
        tmp_path / "old", "old", {m: (50.0, 50.0 + m % 3) for m in range(9)}, machine_class="old"
    )
    result = fleet([tmp_path / name for name in ("a", "b", "c", "old")])
    (tmp_path / "shadow.json").write_text(json.dumps(result))
    assert torpor.load(tmp_path / "shadow.json")["kind"] == "shadow"

    def change(machine_class, hour, host=None):
        (group,) = (
            g
            for g in result["groups"]
            if (g["machine_class"], g["hour"], g["host"]) == (machine_class, hour, host)
        )
        cells = group["comparison"]["rows"][0]["cells"]
        return group, cells[1]["change"]

    group, all_hours = change("server", None)
    assert (group["hosts"], group["minutes"], group["draw"]) == (3, 144, "machine-hour")
    assert group["comparison"]["samples"] == 72 and all_hours["is_better"] is True
    assert all_hours["relative_pct"] == pytest.approx(-8.75, abs=0.01)
    group, three = change("server", 3)
    assert three["relative_pct"] == pytest.approx(20) and three["is_better"] is False
    assert change("old", None)[0]["draw"] == "minute"
    (hurts,) = (t for t in posted(result).tables if t.name == "hurts")
    assert [cell.text for cell in hurts.rows[0][:3]] == ["server", "03:00", "teo"]
    said = explain(result)
    assert said[0].startswith("teo on server takes 8.8 % less idle power than menu")
    assert "; on old takes " in said[0] and "server, 03:00, teo" in said[1]
    page = render([result])
    assert (
        page.index("<svg") < page.index("<table") and "(72 machine-hours; 9 minutes).</h1>" in page
    )
    assert "teo, 03:00: total idle power +20.0" in page


def test_minutes_that_a_kill_left_are_read_once(tmp_path):
    kept = tmp_path / "store"
    minutes(kept, "a", {m: (100.0, 90.0) for m in range(4)})
    (shard,) = (kept / "points").iterdir()
    point = Point("shadow", "a", "server", "", options='{"under": "menu"}')
    # As SIGKILL leaves them: lines of a file that nobody has locked any more.
    killed = rollup.Rollup(kept, point, ["menu", "teo"]).__enter__()
    values = {g: live.values_of(a_run(6e6), MINUTE_NS, 2) for g in ("menu", "teo")}
    killed.add([live.Window((BEGIN + 9) * MINUTE_NS, MINUTE_NS, 0, values)])
    killed._writer._file.close()
    assert fleet([kept])["hosts"][0]["minutes"] == 5
    minutes(kept, "a", {20: (100.0, 90.0)})
    assert list((kept / "open").iterdir()) == [] and shard.exists()
    assert fleet([kept])["hosts"][0]["minutes"] == 6


def test_a_minute_is_of_the_governor_that_decided(tmp_path, monkeypatch):
    decides, clock = ["menu"], [BEGIN * MINUTE_NS]
    monkeypatch.setattr(rollup.time, "time_ns", lambda: clock[0])
    under = rollup.Under(lambda: decides[0])
    values = {g: live.values_of(a_run(6e6), MINUTE_NS, 2) for g in ("menu", "teo")}
    point = Point("shadow", "a", "server", "")
    with rollup.Rollup(tmp_path / "store", point, ["menu", "teo"]) as kept:
        for minute in range(6):
            for second in range(0, 60, 2):
                clock[0] = (BEGIN + minute) * MINUTE_NS + second * 10**9
                # The switch comes in the third minute, and is seen when the fourth begins.
                decides[0] = "teo" if (minute, second) > (2, 58) else "menu"
                under.look()
                # A minute is known some seconds after its end.
                if minute and second == 10:
                    begin_ns = (BEGIN + minute - 1) * MINUTE_NS
                    kept.add([live.Window(begin_ns, MINUTE_NS, 0, values)], under)
    hosts = fleet([tmp_path / "store"])["hosts"]
    assert {host["under"]: host["minutes"] for host in hosts} == {"menu": 2, "teo": 2}


def test_minutes_beyond_the_limit_are_deleted(tmp_path):
    kept = tmp_path / "store"
    minutes(kept, "a", {0: (100.0, 90.0)})
    (old,) = (kept / "points").iterdir()
    os.utime(old, (1_767_225_600, 1_767_225_600))
    minutes(kept, "a", {1: (100.0, 90.0)}, keep_ns=30 * 24 * 3600 * 10**9)
    assert not old.exists() and fleet([kept])["hosts"][0]["minutes"] == 1


def test_a_full_disk_costs_only_its_minutes(tmp_path, monkeypatch):
    from torpor.run.sweeps import store

    refused = []

    def full(self, record):
        if not refused:
            refused.append(record)
            raise OSError(28, "No space left on device", "store/open/x.jsonl")
        return kept_add(self, record)

    kept_add = store.Writer.add
    monkeypatch.setattr(store.Writer, "add", full)
    kept = minutes(tmp_path / "store", "a", {m: (100.0, 90.0) for m in range(3)})
    assert kept.unwritten == 1 and kept.failure is None
    assert fleet([tmp_path / "store"])["hosts"][0]["minutes"] == 2


def test_a_gate_takes_a_rollup(tmp_path):
    minutes(tmp_path / "s", "a", {m: (100.0 + m, 104.0 + 1.1 * m) for m in range(9)})
    limits = [torpor.Limit("idle_power_mw", worse_than_pct=2)]
    (verdict,) = torpor.gate(
        tmp_path / "s",
        tmp_path / "s",
        limits,
        base_governor="menu",
        candidate_governor="teo",
    )
    assert verdict["is_broken"] and verdict["p"] < 0.05 and math.isfinite(verdict["low"])


def test_help_of_shadow_describes_the_bare_command(torpor):
    text = torpor("shadow", "--help", check=0).stdout
    assert text.startswith("Usage: torpor shadow [OPTIONS] [FILE]")
    assert "torpor shadow -g menu -g teo" in text and "--budget P%" in text


def test_service_files_are_printed(torpor):
    unit = torpor("shadow", "--print", "systemd", check=0).stdout
    assert "ExecStart=/usr/bin/env torpor shadow" in unit
    assert json.loads(torpor("shadow", "--print", "grafana", check=0).stdout)["panels"]


@pytest.mark.parametrize("budget", ["0.5", "0%", "101%", "x%"])
def test_a_budget_is_a_share(torpor, budget):
    done = torpor("shadow", "--budget", budget, "-p", "pixel6", "x", check=2)
    assert f"`{budget}`: expected a share of one core" in done.stderr


def test_no_store_is_made_of_no_minutes(torpor, tmp_path):
    assert "nowhere" in torpor("show", "nowhere", check=2).stderr
    minutes(tmp_path / "s", "a", {})
    with pytest.raises(TorporError, match="have no minute that every governor has"):
        fleet([tmp_path / "s"])


def test_shadow_result_equals_a_replay(torpor, recording):
    asked = (recording, "-p", "i5-10600k", "-g", "menu", "-g", "teo", "--format", "json")
    shadow, replay = (json.loads(torpor(c, *asked, check=0).stdout) for c in ("shadow", "replay"))
    assert shadow.pop("options")["hz"] == replay.pop("options")["hz"]
    for result in (shadow, replay):
        result["traces"][0].pop("strips")
    assert shadow == replay


def test_a_base_of_0_has_an_absolute_verdict(scripted, tmp_path):
    scripted(*[(0, [a_run(0.0), a_run(54e6 + n)]) for n in range(4)])
    shadow = ran(tmp_path)
    tally = shadow.tallies["teo"]
    assert tally.change == (None, None, None) and tally.sign == 1
    shown = _table(shadow, None, None)
    (verdict,) = [fact for fact in shown.facts if fact.startswith("teo:")]
    assert "900.00 mW more" in verdict and "nan" not in str(shown)


def test_a_shadow_states_time_not_windows(scripted, tmp_path):
    """A recording of 200 s has parts of five minutes."""
    shadow = live.Shadow(live.Plan("pixel6", ["menu", "teo"]))
    for second in (20, 60, 60, 50, 10):
        shadow._count(live.Window(0, second * 10**9, 0, {}))
    shadow._count(live.Window(0, 7 * 10**9, 1, {}))
    title = _table(shadow, None, None).title
    assert "200 s" in title.replace("\N{NO-BREAK SPACE}", " ") and "7.00" in title


def test_a_signal_decides_a_shadows_status(recording, tmp_path):
    shadow = start("shadow", recording, "-p", "pixel6", "--follow", cwd=tmp_path)
    wait_until_listening(shadow, signal.SIGCHLD)
    shadow.send_signal(signal.SIGTERM)
    out, said = shadow.communicate(timeout=60)
    assert (shadow.returncode, "menu" in out) == (143, True), said
