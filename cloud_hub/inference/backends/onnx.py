"""Runs ONNX models on the best provider that is there; the only importer of onnxruntime in the hub.

A session is made from bytes that were verified, never from a path, so external data cannot be reached; no
library of custom operators is ever registered, so a model that needs one does not load.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from cloud_hub.errors import ModelFailed, PackageError
from cloud_hub.inference.backend import F32, BackendInfo
from contract.manifest import TensorSpec, Variant

Wish = Literal["auto", "cpu", "cuda", "tensorrt"]

CPU: Final = "CPUExecutionProvider"
_PROVIDERS: Final = {
    "tensorrt": "TensorrtExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "cpu": CPU,
}
_TYPES: Final = {"float32": "tensor(float)", "int8": "tensor(int8)", "uint8": "tensor(uint8)"}


class OnnxBackend:
    """An immutable session of one variant."""

    def __init__(self, model: bytes, variant: Variant, *, wish: Wish, threads: int) -> None:
        """Loads the model; raises PackageError when it is not one, or not the manifest's."""
        self._input, self._output = variant.inputs[0], variant.outputs[0]
        self._session = _session(model, variant.name, wish=wish, threads=threads)
        _check(variant.name, "input", self._input, self._session.get_inputs())
        _check(variant.name, "output", self._output, self._session.get_outputs())

    def describe(self) -> BackendInfo:
        """Where it runs."""
        provider = str(self._session.get_providers()[0])
        return BackendInfo("onnx", provider, pads=provider != CPU)

    def run(self, features: F32) -> NDArray[Any]:
        """The output for features [b, f], batch axis first, b rows; raises ModelFailed."""
        fed = features if self._input.batch_axis == 0 else np.ascontiguousarray(features.T)
        try:
            (output,) = self._session.run([self._output.name], {self._input.name: fed})
        except Exception as error:  # onnxruntime raises undeclared types of its own
            raise ModelFailed(f"the model failed: {error}") from error
        if self._output.batch_axis:
            output = np.moveaxis(output, self._output.batch_axis, 0)
        if len(output) != len(features):
            raise ModelFailed(f"the model made {len(output)} rows of {len(features)}")
        return np.asarray(output)

    def unload(self) -> None:
        """Gives the session's memory back."""
        del self._session


def _session(model: bytes, name: str, *, wish: Wish, threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    there = ort.get_available_providers()
    wanted = list(_PROVIDERS.values()) if wish == "auto" else [_PROVIDERS[wish]]
    providers = [each for each in wanted if each in there]
    if not providers:
        raise PackageError(
            f"[inference] provider is {wish!r}, which this onnxruntime does not have; there are: "
            f"{', '.join(there)}"
        )
    try:
        return ort.InferenceSession(
            model, options, providers=list(dict.fromkeys([*providers, CPU]))
        )
    except Exception as error:  # onnxruntime raises undeclared types of its own
        raise PackageError(f"onnxruntime cannot load variant {name}: {error}") from error


def _check(variant: str, what: str, wanted: TensorSpec, given: list[Any]) -> None:
    names = sorted(each.name for each in given)
    found = next((each for each in given if each.name == wanted.name), None)
    if found is None or (what == "input" and len(given) != 1):
        raise PackageError(
            f"variant {variant}: the model's {what}s are {names}, the manifest says {wanted.name!r}"
        )
    if found.type != _TYPES.get(wanted.dtype) or len(found.shape) != len(wanted.shape):
        raise PackageError(
            f"variant {variant}: the {what} {wanted.name!r} is {found.type} {found.shape}, "
            f"the manifest says {wanted.dtype} {list(wanted.shape)}"
        )
