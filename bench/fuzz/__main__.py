"""`python -m bench.fuzz`: random and damaged input for every reader; prints what each made of it.

A nightly run is `python -m bench.fuzz --inputs 1000000`; `make test` gives each reader about a three-thousandth of
that, `make test-long` a fiftieth. A failure prints the reader, the seed and the input, and `--reader NAME --seed S
--inputs 1` repeats it.
Limit: the readers of Kubernetes objects feed one engine, so a failure that needs what earlier inputs left there is
repeated only by the whole run.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from bench.fuzz.reader import Reader
from bench.fuzz.readers import all_readers

SLOW_S = 2.0  # of CPU
_SHOWN_BYTES = 600


@dataclass(slots=True)
class RoundTally:
    """What a reader made of its inputs."""

    accepted: int = 0
    refused: int = 0
    failures: int = 0
    slowest_s: float = 0.0
    first_failure: str = ""


def fuzz(reader: Reader, inputs: int, seed: int) -> RoundTally:
    """Give the reader so many inputs, each made from a seed of its own."""
    tally = RoundTally()
    for number in range(seed, seed + max(1, round(inputs * reader.part))):
        text = reader.make(Random(f"{reader.name} {number}"))
        began_s, failure = time.process_time(), ""
        try:
            reader.read(text)
            tally.accepted += 1
        except reader.errors:
            tally.refused += 1
        except Exception:
            failure = traceback.format_exc(limit=-4)
        took_s = time.process_time() - began_s
        if took_s > SLOW_S and not failure:  # the first time may compile kernels
            began_s = time.process_time()
            with suppress(*reader.errors):
                reader.read(text)
            took_s = time.process_time() - began_s
            failure = f"it took {took_s:.1f} s of CPU" if took_s > SLOW_S else ""
        tally.slowest_s = max(tally.slowest_s, took_s)
        if failure:
            tally.failures += 1
            tally.first_failure = (
                tally.first_failure or f"{reader.name}, seed {number}: {failure}\n{text[:_SHOWN_BYTES]!r}"
            )
    return tally


def main() -> int:
    """Run and print a table. 1 where a reader failed."""
    options = argparse.ArgumentParser(prog="python -m bench.fuzz", description=__doc__)
    options.add_argument("--inputs", type=int, default=10_000, help="inputs per reader; slow readers get a part of it")
    options.add_argument("--seed", type=int, default=0, help="of the first input")
    options.add_argument("--reader", default="", help="only readers whose name contains this")
    asked = options.parse_args()
    logging.disable(logging.CRITICAL)
    found: list[str] = []
    print(f"{'reader':48} {'accepted':>9} {'refused':>9} {'failed':>7} {'slowest ms':>11}")
    with TemporaryDirectory(prefix="cotenant-fuzz-") as folder:
        for reader in all_readers(Path(folder)):
            if asked.reader in reader.name:
                tally = fuzz(reader, asked.inputs, asked.seed)
                row = f"{tally.accepted:9} {tally.refused:9} {tally.failures:7} {1e3 * tally.slowest_s:11.1f}"
                print(f"{reader.name:48} {row}", flush=True)
                found += [tally.first_failure] if tally.failures else []
    print("".join(f"\n{name}\n" for name in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
