"""Float against INT8, measured and not promised: figures, sizes and the time of one row."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from quantize.fidelity import agreement, output_difference
from quantize.plan import F32
from quantize.session import latency_us
from quantize.variants import BuiltVariant


class VariantReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """One variant's figures; the `float_…` side is the same network before quantization.

    Latencies are of one row on one CPU thread, in µs, on the machine that built the package.
    """

    precision: str
    model_bytes: int
    figures: dict[str, float]
    latency_us: float | None = None
    float_model_bytes: int | None = None
    float_latency_us: float | None = None
    float_figures: dict[str, float] = {}
    fidelity: dict[str, float] = {}


class BuildReport(msgspec.Struct, frozen=True):
    """`report.json`: what a build measured."""

    family: str
    release: int
    machine: str
    variants: dict[str, VariantReport]


def report_variant(built: BuiltVariant, row: F32 | None) -> VariantReport:
    """Returns the variant's report; latencies are measured with `row` f32 [1, F], or left out without one."""
    twin = built.twin
    fidelity: dict[str, float] = {}
    if twin is not None:
        fidelity = agreement(twin.judgement, built.judgement)
        fidelity |= output_difference(twin.output, built.output)
    return VariantReport(
        precision=built.variant.precision,
        model_bytes=len(built.model),
        figures=built.figures,
        latency_us=None if row is None else round(latency_us(built.runner, row), 1),
        float_model_bytes=None if twin is None else len(twin.model),
        float_latency_us=(
            None if twin is None or row is None else round(latency_us(twin.runner, row), 1)
        ),
        float_figures={} if twin is None else twin.figures,
        fidelity=fidelity,
    )


def report_lines(report: BuildReport) -> Iterator[str]:
    """Yields the report as text for a person, worst news included."""
    yield f"{report.family} release {report.release} ({report.machine})"
    for name, variant in report.variants.items():
        yield f"  {name} ({variant.precision})"
        yield _comparison("size, bytes", variant.model_bytes, variant.float_model_bytes)
        yield _comparison("one row, µs", variant.latency_us, variant.float_latency_us)
        for figure, value in variant.figures.items():
            yield _comparison(figure, value, variant.float_figures.get(figure))
        for figure, value in variant.fidelity.items():
            yield f"    {figure:<24}{value:>12.4g}"
        yield from _verdicts(variant)


def _comparison(what: str, own: float | None, twin: float | None) -> str:
    own_text = "-" if own is None else f"{own:.6g}"
    beside = "" if twin is None else f"   float {twin:.6g}"
    return f"    {what:<24}{own_text:>12}{beside}"


def _verdicts(variant: VariantReport) -> Iterator[str]:
    if variant.float_model_bytes is not None and variant.model_bytes > variant.float_model_bytes:
        yield "    note: quantization made this file larger (the network is tiny)"
    if (
        variant.latency_us is not None
        and variant.float_latency_us is not None
        and variant.latency_us > variant.float_latency_us
    ):
        yield "    note: quantization made this model slower on this machine"
