"""`python -m tests.kube.claims.compare --seeds 0:200`: random worlds, each placed by kube-scheduler and by
`cotenant scheduler` on one real API server; prints every difference, and how many worlds and pods were the same.

`--wide` adds what features.py adds, `--lists` also attributes that are lists. A difference is counted apart, as known,
where explained.py shows that kube-scheduler's search loses track there.

`--other default-scheduler` lets kube-scheduler place both copies: what then differs is not decided by its inputs.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from urllib.request import urlopen

from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import eventually
from tests.kube.claims.compared import Copy, Decision, clear_common, make_common
from tests.kube.claims.explained import explained
from tests.kube.claims.features import tainted, wide_world
from tests.kube.claims.upstream import GATES, LISTS, Upstream, running, upstream, why_not
from tests.kube.claims.worlds import World, world
from tests.kube.conftest import Kube

KUBE_SCHEDULER, COTENANT = "default-scheduler", "cotenant"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One world: how many pods were compared, how many of them bound, and what differed first; empty = nothing."""

    seed: int
    pods: int
    bound: int
    difference: str = ""
    is_known: bool = False  # the difference is one that docs/adr/0048 names


def compared(kube: Kube, found: World, schedulers: tuple[str, str]) -> Outcome:
    """Place a world by both."""
    make_common(kube, found)
    copies = [
        Copy(kube, tainted(found) if name == KUBE_SCHEDULER else found, letter, name)
        for letter, name in zip("ab", schedulers, strict=True)
    ]
    try:
        for copy in copies:
            copy.build()
        pods = bound = 0
        for left, right in zip_longest(copies[0].run(), copies[1].run()):
            pods += 1
            bound += left.is_bound
            if why := difference(left, right):
                upstream, ours = (copy.last for copy in copies)
                assert upstream is not None
                assert ours is not None
                return Outcome(found.seed, pods, bound, why, explained(upstream, ours))
        return Outcome(found.seed, pods, bound)
    except AssertionError as error:
        return Outcome(found.seed, 0, 0, f"stopped: {error}"[:600])
    finally:
        for copy in copies:
            copy.clear()
        clear_common(kube, found)


def difference(left: Decision, right: Decision) -> str:
    """What differs; empty = nothing that counts: the words of a refusal are each scheduler's own."""
    if left.is_bound != right.is_bound:
        return f"{left.pod}: bound {left.is_bound} / {right.is_bound}; {left.message or right.message}"
    if left.allocations != right.allocations:
        return f"{left.pod}:\n    {left.allocations}\n    {right.allocations}"
    return ""


@contextmanager
def cotenant_scheduler(found: Upstream) -> Iterator[None]:
    """`cotenant scheduler` for pods of its own name."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "cotenant",
        "scheduler",
        "--kubeconfig",
        str(found.kubeconfig),
        "--listen",
        f"127.0.0.1:{port}",
        "--no-leader-elect",
        "--profile",
        "kube-default",
    ]
    log = found.folder / "cotenant.log"
    with running(command, log) as process:

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()[-2000:]
            with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)

        eventually(f"cotenant scheduler is ready ({log})", is_ready, within_s=60, tolerated=(OSError,), interval_s=0.3)
        yield


@contextmanager
def both(folder: Path, other: str, gates: tuple[str, ...] = GATES) -> Iterator[Upstream]:
    """An API server with the controller of claims and both schedulers."""
    with ExitStack() as stack:
        found = stack.enter_context(upstream(folder, gates))
        stack.enter_context(found.controllers("resourceclaim-controller"))
        stack.enter_context(found.scheduler())
        if other == COTENANT:
            stack.enter_context(cotenant_scheduler(found))
        yield found


def outcomes(
    found: Upstream, seeds: Sequence[int], other: str, threads: int, made: Callable[[int], World] = world
) -> Iterator[Outcome]:
    """All worlds, several at a time."""
    local = threading.local()

    def one(seed: int) -> Outcome:
        if not hasattr(local, "kube"):
            local.kube = found.client()
        return compared(local.kube, made(seed), (KUBE_SCHEDULER, other))

    pool = ThreadPoolExecutor(threads)
    try:
        yield from pool.map(one, seeds)
    finally:
        pool.shutdown(cancel_futures=True)


def _summary(found: Sequence[Outcome], took_s: float) -> str:
    same = sum(not outcome.difference for outcome in found)
    known = sum(outcome.is_known for outcome in found)
    pods, bound = sum(outcome.pods for outcome in found), sum(outcome.bound for outcome in found)
    worlds = f"{same} of {len(found)} worlds the same" + (f", {known} known to differ" if known else "")
    return f"{worlds}, {pods} pods of which {bound} were bound, {took_s:.0f} s"


def _seeds(text: str) -> Sequence[int]:
    first, colon, last = text.partition(":")
    return range(int(first), int(last)) if colon else [int(part) for part in text.split(",")]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:100", help="FIRST:LAST, the last left out, or a list such as 3,17")
    parser.add_argument("--threads", type=int, default=12, help="worlds at a time")
    parser.add_argument("--other", default=COTENANT, help="the scheduler to compare with kube-scheduler")
    parser.add_argument("--wide", action="store_true", help="with the features of features.py")
    parser.add_argument("--lists", action="store_true", help="--wide, and lists as attributes (a gate of 1.36)")
    parser.add_argument("--folder", type=Path, default=None, help="where processes write; kept")
    asked = parser.parse_args()
    if why := why_not():
        print(why, file=sys.stderr)
        return 2
    seeds = _seeds(asked.seeds)
    made = partial(wide_world, has_lists=asked.lists) if asked.wide or asked.lists else world
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the servers end with the command
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        began_s, found = time.monotonic(), []
        with both(folder, asked.other, (*GATES, LISTS) if asked.lists else GATES) as servers:
            for outcome in outcomes(servers, seeds, asked.other, asked.threads, made):
                found.append(outcome)
                if outcome.difference:
                    print(f"seed {outcome.seed}{' (known)' * outcome.is_known}: {outcome.difference}", flush=True)
                if len(found) % 50 == 0:
                    print(_summary(found, time.monotonic() - began_s), file=sys.stderr, flush=True)
    print(_summary(found, time.monotonic() - began_s))
    return int(any(outcome.difference and not outcome.is_known for outcome in found))


if __name__ == "__main__":
    sys.exit(main())
