"""A process that is made fit for runs."""

from __future__ import annotations

import gc
import os

import pytest

from cotenant.model.compiled import cache_directory
from cotenant_lab.workers import tune_process


def test_a_process_that_has_loaded_numba_keeps_its_folder_of_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    threshold = gc.get_threshold()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "2")  # so that it is restored
        monkeypatch.delenv(name)
    numba.config.reload_config()  # type: ignore[no-untyped-call]
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(cache_directory()))
    try:
        tune_process()
        numba.config.reload_config()  # type: ignore[no-untyped-call]  # as before each compilation
    finally:
        gc.set_threshold(*threshold)
    assert os.environ["OMP_NUM_THREADS"] == "1"
    assert str(cache_directory()) == numba.config.CACHE_DIR
