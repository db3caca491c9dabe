"""Decides how this start is made: with which configuration, which models, and which outbox file.

An ordinary start reads the configuration and that is all. After two failed ones in a row the third
leaves out what failed (`safe_mode.py`), until that changes or the operator says so.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from edge_agent.agent.alone import DataLock
from edge_agent.agent.good_copy import (
    GoodCopy,
    digest_of,
    find_good_copy,
    keep_good_copy,
    read_configuration,
)
from edge_agent.agent.safe_mode import Plan, both, go_on, make_plan
from edge_agent.agent.starts import StartLog, StartRecord, crash_file
from edge_agent.errors import ConfigurationError
from edge_agent.settings import Settings, data_dir_hints, load_settings


class SafeMode(Enum):
    """Whether a start may leave out what failed before."""

    ALLOWED = "allowed"
    OFF = "off"
    """The operator wants the real failure, and a fresh count."""


@dataclass(slots=True)
class Beginning:
    """A start that may go on: its configuration, and what it leaves out."""

    settings: Settings
    plan: Plan = field(default_factory=Plan)
    log: StartLog = field(default_factory=lambda: StartLog(None, StartRecord()))
    config: Path | None = None
    content: bytes = b""
    """The configuration file as it is now, whether it is the one that runs or not."""
    locks: tuple[DataLock, ...] = ()

    @property
    def left_out(self) -> Mapping[str, str]:
        """The packages that are not loaded, and why."""
        why = {each: text for each in self.plan.models for text in self.plan.why if each in text}
        return {
            each: f"safe mode: {why.get(each, 'it failed before')}" for each in self.plan.models
        }

    def keep_good(self) -> bool:
        """Keeps a copy of the configuration that runs well; whether a new one was made. Raises OSError."""
        if self.config is None or self.plan.good_configuration:
            return False
        good = find_good_copy(self.settings.data_dir, self.config)
        if good is not None and good.digest == digest_of(self.content):
            return False
        keep_good_copy(self.settings.data_dir, self.config, self.content)
        return True


def begin(config: Path, *, safe_mode: SafeMode = SafeMode.ALLOWED) -> Beginning:
    """How to start with this configuration file.

    Raises ConfigurationError when it is wrong and safe mode has nothing better, AlreadyRunning when
    another agent runs with its data folder.
    """
    content = read_configuration(config)
    settings: Settings | None = None
    wrong: ConfigurationError | None = None
    try:
        settings = load_settings(config)
    except ConfigurationError as error:
        wrong = error
    home, good = _home(config, settings)
    if home is None:
        assert wrong is not None
        raise wrong  # the first installation: nothing is known that could be better
    with ExitStack() as until_well:
        lock = DataLock.take(home)
        until_well.callback(lock.release)
        made = _begin(
            config, content, settings, safe_mode=safe_mode, home=home, good=good, wrong=wrong
        )
        made.locks = (lock,)
        if made.settings.data_dir != home:
            made.locks = (lock, DataLock.take(made.settings.data_dir))
        until_well.pop_all()
    descriptor = crash_file(home)
    if descriptor is not None:
        faulthandler.enable(descriptor, all_threads=False)
    return made


def _begin(
    config: Path,
    content: bytes,
    settings: Settings | None,
    *,
    safe_mode: SafeMode,
    home: Path,
    good: GoodCopy | None,
    wrong: ConfigurationError | None,
) -> Beginning:
    log = StartLog.begin(home, configuration=digest_of(content))
    plan = Plan()
    if safe_mode is SafeMode.ALLOWED:
        plan = _plan(log, settings=settings, content=content, good=good)
    else:
        log.forget()
    if plan.good_configuration and good is not None:
        try:
            settings = load_settings(good.path, base=config.absolute().parent)
        except ConfigurationError as error:  # the environment may be what is wrong
            wrong = wrong or error
    if settings is None:
        assert wrong is not None
        log.failed(str(wrong))
        raise wrong
    settings = _with_stand_ins(settings, plan)
    kept = plan.good_configuration or plan.models
    log.replace(plan.replaced(fingerprint) if kept else None)
    return Beginning(settings, plan, log, config, content)


def stand_ins(package: Path) -> Iterator[Path]:
    """Packages that may take the place of one that failed, the newest first.

    There are none yet: updates will keep the release that ran before.
    """
    del package
    yield from ()


def _with_stand_ins(settings: Settings, plan: Plan) -> Settings:
    """The same with earlier releases in place of the packages that are left out, where there are any."""
    models = list(settings.model)
    for index, model in enumerate(models):
        if str(model.package) in plan.models:
            instead = next(stand_ins(model.package), model.package)
            models[index] = model.model_copy(update={"package": instead})
    return settings.model_copy(update={"model": models}) if plan.models else settings


def settings_of_running(config: Path) -> Settings:
    """The settings with which an agent of this configuration file is to be asked.

    Where the file is wrong, those of the copy that safe mode runs with; raises ConfigurationError
    where there is none.
    """
    try:
        return load_settings(config)
    except ConfigurationError:
        _, good = _home(config, None)
        if good is None:
            raise
    return load_settings(good.path, base=config.absolute().parent)


def fingerprint(package: str) -> str:
    """Changes when a package is installed anew; "" where there is none."""
    try:
        manifest = Path(package, "manifest.json")
        return digest_of(manifest.read_bytes()) + str(manifest.stat().st_mtime_ns)
    except OSError:
        return ""


def _plan(
    log: StartLog, *, settings: Settings | None, content: bytes, good: GoodCopy | None
) -> Plan:
    packages = [] if settings is None else [str(model.package) for model in settings.model]
    differs = good is not None and good.digest != digest_of(content)
    before = go_on(log.record.replaced, good_there=differs, fingerprint=fingerprint)
    now = make_plan(log.record.failures, good_differs=differs, packages=packages)
    return both(before, now)


def _home(config: Path, settings: Settings | None) -> tuple[Path | None, GoodCopy | None]:
    """The folder where the history of this configuration lies, and its good copy if there is one."""
    places = [settings.data_dir] if settings is not None else []
    places += [place for place in data_dir_hints(config) if place not in places]
    for place in places:
        good = find_good_copy(place, config)
        if good is not None:
            return place, good
    return (None if settings is None else settings.data_dir), None
