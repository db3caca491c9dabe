import json

import msgspec
import pytest

from contract.calibration import Quantiles, Temperature
from contract.features import TimeOfDay
from contract.manifest import (
    CHUNK_BYTES,
    Blob,
    ChannelNeed,
    Compatibility,
    Golden,
    ManifestError,
    Resources,
    TensorSpec,
    blob_of,
    check_manifest,
    describe_blob,
    encode_manifest,
    manifest_digest,
    parse_manifest,
    variants_for,
    verify_blob,
    verify_chunk,
)
from tests.unit.contract.package_samples import (
    FEATURES,
    MODEL,
    anomaly_variant,
    class_variant,
    manifest,
)


def test_a_manifest_survives_its_file():
    assert parse_manifest(encode_manifest(manifest())) == manifest()


def test_the_file_is_canonical_sorted_and_without_spaces():
    data = encode_manifest(manifest())
    assert data == json.dumps(json.loads(data), sort_keys=True, separators=(",", ":")).encode()
    assert encode_manifest(parse_manifest(data)) == data


def test_the_digest_is_of_the_bytes_as_they_are():
    data = encode_manifest(manifest())
    assert manifest_digest(data) != manifest_digest(data + b" ")


def test_a_field_from_the_future_is_ignored():
    content = json.loads(encode_manifest(manifest()))
    content["signature_hint"] = {"x": 1}
    content["variants"][0]["quantum"] = True
    content["format"] = "1.9"
    assert parse_manifest(json.dumps(content).encode()).release == 7


def test_a_feature_field_from_the_future_is_refused():
    content = json.loads(encode_manifest(manifest()))
    content["features"]["gap_policy"] = "fill"
    with pytest.raises(ManifestError, match="gap_policy"):
        parse_manifest(json.dumps(content).encode())


@pytest.mark.parametrize("version", ["2.0", "0.9", "1", "", "1.x", "10.0"])
def test_another_major_format_is_refused_before_anything_else_is_read(version):
    with pytest.raises(ManifestError, match="another version of the product"):
        parse_manifest(json.dumps({"format": version, "family": 5}).encode())


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"null", b'{"format":1}', b'{"format":"1.0"}', b"\xff\xfe", b"[" * 100_000],
)
def test_what_is_no_manifest_is_refused(data):
    with pytest.raises(ManifestError, match="not a manifest"):
        parse_manifest(data)


def test_a_huge_manifest_is_not_even_parsed():
    with pytest.raises(ManifestError, match="at most"):
        parse_manifest(b" " * (4 * 1024 * 1024 + 1))


BLOB = describe_blob("device-int8.onnx", MODEL)
REST = manifest().blobs[1:]


def blobs(**fields):
    return {"blobs": (msgspec.structs.replace(BLOB, **fields), *REST)}


def variant(**fields):
    return {"variants": (anomaly_variant(**fields),)}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"family": "../etc"}, "family"),
        ({"family": "A"}, "family"),
        ({"family": "a" * 64}, "family"),
        ({"release": 0}, "release must be at least 1"),
        ({"version": "one"}, "version"),
        ({"created": "yesterday"}, "created"),
        ({"minimum_agent": ""}, "minimum_agent"),
        ({"labels": ("normal",)}, "2 to 1000 labels"),
        ({"labels": ("anomaly", "normal")}, "in this order"),
        ({"labels": ("normal", "normal")}, "different"),
        ({"feature_digest": "0" * 64}, "does not belong"),
        ({"features": msgspec.structs.replace(FEATURES, window=0)}, "window must be"),
        ({"features": msgspec.structs.replace(FEATURES, steps=(TimeOfDay(),))}, "does not belong"),
        ({"variants": ()}, "1 to 16 variants"),
        ({"variants": (anomaly_variant(), anomaly_variant())}, "same name"),
        ({"variants": (class_variant(),)}, "anomaly model scores by"),
        ({"kind": "classification"}, "classifier scores by softmax"),
        ({"compatibility": Compatibility((), 1.0)}, "different channels"),
        ({"compatibility": Compatibility((ChannelNeed("flow", "", 0, 1),), 0.0)}, "period_s"),
        ({"compatibility": Compatibility((ChannelNeed("flow", "", 2, 1),), 1.0)}, "no range"),
        ({"blobs": ()}, "1 to 256 blobs"),
        ({"blobs": (BLOB, *REST, BLOB)}, "same path"),
        ({"blobs": (BLOB,)}, "not among the blobs"),
        (blobs(length=-1), "impossible length"),
        (blobs(length=BLOB.length + CHUNK_BYTES), "do not fit"),
        (blobs(chunk_bytes=1), "chunk_bytes"),
        (blobs(sha256="XYZ"), "64 lower-case"),
        (blobs(chunks=("0",) * len(BLOB.chunks)), "64 lower-case"),
        (variant(name="Big One"), "name must match"),
        (variant(runtime=""), "runtime must match"),
        (variant(path="other.onnx"), "not among the blobs"),
        (variant(golden=Golden("golden/device-int8.msgpack", 0.0)), "tolerance must be positive"),
        (variant(resources=Resources(0.0, 1.0)), "max_p95_ms must be positive"),
        (variant(batch_buckets=()), "sizes from 1"),
        (variant(batch_buckets=(8, 1)), "must rise"),
        (variant(threshold=None), "needs a finite threshold"),
        (variant(inputs=()), "one input and one output"),
        (variant(inputs=(TensorSpec("x", "float32", (-1, 4)),)), "must be a batch of 3"),
        (variant(inputs=(TensorSpec("x", "float32", (3,)),)), "must be a batch of 3"),
        (variant(inputs=(TensorSpec("x", "complex64", (-1, 3)),)), "unknown dtype"),
        (variant(calibration=Temperature(1.0)), "calibrated by quantiles"),
        (variant(calibration=Quantiles((1.0,), (1.0,), 1.0)), "two knots"),
        (variant(calibration=Quantiles((1.0, 1.0), (1.0, 0.5), 1.0)), "scores must rise"),
        (variant(calibration=Quantiles((1.0, 2.0), (0.5, 0.5), 1.0)), "tails must fall"),
        (variant(calibration=Quantiles((1.0, 2.0), (1.5, 0.5), 1.0)), "tails lie above 0"),
        (variant(calibration=Quantiles((1.0, 2.0), (1.0, 0.5), 0.0)), "decades_per_unit"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused_with_the_reason(fields, reason):
    with pytest.raises(ManifestError, match=reason):
        check_manifest(manifest(**fields))


@pytest.mark.parametrize(
    "path",
    [
        "", "/etc/passwd", "../up", "a/../b", "a//b", "./a", "a/", "a\\b", ".hidden", "a/.b", "a b",
        "manifest.json", "Manifest.JSON", "c:x", "ä", "a\n", "a" * 201,
    ],
)  # fmt: skip
def test_a_path_that_could_leave_the_package_is_refused(path):
    with pytest.raises(ManifestError, match="path"):
        check_manifest(
            manifest(blobs=(*manifest().blobs, msgspec.structs.replace(BLOB, path=path)))
        )


def test_a_classifier_is_a_package_too():
    check_manifest(
        manifest(kind="classification", labels=("walking", "running"), variants=(class_variant(),))
    )


def test_the_batch_axis_is_where_the_shape_says():
    assert TensorSpec("x", "float32", (-1, 3)).batch_axis == 0
    assert TensorSpec("x", "float32", (3, -1)).batch_axis == 1


def test_variants_are_chosen_by_role_and_runtime():
    small, big = anomaly_variant(), anomaly_variant(name="hub-float32", role="hub")
    other = anomaly_variant(name="device-tflite", runtime="tflite")
    package = manifest(variants=(small, big, other))
    check_manifest(package)
    assert variants_for(package, "device", runtimes=("onnx",)) == (small,)
    assert variants_for(package, "device", runtimes=("tflite", "onnx")) == (small, other)
    assert variants_for(package, "hub", runtimes=("onnx",)) == (big,)


def test_a_blob_is_verified_whole_and_by_chunk():
    assert len(BLOB.chunks) == 3
    verify_blob(BLOB, MODEL)
    for index in range(3):
        verify_chunk(BLOB, index, MODEL[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES])


def test_a_wrong_blob_or_chunk_is_refused():
    with pytest.raises(ManifestError, match="the manifest says"):
        verify_blob(BLOB, MODEL[:-1])
    with pytest.raises(ManifestError, match="differs"):
        verify_blob(BLOB, b"\x01" + MODEL[1:])
    with pytest.raises(ManifestError, match="chunk 1 differs"):
        verify_chunk(BLOB, 1, b"")
    with pytest.raises(ManifestError, match="no chunk 3"):
        verify_chunk(BLOB, 3, b"")


def test_an_empty_blob_has_no_chunks():
    empty = describe_blob("empty", b"")
    assert empty == Blob("empty", empty.sha256, 0, ())
    verify_blob(empty, b"")


def test_an_unknown_path_is_named():
    with pytest.raises(ManifestError, match=r"no blob 'x' in waterflow-anomaly release 7"):
        blob_of(manifest(), "x")
