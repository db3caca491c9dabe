"""`edge-agent simulate`: plays recorded or synthetic sensors against a broker, at any rate.

A simulated sensor outlives restarts of the broker. At QoS 1 it sends each message until the broker
has acknowledged it, and can write a ledger of what was acknowledged. Recordings have the format of
`edge_agent/sources/recording.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from edge_agent.broker.options import BrokerOptions, parse_broker_url
from edge_agent.broker.publisher import LoadPublisher
from edge_agent.errors import ConfigurationError, EdgeError
from edge_agent.observe.logs import configure_logging
from edge_agent.sources.recording import read_recordings

EXIT_OK, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130
_TABLE = 4096
_BURST_UNPACED = 64
_PROGRESS_S = 0.5


class Planned(NamedTuple):
    """A message, and when it is due in seconds after the start (0: at once)."""

    due_s: float
    time_s: float
    topic: str
    payload: bytes


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command and its options."""
    parser = subparsers.add_parser(
        "simulate",
        help="publish recorded or synthetic sensor data over MQTT",
        description="Publishes recorded or synthetic sensor data over MQTT.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--input", nargs="+", type=Path, metavar="FILE", help="recordings (NDJSON)")
    what.add_argument("--synthetic", type=_positive, metavar="N", help="N made-up streams")
    parser.add_argument("--broker", default="mqtt://127.0.0.1:1883", help="default: %(default)s")
    parser.add_argument("--username")
    parser.add_argument("--password-file", type=Path, help="a file whose first line it is")
    parser.add_argument("--tls-ca", type=Path, help="CA file for mqtts://")
    parser.add_argument("--client-id", help="default: skerry-simulate-<process id>")
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--rate", type=_above_zero, metavar="PER_S", help="messages a second")
    pace.add_argument(
        "--speed", type=_above_zero, metavar="X", help="recorded time, X times faster"
    )
    parser.add_argument(
        "--burst", type=_positive, default=1, help="messages sent at once at --rate"
    )
    parser.add_argument("--qos", type=int, choices=(0, 1), default=0)
    parser.add_argument("--window", type=_positive, default=100, help="unacknowledged at QoS 1")
    parser.add_argument("--messages", type=_positive, help="stop after so many")
    parser.add_argument("--loop", type=_positive, default=1, help="play the recordings so often")
    parser.add_argument("--topic-prefix", default="", help="put before every topic")
    parser.add_argument(
        "--anomaly-every",
        type=_positive,
        metavar="N",
        help="every Nth reading of a stream has a spike",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--ledger", type=Path, help="acknowledged messages, a JSON line each (QoS 1)"
    )
    parser.add_argument("--give-up-s", type=_above_zero, default=60.0, help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Publishes and prints the summary; 0 when all was sent (and acknowledged, at QoS 1).

    Raises ConfigurationError for options that do not fit together.
    """
    configure_logging("error", "console")
    options = _options(args)
    if args.ledger is not None and args.qos == 0:
        raise ConfigurationError("--ledger needs --qos 1: at QoS 0 nothing is acknowledged")
    if args.synthetic and args.messages is None:
        raise ConfigurationError("--synthetic needs --messages: it would never end")
    if args.synthetic and args.speed is not None:
        raise ConfigurationError("--speed plays recordings; pace synthetic data with --rate")
    simulation = Simulation(args, options)
    started_s = time.monotonic()
    try:
        code = asyncio.run(simulation.play())
    except (EdgeError, OSError) as error:
        print(f"edge-agent simulate: {error}", file=sys.stderr)
        code = EXIT_FAILED
    summary = {
        "sent": simulation.sent,
        "acknowledged": simulation.acknowledged,
        "seconds": round(time.monotonic() - started_s, 3),
    }
    if args.json:
        print(json.dumps(summary))
    else:
        print(", ".join(f"{name} {value}" for name, value in summary.items()))
    return code


class Simulation:
    """One run of the command; its counts stand also after it failed."""

    def __init__(self, args: argparse.Namespace, options: BrokerOptions) -> None:
        self._args = args
        self._ledger = _Ledger(args.ledger)
        self._publisher = LoadPublisher(
            options,
            qos=args.qos,
            window=min(args.window, 65_000),
            stall_timeout_s=args.give_up_s,
            on_acknowledged=self._ledger.note if args.ledger is not None else None,
        )
        self._stop = asyncio.Event()
        self._messages = _synthetic(args) if args.synthetic else _recorded(args)
        self._chunk: deque[Planned] = deque()

    @property
    def sent(self) -> int:
        """Messages handed to the broker client."""
        return self._publisher.sent

    @property
    def acknowledged(self) -> int:
        """Messages that the broker acknowledged; 0 at QoS 0."""
        return self._publisher.acknowledged

    async def play(self) -> int:
        """Sends everything on time; ends early, in order, at SIGINT or SIGTERM."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop.set)
        progress = asyncio.create_task(self._show_progress(), name="progress")
        try:
            async with self._publisher:
                await self._publisher.room()
                await self._send_all()
                async with asyncio.timeout(2.0 if self._stop.is_set() else None):
                    await self._publisher.settled()
        except TimeoutError:
            pass  # interrupted, and the broker is not there to acknowledge the rest
        finally:
            progress.cancel()
            await self._ledger.close()
        return EXIT_INTERRUPTED if self._stop.is_set() else EXIT_OK

    async def _send_all(self) -> None:
        args, publisher = self._args, self._publisher
        started_s = time.monotonic()
        index = since_yield = 0
        while not self._stop.is_set() and (args.messages is None or index < args.messages):
            due_s = 0.0 if args.rate is None else index // args.burst * args.burst / args.rate
            if due_s and await self._stopped_until(started_s + due_s):
                return
            message = await self._next_message()
            if message is None:
                return
            if message.due_s and await self._stopped_until(started_s + message.due_s):
                return
            if since_yield >= _BURST_UNPACED or not publisher.roomy:
                await publisher.room()
                since_yield = 0
            publisher.send(args.topic_prefix + message.topic, message.payload, message)
            index += 1
            since_yield += 1

    async def _next_message(self) -> Planned | None:
        if not self._chunk:
            await self._ledger.flush()
            if self._args.synthetic:  # cheap, and the time in it is the time of sending
                self._chunk.extend(islice(self._messages, 256 if self._args.rate is None else 1))
            else:
                self._chunk.extend(await asyncio.to_thread(list, islice(self._messages, 256)))
        return self._chunk.popleft() if self._chunk else None

    async def _stopped_until(self, due_s: float) -> bool:
        wait_s = due_s - time.monotonic()
        if wait_s <= 0:
            return False
        try:
            async with asyncio.timeout(wait_s):
                await self._stop.wait()
        except TimeoutError:
            return False
        return True

    async def _show_progress(self) -> None:
        if not sys.stderr.isatty():
            return
        while True:
            text = f"\rsent {self.sent:,}  acknowledged {self.acknowledged:,} "
            await asyncio.to_thread(_say, text)
            await asyncio.sleep(_PROGRESS_S)


class _Ledger:
    """Acknowledged messages, in the order of their acknowledgement; written off the event loop.

    Only the event loop touches the list of lines: a thread gets what it writes, and nothing more.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lines: list[str] = []
        self._file: TextIO | None = None

    def note(self, tag: object) -> None:
        """Remembers one message until the next flush."""
        if isinstance(tag, Planned):
            self._lines.append(json.dumps({"t": tag.time_s, "topic": tag.topic}) + "\n")

    async def flush(self) -> None:
        """Writes what was noted."""
        if self._lines:
            lines, self._lines = self._lines, []
            await asyncio.to_thread(self._write, lines)

    async def close(self) -> None:
        """Writes the rest; the file exists afterwards even when nothing was acknowledged."""
        if self._path is not None:
            lines, self._lines = self._lines, []
            await asyncio.to_thread(self._end, lines)

    def _write(self, lines: list[str]) -> None:
        if self._file is None and self._path is not None:
            self._file = self._path.open("w", encoding="utf-8")
        if self._file is not None:
            self._file.writelines(lines)

    def _end(self, lines: list[str]) -> None:
        self._write(lines)
        if self._file is not None:
            self._file.close()


def _recorded(args: argparse.Namespace) -> Iterator[Planned]:
    first_s: float | None = None
    span_s = offset_s = 0.0
    for _ in range(args.loop):
        for message in read_recordings(args.input):
            if first_s is None:
                first_s = message.time_s
            span_s = max(span_s, message.time_s - first_s)
            due_s = (offset_s + message.time_s - first_s) / args.speed if args.speed else 0.0
            yield Planned(due_s, message.time_s, message.topic, message.payload)
        offset_s += span_s


def _synthetic(args: argparse.Namespace) -> Iterator[Planned]:
    """Endless readings of four channels: a sine each plus noise; the streams take turns.

    `time` is when the message was made (never the same twice, whatever the clock does), `n` the
    running number in its stream. Every `--anomaly-every`th reading of a stream has a spike of twelve
    noise widths in all channels.
    """
    rng = np.random.default_rng(args.seed)
    phase = np.arange(_TABLE) * (2 * np.pi / 64)
    waves = [
        (level + swing * np.sin(phase / slow) + rng.normal(0, 0.02 * swing, _TABLE)).tolist()
        for level, swing, slow in ((20.0, 5.0, 1), (1.0, 0.5, 2), (50.0, 10.0, 4), (0.0, 2.0, 8))
    ]
    spikes = (1.2, 0.12, 2.4, 0.48)
    topics = [f"sim/{stream}" for stream in range(args.synthetic)]
    number = 0
    now_s = 0.0
    while True:
        spiked = args.anomaly_every is not None and (number + 1) % args.anomaly_every == 0
        for stream, topic in enumerate(topics):
            at = (number + 37 * stream) % _TABLE
            values = [wave[at] for wave in waves]
            if spiked:
                values = [value + 10 * spike for value, spike in zip(values, spikes, strict=True)]
            now_s = round(max(time.time(), now_s + 1e-6), 6)
            a, b, c, d = values
            payload = (
                f'{{"time":{now_s:.6f},"n":{number},'
                f'"a":{a:.4f},"b":{b:.4f},"c":{c:.4f},"d":{d:.4f}}}'
            )
            yield Planned(0.0, now_s, topic, payload.encode())
        number += 1


def _options(args: argparse.Namespace) -> BrokerOptions:
    host, port, tls = parse_broker_url(args.broker)
    password = None
    if args.password_file is not None:
        try:
            password = args.password_file.read_text(encoding="utf-8").splitlines()[0]
        except (OSError, IndexError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"cannot read a password from {args.password_file}: {error}"
            ) from error
    return BrokerOptions(
        host=host,
        port=port,
        tls=tls,
        tls_ca=args.tls_ca,
        client_id=args.client_id or f"skerry-simulate-{os.getpid()}",
        username=args.username,
        password=password,
    )


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return value


def _above_zero(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value
