"""deploy/demo/configuration: what it writes is what the product reads."""

import pytest

from cloud_hub.settings import load_settings as load_hub_settings
from deploy.demo.configuration import BOILERS, DEVICES, PUMP, WORKSHOP, device_toml, hub_toml
from deploy.demo.site import ROOT
from edge_agent.settings import load_settings


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_a_device_can_be_run_with_it(tmp_path, device):
    path = tmp_path / "agent.toml"
    text = device_toml(
        device,
        home=tmp_path / 'with "quotes"',
        models=ROOT / "models",
        broker_url="mqtt://127.0.0.1:1",
        hub_url="nats://127.0.0.1:2",
    )
    path.write_text(text, encoding="utf-8")
    settings = load_settings(path)
    assert settings.device.name == device.name
    assert settings.data_dir == tmp_path / 'with "quotes"'
    assert [model.package for model in settings.model] == [
        ROOT / "models" / device.family / "package" for _ in range(1) if device.family
    ]
    assert settings.stream[0].time == "recorded"
    assert settings.hub.reconnect_jitter_s == settings.hub.drain_jitter_s == 1


def test_the_hub_can_be_run_with_it(tmp_path):
    path = tmp_path / "hub.toml"
    text = hub_toml(
        home=tmp_path,
        models=ROOT / "models",
        url="nats://127.0.0.1:1",
        monitor_url="http://127.0.0.1:2",
        http_port=3,
    )
    path.write_text(text, encoding="utf-8")
    settings = load_hub_settings(path)
    assert settings.nats.allow_unsafe_sync is False
    assert [package.parent.name for package in settings.models.packages] == [
        "waterflow-anomaly",
        "motion-class",
    ]


def test_windows_fall_due_as_the_models_say():
    assert (PUMP.due(11), PUMP.due(12), PUMP.due(1268)) == (0, 1, 1257)
    assert (WORKSHOP.due(99), WORKSHOP.due(100), WORKSHOP.due(199)) == (0, 1, 1)
    assert BOILERS.due(7) == 7


def test_topics_belong_to_one_device_and_name_its_stream():
    topics = {"plant/flow": "flow", "motion/r07": "motion/r07", "sim/3": "boiler/3"}
    for topic, stream in topics.items():
        (device,) = [device for device in DEVICES if device.takes(topic)]
        assert device.stream_of(topic) == stream
    assert not any(device.takes("motion/a/b") for device in DEVICES)
