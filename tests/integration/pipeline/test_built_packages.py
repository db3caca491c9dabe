"""The packages that the repository ships, in the product's own core."""

import math
from pathlib import Path

import pytest

from contract.status import Tier
from edge_agent.inference.load import load_scorers
from tests.fakes.batches import START_S, message_batch
from tests.fakes.pipelines import pipeline_of, told
from tests.fakes.settings import settings_of, stream

MODELS = Path(__file__).parents[3] / "models"
PACKAGES = sorted(path.parent for path in MODELS.glob("*/package/manifest.json"))


def test_there_are_built_packages():
    assert {path.parent.name for path in PACKAGES} >= {"waterflow-anomaly", "motion-class"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.parent.name)
def test_a_built_package_proves_its_golden_vectors_and_answers_every_window(package):
    settings = settings_of(model=[{"package": package}])
    (scorer,) = load_scorers(settings).scorers.values()
    needs = scorer.manifest.compatibility.channels
    table = stream(model=scorer.family, channels={need.name: {} for need in needs}, time="recorded")
    period_s = scorer.manifest.compatibility.period_s
    window, hop = scorer.shape
    items = [
        (
            "site/a",
            {n.name: n.low + (n.high - n.low) * (0.5 + 0.4 * math.sin(at / 5)) for n in needs},
        )
        for at in range(window + 3 * hop)
    ]
    batch = message_batch(items, at_s=START_S, step_s=period_s)
    runs = []
    for _ in range(2):
        pipeline = pipeline_of(settings_of(table), {scorer.family: scorer})
        verdicts = pipeline.process(batch).verdicts
        assert len(verdicts) == 4
        assert {v.tier for v in verdicts} == {Tier.MODEL}
        assert {v.label for v in verdicts} <= set(scorer.labels)
        assert all(math.isfinite(v.score) and 0 <= v.confidence <= 1 for v in verdicts)
        runs.append(told(verdicts))
    assert runs[0] == runs[1]
