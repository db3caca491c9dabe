"""Arrays as bytes: little-endian, C order, a closed list of element types, every size checked.

TensorError(ValueError)   the array cannot be packed, or the tensor is not what it claims to be
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

MAX_DIMENSIONS: Final = 8
MAX_AXIS_LENGTH: Final = 2**31 - 1

DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "bool": np.dtype("?"),
    "int8": np.dtype("i1"),
    "uint8": np.dtype("u1"),
    "int32": np.dtype("<i4"),
    "int64": np.dtype("<i8"),
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
}
"""The element types that travel, by the name used in manifests and messages."""


class TensorError(ValueError):
    """An array that cannot travel, or a tensor whose parts contradict one another."""


class Tensor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One array as it travels: element type by name, shape, and the elements in C order, little-endian."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


def pack_array(array: NDArray[Any]) -> Tensor:
    """Returns the tensor that `unpack_array` turns into an equal array of the same type and shape.

    Raises TensorError for an element type outside `DTYPES` or more than `MAX_DIMENSIONS` axes.
    """
    name = array.dtype.name
    wire = DTYPES.get(name)
    if wire is None:
        raise TensorError(f"dtype {name} does not travel; use one of {', '.join(DTYPES)}")
    if array.ndim > MAX_DIMENSIONS:
        raise TensorError(f"{array.ndim} axes; at most {MAX_DIMENSIONS} travel")
    return Tensor(dtype=name, shape=array.shape, data=array.astype(wire, copy=False).tobytes())


def unpack_array(tensor: Tensor, *, max_bytes: int) -> NDArray[Any]:
    """Returns a read-only view of the tensor's bytes as an array; copies nothing.

    Raises TensorError if the type is not in `DTYPES`, the shape is impossible, the data is longer than
    `max_bytes`, or its length is not what type and shape say.
    """
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None:
        raise TensorError(f"unknown dtype {tensor.dtype[:32]!r}; known: {', '.join(DTYPES)}")
    if len(tensor.data) > max_bytes:
        raise TensorError(f"{len(tensor.data)} bytes of data; at most {max_bytes} are accepted")
    if len(tensor.shape) > MAX_DIMENSIONS:
        raise TensorError(f"{len(tensor.shape)} axes; at most {MAX_DIMENSIONS} are accepted")
    if any(not 0 <= length <= MAX_AXIS_LENGTH for length in tensor.shape):
        raise TensorError(f"impossible shape {tensor.shape}")
    expected = math.prod(tensor.shape) * dtype.itemsize
    if len(tensor.data) != expected:
        raise TensorError(
            f"shape {tensor.shape} of {tensor.dtype} needs {expected} bytes, got {len(tensor.data)}"
        )
    array = np.frombuffer(tensor.data, dtype=dtype).reshape(tensor.shape)
    array.flags.writeable = False
    return array
