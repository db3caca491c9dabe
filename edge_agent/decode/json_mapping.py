"""The `json` profile: a declared mapping from paths in a JSON object to channels.

Two ways give the same readings (a property test holds them together): a typed decoder compiled for
the mapping, which most messages take, and a tolerant one that explains what it could not use.
"""

from __future__ import annotations

import json
import math
import re
from operator import attrgetter
from typing import Any

import msgspec

from contract.status import Fault
from edge_agent.decode.paths import MISSING, Step, follow, parse_path
from edge_agent.decode.rows import Reject, Rows
from edge_agent.decode.times import TIME_KEYS, parse_time

MISSING_WORDS = frozenset(
    ("", "unavailable", "unknown", "none", "null", "nan", "n/a", "na", "-nan", "inf", "-inf")
) | frozenset(("offline", "error", "---"))
LARGEST = 1e15
"""Larger magnitudes are no measured value."""
NAN = float("nan")
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)
"""Strings, an unfinished last one too: the pattern never fails, so it takes linear time."""
_UNNAMEABLE = re.compile(r'[\\"\x00-\x1f\ud800-\udfff]')
_ROUND = bytes.maketrans(b"[]{}", b"()()")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class JsonMapping:
    """Decodes one JSON object a message into one reading."""

    def __init__(
        self, paths: dict[str, str], *, time_path: str | None = None, max_depth: int = 16
    ) -> None:
        """Compiles the mapping: channel name to path. Raises ValueError for an invalid path."""
        self._names = tuple(paths)
        steps = [parse_path(path) for path in paths.values()]
        time_steps = [parse_path(time_path)] if time_path else _usual_times(steps)
        self._walks = [follow(each) for each in steps]
        self._time_walks = [follow(each) for each in time_steps]
        self._max_depth = max_depth
        self._typed: msgspec.json.Decoder[Any] | None = None
        if all(isinstance(step, str) for each in (*steps, *time_steps) for step in each):
            self._compile(steps, time_steps)

    def _compile(self, steps: list[tuple[Step, ...]], time_steps: list[tuple[Step, ...]]) -> None:
        tree = _Tree()
        places = [tree.place(each, float | None) for each in steps]
        time_places = [tree.place(each, float | str | None) for each in time_steps]
        if None in places or None in time_places:
            return  # what a struct cannot express is left to the tolerant way
        self._get = attrgetter(*[str(place) for place in (*places, *time_places)])
        self._single = len(places) + len(time_places) == 1
        self._typed = msgspec.json.Decoder(tree.struct())

    def decode(self, payload: bytes, rows: Rows) -> int:
        """Appends one reading; raises Reject when no channel has a value."""
        if self._typed is not None and self._plain(payload):
            try:
                found = self._get(self._typed.decode(payload))
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                return self._tolerant(payload, rows)
            if self._single:
                found = (found,)
            count = len(self._names)
            values = found[:count]
            if None not in values and max(values) <= LARGEST and min(values) >= -LARGEST:
                rows.values.extend(values)
                for time in found[count:]:
                    if time is not None:
                        self._append_time(time, rows)
                        return 1
                rows.times.append(NAN)
                return 1
        return self._tolerant(payload, rows)

    def _plain(self, payload: bytes) -> bool:
        """Whether the typed way may read it: it checks neither depth nor the text it skips."""
        try:
            return (payload.isascii() or bool(payload.decode())) and (
                payload.count(b"{") + payload.count(b"[") <= self._max_depth
            )
        except UnicodeDecodeError:
            return False

    def _append_time(self, given: object, rows: Rows) -> None:
        time = parse_time(given)
        if time != time:  # noqa: PLR0124 - NaN
            rows.time_faults.append((len(rows.times), f"{str(given)[:64]!r} is not a time"))
        rows.times.append(time)

    def _tolerant(self, payload: bytes, rows: Rows) -> int:
        content = parse_json(payload, max_depth=self._max_depth)
        if not isinstance(content, dict | list):
            raise Reject(
                Fault.WRONG_TYPE, f"a JSON {type(content).__name__} where an object is due"
            )
        values, faults = [], []
        for index, walk in enumerate(self._walks):
            value, fault, detail = _number(walk(content))
            values.append(value)
            if fault is not None:
                faults.append((len(rows.times), index, fault, f"{self._names[index]}: {detail}"))
        if len(faults) == len(values):
            kinds = {fault for _, _, fault, _ in faults}
            fault = Fault.NO_VALUES if kinds == {Fault.MISSING} else faults[0][2]
            raise Reject(fault, "; ".join(detail for *_, detail in faults)[:200])
        rows.values.extend(values)
        rows.faults.extend(faults)
        for walk in self._time_walks:
            if (given := walk(content)) is not MISSING and given is not None:
                self._append_time(given, rows)
                return 1
        rows.times.append(NAN)
        return 1


def parse_json(payload: bytes, *, max_depth: int) -> object:
    """The content of a JSON payload as devices really write it: BOM, NUL, NaN and Infinity allowed.

    Raises Reject with the reason: not UTF-8, not JSON, nested deeper than `max_depth`.
    """
    try:
        text = payload.decode("utf-8-sig").strip("\x00 \t\r\n")
    except UnicodeDecodeError as error:
        raise Reject(Fault.BAD_TEXT, f"byte {error.start} is not UTF-8") from error
    if (depth := _depth(payload, max_depth)) > max_depth:
        raise Reject(Fault.TOO_DEEP, f"nested more than {max_depth} levels (at least {depth})")
    try:
        # Integers as floats too: what is over 2^53 is no measured value, and a long one costs no time.
        return json.loads(text, parse_constant=float, parse_int=float)
    except (ValueError, RecursionError) as error:
        raise Reject(Fault.BAD_JSON, str(error)[:120]) from error


def _depth(payload: bytes, limit: int) -> int:
    """How deep the brackets outside strings go; counting stops just above the limit."""
    brackets = _STRINGS.sub(b"", payload).translate(_ROUND, _NO_BRACKETS)
    depth = 0
    while depth <= limit and (outer := brackets.replace(b"()", b"")) != brackets:
        depth, brackets = depth + 1, outer  # each turn takes away the innermost pairs
    return depth + brackets.count(b"(")


def _number(value: object) -> tuple[float, Fault | None, str]:
    """The finite number that a JSON value stands for, or NaN with the fault and a word on it."""
    if value is MISSING or value is None:
        return NAN, Fault.MISSING, "absent" if value is MISSING else "null"
    if isinstance(value, str):
        word = value.strip()
        if word.lower() in MISSING_WORDS:
            return NAN, Fault.MISSING, repr(word)
        try:
            value = float(word) if len(word) <= 64 and "_" not in word else "text"
        except ValueError:
            value = "text"
        if isinstance(value, str):
            return NAN, Fault.WRONG_TYPE, f"text {word[:40]!r} where a number is due"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NAN, Fault.WRONG_TYPE, f"{type(value).__name__} where a number is due"
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= LARGEST:
        return NAN, Fault.NOT_A_NUMBER, f"{number} is not a finite measured value"
    return number, None, ""


def _usual_times(steps: list[tuple[Step, ...]]) -> list[tuple[Step, ...]]:
    """The usual keys of a time, but for those that a channel is read from."""
    taken = {each[0] for each in steps}
    return [(key,) for key in TIME_KEYS if key not in taken]


class _Tree:
    """Builds a msgspec struct type from paths of keys."""

    def __init__(self) -> None:
        self.leaves: dict[str, tuple[str, Any]] = {}
        self.nodes: dict[str, tuple[str, _Tree]] = {}

    def place(self, steps: tuple[Step, ...], kind: Any) -> str | None:
        """The attribute path of a leaf; None when another is in the way, or the key is no name."""
        key = str(steps[0])
        if _UNNAMEABLE.search(key):
            return None
        if len(steps) == 1:
            if key in self.nodes:
                return None
            return self.leaves.setdefault(key, (f"f{len(self.leaves)}", kind))[0]
        if key in self.leaves:
            return None
        name, node = self.nodes.setdefault(key, (f"n{len(self.nodes)}", _Tree()))
        below = node.place(steps[1:], kind)
        return None if below is None else f"{name}.{below}"

    def struct(self) -> type[msgspec.Struct]:
        """The struct type; every field is optional."""
        fields: list[tuple[str, Any, Any]] = [
            (name, kind, None) for name, kind in self.leaves.values()
        ]
        names = {name: key for key, (name, _) in self.leaves.items()}
        for key, (name, node) in self.nodes.items():
            below = node.struct()
            fields.append((name, below, msgspec.field(default_factory=below)))
            names[name] = key
        return msgspec.defstruct("Mapped", fields, rename=names)
