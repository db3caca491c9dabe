import tracemalloc
from dataclasses import replace

import numpy as np

from contract.status import Tier
from edge_agent.observe.recent import RecentVerdicts
from edge_agent.outputs.examples import VERDICT


def test_a_verdict_is_explained_with_its_inputs():
    recent = RecentVerdicts()
    recent.add(VERDICT, {"confidence": np.float32(0.5), "link": "offline", "budget": np.arange(2)})
    explained = recent.explain(VERDICT.id)
    assert explained is not None
    assert explained["tier"] == "model"
    assert explained["reasons"] == ["confident"]
    assert explained["inputs"] == {"confidence": 0.5, "link": "offline", "budget": [0, 1]}
    assert recent.explain("unknown") is None


def test_a_later_answer_to_the_same_id_replaces_the_first():
    recent = RecentVerdicts()
    recent.add(VERDICT)
    recent.add(replace(VERDICT, tier=Tier.HUB))
    explained = recent.explain(VERDICT.id)
    assert explained is not None
    assert explained["tier"] == "hub"
    assert len(recent) == 1


def test_the_oldest_are_forgotten_and_memory_is_bounded():
    recent = RecentVerdicts(max_verdicts=1000)
    tracemalloc.start()
    for number in range(5000):
        recent.add(replace(VERDICT, id=f"{number:024d}", number=number), {"link": "offline"})
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(recent) == 1000
    assert recent.explain(f"{3999:024d}") is None
    assert recent.latest(2) == [f"{4999:024d}", f"{4998:024d}"]
    assert used < 1000 * 800
