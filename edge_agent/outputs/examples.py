"""One example of each payload; the reference shows them and a test keeps them true."""

from __future__ import annotations

from typing import Final

from contract.messages import Revision
from contract.status import Reason, Tier
from edge_agent.types import Alarm, Verdict

VERDICT: Final = Verdict(
    id="6c1f0d2ab9e47f3581c2d03e",
    stream="pump/1",
    time_s=1796026502.311,
    label="anomaly",
    score=4.75,
    confidence=0.97,
    tier=Tier.MODEL,
    model="waterflow-anomaly",
    release=1,
    stale_ms=0.0,
    reasons=(Reason.CONFIDENT,),
    stages_ms={"decode": 0.021, "window": 0.004, "inference": 0.118, "decision": 0.009},
    number=4711,
    window_from_s=1795986902.311,
)
ALARM: Final = Alarm(episode="6c1f0d2ab9e47f3581c2d03e", raised_s=1796026502.311, verdict=VERDICT)
REVISION: Final = Revision(
    verdict="6c1f0d2ab9e47f3581c2d03e",
    stream="pump/1",
    label="normal",
    score=0.5,
    confidence=0.995,
    model="waterflow-anomaly",
    release=1,
    time_s=1796026502.311,
)
HEALTH: Final = {
    "agent": "0.1.0",
    "uptime_s": 3600,
    "hub": "offline",
    "streams": 2,
    "readings": 7200,
    "verdicts": {"model": 7178},
    "deadline_misses": 0,
    "outbox_bytes": 81920,
    "outbox_fault": "",
    "faults": {"out_of_range": 3},
}
HEALTH_TIME_S: Final = 1796026510.0

VERDICT_JSON: Final = (
    '{"version":1,"id":"6c1f0d2ab9e47f3581c2d03e","stream":"pump/1","time":"2026-11-30T08:15:02.311Z",'
    '"label":"anomaly","score":4.75,"confidence":0.97,"tier":"model","model":"waterflow-anomaly",'
    '"release":1,"stale_ms":0.0,"reasons":["confident"],'
    '"stages_ms":{"decode":0.021,"window":0.004,"inference":0.118,"decision":0.009}}'
)
ALARM_JSON: Final = (
    VERDICT_JSON[:-1]
    + ',"alarm":{"episode":"6c1f0d2ab9e47f3581c2d03e","raised":"2026-11-30T08:15:02.311Z"}}'
)
REVISION_JSON: Final = (
    '{"version":1,"verdict":"6c1f0d2ab9e47f3581c2d03e","stream":"pump/1",'
    '"time":"2026-11-30T08:15:02.311Z","label":"normal","score":0.5,"confidence":0.995,'
    '"tier":"hub","model":"waterflow-anomaly","release":1,"agrees":false}'
)
HEALTH_JSON: Final = (
    '{"version":1,"time":"2026-11-30T08:15:10.000Z","agent":"0.1.0","uptime_s":3600,'
    '"hub":"offline","streams":2,"readings":7200,"verdicts":{"model":7178},"deadline_misses":0,'
    '"outbox_bytes":81920,"outbox_fault":"","faults":{"out_of_range":3}}'
)
STATUS_TEXTS: Final = ("online", "offline")
