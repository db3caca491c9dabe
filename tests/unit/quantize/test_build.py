import numpy as np
import pytest

from contract.calibration import Quantiles, Temperature
from contract.golden import decode_golden
from contract.manifest import parse_manifest
from quantize.build import build
from quantize.errors import GateError
from quantize.plan import Gate
from quantize.report import report_lines
from tests.unit.quantize.toy_models import plan


@pytest.fixture(scope="module")
def anomaly():
    return build(plan())


def test_a_build_has_both_variants_calibrated_on_themselves(anomaly):
    small, big = parse_manifest(anomaly.manifest).variants
    assert (small.role, small.precision, big.role, big.precision) == (
        "device", "int8", "hub", "float32",
    )  # fmt: skip
    assert isinstance(small.calibration, Quantiles)
    assert small.calibration != big.calibration
    assert small.threshold != big.threshold
    assert small.golden.tolerance > big.golden.tolerance


def test_a_build_is_the_same_twice(anomaly):
    again = build(plan())
    assert again.manifest == anomaly.manifest
    assert again.blobs == anomaly.blobs


def test_the_report_sets_int8_beside_float_and_admits_what_got_worse(anomaly):
    report = anomaly.report.variants["device-int8"]
    assert report.float_model_bytes
    assert report.latency_us
    assert report.fidelity["label_agreement"] <= 1
    text = "\n".join(report_lines(anomaly.report))
    assert "note: quantization made this file larger" in text


def test_the_manifest_holds_no_figure_that_depends_on_the_clock(anomaly):
    names = parse_manifest(anomaly.manifest).provenance.report
    assert not [name for name in names if "latency" in name]
    assert "device-int8.float_flagged" in names


def test_a_classifier_is_calibrated_by_a_temperature():
    manifest = parse_manifest(build(plan("classification")).manifest)
    assert all(isinstance(v.calibration, Temperature) for v in manifest.variants)
    assert manifest.variants[0].outputs[0].shape == (-1, 2)


def test_golden_windows_lie_far_from_every_edge(anomaly):
    manifest = parse_manifest(anomaly.manifest)
    for variant in manifest.variants:
        golden = decode_golden(anomaly.blobs[variant.golden.path])
        errors = np.mean(np.abs(golden.features.astype(float) - golden.output), axis=1)
        assert np.all(np.abs(errors - variant.threshold) > variant.golden.tolerance)


def test_a_model_that_misses_its_gate_is_not_packed():
    gate = Gate("device-int8.flagged", at_least=0.9)
    with pytest.raises(
        GateError, match=r"toy is not packed: device-int8.flagged is .* at least 0.9"
    ):
        build(plan(gates=(gate,)))
