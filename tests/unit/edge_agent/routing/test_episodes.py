from edge_agent.routing.episodes import StreamHistory, settle


def run(
    labels: str, *, rearm: int = 3, numbers=None
) -> tuple[StreamHistory, list[bool], list[bool]]:
    """`n` is a normal window, `a` an anomaly."""
    history = StreamHistory()
    raised, changed = [], []
    for at, label in enumerate(labels):
        meaning = settle(
            history,
            verdict=f"v{at}",
            label={"n": "normal", "a": "anomaly"}[label],
            score=float(at),
            confidence=0.9,
            time_s=100.0 + at,
            number=at if numbers is None else numbers[at],
            alarm_labels=("anomaly", "breach"),
            rearm_windows=rearm,
        )
        raised.append(meaning.raises)
        changed.append(meaning.changed)
    return history, raised, changed


def positions(flags: list[bool]) -> list[int]:
    return [at for at, flag in enumerate(flags) if flag]


def test_there_is_one_alarm_an_episode_however_often_it_flickers():
    _, raised, _ = run("nnaaanaannaan")
    assert positions(raised) == [2]


def test_enough_quiet_windows_in_a_row_end_the_episode():
    history, raised, _ = run("annna")
    assert positions(raised) == [0, 4]
    assert (history.episode, history.raised_s) == ("v4", 104.0)


def test_quiet_windows_are_counted_anew_after_each_alarm_label():
    _, raised, _ = run("annannannna")
    assert positions(raised) == [0, 10]


def test_a_change_of_label_is_told_and_the_first_label_is_none():
    _, _, changed = run("nnaan")
    assert positions(changed) == [2, 4]


def test_the_previous_verdict_is_known_after_the_first():
    assert StreamHistory().known() is None
    history, _, _ = run("na")
    known = history.known()
    assert known is not None
    assert (known.label, known.score, known.time_s) == ("anomaly", 1.0, 101.0)


def test_an_answer_out_of_order_may_raise_but_not_overwrite_a_newer_label():
    history, raised, changed = run("nna", numbers=[1, 3, 2])
    assert positions(raised) == [2]
    assert positions(changed) == [2]
    assert history.label == "normal"


def test_times_that_jump_back_do_not_freeze_the_label():
    history = StreamHistory()
    found = []
    for number, (label, time_s) in enumerate(
        [("a", 4e9), ("b", 2e9), ("b", 2e9 + 1), ("b", 2e9 + 2)]
    ):
        meaning = settle(
            history,
            verdict="v",
            label=label,
            score=0.0,
            confidence=0.5,
            time_s=time_s,
            number=number,
            alarm_labels=(),
            rearm_windows=3,
        )
        found.append(meaning.changed)
    assert found == [False, True, False, False]
    assert history.time_s == 2e9 + 2
