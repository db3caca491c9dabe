"""Reads the time that a payload gives, whatever its unit: decided by magnitude, not by the key's name."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

TIME_KEYS = (
    "time",
    "timestamp",
    "ts",
    "Time",
    "last_seen",
    "dt",
    "datetime",
    "date",
    "gwts",
    "received_at",
    "epoch",
    "t",
    "unixtime",
)
"""Keys under which devices are known to give the time, most usual first."""

NAN = float("nan")
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,12}))?)?"
    r"\s*(Z|z|[+-]\d\d(?::?\d\d)?)?"
)


def parse_time(value: object) -> float:
    """UTC seconds since 1970, or NaN when the value is no time.

    Numbers from 1e9 are seconds, from 1e11 milliseconds, from 1e14 microseconds, from 1e17
    nanoseconds; smaller ones are seconds too (1970), for the clock check to refuse. Text may be such
    a number or ISO 8601 with `T` or a space; without an offset it is UTC, never the host's zone.
    """
    if isinstance(value, str):
        return _parse_text(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NAN
    magnitude = abs(value)
    if not magnitude < 1e20:
        return NAN
    value = float(value)  # before the division, so that 5 and 5.0 are the same time
    if magnitude < 1e11:
        return value
    if magnitude < 1e14:
        return value / 1e3
    if magnitude < 1e17:
        return value / 1e6
    return value / 1e9


def _parse_text(text: str) -> float:
    if len(text) > 64:
        return NAN
    match = _ISO.fullmatch(text)
    if match is None:
        try:
            return parse_time(float(text)) if "_" not in text else NAN
        except ValueError:
            return NAN
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = datetime(  # noqa: DTZ001 - the zone is applied below
            int(year), int(month), int(day), int(hour), int(minute), int(second or 0)
        )
        return moment.replace(tzinfo=_zone(zone)).timestamp() + float(f"0.{fraction or 0}")
    except (ValueError, OverflowError):
        return NAN


def _zone(text: str | None) -> timezone:
    if text is None or text in ("Z", "z"):
        return UTC
    sign = -1 if text[0] == "-" else 1
    digits = text[1:].replace(":", "")
    return timezone(sign * timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0)))
