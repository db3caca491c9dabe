"""Static INT8 quantization of ONNX models (QDQ form, per channel, signed activations and weights).

Signed on both sides because that form does not saturate on x86 CPUs without VNNI, so that an old gateway and
a new one compute the same.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

from quantize.errors import InputError

CALIBRATION_BATCH: Final = 256
QUANTIZED_OPS: Final = (
    "Conv",
    "ConvTranspose",
    "Gemm",
    "MatMul",
    "Relu",
    "Add",
    "MaxPool",
    "AveragePool",
)
"""Left alone on purpose: Softmax, Sigmoid and ArgMax, whose INT8 inputs would throw away what they decide on."""


class _Rows(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime ships no types
    def __init__(self, input_name: str, rows: NDArray[np.float32]) -> None:
        starts = range(0, len(rows), CALIBRATION_BATCH)
        self._batches: Iterator[dict[str, NDArray[np.float32]]] = iter(
            [{input_name: rows[start : start + CALIBRATION_BATCH]} for start in starts]
        )

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        return next(self._batches, None)


def quantize_int8(model: bytes, *, input_name: str, calibration: NDArray[np.float32]) -> bytes:
    """Returns the INT8 form of a float ONNX model; the same input gives the same bytes.

    `calibration` f32 [M, …] are typical inputs: their extremes become the ranges, so what lies outside is
    clipped. Raises InputError if the model cannot be quantized with them.
    """
    if len(calibration) == 0 or not np.isfinite(calibration).all():
        raise InputError("calibration data must hold at least one row and finite numbers only")
    with tempfile.TemporaryDirectory() as folder, _quiet_root_logger():
        source = Path(folder, "float.onnx")
        prepared = Path(folder, "prepared.onnx")
        target = Path(folder, "int8.onnx")
        source.write_bytes(model)
        try:
            quant_pre_process(source, prepared, skip_symbolic_shape=True)
            quantize_static(
                prepared,
                target,
                _Rows(input_name, calibration),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=list(QUANTIZED_OPS),
                per_channel=True,
                activation_type=QuantType.QInt8,
                weight_type=QuantType.QInt8,
                calibrate_method=CalibrationMethod.MinMax,
            )
        except (ValueError, RuntimeError, TypeError, KeyError) as error:
            raise InputError(f"the model cannot be quantized: {error}") from error
        return target.read_bytes()


@contextmanager
def _quiet_root_logger() -> Iterator[None]:
    # onnxruntime.quantization logs its advice on the root logger.
    root: Any = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(level)
