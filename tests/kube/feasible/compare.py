"""`python -m tests.kube.feasible.compare --cases 5000`: random pods of every feature on random clusters;
kube-scheduler's exact feasible set against this scheduler's, and its choice against both. Prints every difference.

A difference counts where it is the same when the pod is judged a second time: what kube-scheduler had not heard of yet
is none.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kube.claims.upstream import upstream, why_not
from tests.kube.feasible.ours import Engines, Own
from tests.kube.feasible.pods import pods
from tests.kube.feasible.upstream_side import Judged, Server, judging, plugins
from tests.kube.feasible.vocabulary import Manifest
from tests.kube.feasible.worlds import world

PODS_A_WORLD = 100


@dataclass(frozen=True, slots=True)
class Case:
    """One pod: how many nodes its world has, how many of them kube-scheduler's filters pass, and what differs."""

    name: str
    nodes: int
    feasible: int
    difference: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """The pods of one world. `refused`: by the API server, with its words."""

    cases: tuple[Case, ...]
    refused: dict[str, str]


def difference(theirs: frozenset[str] | None, own: Own) -> str:
    """What differs; empty = nothing."""
    if (theirs is None) != (own.nodes is None):
        return f"judged there: {theirs is not None}, here: {own.nodes is not None}"
    passed = theirs or frozenset()
    if passed != (own.nodes or frozenset()):
        return f"{sorted(passed)} there, {sorted(own.nodes or ())} here"
    if own.chosen not in (passed or {""}):
        return f"{own.chosen or 'no node'} is chosen here of {sorted(passed)}"
    return ""


def config(unfiltered: Sequence[str]) -> Manifest:
    """The configuration that kube-scheduler runs with, as far as this scheduler is to honour it."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins(unfiltered)}],
    }


def batch(server: Server, seed: int, count: int, unfiltered: Sequence[str] = ()) -> Batch:
    """Judge a seed's pods on its world; these plugins do not filter."""
    found = world(seed)
    wanted = {obj["metadata"]["name"]: obj for obj in pods(seed, found, count)}
    with server.world(found):
        engines = Engines(server.objects(found), config(unfiltered))
        judged, refused = server.judged(tuple(wanted.values()))
        own = {name: engines.judge(one.pod) for name, one in judged.items()}
        differing = {name for name, one in judged.items() if difference(one.nodes, own[name])}
        again, _ = server.judged([wanted[name] for name in sorted(differing)])
        judged.update(again)
        cases = [
            Case(name, len(found.nodes), len(one.nodes or ()), _explained(engines, one, own[name]))
            for name, one in judged.items()
        ]
    return Batch(tuple(cases), refused)


def _explained(engines: Engines, judged: Judged, own: Own) -> str:
    what = difference(judged.nodes, own)
    if not what:
        return ""
    lines = [what, f"there: {judged.message}"]
    missed = sorted((judged.nodes or frozenset()) - (own.nodes or frozenset()))
    lines += [f"here {node}: {engines.reasons(judged.pod, node)}" for node in missed]
    lines.append(json.dumps(_shown(judged.pod)))
    return "\n    ".join(lines)


def _shown(pod: Manifest) -> Manifest:
    hidden = ("terminationGracePeriodSeconds", "dnsPolicy", "securityContext", "schedulerName", "enableServiceLinks")
    spec = {name: value for name, value in pod["spec"].items() if name not in hidden}
    return {"labels": pod["metadata"].get("labels"), "namespace": pod["metadata"]["namespace"], "spec": spec}


@contextmanager
def servers(folder: Path, unfiltered: Sequence[str] = ()) -> Iterator[Server]:
    """An API server and a kube-scheduler that tells what its filters pass, without those of these plugins."""
    with upstream(folder) as found, judging(found, unfiltered) as server:
        yield server


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=400, help="how many pods are judged, at least")
    parser.add_argument("--seed", type=int, default=0, help="of the first world; the next has the next")
    parser.add_argument("--without", nargs="*", default=[], help="plugins whose filters the configuration disables")
    parser.add_argument("--folder", type=Path, default=None, help="where processes write; kept")
    asked = parser.parse_args()
    if why := why_not():
        print(why, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the servers end with the command
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        began_s, cases, refused, seed = time.monotonic(), list[Case](), dict[str, str](), asked.seed
        with servers(folder, asked.without) as server:
            while len(cases) < asked.cases:
                found = batch(server, seed, PODS_A_WORLD, asked.without)
                for case in found.cases:
                    if case.difference:
                        print(f"{case.name}: {case.difference}", flush=True)
                cases += found.cases
                refused.update(found.refused)
                seed += 1
    different = sum(bool(case.difference) for case in cases)
    pairs, passed = sum(case.nodes for case in cases), sum(case.feasible for case in cases)
    print(f"{len(cases)} pods in {seed - asked.seed} worlds, {different} different")
    print(f"{pairs} nodes were judged, and {passed} passed; {len(refused)} pods were not taken by the API server")
    print(f"{time.monotonic() - began_s:.0f} s")
    for name, message in list(refused.items())[:3]:
        print(f"{name}: {message}", file=sys.stderr)
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
