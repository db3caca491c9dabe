"""deploy/demo/acts and sensors: what is said of the backlog, and a sensor that ends early."""

import asyncio
import sys

import pytest

from deploy.demo.acts import drained
from deploy.demo.configuration import PUMP
from deploy.demo.sensors import Sensor
from deploy.demo.site import DemoError


def test_a_drained_backlog_is_told():
    assert drained(100, 100, 0, seconds=1.5) == "all of it is stored, 1.5 s after the last reading"


@pytest.mark.parametrize(("stored", "unrevised"), [(90, 0), (100, 2)])
def test_what_is_left_when_time_is_over_is_told(stored, unrevised):
    text = drained(stored, 100, unrevised, seconds=25.0)
    assert "all of it" not in text
    assert f"{stored} of 100 are stored, {unrevised} queued windows" in text


@pytest.mark.parametrize("code", [0, 3])
async def test_a_sensor_that_ended_with_a_failure_is_named(tmp_path, code):
    sensor = Sensor(PUMP, [], folder=tmp_path)
    sensor.check()  # not started
    sensor._process = process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", f"raise SystemExit({code})"
    )
    await process.wait()
    if code == 0:
        sensor.check()
    else:
        with pytest.raises(DemoError, match=r"sensors of pump-station failed with exit code 3"):
            sensor.check()
