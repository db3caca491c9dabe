"""`cloud-hub infer`: asks a model as a device would, over NATS."""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from cloud_hub.bus.caller import Answer, calling
from cloud_hub.cli.options import Config, Json, console, print_json
from cloud_hub.errors import HubError, PackageError
from cloud_hub.inference.packages import read_manifest
from cloud_hub.settings import NatsSettings, Settings, load_settings
from contract import subjects
from contract.encoding import decode, encode
from contract.features import FeatureError, compile_features
from contract.manifest import Manifest
from contract.messages import InferAnswer, InferRequest
from contract.status import Priority, Status
from contract.tensors import pack_array

DEVICE = "cli"
GRACE_S = 0.5


class _Input(msgspec.Struct, forbid_unknown_fields=True):
    """The input file: features [b, f], or windows [b, rows, channels] with times [b, rows]."""

    features: list[list[float]] | None = None
    windows: list[list[list[float]]] | None = None
    times: list[list[float]] | None = None
    feature_digest: str = ""


def infer(
    model: Annotated[str, typer.Argument(help="Family of the model.")],
    source: Annotated[
        str,
        typer.Option(
            "--input", help="JSON file with `features`, or `windows` and `times`; - for stdin."
        ),
    ],
    package: Annotated[
        Path | None, typer.Option(help="The model's package; default: that of the configuration.")
    ] = None,
    deadline_ms: Annotated[
        float, typer.Option(min=1, max=60000, help="Time for the answer.")
    ] = 1000,
    *,
    priority: Annotated[Priority, typer.Option(help="How urgent.")] = Priority.RT,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Sends one request to the hub under the device name `cli`, and prints the answer."""
    settings = load_settings(config)
    request = _request(model, source, _manifest(settings, model, package))
    answer, elapsed_ms = asyncio.run(_ask(settings.nats, request, priority, deadline_ms))
    status = answer.headers.get(subjects.STATUS, Status.INTERNAL)
    body = decode(answer.body, InferAnswer)
    if as_json:
        rows = [
            {"label": label, "score": score, "confidence": confidence}
            for label, score, confidence in zip(
                body.labels, body.scores, body.confidences, strict=True
            )
        ]
        details = {name: answer.headers.get(name) for name in _DETAILS}
        print_json(
            {
                "status": status,
                "model": body.model,
                "release": body.release,
                "rows": rows,
                "error": body.error,
                "elapsed_ms": round(elapsed_ms, 2),
                **{key: _number(details[name]) for name, key in _DETAILS.items()},
            }
        )
    elif status == Status.OK:
        _print_answer(body, elapsed_ms)
    if status != Status.OK:
        if not as_json:
            raise HubError(f"{status}: {body.error}")
        raise typer.Exit(1)


_DETAILS = {
    subjects.QUEUE_MS: "queue_ms",
    subjects.RUN_MS: "run_ms",
    subjects.BATCH: "batch",
    subjects.RETRY_AFTER_MS: "retry_after_ms",
}


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)


def _print_answer(body: InferAnswer, elapsed_ms: float) -> None:
    table = Table("row", "label", "score", "confidence")
    rows = zip(body.labels, body.scores, body.confidences, strict=True)
    for number, (label, score, confidence) in enumerate(rows):
        table.add_row(str(number), escape(label), f"{score:.6g}", f"{confidence:.4f}")
    out = console()
    out.print(table)
    out.print(f"{escape(body.model)} release {body.release}, {elapsed_ms:.1f} ms")


def _manifest(settings: Settings, model: str, package: Path | None) -> Manifest | None:
    if package is not None:
        return read_manifest(package)
    for folder in settings.models.packages:
        try:
            manifest = read_manifest(folder)
        except PackageError:
            continue
        if manifest.family == model:
            return manifest
    return None


def _request(model: str, source: str, manifest: Manifest | None) -> InferRequest:
    given = _read(source)
    digest = given.feature_digest or ("" if manifest is None else manifest.feature_digest)
    if not digest:
        raise HubError(
            f"nobody says how the features of {model!r} are made: name its --package, or put "
            "`feature_digest` into the input"
        )
    try:
        if given.features is not None:
            features = np.asarray(given.features, dtype=np.float32)
        elif given.windows is not None and manifest is not None:
            windows = np.asarray(given.windows, dtype=np.float64)
            times = np.asarray(given.times or np.zeros(windows.shape[:2]), dtype=np.float64)
            features = compile_features(manifest.features)(windows, times)
        else:
            raise HubError(
                "the input needs `features` [[…]], or `windows` [[[…]]] and the model's --package"
            )
    except (ValueError, FeatureError) as error:
        raise HubError(f"{source}: {error}") from error
    return InferRequest(model=model, feature_digest=digest, features=pack_array(features))


def _read(source: str) -> _Input:
    try:
        raw = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        content: Any = msgspec.json.decode(raw)
        return msgspec.convert(
            {"features": content} if isinstance(content, list) else content, _Input
        )
    except OSError as error:
        raise HubError(f"cannot read {source}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HubError(f"{source} is not such an input: {error}") from error


async def _ask(
    nats: NatsSettings, request: InferRequest, priority: Priority, deadline_ms: float
) -> tuple[Answer, float]:
    async with calling(nats, device=DEVICE) as caller:
        started_s = time.perf_counter()
        answer = await caller.ask(
            subjects.infer_subject(DEVICE, priority, request.model),
            encode(request),
            headers={subjects.REQUEST: uuid.uuid4().hex, subjects.BUDGET_MS: f"{deadline_ms:.1f}"},
            timeout_s=deadline_ms / 1000 + GRACE_S,
        )
        return answer, (time.perf_counter() - started_s) * 1000
