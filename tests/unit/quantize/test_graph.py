import numpy as np
import onnx
import pytest

from quantize.errors import InputError
from quantize.graph import OPSET, dense_graph
from quantize.session import latency_us, load
from tests.unit.quantize.toy_models import dense_layers, dense_model, typical_rows


def test_the_graph_computes_what_the_layers_say():
    layers = dense_layers(5, 7, 3)
    rows = typical_rows(20, 5)
    hidden = np.maximum(rows @ layers[0][0] + layers[0][1], 0)
    limit = np.full(5, 10, np.float32)
    graph = dense_graph(layers, name="toy", output="out", low=-limit, high=limit)
    got = load(graph.SerializeToString())(rows)
    assert got == pytest.approx(hidden @ layers[1][0] + layers[1][1], abs=1e-5)


def test_a_value_outside_the_trained_range_counts_as_its_edge():
    run = load(dense_model(3, 2, bound=4.0))
    edge = np.array([[4.0, -4.0, 1.0]], dtype=np.float32)
    far = np.array([[1e9, -1e9, 1.0]], dtype=np.float32)
    assert run(far).tobytes() == run(edge).tobytes()


def test_the_graph_is_plain_and_its_biases_have_one_dimension():
    model = onnx.load_model_from_string(dense_model(5, 7, 3))
    assert [node.op_type for node in model.graph.node] == ["Max", "Min", "Gemm", "Relu", "Gemm"]
    assert model.opset_import[0].version == OPSET
    shapes = {i.name: tuple(i.dims) for i in model.graph.initializer}
    assert shapes["bias_0"] == (7,)


def test_what_is_no_model_is_refused():
    for data in (b"", b"nonsense", b"\x08\x01"):
        with pytest.raises(InputError, match="cannot load"):
            load(data)


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="does not accept"):
        load(dense_model(3, 2))(np.zeros((1, 4), np.float32))


def test_a_latency_is_a_positive_time():
    assert 0 < latency_us(load(dense_model(3, 2)), np.zeros((1, 3), np.float32)) < 1e5
