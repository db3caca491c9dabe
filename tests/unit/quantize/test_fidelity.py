import numpy as np
import pytest

from contract.scoring import Judgement
from quantize.fidelity import agreement, gate_problems, output_difference
from quantize.plan import Gate


def judgement(labels, scores):
    return Judgement(np.array(labels), np.array(scores, float), np.ones(len(labels)))


def test_agreement_counts_labels_and_orders_scores():
    a = judgement([0, 0, 1, 1], [1, 2, 3, 1000])
    b = judgement([0, 0, 0, 1], [1, 2, 3, 4])
    assert agreement(a, b) == {"label_agreement": 0.75, "score_correlation": pytest.approx(1.0)}


def test_differences_are_absolute():
    found = output_difference(np.array([[0, 2]], np.float32), np.array([[1, -1]], np.float32))
    assert found == {"mean_difference": 2.0, "max_difference": 3.0, "float_std": 1.0}


@pytest.mark.parametrize(
    ("gate", "problem"),
    [
        (Gate("share", at_most=0.2), None),
        (Gate("share", at_least=0.1), None),
        (Gate("share", at_most=0.05), "share is 0.1; at most 0.05 is asked"),
        (Gate("share", at_least=1), "share is 0.1; at least 1 is asked"),
        (Gate("nan", at_least=0), "nan is nan; at least 0 is asked"),
        (Gate("other", at_least=0), "other was not measured; measured: nan, share"),
    ],
)
def test_a_missed_gate_says_which_figure_and_what_was_asked(gate, problem):
    found = list(gate_problems([gate], {"share": 0.1, "nan": float("nan")}))
    assert found == ([] if problem is None else [problem])
