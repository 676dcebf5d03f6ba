"""Where the time of a scheduling decision goes, and what it passes through.

    python -m tools.decision                            # a profile of decisions, one pod at a time (`make profile`)
    python -m tools.decision --trace                    # the calls of one decision, as a tree
    python -m tools.decision --out decisions.pstats     # for snakeviz, or python -m pstats

Kernels are compiled first. The profiler's own cost is in every Python call, so compare shares and not times.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
from pathlib import Path
from types import FrameType

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

SOURCE = str(Path(sys.modules[Cluster.__module__].__file__ or "").parents[1])


def engine(profile_name: str, nodes: int) -> Cluster:
    """An engine with this many nodes of 32 cores."""
    made = Cluster(profile(profile_name), np.random.default_rng(1))
    for n in range(nodes):
        name = f"node-{n:04}"
        made.node_seen(Node(name, Amounts.of({"cpu": 32_000, "memory": 128 << 30}), Labels.of({HOSTNAME: name})))
    return made


def decide(cluster: Cluster, number: int) -> None:
    """One pod arrives and is placed."""
    pod = Pod(f"pod-{number}", requests=Amounts.of({"cpu": 100 * (1 + number % 8), "memory": 512 << 20}))
    cluster.pod_seen(ObservedPod(pod, f"uid-{number}", "cotenant", float(number)), float(number))
    for bind in cluster.decide(float(number)):
        cluster.bound(bind.uid, float(number))  # type: ignore[union-attr]


def tree(cluster: Cluster, number: int) -> list[str]:
    """The calls of one decision within our sources, indented by depth."""
    lines: list[str] = []
    depth = 0

    def called(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(SOURCE) or code.co_name.startswith("<"):
            return
        if event == "call":
            lines.append(f"{'  ' * depth}{code.co_qualname}  {code.co_filename[len(SOURCE) + 1 :]}")
        depth += 1 if event == "call" else -1

    sys.setprofile(called)
    try:
        decide(cluster, number)
    finally:
        sys.setprofile(None)
    return lines


def main() -> int:
    """Print the profile or the tree."""
    parser = argparse.ArgumentParser(prog="python -m tools.decision", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--profile", default="cotenant", help="the placement profile")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--trace", action="store_true", help="the calls of one decision instead")
    parser.add_argument("--out", type=Path, help="write the profile to this file too")
    asked = parser.parse_args()
    cluster = engine(asked.profile, asked.nodes)
    for number in range(20):  # compiles, and fills caches
        decide(cluster, number)
    if asked.trace:
        print("\n".join(tree(cluster, 20)))
        return 0
    profiler = cProfile.Profile()
    profiler.enable()
    for number in range(20, 20 + asked.pods):
        decide(cluster, number)
    profiler.disable()
    stats = pstats.Stats(profiler).strip_dirs()
    stats.sort_stats("tottime").print_stats(25)
    if asked.out:
        stats.dump_stats(asked.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
