# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Changes, ranks and intervals of a store's points."""

import pytest

import torpor
from torpor.results.catalogue import RUNS, metrics
from torpor.run.sweeps import ranks as view
from torpor.run.sweeps.columns import Points


def point(governor, scenario, value, seed=None, error=None):
    """A row as a store returns it, with one metric."""
    row = dict.fromkeys([*view.SCENARIO, *metrics(*RUNS)], None)
    row |= {"point": f"{governor}{scenario}{seed}", "kind": "replay", "options": "{}"}
    row |= {"source": scenario, "platform": "m", "governor": governor, "seed": seed}
    return row | {"error": error, "engine": "e", "idle_power_mw": value}


def shown(rows, **how):
    """The tables of rows."""
    return view.view(Points.of(rows), **how)


def test_changes_are_paired_by_seed():
    rows = [point("menu", "a", 1.0, 1), point("menu", "a", 3.0, 2), point("teo", "a", 3.3, 2)]
    (against, _) = shown(rows).tables
    (line,) = against.rows
    # Mean of menu over both seeds; teo's change against menu of the one seed that it has.
    assert [cell.value for cell in line] == ["a, m", 2.0, 3.3, pytest.approx(10.0)]


def test_shares_change_in_percentage_points():
    rows = [point(g, s, None) for g in ("menu", "teo") for s in "ab"]
    for row, value in zip(rows, (10.0, 20.0, 13.0, 25.0), strict=True):
        row["above_pct"] = value
    against, summary = shown(rows, metrics=["above_pct"]).tables
    assert against.headings[-1] == "change pp"
    assert [row[-1].value for row in against.rows] == [3.0, 5.0]
    assert [row[2].value for row in summary.rows] == [0.0, 4.0]


def test_replays_know_their_distance_to_the_oracle():
    rows = [point("teo", "a", 1.0), point("oracle", "a", 1.0), point("teo", "b", 1.0)]
    for row, energy in zip(rows, (150.0, 100.0, 150.0), strict=True):
        row["idle_energy_uj"] = energy
    found = view.against_oracle(Points.of(rows))
    assert found["over_oracle_pct"] == [pytest.approx(50.0), None, None]


def test_machines_without_power_have_a_relative_distance():
    rows = [point("teo", "a", 1.0), point("oracle", "a", 1.0)]
    for row, energy in zip(rows, (45.0, 30.0), strict=True):
        row["idle_energy_uj"], row["relative_idle_power_pct"] = None, energy
    found = view.against_oracle(Points.of(rows))
    assert found["relative_over_oracle_pct"] == [pytest.approx(50.0), None]
    assert found["over_oracle_pct"] == [None, None]


def test_ranks_are_over_complete_scenarios():
    rows = [point("menu", s, 2.0) for s in "abc"]
    rows += [point("teo", "a", 1.0), point("teo", "b", 4.0), point("teo", "c", None, error="x")]
    rows += [point("oracle", s, 0.5) for s in "abc"]
    post = shown(rows)
    lines = {row[0].value: [cell.value for cell in row[1:]] for row in post.tables[1].rows}
    assert set(lines) == {"menu", "teo"}
    assert lines["teo"][0] == 2.0
    # ln(1/2) and ln(4/2) cancel out.
    assert lines["teo"][1] == pytest.approx(0.0, abs=1e-12)
    assert lines["teo"][4] == lines["menu"][4] == 1.5
    assert "teo in c, m: x" in post.notes


def test_many_scenarios_are_summarized_by_default():
    rows = [point("menu", f"s{n}", 1.0) for n in range(31)]
    assert [len(shown(rows, each=each).tables) for each in (None, True, False)] == [1, 2, 1]
    assert len(shown(rows[:30]).tables) == 2
    assert "--each shows every scenario, --only some of them" in shown(rows).notes


def test_intervals_are_students():
    rows = [point(g, s, None) for g in ("menu", "teo") for s in "abc"]
    for row, value in zip(rows, (10.0, 20.0, 30.0, 11.0, 22.0, 33.0), strict=True):
        row["above_pct"] = value
    (_, teo) = shown(rows, metrics=["above_pct"]).tables[1].rows
    # scipy.stats.t.interval(0.95, 2, 2, 1 / 3 ** 0.5); every rank is 2.
    assert [cell.value for cell in teo[2:]] == pytest.approx([2.0, -0.484138, 4.484138, 2, 2, 2])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"metrics": ["idle_power"]}, "metric"),
        ({"base": "meno"}, "governor"),
        ({"filters": {"plat": ["x"]}}, "column"),
        ({"filters": {"platform": ["x"]}}, "no point is left"),
    ],
)
def test_empty_view_gives_the_reason(given, message):
    with pytest.raises(torpor.SweepError, match=message):
        shown([point("menu", "a", 1.0)], **given)
