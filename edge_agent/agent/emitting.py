"""Gives out what was decided: verdicts, alarms and revisions on MQTT, counted and remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from contract.messages import Revision
from contract.status import Reason
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.observe.metrics import Counters, Stage
from edge_agent.observe.quarantine import Quarantine
from edge_agent.observe.recent import RecentVerdicts
from edge_agent.observe.rollups import Rollups
from edge_agent.outputs.mqtt import MqttOutput
from edge_agent.pipeline.outcome import Outcome
from edge_agent.types import Alarm, Clock, Verdict


class Emitter:
    """Everything that leaves the pipeline for the device's own surroundings goes through here."""

    def __init__(
        self,
        output: MqttOutput,
        *,
        counters: Counters,
        rollups: Rollups,
        clock: Clock,
        deadline_ms: Callable[[str], float],
        besides: tuple[Reason, ...] = (),
    ) -> None:
        """`deadline_ms` gives the deadline of a stream; `besides` are reasons that every verdict gets."""
        self._output = output
        self._counters = counters
        self._rollups = rollups
        self._clock = clock
        self._deadline_ms = deadline_ms
        self._besides = besides
        self._log = get_logger()
        self.quarantine = Quarantine(counters)
        self.recent = RecentVerdicts()

    def emit(self, outcome: Outcome) -> None:
        """Publishes and counts one batch's outcome; its verdicts are on their way when it returns."""
        self._counters.count_readings(outcome.readings)
        if outcome.faults:
            self.quarantine.take(outcome.faults, time_s=self._clock.wall_s())
            for note in outcome.faults:
                self._rollups.fault(note)
                self._log.warning(
                    Event.MESSAGE_QUARANTINED,
                    fault=str(note.fault),
                    count=note.count,
                    topic=note.topic,
                    detail=note.detail,
                )
        if outcome.verdicts:
            self._verdicts(outcome.verdicts)
        for alarm in outcome.alarms:
            self._counters.alarms += 1
            self._output.alarm(self._marked_alarm(alarm))
            self._log.warning(
                Event.ALARM_RAISED,
                stream=alarm.verdict.stream,
                label=alarm.verdict.label,
                id=alarm.verdict.id,
            )
        if outcome.verdicts:
            # What is written to the socket outlives a kill of this process; the commit that follows
            # must not get ahead of it, or a kill between the two would swallow the verdict.
            self._output.flush()

    def revise(self, revision: Revision, *, given: Verdict | None) -> None:
        """Publishes a revision; `given` is the verdict that it revises, if it is still known."""
        agrees = None if given is None else given.label == revision.label
        if given is not None:
            self._counters.count_revision(given.tier, agrees=bool(agrees))
        self._output.revision(revision, agrees=agrees)

    def _marked(self, verdict: Verdict) -> Verdict:
        if not self._besides:
            return verdict
        return replace(verdict, reasons=(*verdict.reasons, *self._besides))

    def _marked_alarm(self, alarm: Alarm) -> Alarm:
        return replace(alarm, verdict=self._marked(alarm.verdict)) if self._besides else alarm

    def _verdicts(self, verdicts: list[Verdict]) -> None:
        missed = 0
        emitted: list[Verdict] = []
        totals: list[float] = []
        for verdict in verdicts:
            total_ms = (self._clock.mono_ns() - verdict.arrival_ns) / 1e6
            stages = verdict.stages_ms
            emit_ms = max(0.0, total_ms - sum(stages.values()))
            timed = replace(self._marked(verdict), stages_ms={**stages, Stage.EMIT: emit_ms})
            self._output.verdict(timed)
            deadline_ms = self._deadline_ms(verdict.stream)
            if total_ms > deadline_ms:
                missed += 1
                self._log.warning(
                    Event.DEADLINE_MISSED,
                    stream=verdict.stream,
                    latency_ms=round(total_ms, 1),
                    deadline_ms=deadline_ms,
                )
            self._rollups.verdict(timed, total_ms)
            self.recent.add(timed, {"deadline_ms": deadline_ms, "latency_ms": total_ms})
            emitted.append(timed)
            totals.append(total_ms)
        self._counters.count_verdicts(emitted, missed=missed)
        self._counters.observe_stage(Stage.TOTAL, totals)
