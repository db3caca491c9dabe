"""One byte form per value, so that a digest means the same on every machine."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import numpy as np


def canonical_json(value: Any) -> bytes:
    """Returns JSON with sorted keys and no spaces: equal values give equal bytes."""
    return msgspec.json.encode(value, order="sorted", enc_hook=_number)


def _number(value: Any) -> Any:
    """A recipe's numbers come from numpy: its scalars are the plain numbers that they hold."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no canonical form")


def sha256_hex(data: bytes) -> str:
    """Returns the SHA-256 of `data` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
