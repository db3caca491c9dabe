import logging

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from quantize.errors import InputError
from quantize.onnx_int8 import quantize_int8
from quantize.session import load
from tests.unit.quantize.toy_models import dense_model, typical_rows

ROWS = typical_rows(400, 16)


def test_the_same_model_and_data_give_the_same_bytes():
    model = dense_model(16, 8, 16)
    first, second = (
        quantize_int8(model, input_name="features", calibration=ROWS) for _ in range(2)
    )
    assert first == second


def test_int8_stays_close_to_float():
    model = dense_model(16, 32, 16)
    small = load(quantize_int8(model, input_name="features", calibration=ROWS))
    want = load(model)(ROWS)
    assert np.corrcoef(want.ravel(), small(ROWS).ravel())[0, 1] > 0.999


def test_weights_and_activations_are_signed_bytes_per_channel():
    data = quantize_int8(dense_model(16, 32, 16), input_name="features", calibration=ROWS)
    graph = onnx.load_model_from_string(data).graph
    kinds = {i.name: i.data_type for i in graph.initializer}
    assert kinds["weights_0_quantized"] == TensorProto.INT8
    scales = {i.name: tuple(i.dims) for i in graph.initializer}
    assert scales["weights_0_scale"] == (32,)
    assert TensorProto.UINT8 not in kinds.values()


def test_a_softmax_at_the_end_is_left_alone():
    weights = numpy_helper.from_array(np.eye(16, 4, dtype=np.float32), "w")
    bias = numpy_helper.from_array(np.zeros(4, dtype=np.float32), "b")
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["features", "w", "b"], ["logits"]),
            helper.make_node("Softmax", ["logits"], ["share"]),
        ],
        "soft",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["N", 16])],
        [helper.make_tensor_value_info("share", TensorProto.FLOAT, ["N", 4])],
        [weights, bias],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    data = quantize_int8(model.SerializeToString(), input_name="features", calibration=ROWS)
    nodes = onnx.load_model_from_string(data).graph.node
    assert nodes[-1].op_type == "Softmax"
    assert load(data)(ROWS).sum(axis=1) == pytest.approx(np.ones(400), abs=1e-5)


@pytest.mark.parametrize("rows", [ROWS[:0], np.full((2, 16), np.nan, np.float32)])
def test_calibration_without_numbers_is_refused(rows):
    with pytest.raises(InputError, match="at least one row and finite"):
        quantize_int8(dense_model(16, 8), input_name="features", calibration=rows)


def test_the_root_logger_keeps_its_level():
    before = logging.getLogger().level
    quantize_int8(dense_model(16, 8), input_name="features", calibration=ROWS)
    assert logging.getLogger().level == before
