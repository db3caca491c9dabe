import contextlib
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from contract.golden import decode_golden, encode_golden
from contract.manifest import ManifestError, encode_manifest, parse_manifest
from tests.unit.contract.package_samples import golden_vectors, manifest

DATA = encode_manifest(manifest())
GOLDEN = encode_golden(golden_vectors())

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def mutated(data: bytes):
    @st.composite
    def strategy(draw):
        content = bytearray(data)
        for _ in range(draw(st.integers(1, 4))):
            at = draw(st.integers(0, max(len(content) - 1, 0)))
            length = draw(st.integers(0, 20))
            content[at : at + length] = draw(st.binary(max_size=20))
        return bytes(content)

    return strategy()


def read(parse, data: bytes) -> None:
    with contextlib.suppress(ManifestError):
        parse(data)


@given(mutated(DATA))
@settings(max_examples=400)
def test_a_damaged_manifest_raises_nothing_but_a_manifest_error(data):
    read(parse_manifest, data)


@given(mutated(GOLDEN))
@settings(max_examples=400)
def test_damaged_golden_vectors_raise_nothing_but_a_manifest_error(data):
    read(decode_golden, data)


@given(st.binary(max_size=200))
def test_any_bytes_raise_nothing_but_a_manifest_error(data):
    read(parse_manifest, data)
    read(decode_golden, data)


@given(st.data())
@settings(max_examples=400)
def test_a_wrong_value_anywhere_raises_nothing_but_a_manifest_error(data):
    content = json.loads(DATA)
    node = content
    while True:
        key = data.draw(
            st.sampled_from(sorted(node) if isinstance(node, dict) else list(range(len(node))))
        )
        deeper = isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans())
        if not deeper:
            break
        node = node[key]
    node[key] = data.draw(JSON)
    read(parse_manifest, json.dumps(content).encode())
