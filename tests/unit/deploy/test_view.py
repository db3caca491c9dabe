"""deploy/demo/view and table: what people see."""

import io

from deploy.demo.report import make_report
from deploy.demo.table import print_table
from deploy.demo.view import DeviceLine, LiveView, PlainView, Snapshot, make_view
from tests.unit.deploy.runs import good_run

SNAPSHOT = Snapshot(
    readings=1234,
    stored=1000,
    verdicts=99,
    by_tier={"model": 90, "hub": 9},
    hub_up=False,
    devices=[DeviceLine("pump", readings=3, verdicts=2, link="offline", waiting=7)],
)


def test_where_there_is_no_terminal_there_are_plain_lines():
    out = io.StringIO()
    view = make_view(out)
    assert isinstance(view, PlainView)
    view.act("Act 1", "it begins")
    view.note("something")
    view.show(SNAPSHOT)
    view.close()
    lines = out.getvalue().splitlines()
    assert [line.split(" s  ", 1)[1] for line in lines] == ["Act 1: it begins", "  something"]
    assert "\x1b" not in out.getvalue()


def test_the_summary_says_who_answered_and_what_is_down():
    text = SNAPSHOT.summary()
    assert "hub 9, model 90" in text
    assert "hub DOWN" in text
    assert "waiting rows 7" in text


def test_a_terminal_sees_the_devices():
    out = io.StringIO()
    view = LiveView(out)
    view.act("Act 1", "it begins")
    view.note("something")
    view.show(SNAPSHOT)
    view.close()
    assert "Act 1  it begins" in out.getvalue()


def test_the_table_names_every_promise():
    out = io.StringIO()
    report = make_report(good_run(seconds=99.0))
    print_table(report, out)
    shown = out.getvalue()
    assert shown.count("held") == len(report.promises) - 1
    assert shown.count("BROKEN") == 1
