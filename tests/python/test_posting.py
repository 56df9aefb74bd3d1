# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tables to post: every kind of result in every form, and the mail's 80 columns of ASCII."""

import html.parser

import pytest

import torpor
from small_result import result as small_result
from torpor.results.table import Cell, Post, Table, number, word
from torpor.view import paint
from torpor.view.report.page import render_posts

REPLAY = ("replay", "-p", "pixel6", "-g", "menu", "-g", "teo")

#: As the lists head these tables.
WORKLOAD = ["workload", "gov", "iter", "iops", "idles", "idle_miss", "ratio", "belows", "aboves"]
TEST = ["test", "gov", "i", "score", "%change", "idles", "idle_miss", "miss_rt", "belows", "aboves"]
STATES = ["cluster", "state", "time", "time%", "usage", "above", "above%", "below", "below%"]


def assert_is_mail(text):
    assert text.isascii(), [line for line in text.splitlines() if not line.isascii()]
    assert "\t" not in text and "\x1b" not in text
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert text.endswith("\n") and not text.endswith("\n\n")


class Page(html.parser.HTMLParser):
    """Counts rows below headings, and holds what is open."""

    def __init__(self):
        super().__init__()
        self.open, self.rows = [], 0

    def handle_starttag(self, tag, _attributes):
        if tag not in ("meta", "link", "wbr"):
            self.open.append(tag)
        self.rows += tag == "tr" and "thead" not in self.open

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_simulation_is_posted_by_seed(tmp_path):
    made = torpor.simulate(
        "fio-randread", platform="rk3399", governors=["menu", "teo"], duration="50ms", seeds=2
    )
    lines = torpor.post(made).splitlines()
    at = next(n for n, line in enumerate(lines) if "idle_miss" in line)
    assert lines[at].split() == WORKLOAD
    first = made.to_dict()["runs"][0]["seeds"][0]["metrics"]
    found = lines[at + 1].split()
    below, above = (round(first["sleeps"] * first[k] / 100) for k in ("below_pct", "above_pct"))
    ratio = f"{(below + above) / first['sleeps']:.3f}"
    counts = [f"{first['sleeps']:.0f}", str(below + above), ratio, str(below), str(above)]
    assert found == ["fio-randread", "menu", "1", f"{first['iops']:.0f}", *counts]


def test_a_simulation_without_io_is_posted_by_test():
    made = torpor.simulate("periodic", platform="pixel6", governors=["menu"], seeds=1)
    heading = next(line for line in torpor.post(made).splitlines() if "idle_miss" in line)
    assert heading.split() == TEST


def test_the_states_are_posted_as_the_lists_do(recording):
    made = torpor.replay(recording, platform="i5-10600k", governors=["menu"])
    lines = torpor.post(made).splitlines()
    at = next(n for n, line in enumerate(lines) if "time%" in line)
    assert lines[at].split() == STATES
    state = made.to_dict()["traces"][0]["runs"][0]["clusters"][0]["states"][2]
    of = f"{100 * state['above'] / state['usage']:.2f}"
    found = lines[at + 3].split()
    assert found[:3] == ["cores", "2", "C2_ACPI"]
    assert found[3] == f"{state['time_ns'] / 1e6:.1f}"
    assert found[5:8] == [str(state["usage"]), str(state["above"]), of]


@pytest.mark.parametrize(
    "command",
    [
        ("replay", "-p", "pixel6", "{recording}"),
        ("simulate", "periodic", "-p", "pixel6", "--duration", "100ms", "--seeds", "2"),
        ("study", "run", "pixel6-teo", "--duration", "50ms", "--seeds", "1"),
        ("trace", "stats", "{recording}"),
        ("fidelity", "-p", "i5-10600k", "{recording}"),
    ],
    ids=lambda command: command[0],
)
def test_a_command_posts_mail_whatever_the_terminal(command, torpor, recording):
    typed = [word.format(recording=recording) for word in command]
    for columns in ("40", "200"):
        # The demo was not recorded on that machine, which is a finding.
        status = int(command[0] == "fidelity")
        done = torpor(*typed, "--format", "lkml", env={"COLUMNS": columns}, check=status)
        assert_is_mail(done.stdout)
        assert done.stderr == ""


def test_one_format_is_taken(torpor, recording):
    both = torpor(*REPLAY, recording, "--format", "lkml", "--format", "json", check=2)
    assert "--format is given twice" in both.stderr
    unknown = torpor(*REPLAY, recording, "--format", "pdf", check=2)
    known = ("`text`", "`lkml`", "`markdown`", "`csv`", "`json`")
    assert all(form in unknown.stderr for form in known)


def test_saved_result_posts_like_its_command(torpor, recording, tmp_path):
    (tmp_path / "r.json").write_text(torpor(*REPLAY, recording, "--format", "json", check=0).stdout)
    posted = torpor(*REPLAY, recording, "--format", "markdown", check=0).stdout
    assert torpor("show", "r.json", "--format", "markdown", check=0).stdout == posted


def nasty():
    name = "teo@/a/very/long/path" + "/x" * 60 + ",π=∞\x1b[2J\n|<b>`*"
    cells = [number(1234567.891, 3), Cell(0.5, "+12.3 ±0.5 %"), word(""), number(None)]
    rows = [[word(name), word(name * 3), *cells], [word("a"), word("b"), *cells]]
    headings = ["governor " + name, "y" * 90, "n", name, "", "unknown"]
    return Post(name * 2, [name], [Table("t", name, headings, rows, keys=2)], [name])


def test_other_peoples_names_break_no_form():
    assert_is_mail(paint.lkml([nasty(), nasty()]))
    drawn = [line for line in paint.markdown([nasty()]).splitlines() if line[:1] == "|"]
    assert len(drawn) == 4
    bars = {line.replace("\\|", "").count("|") for line in drawn}
    assert bars == {7}
    page = render_posts([nasty()])
    assert "|<b>" not in page and "\x1b" not in page


@pytest.mark.parametrize("keys", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("width", [1, 18, 60])
def test_any_table_fits(keys, width):
    count = keys + 7
    rows = [[word("w" * width)] * count for _ in range(3)]
    table = Table("t", "", ["h" * width] * count, rows, keys=keys, together=2)
    mail = paint.lkml([Post("t", [], [table], [])])
    assert_is_mail(mail)
    letters = keys * (7 + 1) // 2 if keys else 0
    assert mail.count("w") >= 3 * 7 * width and letters >= 0


def test_a_spreadsheet_runs_no_name():
    table = Table("=t", "", ["gov"], [[word("=1+1")]])
    assert "'=1+1" in paint.csv([Post("=p", [], [table], [])])


def test_result_without_tables_is_named():
    with pytest.raises(torpor.TorporError, match=r"kind `cake` has no tables: expected .*replay"):
        torpor.post({"kind": "cake"})
    with pytest.raises(torpor.TorporError, match="no form `pdf`: expected lkml, mail, markdown"):
        torpor.post(small_result(), "pdf")
