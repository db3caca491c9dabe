"""`make demo`: the whole system on this machine, on real data; ends with a table and a report.

Exit code 0 when every promise held, 1 when one was broken (it is named), 2 when the demo could not
run, 130 after Ctrl-C. With KEEP=1 everything runs on until Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from bench.mqtt_wire import WireError
from bench.servers import ServerError
from deploy.demo.acts import Play
from deploy.demo.configuration import DEVICES
from deploy.demo.keeping import keep_running
from deploy.demo.report import Report, make_report
from deploy.demo.sensors import Load
from deploy.demo.site import ROOT, DemoError, Site
from deploy.demo.table import print_table
from deploy.demo.view import View, make_view
from deploy.demo.watching import Bystander
from edge_agent.errors import EdgeError

_LIMIT_S = 180.0
_PREFIXES = ("EDGE_AGENT_", "CLOUD_HUB_")


def main() -> int:
    """Runs the demo and returns its exit code."""
    options = _options()
    try:
        # A report that is there after the run is this run's own.
        options.report.unlink(missing_ok=True)
    except OSError as reason:
        print(f"the old report cannot be removed: {reason}", file=sys.stderr)
        return 2
    for name in [name for name in os.environ if name.startswith(_PREFIXES)]:
        del os.environ[name]  # the demo's devices are configured by their files alone
    view = make_view()
    folder = Path(tempfile.mkdtemp(prefix="skerry-demo-"))
    code = 2
    try:
        report = asyncio.run(_run(folder, view, options))
        code = 0 if report.ok else 1
    except* (DemoError, ServerError, WireError, EdgeError, TimeoutError) as group:
        view.close()
        for error in group.exceptions:
            print(
                f"the demo could not go on: {str(error) or type(error).__name__}", file=sys.stderr
            )
    except* (KeyboardInterrupt, asyncio.CancelledError):
        view.close()
        print("\nstopped; nothing is left running", file=sys.stderr)
        code = 130
    finally:
        view.close()
    if code in {0, 130}:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"logs and configurations are kept in {folder}", file=sys.stderr)
    return code


async def _run(folder: Path, view: View, options: argparse.Namespace) -> Report:
    load = Load(options.play_s, options.boilers, options.boiler_rate)
    with _ctrl_c():
        async with AsyncExitStack() as stack:
            started_s = time.monotonic()
            async with asyncio.timeout(_LIMIT_S):
                view.act("Setting up", "two nats-servers, the hub, three devices")
                for device in DEVICES:
                    view.note(f"{device.name}: {device.what}")
                site, _ = await asyncio.gather(
                    stack.enter_async_context(Site(folder)), _write_recordings(folder)
                )
                field = site.field
                bystander = stack.enter_context(
                    Bystander(field.host, field.mqtt_port, devices=DEVICES)
                )
                play = Play(site, bystander, view, load)
                observed = await play.run(started_s=started_s, stack=stack)
            view.close()
            report = make_report(observed)
            await asyncio.to_thread(_publish, report, options.report)
            if options.keep:
                await keep_running(site, load, stack)
            return report


async def _write_recordings(folder: Path) -> None:
    """In a process of its own: reading the data sets takes a second of CPU, and more memory than all else."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "deploy.demo.recordings", str(folder), cwd=ROOT
    )
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if code != 0:
        raise DemoError("the recorded data could not be read; the lines above say why")


def _publish(report: Report, path: Path) -> None:
    print_table(report, sys.stdout)
    path.write_text(json.dumps(report.content, indent=2) + "\n", encoding="utf-8")
    for promise in report.broken:
        print(f"BROKEN: {promise.text}: {promise.seen}", file=sys.stderr)
    print(f"{'every promise held' if report.ok else 'NOT every promise held'}; report: {path}")


@contextmanager
def _ctrl_c() -> Iterator[None]:
    """Ctrl-C and SIGTERM cancel the running demo once, so that it stops in order; more change nothing."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def stop() -> None:
        if not task.cancelling():
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.demo", description="The whole system on this machine, on real data."
    )
    parser.add_argument("--play-s", type=float, default=40.0, help="seconds that the sensors send")
    parser.add_argument("--boilers", type=int, default=10, help="made-up streams")
    parser.add_argument("--boiler-rate", type=int, default=100, help="their readings a second")
    parser.add_argument("--report", type=Path, default=ROOT / "demo-report.json")
    parser.add_argument(
        "--keep",
        action="store_true",
        default=os.environ.get("KEEP", "") not in {"", "0"},
        help="leave everything running until Ctrl-C (also: KEEP=1)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
