"""How the link is, from what happened on it: a state machine with hysteresis. Pure.

    OFFLINE    not connected, or two probes failed, or two requests in a row found nobody or no answer
    DEGRADED   connected and in doubt: the first good answer after OFFLINE, one failed probe, one request
               that found nobody, three late answers in a row, or more than every second answer BUSY
    ONLINE     two good answers in a row, and less than every fifth BUSY

Only an answer of the hub leads up; a connection to its server alone does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from contract.status import Health


class HealthEvent(Enum):
    """What can happen on the link."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    PROBE_OK = "the server answered a probe"
    PROBE_FAILED = "the server did not answer a probe"
    ANSWERED = "the hub answered"
    BUSY = "the hub was busy"
    NO_RESPONDERS = "no hub listens"
    TIMEOUT = "a request was not answered in time"
    STATE_TIMEOUT = "a state exchange was not answered in time"


GOODS_FOR_ONLINE: Final = 2
BADS_FOR_OFFLINE: Final = 2
TIMEOUTS_FOR_DEGRADED: Final = 3
BUSY_HIGH: Final = 0.5
BUSY_LOW: Final = 0.2
_BUSY_WEIGHT: Final = 0.2


@dataclass(frozen=True, slots=True)
class HealthView:
    """The health, why, since when, and the counts that decide what comes next."""

    health: Health = Health.OFFLINE
    why: str = "never connected"
    since_s: float = 0.0
    connected: bool = False
    goods: int = 0
    probe_failures: int = 0
    silences: int = 0
    """Requests in a row that found nobody, and state exchanges without an answer."""
    timeouts: int = 0
    busy: float = 0.0
    """The share of answers that were BUSY, the newest weighing most."""


def step(view: HealthView, event: HealthEvent, *, now_s: float) -> HealthView:
    """The view after an event."""
    counted = _count(view, event)
    health, why = _judge(counted, event)
    if health is view.health:
        return replace(counted, why=why if health is not Health.ONLINE else "")
    return replace(counted, health=health, why=why, since_s=now_s)


def _count(view: HealthView, event: HealthEvent) -> HealthView:
    match event:
        case HealthEvent.CONNECTED:
            return replace(
                view, connected=True, goods=0, probe_failures=0, silences=0, timeouts=0, busy=0.0
            )
        case HealthEvent.DISCONNECTED:
            return replace(view, connected=False, goods=0)
        case HealthEvent.PROBE_OK:
            return replace(view, probe_failures=0)
        case HealthEvent.PROBE_FAILED:
            return replace(view, probe_failures=view.probe_failures + 1, goods=0)
        case HealthEvent.ANSWERED:
            busy = view.busy * (1 - _BUSY_WEIGHT)
            return replace(view, goods=view.goods + 1, silences=0, timeouts=0, busy=busy)
        case HealthEvent.BUSY:
            busy = view.busy * (1 - _BUSY_WEIGHT) + _BUSY_WEIGHT
            return replace(view, silences=0, timeouts=0, busy=busy)
        case HealthEvent.NO_RESPONDERS | HealthEvent.STATE_TIMEOUT:
            return replace(view, silences=view.silences + 1, goods=0)
        case HealthEvent.TIMEOUT:
            return replace(view, timeouts=view.timeouts + 1, goods=0)


def _judge(view: HealthView, event: HealthEvent) -> tuple[Health, str]:
    if not view.connected:
        return Health.OFFLINE, "no connection to the server"
    if view.probe_failures >= BADS_FOR_OFFLINE:
        return Health.OFFLINE, HealthEvent.PROBE_FAILED.value
    if view.silences >= BADS_FOR_OFFLINE:
        return Health.OFFLINE, event.value
    doubt = (
        view.probe_failures > 0
        or view.silences > 0
        or view.timeouts >= TIMEOUTS_FOR_DEGRADED
        or view.busy > BUSY_HIGH
    )
    if view.health is Health.OFFLINE:
        if event in (HealthEvent.ANSWERED, HealthEvent.BUSY):
            return Health.DEGRADED, "the hub has just come back"
        if event is HealthEvent.CONNECTED:
            return Health.OFFLINE, "connected to the server, the hub has not answered yet"
        return Health.OFFLINE, view.why
    if view.health is Health.ONLINE:
        return (Health.DEGRADED, event.value) if doubt else (Health.ONLINE, "")
    if not doubt and view.goods >= GOODS_FOR_ONLINE and view.busy < BUSY_LOW:
        return Health.ONLINE, ""
    return Health.DEGRADED, view.why
