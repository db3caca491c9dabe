"""bench/edge: what can be checked without measuring."""

import json

import numpy as np

from bench.agent import LOAD, PROBE, agent_toml
from bench.edge import flat
from bench.latency import percentile
from bench.mqtt_wire import Unpacker, read_publish
from bench.throughput import STREAMS, Throughput, prepared_chunks
from bench.toy_package import HOP_ROWS, WINDOW_ROWS, build_toy_package
from bench.waves import CHANNELS, Sensors, waves, windows
from edge_agent.inference.load import load_scorers
from edge_agent.pipeline.core import Pipeline
from edge_agent.settings import load_settings
from tests.unit.bench.recorded_batches import RecordedClock, batch


def test_the_load_is_whole_json_of_all_streams():
    packets = Unpacker().feed(b"".join(prepared_chunks(base_s=1_790_000_000.0)))
    found = [read_publish(kind, body) for kind, body in packets]
    messages = [message for message in found if message is not None]
    assert len(messages) == len(packets)
    assert {message.topic for message in messages} == {f"{LOAD}/{n}" for n in range(STREAMS)}
    assert all({"time", *CHANNELS} < json.loads(message.payload).keys() for message in messages)


def test_the_made_up_world_is_the_same_in_every_run():
    assert np.array_equal(waves(), waves())
    assert Sensors().payload(3, 7, time_s=1.0) == Sensors().payload(3, 7, time_s=1.0)
    assert windows(WINDOW_ROWS, count=5).shape == (5, WINDOW_ROWS, len(CHANNELS))


def test_rates_come_from_counts_and_times():
    measured = Throughput(messages=1000, seconds=0.5, cpu_s=0.01)
    assert measured.messages_per_s == 2000
    assert round(measured.cpu_us_per_message, 6) == 10


def test_percentiles_are_measured_values():
    values = [float(n) for n in range(1, 101)]
    assert (percentile(values, 50), percentile(values, 99), percentile([7.0], 99)) == (50, 99, 7)


def test_nested_figures_become_lines():
    assert flat({"a": {"b": 1, "c": {"d": 2}}, "e": 3}) == [("a.b", 1), ("a.c.d", 2), ("e", 3)]


def test_probes_are_scored_at_every_reading_and_the_load_at_every_eighth(tmp_path):
    build_toy_package(tmp_path / "package")
    config = tmp_path / "agent.toml"
    text = agent_toml(
        home=tmp_path, package=tmp_path / "package", broker_url="mqtt://127.0.0.1:1883"
    )
    config.write_text(text, encoding="utf-8")
    settings = load_settings(config)
    loaded = load_scorers(settings)
    assert loaded.failures == {}
    pipeline = Pipeline(settings, loaded.scorers, clock=RecordedClock(), epoch="e", timed=False)
    sensors, count = Sensors(), 2 * WINDOW_ROWS
    counts = {}
    for topic in (f"{LOAD}/1", f"{PROBE}/1"):
        payloads = [sensors.payload(1, number, time_s=1e9 + number) for number in range(count)]
        outcome = pipeline.process(batch(topic, payloads))
        assert {verdict.tier for verdict in outcome.verdicts} == {"model"}
        counts[topic] = len(outcome.verdicts)
    assert counts == {f"{LOAD}/1": WINDOW_ROWS // HOP_ROWS + 1, f"{PROBE}/1": WINDOW_ROWS + 1}
