"""Skip rules: a missing system package skips a test with its reason; in CI a skip is a failure."""

import os
import shutil

import pytest

# marker -> (programs, one of which must be found; Debian package)
NEEDS = {
    "needs_mosquitto": (("mosquitto",), "mosquitto"),
    "needs_fuse": (("fusermount3",), "fuse3"),
    "needs_postgresql": (("initdb", "pg_ctlcluster"), "postgresql"),
    "needs_chromium": (("chromium", "chromium-browser"), "chromium"),
}
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
_skipped: list[str] = []


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() not in {"", "0", "false"}


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, (programs, package) in NEEDS.items():
        if item.get_closest_marker(marker) is None:
            continue
        if not any(shutil.which(program, path=_PATH) for program in programs):
            pytest.skip(f"{' or '.join(programs)} is missing: apt-get install {package}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_sessionstart(session: pytest.Session) -> None:
    _skipped.clear()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _skipped and in_ci() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _skipped and in_ci():
        terminalreporter.section("skipped in CI: each counts as a failure", red=True)
        for nodeid in _skipped:
            terminalreporter.line(nodeid)
