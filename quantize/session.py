"""Runs ONNX models in the workshop on one CPU thread, as a small device would."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as state

from quantize.errors import InputError

WARM_UP_RUNS: Final = 200
ROUNDS: Final = 5
RUNS_PER_ROUND: Final = 400

_REFUSALS: Final = (
    state.EPFail,
    state.Fail,
    state.InvalidArgument,
    state.InvalidGraph,
    state.InvalidProtobuf,
    state.NoModel,
    state.NotImplemented,
    state.RuntimeException,
)
"""What onnxruntime raises for a model or an input that it does not want; they share no base of their own."""


@dataclass(frozen=True, slots=True)
class Runner:
    """One loaded model with one input and one output."""

    session: Any
    input_name: str
    output_name: str

    def __call__(self, features: NDArray[Any]) -> NDArray[Any]:
        """Returns the model's output for a batch; raises InputError if the model does not accept it."""
        try:
            output = self.session.run([self.output_name], {self.input_name: features})[0]
        except _REFUSALS as error:
            raise InputError(f"the model does not accept {features.shape}: {error}") from error
        return np.asarray(output)


def load(model: bytes) -> Runner:
    """Returns the model ready to run; raises InputError if onnxruntime refuses it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except _REFUSALS as error:
        raise InputError(f"onnxruntime cannot load the model: {error}") from error
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1 or len(outputs) != 1:
        raise InputError(
            f"the model has {len(inputs)} inputs and {len(outputs)} outputs; one of each is supported"
        )
    return Runner(session=session, input_name=inputs[0].name, output_name=outputs[0].name)


def latency_us(runner: Runner, row: NDArray[Any]) -> float:
    """Returns the time of one run with one row, in µs: the best of some rounds' medians, free of most noise."""
    for _ in range(WARM_UP_RUNS):
        runner(row)
    medians = []
    for _ in range(ROUNDS):
        spent = np.empty(RUNS_PER_ROUND)
        for run in range(RUNS_PER_ROUND):
            began = time.perf_counter_ns()
            runner(row)
            spent[run] = time.perf_counter_ns() - began
        medians.append(float(np.median(spent)) / 1000.0)
    return min(medians)
