"""The version of the installed product."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("skerry")
except PackageNotFoundError:  # a checkout that was never installed
    VERSION = "0+unknown"
