"""Builds one variant: train, quantize, calibrate on itself, choose golden vectors, measure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from threadpoolctl import threadpool_limits

from contract.calibration import Calibration
from contract.features import compile_features
from contract.golden import GoldenVectors
from contract.manifest import Golden, TensorSpec, Variant
from contract.scoring import Judgement, judge, reconstruction_error
from quantize.calibrate import fit_quantiles, fit_temperature, fit_threshold
from quantize.errors import InputError
from quantize.graph import OPSET, dense_graph
from quantize.onnx_int8 import quantize_int8
from quantize.plan import F32, F64, I64, FamilyPlan, Trained, VariantPlan
from quantize.proofs import golden_vectors, tolerance_of
from quantize.session import Runner, load

FOLD_SEED: Final = 20261101


@dataclass(frozen=True, slots=True)
class BuiltVariant:
    """A variant with everything its package entry needs, and its judgement of the evaluation windows.

    `twin` is the same network in float, calibrated on itself, when the variant is INT8.
    """

    variant: Variant
    model: bytes
    golden: GoldenVectors
    runner: Runner
    output: F32
    judgement: Judgement
    figures: dict[str, float]
    twin: BuiltVariant | None = None


@dataclass(frozen=True, slots=True)
class FeatureSets:
    """Features of the plan's windows, computed once by the same code as on the device."""

    train: F32
    evaluation: F32


def features_of(plan: FamilyPlan) -> FeatureSets:
    """Returns the features f32 [B, F] of the training and the evaluation windows."""
    compute = compile_features(plan.features)
    return FeatureSets(
        train=compute(plan.train.values, plan.train.times),
        evaluation=compute(plan.evaluation.values, plan.evaluation.times),
    )


def build_variant(plan: FamilyPlan, wanted: VariantPlan, features: FeatureSets) -> BuiltVariant:
    """Returns the variant, built from nothing but the training windows; the same plan gives the same bytes."""
    built = _build(plan, wanted, features)
    if wanted.precision == "float32":
        return built
    return replace(built, twin=_build(plan, replace(wanted, precision="float32"), features))


def _build(plan: FamilyPlan, wanted: VariantPlan, features: FeatureSets) -> BuiltVariant:
    trained = _train(wanted, features.train, plan.train.labels)
    model = _model(plan, wanted, trained)
    runner = load(model)
    calibration, threshold = _calibrate(plan, wanted, features.train, runner)
    variant = Variant(
        name=wanted.name,
        role=wanted.role,
        runtime="onnx",
        opset=OPSET,
        path=f"{wanted.name}.onnx",
        precision=wanted.precision,
        inputs=(tensor_of(runner.input_name, features.train.shape[1]),),
        outputs=(tensor_of(runner.output_name, trained.layers[-1][1].shape[0]),),
        score="reconstruction_error" if plan.kind == "anomaly" else "softmax",
        calibration=calibration,
        threshold=threshold,
        batch_buckets=wanted.batch_buckets,
        resources=wanted.resources,
        golden=Golden(
            path=f"golden/{wanted.name}.msgpack",
            tolerance=tolerance_of(wanted.precision, runner(trained.representative)),
        ),
    )
    output = np.asarray(runner(features.evaluation), dtype=np.float32)
    judgement = judge(variant, features=features.evaluation, output=output)
    return BuiltVariant(
        variant=variant,
        model=model,
        golden=golden_vectors(
            variant,
            windows=plan.evaluation,
            features=features.evaluation,
            output=output,
            rows=np.asarray(plan.golden_rows, dtype=np.int64),
        ),
        runner=runner,
        output=output,
        judgement=judgement,
        figures=plan.evaluate(judgement),
    )


def _train(wanted: VariantPlan, features: F32, labels: I64 | None) -> Trained:
    # One BLAS thread: sums are then added in one order, whatever the machine's core count.
    with threadpool_limits(limits=1):
        return wanted.train(features, labels)


def _model(plan: FamilyPlan, wanted: VariantPlan, trained: Trained) -> bytes:
    model = dense_graph(
        trained.layers,
        name=plan.family,
        output="reconstruction" if plan.kind == "anomaly" else "logits",
        low=trained.representative.min(axis=0),
        high=trained.representative.max(axis=0),
    ).SerializeToString(deterministic=True)
    if wanted.precision == "float32":
        return bytes(model)
    return quantize_int8(model, input_name="features", calibration=trained.representative)


def _calibrate(
    plan: FamilyPlan, wanted: VariantPlan, features: F32, runner: Runner
) -> tuple[Calibration, float | None]:
    if plan.kind == "anomaly":
        scores = reconstruction_error(features, runner(features))
        return fit_quantiles(scores), fit_threshold(scores, margin=plan.threshold_margin)
    if plan.train.labels is None:
        raise InputError(f"{plan.family}: a classifier needs labelled training windows")
    held_out = _held_out_logits(plan, wanted, features, plan.train.labels)
    return fit_temperature(held_out, plan.train.labels), None


def _held_out_logits(plan: FamilyPlan, wanted: VariantPlan, features: F32, labels: I64) -> F64:
    # The network knows its own training rows by heart; only rows it has not seen tell how sure it may be.
    # Each fold is trained *and quantized* anew, so the temperature belongs to the quantized form.
    order = np.random.default_rng(FOLD_SEED).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    fold_of = np.empty(len(labels), dtype=np.int64)
    fold_of[order] = np.arange(len(labels)) % plan.folds
    logits = np.empty((len(labels), len(plan.labels)))
    for fold in range(plan.folds):
        seen, unseen = fold_of != fold, fold_of == fold
        trained = _train(wanted, features[seen], labels[seen])
        logits[unseen] = load(_model(plan, wanted, trained))(features[unseen])
    return logits


def tensor_of(name: str, width: int) -> TensorSpec:
    """Returns the tensor of a batch of float rows, the batch axis first."""
    return TensorSpec(name=name, dtype="float32", shape=(-1, width))
