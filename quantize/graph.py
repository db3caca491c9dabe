"""Float ONNX graphs of dense networks, written node by node so that the quantizer finds what it expects.

A converter's graphs carry two-dimensional biases and a Softmax inside, and per-channel quantization trips
over both; here a layer is one Gemm with a one-dimensional bias, and the output is the last Gemm's.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from quantize.plan import F32, Layers

OPSET: Final = 17
IR_VERSION: Final = 8
INPUT: Final = "features"


def dense_graph(layers: Layers, *, name: str, output: str, low: F32, high: F32) -> onnx.ModelProto:
    """Returns a checked model: `features` [N, F] limited to low..high, Gemm + ReLU per layer, last one bare.

    `low` and `high` are f32 [F]. The batch axis is first and free.
    """
    nodes = [
        helper.make_node("Max", [INPUT, "low"], ["raised"], name="at_least_low"),
        helper.make_node("Min", ["raised", "high"], ["limited"], name="at_most_high"),
    ]
    constants: list[Any] = [_constant("low", low), _constant("high", high)]
    current = "limited"
    for index, (weights, bias) in enumerate(layers):
        last = index == len(layers) - 1
        gemm = output if last else f"gemm_{index}"
        constants += [_constant(f"weights_{index}", weights), _constant(f"bias_{index}", bias)]
        inputs = [current, f"weights_{index}", f"bias_{index}"]
        nodes.append(helper.make_node("Gemm", inputs, [gemm], name=f"layer_{index}"))
        current = gemm
        if not last:
            nodes.append(helper.make_node("Relu", [gemm], [f"relu_{index}"], name=f"relu_{index}"))
            current = f"relu_{index}"
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["N", layers[0][0].shape[0]])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["N", layers[-1][0].shape[1]])],
        constants,
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="skerry"
    )
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model, full_check=True)
    return model


def layers_of(network: Any) -> Layers:
    """Returns the layers of a fitted scikit-learn MLPClassifier or MLPRegressor with ReLU between layers."""
    return tuple(
        (np.asarray(weights, dtype=np.float32), np.asarray(bias, dtype=np.float32))
        for weights, bias in zip(network.coefs_, network.intercepts_, strict=True)
    )


def _constant(name: str, array: F32) -> Any:
    return numpy_helper.from_array(np.ascontiguousarray(array, dtype=np.float32), name)
