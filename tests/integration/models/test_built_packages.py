"""The packages in models/ as they lie there: whole, right on this machine, and as good as they say."""

import hashlib
from pathlib import Path

import msgspec
import numpy as np
import pytest

from contract.features import compile_features
from contract.golden import decode_golden
from contract.scoring import judge
from quantize import datasets
from quantize.package import package_problems, read_package
from quantize.recipe import check, load_plan
from quantize.report import BuildReport
from quantize.variants import build_variant, features_of

MODELS = Path(__file__).parents[3] / "models"
FAMILIES = ("waterflow-anomaly", "motion-class")
EVENTS = ((93, 110), (210, 223), (329, 329), (872, 887))

every_family = pytest.mark.parametrize("family", FAMILIES)


def variant_of(package, role):
    return next(v for v in package.manifest.variants if v.role == role)


def judged_one_by_one(package, variant, windows, times):
    """The way a device does it: a window comes, is turned into features, scored and judged alone."""
    compute, run = compile_features(package.manifest.features), package.runner(variant)
    labels = []
    for i in range(len(windows)):
        features = compute(windows[i : i + 1], times[i : i + 1])
        labels.append(judge(variant, features=features, output=run(features)).labels[0])
    return np.array(labels)


@every_family
def test_a_package_is_whole_small_and_right_on_this_machine(family):
    folder = MODELS / family / "package"
    package = read_package(folder)
    assert package.manifest.family == family
    assert package_problems(package) == []
    assert sum(p.stat().st_size for p in folder.rglob("*")) <= 2 * 1024 * 1024
    assert [v.role for v in package.manifest.variants] == ["device", "hub"]
    assert variant_of(package, "device").precision == "int8"


@every_family
def test_a_package_clears_the_gates_of_its_recipe(family):
    result = check(MODELS / family)
    assert result.problems == []


@every_family
def test_features_in_training_and_from_the_package_are_the_same_bits(family):
    plan, package = load_plan(MODELS / family), read_package(MODELS / family / "package")
    assert package.manifest.features == plan.features
    from_package = compile_features(package.manifest.features)
    trained_on = features_of(plan).train
    assert from_package(plan.train.values, plan.train.times).tobytes() == trained_on.tobytes()
    one_by_one = [
        from_package(plan.train.values[i : i + 1], plan.train.times[i : i + 1])
        for i in range(len(trained_on))
    ]
    assert np.concatenate(one_by_one).tobytes() == trained_on.tobytes()


@every_family
def test_golden_windows_cover_every_label(family):
    package = read_package(MODELS / family / "package")
    for variant in package.manifest.variants:
        golden = decode_golden(package.blobs[variant.golden.path])
        assert set(golden.labels.tolist()) == set(range(len(package.manifest.labels)))


@every_family
def test_the_card_says_what_the_report_measured(family):
    card = (MODELS / family / "card.md").read_text()
    package = read_package(MODELS / family / "package")
    report = msgspec.json.decode((MODELS / family / "report.json").read_bytes(), type=BuildReport)
    assert report.release == package.manifest.release
    for name, variant in report.variants.items():
        assert f"| `{name}` |" in card
        assert f"{variant.model_bytes:,}" in card
        key = "normal_flagged_share" if package.manifest.kind == "anomaly" else "accuracy"
        recorded = package.manifest.provenance.report[f"{name}.{key}"]
        assert recorded == pytest.approx(variant.figures[key], abs=1e-6)
        assert f"{recorded:.1%}".replace("%", " %") in card


@pytest.mark.parametrize("role", ["device", "hub"])
def test_waterflow_finds_four_of_four_events_and_leaves_normal_hours_alone(role):
    package = read_package(MODELS / "waterflow-anomaly" / "package")
    times, flow = datasets.waterflow()
    windows = np.lib.stride_tricks.sliding_window_view(flow, 12)[:, :, None]
    window_times = np.lib.stride_tricks.sliding_window_view(times, 12)
    labels = judged_one_by_one(package, variant_of(package, role), windows, window_times)
    last = np.arange(11, len(flow))
    overlaps = np.array([(last >= a) & (last - 11 <= b) for a, b in EVENTS])
    assert [bool(np.any(labels[event] == 1)) for event in overlaps] == [True] * 4
    assert np.mean(labels[~overlaps.any(axis=0)]) <= 0.02


@pytest.mark.parametrize("role", ["device", "hub"])
def test_motion_is_told_apart_on_recordings_never_seen(role):
    package = read_package(MODELS / "motion-class" / "package")
    recordings, truth = datasets.motion("test")
    labels = judged_one_by_one(
        package, variant_of(package, role), recordings, np.zeros((len(recordings), 100))
    )
    names = [package.manifest.labels[label] for label in labels]
    assert np.mean([a == b for a, b in zip(names, truth, strict=True)]) >= 0.925


def test_waterflow_is_made_from_rows_400_to_799_alone(monkeypatch):
    honest = load_plan(MODELS / "waterflow-anomaly")
    times, flow = datasets.waterflow()
    other = np.random.default_rng(1).normal(100.0, 30.0, len(flow))
    other[400:800] = flow[400:800]
    monkeypatch.setattr(datasets, "waterflow", lambda: (times, other))
    altered = load_plan(MODELS / "waterflow-anomaly")
    assert digest(altered) == digest(honest)


def test_motion_is_made_from_the_training_split_alone(monkeypatch):
    honest = load_plan(MODELS / "motion-class")
    real = datasets.motion

    def shuffled(split):
        recordings, labels = real(split)
        return (recordings, labels) if split == "train" else (recordings[::-1].copy(), labels)

    monkeypatch.setattr(datasets, "motion", shuffled)
    altered = load_plan(MODELS / "motion-class")
    assert digest(altered) == digest(honest)


def digest(plan):
    """Everything of the device variant that training decided: features, weights, calibration, threshold."""
    built = build_variant(plan, plan.variants[0], features_of(plan))
    decided = (plan.features, built.variant.calibration, built.variant.threshold)
    return hashlib.sha256(msgspec.json.encode(decided) + built.model).hexdigest()
