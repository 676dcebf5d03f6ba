"""Training jobs of several organisations: sizes, durations, teams and arrivals, drawn from a seed.

Gangs, quotas and shared GPUs only matter where jobs of many sizes compete, sizes and durations are heavy-tailed, and
demand shifts between teams over the day. Sizes and durations of Philly as Gavel's generator samples them, single-GPU
jobs that share a GPU as often as in openb, a tail of larger gangs, and teams in organisations whose demand alternates.
Arrivals are drawn until the requested work is reached, so load is exact over all arrivals.
Limits: size and duration are independent, memory and CPU follow the GPUs, all members of a job are equal.

Sources: 1, 2, 4, 8 GPUs with 70, 10, 15, 5 %; 10^U(1.5, 3) minutes for 80 % of the jobs, 10^U(3, 4) for the rest:
Philly (Jeon et al., ATC'19) as sampled by Gavel (Narayanan et al., OSDI'20; stanford-futuredata/gavel,
scheduler/utils.py). Of openb's single-GPU pods 37.8 : 48.0 share a GPU (Weng et al., ATC'23). Durations are divided by
20, so that ten hours stand for eight days; sizes above 8 GPUs are our addition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import Float
from cotenant.model.groups.quota import Quota
from cotenant.model.resources import CPU_NAME, GPU_CORE, GPU_MEMORY_RATIO, MEMORY_NAME, Amounts

GIB = 1 << 30
GPUS_A_NODE = 8
NODES = 24
NODES_A_RACK = 4
RACKS_A_BLOCK = 3
NODE_CPU_MILLI = 96_000
NODE_MEMORY = 768 * GIB
GPU_BYTES = 80 * GIB
GPU_CPU_MILLI = 10_000  # requested per GPU, low enough that GPUs are the scarce resource
GPU_HOST_MEMORY = 64 * GIB
WHOLE = 100  # percent of a GPU

WARM_UP_S = 2 * 3600.0
HORIZON_S = 10 * 3600.0  # end of arrivals
PHASE_S = 2 * 3600.0  # duration of one organisation's peak
RUSH = 3.0  # factor on its usual share of the arrivals during a peak
TIME_SCALE = 20.0
SHARES_A_GPU = 37.8 / (37.8 + 48.0)
PARTS = (25, 50)  # percent of a GPU requested by such a pod
URGENT_SHARE = 0.05
URGENT, USUAL = 1000, 0  # priorities
_SIZES = (1, 2, 4, 8, 16, 32, 64)  # GPUs of a job
_SIZE_SHARES = (0.70, 0.10, 0.13, 0.04, 0.015, 0.01, 0.005)
_WHOLE_PODS = 0.5  # share of multi-GPU jobs that use few large pods; the others use pods of one GPU each


@dataclass(frozen=True, slots=True)
class Team:
    """A leaf of the quota tree, with its relative demand."""

    name: str
    organisation: str
    owed_gpus: int
    appetite: float  # share of its organisation's arrivals, relative to the other teams


# Two levels; guarantees sum to the cluster. Demand differs from guarantees: some teams depend on what others leave.
TEAMS = (
    Team("vision-train", "vision", 40, 1.0),
    Team("vision-eval", "vision", 16, 2.0),
    Team("vision-lab", "vision", 8, 1.5),
    Team("language-train", "language", 48, 1.5),
    Team("language-tune", "language", 24, 1.0),
    Team("language-lab", "language", 8, 2.0),
    Team("ads-train", "ads", 32, 0.5),
    Team("ads-score", "ads", 16, 1.0),
)
ORGANISATIONS = tuple(dict.fromkeys(team.organisation for team in TEAMS))


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One job: `pods` equal members, all of which must run at once."""

    number: int
    team: int
    arrival_s: float
    duration_s: float
    pods: int
    gpu_percent: int  # of each member; a multiple of 100 above 100
    priority: int

    @property
    def gpus(self) -> float:
        """GPUs of all members."""
        return self.pods * self.gpu_percent / WHOLE

    @property
    def work(self) -> float:
        """GPU-seconds."""
        return self.gpus * self.duration_s

    def requests(self) -> Amounts:
        """Requests of one member."""
        part = self.gpu_percent
        return Amounts.of(
            {
                CPU_NAME: GPU_CPU_MILLI * part // WHOLE,
                MEMORY_NAME: GPU_HOST_MEMORY * part // WHOLE,
                GPU_CORE: part,
                GPU_MEMORY_RATIO: part,
            }
        )


def jobs(load: float, seed: int, nodes: int = NODES, horizon_s: float = HORIZON_S) -> tuple[JobPlan, ...]:
    """Jobs in order of arrival, numbered in that order; their GPU-seconds are `load` of the cluster's until the
    horizon, less at most one job.
    """
    rng = np.random.default_rng([seed, 41])
    left = load * nodes * GPUS_A_NODE * horizon_s
    drawn: list[tuple[float, int, float, int, int, int]] = []
    while True:
        pods, part = _size(rng, nodes * GPUS_A_NODE)
        duration_s = _duration_s(rng)
        left -= pods * part / WHOLE * duration_s
        if left < 0:
            break
        arrival_s = float(rng.uniform(0.0, horizon_s))
        team = int(rng.choice(len(TEAMS), p=_arrival_shares(arrival_s)))
        urgent = pods * part <= GPUS_A_NODE * WHOLE and rng.random() < URGENT_SHARE
        drawn.append((arrival_s, team, duration_s, pods, part, URGENT if urgent else USUAL))
    drawn.sort()
    return tuple(
        JobPlan(number, team, arrival_s, duration_s, pods, part, priority)
        for number, (arrival_s, team, duration_s, pods, part, priority) in enumerate(drawn)
    )


def quotas(nodes: int = NODES) -> tuple[Quota, ...]:
    """The tree: organisations below the root, teams below them. Guarantees of `TEAMS` in proportion to the nodes;
    maximum twice the organisation's guarantee.
    """
    scale = nodes / NODES
    found = []
    for organisation in ORGANISATIONS:
        below = [team for team in TEAMS if team.organisation == organisation]
        owed = sum(_owed_percent(team, scale) for team in below)
        most = 2 * owed
        found.append(Quota(organisation, _gpus(most), _gpus(owed), is_parent=True, shared_weight=_gpus(owed)))
        for team in below:
            percent = _owed_percent(team, scale)
            found.append(Quota(team.name, _gpus(most), _gpus(percent), organisation, shared_weight=_gpus(percent)))
    return tuple(found)


def owed_gpus(nodes: int = NODES) -> Float:
    """Guaranteed GPUs by team."""
    return np.array([_owed_percent(team, nodes / NODES) / WHOLE for team in TEAMS])


def _owed_percent(team: Team, scale: float) -> int:
    return round(team.owed_gpus * WHOLE * scale)


def _gpus(percent: int) -> Amounts:
    return Amounts.of({GPU_CORE: percent, GPU_MEMORY_RATIO: percent})


def _size(rng: np.random.Generator, max_gpus: int) -> tuple[int, int]:
    """Number of members, and percent of a GPU of each."""
    while True:
        gpus = int(rng.choice(_SIZES, p=_SIZE_SHARES))
        if gpus <= max_gpus // 2:
            break
    if gpus == 1:
        return 1, int(rng.choice(PARTS)) if rng.random() < SHARES_A_GPU else WHOLE
    if rng.random() < _WHOLE_PODS:
        entry = min(gpus, GPUS_A_NODE)
        return gpus // entry, entry * WHOLE
    return gpus, WHOLE


def _duration_s(rng: np.random.Generator) -> float:
    exponent = rng.uniform(3.0, 4.0) if rng.random() >= 0.8 else rng.uniform(1.5, 3.0)
    return float(60.0 * 10.0**exponent / TIME_SCALE)


def _arrival_shares(arrival_s: float) -> Float:
    """By team: the probability that a job arriving now is the team's. Organisations alternate in having a peak."""
    rushing = ORGANISATIONS[int(arrival_s // PHASE_S) % len(ORGANISATIONS)]
    owed = {name: sum(team.owed_gpus for team in TEAMS if team.organisation == name) for name in ORGANISATIONS}
    appetites = {name: sum(team.appetite for team in TEAMS if team.organisation == name) for name in ORGANISATIONS}
    share = np.array(
        [
            owed[team.organisation]
            * (RUSH if team.organisation == rushing else 1.0)
            * team.appetite
            / appetites[team.organisation]
            for team in TEAMS
        ]
    )
    return np.asarray(share / share.sum())
