import numpy as np

from quantize.datasets import MOTION_CHANNELS, MOTION_LABELS, motion, waterflow


def test_waterflow_is_hourly_with_gaps_and_never_goes_back_in_time():
    times, flow = waterflow()
    assert times.shape == flow.shape == (1268,)
    steps = np.diff(times)
    assert steps.min() == 3600
    assert np.count_nonzero(steps != 3600) == 10
    assert np.all((flow > 0) & (flow < 200))


def test_motion_has_forty_recordings_a_split_and_ten_of_each_class():
    for split in ("train", "test"):
        recordings, labels = motion(split)
        assert recordings.shape == (40, 100, len(MOTION_CHANNELS))
        assert np.isfinite(recordings).all()
        assert [labels.count(label) for label in MOTION_LABELS] == [10, 10, 10, 10]
