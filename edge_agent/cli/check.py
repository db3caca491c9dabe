"""`edge-agent check`: the configuration, then everything around the agent; says what, why, and the mend."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from dataclasses import asdict, replace
from typing import Any

import msgspec

from edge_agent.broker.options import broker_options
from edge_agent.broker.session import BrokerSession
from edge_agent.cli.findings import Finding, data_folder, streams
from edge_agent.cli.options import add_config, add_json
from edge_agent.clock import SystemClock
from edge_agent.inference.load import load_scorers
from edge_agent.inference.onnx import runtime_version
from edge_agent.link.probe import probe_hub
from edge_agent.observe.logs import configure_logging
from edge_agent.pipeline.core import Pipeline
from edge_agent.settings import BrokerSettings, Settings, load_settings

PROBE_S = 5.0
POLL_S = 0.02


def add_parser(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "check",
        help="validate the configuration, then broker, hub, models, clock and disk",
        description="Exit code 0: all is well or only warnings; 1: something failed; "
        "2: the configuration is wrong.",
    )
    add_config(parser)
    parser.add_argument("--offline", action="store_true", help="do not try the broker and the hub")
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the findings; see the exit codes in the help."""
    settings = load_settings(args.config)
    configure_logging("error", "console")  # what is wrong stands in the findings
    findings = [Finding("configuration", "ok", f"{args.config} is valid")]
    findings += _models(settings)
    findings += [*streams(settings), _clock(), *data_folder(settings)]
    if not args.offline:
        findings += asyncio.run(_network(settings))
    if args.json:
        document = {"ok": _well(findings), "findings": [asdict(each) for each in findings]}
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    else:
        for each in findings:
            print(f"{each.state:>8}  {each.subject}: {each.what}")
            if each.mend:
                print(f"          → {each.mend}")
    return 0 if _well(findings) else 1


def _well(findings: list[Finding]) -> bool:
    return all(each.state != "failed" for each in findings)


def _models(settings: Settings) -> list[Finding]:
    loaded = load_scorers(settings)
    # Compiling the streams finds a model that asks for channels which no stream declares.
    Pipeline(settings, loaded.scorers, clock=SystemClock(), epoch="check")
    findings = [
        Finding(
            f"model {scorer.family}",
            "ok",
            f"release {scorer.release} ({scorer.variant.name}) computes its golden vectors on "
            f"this CPU, onnxruntime {runtime_version()}",
        )
        for scorer in loaded.scorers.values()
    ]
    for path, why in loaded.failures.items():
        mend = "install the package again; until then its streams are answered by a lower tier"
        findings.append(Finding(f"model package {path}", "failed", why, mend))
    return findings


def _clock() -> Finding:
    clock = SystemClock()
    if clock.trusted():
        return Finding("clock", "ok", "the wall clock is synchronised")
    return Finding(
        "clock",
        "warning",
        "the kernel does not say that the wall clock is synchronised; readings without a time of "
        "their own are marked so",
        "timedatectl set-ntp true",
    )


async def _network(settings: Settings) -> list[Finding]:
    brokers = [_broker(each, settings) for each in settings.brokers]
    return [*await asyncio.gather(*brokers), await _hub(settings)]


async def _broker(broker: BrokerSettings, settings: Settings) -> Finding:
    # A client id of its own: the running agent must not lose its session to this probe. A clean
    # session: the broker must not keep one for every check.
    own = broker.model_copy(update={"client_id": f"skerry-check-{os.getpid()}"})
    options = broker_options(own, device=settings.device.name)
    session = BrokerSession(
        replace(options, clean_session=True, session_expiry_s=0),
        filters=[],
        status_topic=None,
        clock=SystemClock(),
    )
    task = asyncio.create_task(session.run(), name="check-broker")
    for _ in range(round(PROBE_S / POLL_S)):
        if session.state().connected or task.done():
            break
        await asyncio.sleep(POLL_S)
    found = session.state()
    await session.close()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    if found.connected:
        return Finding(f"broker {broker.url}", "ok", "accepts this device")
    return Finding(
        f"broker {broker.url}",
        "failed",
        found.why or f"no answer within {PROBE_S:g} s",
        "is it running, and is broker.url right? systemctl status mosquitto",
    )


async def _hub(settings: Settings) -> Finding:
    if not settings.hub.urls:
        return Finding("hub", "ok", "none is configured: this device works alone")
    problem = await probe_hub(
        settings.hub, device=settings.device.name, clock=SystemClock(), timeout_s=PROBE_S
    )
    where = f"hub {', '.join(settings.hub.urls)}"
    if problem is None:
        return Finding(where, "ok", "answers")
    return Finding(
        where,
        "warning",
        f"{problem}; the agent answers alone and sends later",
        "are the hub and its server running, and is hub.url right?",
    )
