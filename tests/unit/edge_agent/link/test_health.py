import pytest

from contract.status import Health
from edge_agent.link.backoff import CAP_S, reconnect_delay_s
from edge_agent.link.health import HealthEvent as E
from edge_agent.link.health import HealthView, step


def after(*events: E, view: HealthView | None = None) -> HealthView:
    view = view or HealthView()
    for n, event in enumerate(events):
        view = step(view, event, now_s=float(n))
    return view


ONLINE = after(E.CONNECTED, E.ANSWERED, E.ANSWERED)


def test_a_connection_alone_is_not_a_hub():
    assert after(E.CONNECTED, E.PROBE_OK, E.PROBE_OK).health is Health.OFFLINE


def test_two_answers_lead_up_by_way_of_degraded():
    assert after(E.CONNECTED, E.ANSWERED).health is Health.DEGRADED
    assert ONLINE.health is Health.ONLINE
    assert ONLINE.why == ""
    assert ONLINE.since_s == 2.0


@pytest.mark.parametrize(
    ("events", "health"),
    [
        ([E.DISCONNECTED], Health.OFFLINE),
        ([E.PROBE_FAILED], Health.DEGRADED),
        ([E.PROBE_FAILED, E.PROBE_FAILED], Health.OFFLINE),
        ([E.NO_RESPONDERS], Health.DEGRADED),
        ([E.NO_RESPONDERS, E.NO_RESPONDERS], Health.OFFLINE),
        ([E.NO_RESPONDERS, E.STATE_TIMEOUT], Health.OFFLINE),
        ([E.STATE_TIMEOUT], Health.DEGRADED),
        ([E.TIMEOUT, E.TIMEOUT], Health.ONLINE),
        ([E.TIMEOUT, E.TIMEOUT, E.TIMEOUT], Health.DEGRADED),
        ([E.TIMEOUT, E.ANSWERED, E.TIMEOUT, E.TIMEOUT], Health.ONLINE),
        ([E.BUSY, E.BUSY], Health.ONLINE),
        ([E.BUSY] * 4, Health.DEGRADED),
        ([E.BUSY, E.ANSWERED] * 20, Health.DEGRADED),
        ([E.NO_RESPONDERS, E.ANSWERED], Health.DEGRADED),
        ([E.NO_RESPONDERS, E.ANSWERED, E.ANSWERED], Health.ONLINE),
        ([E.PROBE_FAILED, E.PROBE_OK], Health.DEGRADED),
    ],
)
def test_from_online(events, health):
    assert after(*events, view=ONLINE).health is health


def test_a_busy_hub_is_trusted_again_only_when_it_is_seldom_busy():
    view = after(*[E.BUSY] * 5, view=ONLINE)
    answers = 0
    while view.health is not Health.ONLINE:
        view = step(view, E.ANSWERED, now_s=0.0)
        answers += 1
    assert 3 <= answers <= 10


def test_offline_says_why_and_since_when():
    view = step(ONLINE, E.DISCONNECTED, now_s=77.0)
    assert (view.why, view.since_s) == ("no connection to the server", 77.0)
    view = step(view, E.CONNECTED, now_s=80.0)
    assert "not answered yet" in view.why
    assert view.since_s == 77.0


def test_the_first_attempt_waits_within_the_jitter_and_later_ones_within_the_cap():
    assert reconnect_delay_s(0, jitter_s=10, chance=0.5) == 5
    assert reconnect_delay_s(0, jitter_s=10, chance=0) == 0
    for attempt in range(1, 100):
        assert 0 < reconnect_delay_s(attempt, jitter_s=10, chance=1.0) <= CAP_S
    assert reconnect_delay_s(99, jitter_s=10, chance=1.0) == CAP_S
