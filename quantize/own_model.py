"""Quantizes a float ONNX model that somebody brings along, and says what that did to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from quantize.arrays import read_arrays
from quantize.errors import InputError
from quantize.fidelity import output_difference
from quantize.onnx_int8 import quantize_int8
from quantize.session import latency_us, load

MAX_MODEL_BYTES: Final = 2 * 1024 * 1024 * 1024
HOLD_OUT_EVERY: Final = 5
MIN_ROWS_TO_HOLD_OUT: Final = 50


class OwnModelReport(msgspec.Struct, frozen=True):
    """What quantization did: bytes, µs for one row on one thread, and how far the outputs moved.

    `measured_on` says whether the outputs were compared on rows that set no range.
    """

    out: str
    measured_on: str
    float_bytes: int
    int8_bytes: int
    float_latency_us: float
    int8_latency_us: float
    fidelity: dict[str, float]

    def lines(self) -> Iterator[str]:
        """The report as text."""
        yield f"wrote {self.out}"
        yield f"  size, bytes   float {self.float_bytes}   int8 {self.int8_bytes}"
        yield f"  one row, µs   float {self.float_latency_us}   int8 {self.int8_latency_us}"
        yield f"  outputs compared on {self.measured_on}:"
        for name, value in self.fidelity.items():
            yield f"    {name:<20}{value:>12.4g}"
        if self.int8_bytes > self.float_bytes or self.int8_latency_us > self.float_latency_us:
            yield "  note: the INT8 form is not better in every respect; tiny networks gain nothing"


def quantize_file(model: Path, *, calibration: Path, out: Path) -> OwnModelReport:
    """Writes the INT8 form of `model` to `out` and returns what it cost; raises InputError for unusable files."""
    source = _read_model(model)
    runner = load(source)
    rows = _calibration_rows(calibration, runner.input_name)
    fitted, measured, measured_on = _split(rows)
    expected = runner(measured)
    quantized = quantize_int8(source, input_name=runner.input_name, calibration=fitted)
    small = load(quantized)
    fidelity = output_difference(expected, small(measured))
    try:
        out.write_bytes(quantized)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error}") from error
    return OwnModelReport(
        out=str(out),
        measured_on=measured_on,
        float_bytes=len(source),
        int8_bytes=len(quantized),
        float_latency_us=round(latency_us(runner, rows[:1]), 1),
        int8_latency_us=round(latency_us(small, rows[:1]), 1),
        fidelity=fidelity,
    )


def _read_model(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_MODEL_BYTES:
            raise InputError(f"{path} is larger than {MAX_MODEL_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _calibration_rows(path: Path, input_name: str) -> NDArray[np.float32]:
    arrays = read_arrays(path)
    if input_name in arrays:
        rows: NDArray[Any] = arrays[input_name]
    elif len(arrays) == 1:
        rows = next(iter(arrays.values()))
    else:
        raise InputError(
            f"{path} holds {', '.join(arrays) or 'nothing'}; the model's input is {input_name!r}"
        )
    if rows.ndim < 2 or rows.dtype.kind not in "fiu" or len(rows) == 0:
        raise InputError(
            f"{path}: calibration data is numbers [rows, …], not {rows.dtype} {rows.shape}"
        )
    return np.ascontiguousarray(rows, dtype=np.float32)


def _split(rows: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32], str]:
    if len(rows) < MIN_ROWS_TO_HOLD_OUT:
        return rows, rows, "the calibration rows themselves (too few to hold any out)"
    held_out = np.arange(len(rows)) % HOLD_OUT_EVERY == 0
    return rows[~held_out], rows[held_out], "every fifth row, held out of calibration"
