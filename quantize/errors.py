"""What can go wrong in the workshop, sorted by who has to act.

QuantizeError            base
 ├── InputError          the person: a path, an array or a description is wrong
 ├── PackageError        the package on disk is incomplete, damaged or contradicts itself
 └── GateError           the model was built and is not good enough to be packed
"""

from __future__ import annotations


class QuantizeError(Exception):
    """Anything the workshop refuses; the message says what, why and what to do."""


class InputError(QuantizeError):
    """A file, an array or a description given by the caller cannot be used."""


class PackageError(QuantizeError):
    """A package on disk is incomplete, damaged, or computes something else than its golden vectors."""


class GateError(QuantizeError):
    """A freshly built model misses a gate of its recipe; nothing was written."""
