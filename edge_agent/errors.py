"""The error tree of the device, sorted by what the caller should do.

    EdgeError
    ├── ConfigurationError      stop: a person must change the configuration (exit code 2)
    ├── ModelError              fall back: this model cannot answer, a lower tier can
    ├── StoreError              reopen: the outbox could not be read or written
    │   └── StoreFull           shed: the quota is reached
    └── LinkError               retry later, answer locally meanwhile
        ├── LinkDown            there is no connection to the hub's server
        │   └── NothingToSpare  for want of a descriptor on this machine: soon again
        ├── NoResponders        the server is there, no hub listens
        ├── LinkTimeout         nothing came back in time: whether it arrived is unknown
        ├── Forbidden           the server does not let this device: wait, a person must mend it
        └── Refused             the server or hub will never take this message: set it aside

Errors of other libraries are turned into these in one place each: `broker/`, `link/`,
`inference/onnx.py`, `outbox/database.py` and `settings/`.
"""

from __future__ import annotations


class EdgeError(Exception):
    """The base of every error that the device raises on purpose."""


class ConfigurationError(EdgeError):
    """The configuration is wrong; the text names the key, the place and the valid values."""


class ModelError(EdgeError):
    """A model cannot be loaded, or failed while it ran."""


class StoreError(EdgeError):
    """The outbox could not be read or written."""


class StoreFull(StoreError):
    """The outbox has reached its quota and nothing can be shed."""


class LinkError(EdgeError):
    """The hub could not be reached, or did not answer."""


class LinkDown(LinkError):
    """There is no connection to the hub's server."""


class NothingToSpare(LinkDown):
    """This machine has no descriptor left for a connection; the server has no part in it."""


class NoResponders(LinkError):
    """The server is there, but nobody listens on the subject."""


class LinkTimeout(LinkError):
    """No answer came in time; the message may or may not have arrived."""


class Forbidden(LinkError):
    """The server does not let this device use a subject; nothing is wrong with the message."""


class Refused(LinkError):
    """The message itself will never be taken: it is too large, or its subject is not one."""
