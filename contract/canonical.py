"""One byte form per value, so that a digest means the same on every machine."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec


def canonical_json(value: Any) -> bytes:
    """Returns JSON with sorted keys and no spaces: equal values give equal bytes."""
    return msgspec.json.encode(value, order="sorted")


def sha256_hex(data: bytes) -> str:
    """Returns the SHA-256 of `data` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
