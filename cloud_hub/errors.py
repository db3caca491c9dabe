"""The error tree of the hub, sorted by what the caller should do.

    HubError
    ├── ConfigurationError   stop: a person must change the configuration (exit code 2)
    ├── StartRefused         stop: the hub could start, but a promise would not hold (exit code 1)
    ├── PackageError         stop or skip: a model package must not be used
    ├── ModelFailed          isolate: a model raised, or returned something impossible
    ├── StoreError           retry: the database could not be read or written
    │   ├── StoreRejected    set aside: the database will never take these values
    │   ├── StoreMissing     tell the operator: there is no database there
    │   └── SchemaMismatch   stop: the database was made by another version
    └── BusError             retry: NATS could not be reached, or did not answer
        ├── BusDown          there is no connection
        └── BusTimeout       nothing came back in time

Errors of other libraries are turned into these in one place each: `bus/`, `store/`,
`inference/backends/` and `settings.py`.
"""

from __future__ import annotations


class HubError(Exception):
    """The base of every error that the hub raises on purpose; its text is for people."""

    exit_code = 1


class ConfigurationError(HubError):
    """The configuration is wrong; the text names the key, the place and the valid values."""

    exit_code = 2


class StartRefused(HubError):
    """The hub must not serve in these surroundings; the text says what, why and what to do."""


class PackageError(HubError):
    """A model package is torn, contradicts itself, or cannot run here."""


class ModelFailed(HubError):
    """A model raised while it ran, or returned something that it did not promise."""


class StoreError(HubError):
    """The database could not be read or written."""


class StoreRejected(StoreError):
    """The database will never take these values."""


class StoreMissing(StoreError):
    """There is no database where the configuration says."""


class SchemaMismatch(StoreError):
    """The database has tables of another version of the hub."""


class BusError(HubError):
    """NATS could not be reached, or did not answer."""


class BusDown(BusError):
    """There is no connection to NATS."""


class BusTimeout(BusError):
    """NATS, or the hub behind it, did not answer in time."""
