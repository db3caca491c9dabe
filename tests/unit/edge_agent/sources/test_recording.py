import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.sources.recording import RecordingError, parse_line, read_recordings
from edge_agent.sources.replay import ReplaySource


def write(path: Path, *lines: object) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "payload"),
    [
        (b'{"t":1,"topic":"a","payload":{"x": 1.50}}', b'{"x": 1.50}'),
        (b'{"t":1,"topic":"a","payload":21.5}', b"21.5"),
        (b'{"t":1,"topic":"a","payload":"ON"}', b"ON"),
        (b'{"t":1,"topic":"a","payload":"\\u00fc\\n"}', "ü\n".encode()),
        (b'{"t":1,"topic":"a","payload":null}', b"null"),
        (b'{"t":1,"topic":"a","payload":[1,2]}', b"[1,2]"),
        (b'{"t":1,"topic":"a","payload_b64":"AP8="}', b"\x00\xff"),
        (b'{"t":1,"topic":"a","payload":""}', b""),
    ],
)
def test_a_payload_is_kept_byte_for_byte(line: bytes, payload: bytes):
    assert parse_line(line).payload == payload


@pytest.mark.parametrize(
    ("text", "time_s"),
    [
        ("1764490000.5", 1764490000.5),
        ("0", 0.0),
        ('"2026-11-30T08:15:02.311Z"', 1796026502.311),
        ('"2026-11-30T09:15:02.311+01:00"', 1796026502.311),
        ('"2026-11-30 08:15:02"', 1796026502.0),
    ],
)
def test_times_as_seconds_or_iso(text: str, time_s: float):
    assert parse_line(f'{{"t":{text},"topic":"a","payload":1}}'.encode()).time_s == time_s


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "truncated"),
        ("[]", "object"),
        ('{"topic":"a","payload":1}', "missing required field `t`"),
        ('{"t":"yesterday","topic":"a","payload":1}', "yesterday"),
        ('{"t":1764490000000,"topic":"a","payload":1}', "not milliseconds"),
        ('{"t":1,"topic":"","payload":1}', "topic is empty"),
        ('{"t":1,"topic":"a"}', "one of payload and payload_b64"),
        ('{"t":1,"topic":"a","payload":1,"payload_b64":""}', "one of payload and payload_b64"),
        ('{"t":1,"topic":"a","payload_b64":"%"}', "not Base64"),
        ('{"t":1,"topic":"a","payload":1,"qos":2}', "qos is 2"),
        ('{"t":1,"topic":"a","payload":' + "[" * 10_000, "nested too deeply"),
    ],
)
def test_a_broken_line_is_named_by_file_and_line(tmp_path: Path, line: str, why: str):
    path = write(tmp_path / "r.ndjson", {"t": 1, "topic": "a", "payload": 1}, "", line)
    messages = read_recordings([path])
    next(messages)
    with pytest.raises(RecordingError) as error:
        next(messages)
    assert f"{path}:3: " in str(error.value)
    assert why in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(RecordingError, match=r"cannot read .*none\.ndjson: No such file"):
        list(read_recordings([tmp_path / "none.ndjson"]))


def test_an_empty_folder_is_named(tmp_path: Path):
    with pytest.raises(RecordingError, match=r"holds no \*\.ndjson file"):
        list(read_recordings([tmp_path]))


def test_files_are_merged_by_time_and_ties_keep_the_order_of_the_files(tmp_path: Path):
    first = write(
        tmp_path / "1.ndjson",
        *({"t": t, "topic": f"one/{t}", "payload": 0} for t in (1, 2, 4)),
    )
    second = write(
        tmp_path / "2.ndjson",
        *({"t": t, "topic": f"two/{t}", "payload": 0} for t in (2, 3, 4)),
    )
    merged = [message.topic for message in read_recordings([first, second])]
    assert merged == ["one/1", "one/2", "two/2", "two/3", "one/4", "two/4"]
    assert [message.topic for message in read_recordings([tmp_path])] == merged


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 7))
def test_batches_have_a_fixed_size_and_lose_nothing(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], size: int
):
    path = write(
        tmp_path_factory.mktemp("r") / "r.ndjson",
        *({"t": t, "topic": str(i), "payload": i, "qos": i % 2} for i, t in enumerate(times)),
    )
    source = ReplaySource([path], batch_messages=size)
    batches = []
    while (batch := source.next_batch_now()) is not None:
        batches.append(batch)
    assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    topics = [topic for batch in batches for topic in batch.topics]
    assert topics == [str(i) for i in range(len(times))]
    for batch in batches:
        assert all((mid > 0) == (qos > 0) for mid, qos in zip(batch.mids, batch.qos, strict=True))
        assert np.array_equal(batch.arrivals_ns, batch.arrivals_s * 1e9)


async def test_a_replay_is_the_same_twice_and_leaves_the_loop_alone(tmp_path: Path):
    lines = [{"t": 1764490000 + i / 3, "topic": "a", "payload": i} for i in range(700)]
    path = write(tmp_path / "r.ndjson", *lines)

    async def replay() -> list[tuple[list[bytes], bytes]]:
        source = ReplaySource([path])
        batches = []
        while (batch := await source.next_batch()) is not None:
            source.acknowledge(batch)
            batches.append((batch.payloads, batch.arrivals_s.tobytes()))
        return batches

    first = await replay()
    assert [len(payloads) for payloads, _ in first] == [256, 256, 188]
    assert await replay() == first
