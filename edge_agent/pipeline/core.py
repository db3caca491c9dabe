"""The core itself: intake, windows, judgement, decision; and the memory that survives a restart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from contract.encoding import EncodingError, decode
from contract.messages import RawRow
from contract.status import Health, Reason, RowClass
from edge_agent.decode.profiles import make_decoder
from edge_agent.inference.scorer import Scorer
from edge_agent.pipeline.intake import Intake, Notes
from edge_agent.pipeline.judging import Judged, KindJudge
from edge_agent.pipeline.memory import read_memory, remember, restore
from edge_agent.pipeline.outcome import Ask, Outcome, escalation_row, verdict_id, verdict_row
from edge_agent.pipeline.telemetry import group_batch, raw_rows
from edge_agent.readings.clock import stamped
from edge_agent.readings.registry import Registry, TooManyStreams, make_kind
from edge_agent.routing.budget import TokenBucket
from edge_agent.routing.episodes import Meaning, StreamHistory, settle
from edge_agent.routing.ladder import LocalAnswer, best_local
from edge_agent.routing.policy import Action, Policy, Situation, decide
from edge_agent.settings import Settings
from edge_agent.types import (
    Alarm,
    Checkpoint,
    Clock,
    LinkState,
    MessageBatch,
    ReadingBatch,
    Recovery,
    StoredRow,
    Verdict,
    WindowBatch,
)

MAX_ASK_BYTES = 160 * 1024
"""Features in one request: with its headers it must fit into a message (240 KiB)."""
ALONE = LinkState(Health.OFFLINE, rtt_ms=0.0, since_s=0.0, why="no hub is configured")


@dataclass(slots=True)
class Stages:
    """When the stages of one batch ended, monotonic ns; None in a replay, where time stands still."""

    begin: int
    decoded: int = 0
    validated: int = 0
    windowed: int = 0
    inferred: int = 0


class Pipeline:
    """Messages in, verdicts out, in one synchronous call; remembers every stream."""

    def __init__(
        self,
        settings: Settings,
        scorers: dict[str, Scorer],
        *,
        clock: Clock,
        epoch: str,
        timed: bool = True,
    ) -> None:
        """Compiles the configuration; raises ConfigurationError. `timed` is off in a replay."""
        self._device = settings.device.name
        self._epoch = epoch
        self._clock = clock
        self._timed = timed
        kinds = [
            make_kind(
                index, stream, scorers[stream.model].shape if stream.model in scorers else None
            )
            for index, stream in enumerate(settings.stream)
        ]
        self.registry = Registry(kinds, max_streams=settings.limits.max_streams)
        decoders = [make_decoder(stream, settings.limits) for stream in settings.stream]
        self._intake = Intake(
            self.registry, decoders, max_payload_bytes=settings.limits.max_payload_bytes
        )
        self._judges = [KindJudge(kind, scorers.get(kind.settings.model or "")) for kind in kinds]
        routing = settings.routing
        self._policies = [
            Policy(
                escalate_below=routing.escalate_below,
                allowed=bool(settings.hub.urls) and kind.settings.escalate == "auto",
                bulk_when_offline=routing.bulk_when_offline,
            )
            for kind in kinds
        ]
        self._bucket = TokenBucket(routing.max_escalations_per_s)
        self._history: list[dict[int, StreamHistory]] = [defaultdict(StreamHistory) for _ in kinds]
        self._dirty: set[tuple[int, int]] = set()
        self._heard_ns: list[dict[int, int]] = [{} for _ in kinds]

    # --- a batch ---------------------------------------------------------------------------

    def process(
        self,
        batch: MessageBatch,
        link: LinkState = ALONE,
        *,
        suspects: Collection[int] = (),
    ) -> Outcome:
        """Everything that the messages led to, decided now.

        `suspects` are the indexes of messages that may be repeats (`sources/redelivery.py`).
        """
        outcome = Outcome()
        stages = Stages(begin=self._clock.mono_ns())
        notes = Notes(batch)
        accepted = self.accept(batch, notes, stages, suspects=suspects)
        outcome.repeated = notes.repeated
        stages.validated = self._clock.mono_ns()
        if accepted:
            stamp = self._clock.stamp()
            accepted = [stamped(readings, stamp) for readings in accepted]
            outcome.rows.extend(raw_rows(accepted, self.registry, stamp))
            for readings in accepted:
                outcome.readings += len(readings)
                self._read(readings, link, outcome, stages)
        outcome.faults = notes.all()
        return outcome

    def accept(
        self,
        batch: MessageBatch,
        notes: Notes,
        stages: Stages | None = None,
        *,
        suspects: Collection[int] = (),
    ) -> list[ReadingBatch]:
        """The accepted readings of a batch, by kind; what was not used is in `notes`."""
        columns = self._intake.decode(batch, notes)
        if stages is not None:
            stages.decoded = self._clock.mono_ns()
        found = [
            self._intake.validate(self.registry.kinds[kind], each, batch, notes, suspects=suspects)
            for kind, each in columns.items()
        ]
        return [readings for readings in found if readings is not None]

    def _read(
        self, readings: ReadingBatch, link: LinkState, outcome: Outcome, stages: Stages
    ) -> None:
        kind = readings.kind
        self._dirty.update((kind, slot) for slot in set(readings.slots.tolist()))
        self._heard_ns[kind].update(
            zip(readings.slots.tolist(), readings.arrivals_ns.tolist(), strict=True)
        )
        judge = self._judges[kind]
        due = judge.push(readings)
        stages.windowed = self._clock.mono_ns()
        for windows, deviations in due:
            judged = judge.judge(windows, deviations)
            stages.inferred = self._clock.mono_ns()
            self._decide(judge, judged, link, outcome, stages)

    def _decide(
        self, judge: KindJudge, judged: Judged, link: LinkState, outcome: Outcome, stages: Stages
    ) -> None:
        kind, windows = judge.kind, judged.windows
        history, policy = self._history[kind.index], self._policies[kind.index]
        now_ns = self._clock.mono_ns()
        asked: list[tuple[Verdict, int, int]] = []
        for index, slot in enumerate(windows.slots.tolist()):
            local = _local(judged, index, history[slot], float(windows.times_s[index, -1]))
            waited_ms = (now_ns - int(windows.arrivals_ns[index])) / 1e6 if self._timed else 0.0
            situation = Situation(
                health=link.health,
                rtt_ms=link.rtt_ms,
                time_left_ms=kind.settings.deadline_ms - waited_ms,
                tokens=self._bucket.available(now_ns / 1e9),
            )
            decision = decide(local, policy, situation)
            verdict = self._verdict(
                judge, judged, index, local=local, reasons=decision.reasons, stages=stages
            )
            if decision.action is not Action.ANSWER:
                self._bucket.take()
            if decision.action is Action.ASK:
                deadline_ns = now_ns + int(decision.wait_ms * 1e6)
                asked.append((verdict, judged.feature_rows[index], deadline_ns))
                continue
            if decision.action is Action.QUEUE:
                assert judge.scorer is not None
                assert judged.features is not None
                row = judged.feature_rows[index]
                outcome.rows.append(
                    escalation_row(
                        verdict,
                        judged.features[row : row + 1],
                        feature_digest=judge.scorer.manifest.feature_digest,
                    )
                )
            self.settle(verdict, outcome, escalated=decision.action is Action.QUEUE)
        if asked and judge.scorer is not None and judged.features is not None:
            most = max(1, MAX_ASK_BYTES // judged.features[0].nbytes)
            for start in range(0, len(asked), most):
                part = asked[start : start + most]
                outcome.asks.append(
                    Ask(
                        family=judge.scorer.family,
                        release=judge.scorer.release,
                        feature_digest=judge.scorer.manifest.feature_digest,
                        labels=judge.scorer.labels,
                        features=judged.features[[row for _, row, _ in part]],
                        verdicts=[verdict for verdict, _, _ in part],
                        deadlines_ns=[deadline for _, _, deadline in part],
                    )
                )

    def _verdict(
        self,
        judge: KindJudge,
        judged: Judged,
        index: int,
        *,
        local: LocalAnswer,
        reasons: tuple[Reason, ...],
        stages: Stages,
    ) -> Verdict:
        windows = judged.windows
        stream = self.registry.name(judge.kind.index, int(windows.slots[index]))
        number = int(windows.numbers[index])
        model = judge.kind.settings.model or ""
        return Verdict(
            id=verdict_id(self._device, self._epoch, stream, model, number),
            stream=stream,
            time_s=float(windows.times_s[index, -1]),
            label=local.label,
            score=local.score,
            confidence=local.confidence,
            tier=local.tier,
            model=model,
            release=judged.release,
            stale_ms=local.stale_ms,
            reasons=reasons,
            stages_ms=self._stages(windows, index, stages),
            number=number,
            window_from_s=float(windows.times_s[index, 0]),
            arrival_ns=int(windows.arrivals_ns[index]) if self._timed else 0,
        )

    def _stages(self, windows: WindowBatch, index: int, stages: Stages) -> dict[str, float]:
        if not self._timed:
            return {}
        return {
            "wait": (stages.begin - int(windows.arrivals_ns[index])) / 1e6,
            "decode": (stages.decoded - stages.begin) / 1e6,
            "validate": (stages.validated - stages.decoded) / 1e6,
            "window": (stages.windowed - stages.validated) / 1e6,
            "inference": (stages.inferred - stages.windowed) / 1e6,
            "decision": (self._clock.mono_ns() - stages.inferred) / 1e6,
        }

    # --- the meaning of a final verdict ----------------------------------------------------

    def settle(self, verdict: Verdict, outcome: Outcome, *, escalated: bool) -> None:
        """Takes a final verdict in: into the outcome, with the alarm and the event it leads to."""
        found = self.registry.find(verdict.stream)
        meaning = Meaning(changed=False, raises=False)
        if found is not None:
            kind, slot = found
            self._dirty.add(found)
            settings = self.registry.kinds[kind].settings
            history = self._history[kind][slot]
            meaning = settle(
                history,
                verdict=verdict.id,
                label=verdict.label,
                score=verdict.score,
                confidence=verdict.confidence,
                time_s=verdict.time_s,
                number=verdict.number,
                alarm_labels=settings.alarm_labels,
                rearm_windows=settings.rearm_windows,
            )
            if meaning.raises:
                outcome.alarms.append(Alarm(history.episode, history.raised_s, verdict))
        outcome.verdicts.append(verdict)
        outcome.changed.append(meaning.changed)
        if meaning.raises:
            outcome.rows.append(verdict_row(verdict, RowClass.ALARM, self._clock.stamp()))
        elif meaning.changed or escalated:
            outcome.rows.append(verdict_row(verdict, RowClass.VERDICT, self._clock.stamp()))

    def deadline_ms(self, stream: str) -> float:
        """The deadline of a stream's verdicts, from the arrival of the message that led to them."""
        found = self.registry.find(stream)
        kind = 0 if found is None else found[0]
        return self.registry.kinds[kind].settings.deadline_ms

    def heard(self) -> list[tuple[str, int]]:
        """Every stream, and when its last reading arrived (monotonic ns; 0: before the start)."""
        found = []
        for name in self.registry.names():
            place = self.registry.find(name)
            if place is not None:
                found.append((name, self._heard_ns[place[0]].get(place[1], 0)))
        return found

    def unheard_tables(self) -> list[str]:
        """The `[[stream]]` tables of which no stream was ever seen."""
        seen = {place[0] for name in self.registry.names() if (place := self.registry.find(name))}
        kinds = self.registry.kinds
        return [kind.settings.name for kind in kinds if kind.index not in seen]

    # --- models ------------------------------------------------------------------------------

    def model_faults(self) -> dict[str, str]:
        """Streams whose model failed when it was last asked, and why."""
        return {
            judge.kind.settings.name: judge.model_fault
            for judge in self._judges
            if judge.model_fault
        }

    # --- memory ------------------------------------------------------------------------------

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Every stream that changed since the last call, as of now."""
        dirty, self._dirty = self._dirty, set()
        return tuple(
            Checkpoint(
                self.registry.name(kind, slot),
                remember(self._judges[kind], slot, self._history[kind][slot]),
            )
            for kind, slot in sorted(dirty)
        )

    def recover(self, recovery: Recovery) -> int:
        """Restores every stream whose channels are still declared the same; returns readings.

        Checkpoints are loaded, then the readings stored after them run through windows, baseline and
        judgement again, silently: their verdicts were given before the stop.
        """
        seqs: dict[str, int] = {}
        for stream, (seq, body) in recovery.checkpoints.items():
            memory = read_memory(body)
            if memory is None:
                continue
            place = self._place(stream, memory.channels, table=memory.table)
            if place is not None:
                kind, slot = place
                self._history[kind][slot] = restore(self._judges[kind], slot, memory)
                seqs[stream] = seq
        return sum(self._replay(row, seqs) for row in recovery.rows)

    def _replay(self, row: StoredRow, seqs: dict[str, int]) -> int:
        try:
            groups = decode(row.body, RawRow).groups
        except EncodingError:
            return 0
        count = 0
        for group in groups:
            if row.seq <= seqs.get(group.stream, -1):
                continue
            place = self._place(group.stream, group.channels)
            if place is None:
                continue
            readings = group_batch(group, kind=place[0], slot=place[1])
            self._read(readings, ALONE, Outcome(), Stages(begin=self._clock.mono_ns()))
            count += group.count
        return count

    def _place(
        self, stream: str, channels: tuple[str, ...], *, table: str = ""
    ) -> tuple[int, int] | None:
        kind = self.registry.kind_of(stream, channels, table=table)
        if kind is None:
            return None
        try:
            return kind, self.registry.open(kind, stream)
        except TooManyStreams:
            return None


def _local(judged: Judged, index: int, history: StreamHistory, time_s: float) -> LocalAnswer:
    return best_local(
        breach=judged.breach[index],
        model=judged.model[index],
        model_absent=judged.model_absent[index],
        baseline=judged.baseline[index],
        last=history.known(),
        time_s=time_s,
    )
