"""Random and damaged input: every reader answers, or raises what it documents (`python -m bench.fuzz` for more of
it).
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import pytest
from bench.fuzz.__main__ import SLOW_S, fuzz
from bench.fuzz.reader import Reader
from bench.fuzz.readers import all_readers

INPUTS = (300, pytest.param(20_000, marks=pytest.mark.long))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)  # unreadable objects are logged one by one
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("inputs", INPUTS)
def test_every_reader_survives_random_input(inputs: int, tmp_path: Path) -> None:
    """In one case: the readers of Kubernetes objects share an engine, whose state the earlier ones made."""
    for reader in all_readers(tmp_path):
        found = fuzz(reader, max(inputs, min(10_000, round(100 / reader.part))), seed=0)  # slow ones get a part of it
        assert not found.failures, found.first_failure
        assert found.accepted, f"{reader.name} accepts nothing: its examples are not valid"
        assert found.refused or not reader.errors


def test_an_undocumented_error_and_an_endless_reader_are_failures() -> None:
    def broken(text: bytes) -> None:
        raise KeyError(text)

    found = fuzz(Reader("broken", lambda rng: b"x", broken, (ValueError,)), 3, seed=7)
    assert found.failures == 3
    assert "broken, seed 7" in found.first_failure
    assert "KeyError" in found.first_failure


@pytest.mark.slow
def test_an_input_is_slow_only_if_it_is_slow_again() -> None:
    def compiles_once(text: bytes) -> None:
        began_s = process_time()
        while not compiled and process_time() - began_s < SLOW_S + 0.1:
            pass
        compiled.append(text)

    compiled: list[bytes] = []
    assert not fuzz(Reader("cold", lambda rng: b"x", compiles_once), 3, seed=7).failures
    assert len(compiled) == 4
