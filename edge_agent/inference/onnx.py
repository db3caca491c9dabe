"""Runs ONNX models on the device; the only importer of onnxruntime here.

A session is made from bytes that were verified, never from a path: external data cannot be reached.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from contract.manifest import Variant
from edge_agent.errors import ModelError
from edge_agent.types import F32


class OnnxModel:
    """An immutable session of one variant."""

    def __init__(self, model: bytes, variant: Variant) -> None:
        """Loads the model; raises ModelError when it is not one, or not the manifest's."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        # Spinning threads would burn a device's only core between two windows.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ModelError(f"onnxruntime cannot load variant {variant.name}: {error}") from error
        given = {each.name: each.type for each in self._session.get_inputs()}
        wanted = [each.name for each in variant.inputs]
        if sorted(given) != sorted(wanted) or len(wanted) != 1:
            raise ModelError(
                f"variant {variant.name}: the model's inputs are {sorted(given)}, "
                f"the manifest says {sorted(wanted)}"
            )
        self._input = wanted[0]
        self._output = variant.outputs[0].name
        self._batch_axis = variant.outputs[0].batch_axis
        if self._output not in {each.name for each in self._session.get_outputs()}:
            raise ModelError(f"variant {variant.name}: the model has no output {self._output!r}")

    def run(self, features: F32) -> NDArray[Any]:
        """The model's output for features [b, f], batch axis first; raises ModelError."""
        try:
            (output,) = self._session.run([self._output], {self._input: features})
        except Exception as error:
            raise ModelError(f"the model failed: {error}") from error
        if self._batch_axis:
            output = np.moveaxis(output, self._batch_axis, 0)
        if len(output) != len(features):
            raise ModelError(f"the model made {len(output)} rows of {len(features)}")
        return np.asarray(output)


def runtime_version() -> str:
    """The version of onnxruntime, for `check` and reports."""
    return str(ort.__version__)
