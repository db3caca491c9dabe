import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from contract.tensors import DTYPES, Tensor, TensorError, pack_array, unpack_array

ARRAYS = st.sampled_from(sorted(DTYPES)).flatmap(
    lambda name: hnp.arrays(dtype=name, shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0))
)


@given(ARRAYS)
def test_an_array_comes_back_with_the_same_type_shape_and_bits(array):
    back = unpack_array(pack_array(array), max_bytes=array.nbytes)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()


def test_big_endian_and_strided_arrays_travel_by_value():
    array = np.arange(12, dtype=">f4").reshape(3, 4)[:, ::2]
    assert np.array_equal(unpack_array(pack_array(array), max_bytes=100), array)


def test_bytes_are_little_endian_in_c_order():
    assert pack_array(np.array([[1, 2]], dtype=np.int32)) == Tensor(
        dtype="int32", shape=(1, 2), data=bytes([1, 0, 0, 0, 2, 0, 0, 0])
    )


def test_an_unpacked_array_cannot_be_written_to():
    array = unpack_array(pack_array(np.zeros(3)), max_bytes=24)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (Tensor("object", (1,), b"12345678"), "unknown dtype"),
        (Tensor("float32", (2,), b"1234"), "needs 8 bytes"),
        (Tensor("float32", (-1,), b""), "impossible shape"),
        (Tensor("float32", (2**40, 0), b""), "impossible shape"),
        (Tensor("int8", (1,) * 9, b"1"), "axes"),
        (Tensor("float64", (4,), bytes(32)), "at most 24"),
    ],
)
def test_a_tensor_that_contradicts_itself_is_refused(tensor, reason):
    with pytest.raises(TensorError, match=reason):
        unpack_array(tensor, max_bytes=24)


def test_an_array_of_objects_does_not_travel():
    with pytest.raises(TensorError, match="object does not travel"):
        pack_array(np.array([{}], dtype=object))
