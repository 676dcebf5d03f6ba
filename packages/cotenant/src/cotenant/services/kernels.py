"""Compiled kernels that an image brings, copied to where this process may write.

Numba writes into its cache folder and refuses one that is read-only, as an image's is; without kernels a scheduler's
first start compiles for half a minute. The image names its folder of kernels in `$COTENANT_KERNELS`; a process that
finds none of its version in its own cache copies them, whole or not at all, before it compiles anything.
Limits: machine code is for the processor on which the image was built: on another one numba finds nothing for it there,
and compiles.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter

VARIABLE = "COTENANT_KERNELS"
INDEX = ".nbi"  # of a compiled function
_log = logging.getLogger(__name__)


def bring_kernels(environ: Mapping[str, str] = os.environ, cache: Path | None = None) -> bool:
    """Copy the image's kernels of this version; whether that was done. A failure is logged, and costs time only.
    `cache` is where they go, by default this version's folder.
    """
    brought = environ.get(VARIABLE, "")
    if not brought:
        return False
    if cache is None:
        from cotenant.model.compiled import cache_directory

        cache = cache_directory()
    source = Path(brought) / cache.name
    if any(cache.glob(f"*/*{INDEX}")) or not source.is_dir():
        return False
    began = perf_counter()
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".kernels-", dir=cache.parent) as folder:
            made = Path(folder) / cache.name
            shutil.copytree(source, made)  # times too: numba compares them with its sources'
            if cache.exists():  # numba makes a folder for each module that is loaded, and expects it later
                for path in cache.iterdir():
                    if path.is_dir():
                        (made / path.name).mkdir(exist_ok=True)
                cache.rename(Path(folder) / "empty")
            made.rename(cache)
    except OSError as error:
        _log.warning("the image's kernels were not copied, and are compiled: %s", error)
        return False
    _log.info("kernels of the image copied in %.1f s", perf_counter() - began)
    return True
