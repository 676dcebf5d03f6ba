"""The decorators that compile, and where the machine code is kept.

Numba's on-disk cache compares only the file in which a function is defined; when an inlined function of another file
changes, the stale machine code is used. The cache folder is named by a digest of numba's version and of every source
that compiled code can depend on (`compiled_sources.py`), so an edit of any of those gives a new, empty cache.
Limits: after such an edit everything compiles once more; a read-only home directory means that every process compiles
for itself (numba then falls back to a temporary folder).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, cast

# Numba imports coverage.py wherever it is installed, to report compiled lines to it: an eighth of a scheduler's start.
# Where coverage is measured, it was imported before.
if _is_unmeasured := "coverage" not in sys.modules:
    sys.modules["coverage"] = None  # type: ignore[assignment]
import numba

if _is_unmeasured:
    del sys.modules["coverage"]

from cotenant.model.compiled_sources import remembered_key

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = Path(__file__).resolve().parent.parent
_FURTHER = ("cotenant_lab", "cotenant_local")  # packages that compile on top of this one, where they are installed


@lru_cache(maxsize=1)
def cache_directory() -> Path:
    """Where this version's machine code is kept: `$COTENANT_CACHE`, else `$XDG_CACHE_HOME/cotenant`, else
    `~/.cache/cotenant`.
    """
    base = os.environ.get("COTENANT_CACHE")
    root = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cotenant"
    return root / remembered_key(root, packages(), numba.__version__)


def packages() -> tuple[Path, ...]:
    """The folders of this package and of the others whose code is compiled. Those are found, not imported."""
    specs = (find_spec(name) for name in _FURTHER)
    return _PACKAGE, *(Path(spec.origin).resolve().parent for spec in specs if spec is not None and spec.origin)


numba.config.CACHE_DIR = str(cache_directory())  # type: ignore[attr-defined]


def njit(function: F) -> F:
    """Compile with IEEE arithmetic (decisions must equal the plain path's to the last bit) and division by zero as
    in NumPy.
    """
    return cast(F, numba.njit(cache=True, error_model="numpy")(function))


def inlined(function: F) -> F:
    """Compile to be inlined into its callers: for small functions of a hot loop that take NamedTuples of arrays.

    Such a function must have one exit and read its arrays before it branches. A call that is not inlined passes every
    array's header on the stack, and early returns or reads inside branches keep the reference counts of all arrays from
    being optimised away: 100 ns instead of 6 ns a call for the filters of placement.
    """
    return cast(F, numba.njit(cache=True, error_model="numpy", forceinline=True)(function))
