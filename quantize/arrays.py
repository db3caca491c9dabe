"""Reads NPZ files of plain arrays; an object array, which would run code, is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from quantize.errors import InputError

MAX_NPZ_BYTES: Final = 2 * 1024 * 1024 * 1024


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Returns the arrays of an NPZ file by name; raises InputError if it is none, too large, or holds objects."""
    try:
        if path.stat().st_size > MAX_NPZ_BYTES:
            raise InputError(f"{path} is larger than {MAX_NPZ_BYTES} bytes")
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise InputError(f"{path} is no NPZ file: write it with numpy.savez")
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read as NPZ without pickles: {error}") from error
