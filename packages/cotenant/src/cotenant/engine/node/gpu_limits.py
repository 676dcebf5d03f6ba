"""The limits of a container's share of a GPU, as the environment that NVIDIA's MPS reads, and whether shares are held.

A share is the scheduler's word, from the annotation that it writes and seals; nothing else of the pod has a say. Where
the node's MPS daemon answers, a container starts with its pipe and its limits. What sets one of the variables itself is
left alone, and named: who replaces an owner's smaller limit by a larger one, or his pipe, does harm. So whether a
node's shares are held is no setting: it is what was seen, and one container with a share beside the limits is enough
that they are not.
Limits: seen are containers at their start and when the runtime tells what runs, never what a program makes of its
environment. Cards that anybody may open (`default`) are not held, since a process reaches them beside MPS.

Source: as model/devices/shares.py; NVIDIA recommends the compute mode EXCLUSIVE_PROCESS there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cotenant.model.cluster.seal import SealStanding
from cotenant.model.devices.allocation import DEVICE_ALLOCATED, parse_allocations
from cotenant.model.devices.shares import HELD_BY_MPS, MPS_VARIABLES, HookedShares, MpsShare, share_of
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import EXCLUSIVE_PROCESS, GpuCounters
from cotenant.model.machine.first_values import BindMount, FirstValueRefusal, FirstValues, LeftOut
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_pod import NodePod

RULE = "gpu-shares"
SHARED_MEMORY = "/dev/shm"
NAMED = 4  # containers


@dataclass(frozen=True, slots=True)
class ShareContainer:
    """A container of a pod with a share, with the variables of MPS that it runs with."""

    pod: NodePod
    name: str
    variables: tuple[tuple[str, str], ...]  # by name


@dataclass(frozen=True, slots=True)
class ShareVerdict:
    """Whether shares of a node's GPUs are held. `by` "": they are not; `why` "" as well: nothing was to hold them."""

    by: str = ""
    why: str = ""


def share_of_pod(pod: NodePod, gpus: Sequence[GpuCounters] | None, beside: int = 0) -> MpsShare | None:
    """What the scheduler gave; None where it gave no part of a GPU, or nobody can say that it did. `beside`: percent
    of multiprocessors that borrowers have beside model servers, 0 where that is not lent.
    """
    written = pod.annotations.get(DEVICE_ALLOCATED)
    if written is None or pod.holdings is SealStanding.REFUSED:
        return None
    try:
        return share_of(parse_allocations(written), _memory(gpus or ()), beside)
    except InvalidInput:
        return None


def limited(
    made: FirstValues,
    pod: NodePod,
    gpus: Sequence[GpuCounters],
    variables: frozenset[str],
    *,
    pipe: str,
    shared_memory: str,
    answers: bool,
    beside: int = 0,
) -> FirstValues:
    """The values with the limits of the pod's share. For a container whose GPUs are believed and known."""
    share = share_of_pod(pod, gpus, beside)
    if share is None:
        return made
    what = f"{pod.key} was given a share of {share.gpus} GPU{'s' if share.gpus > 1 else ''}"
    own = [name for name in MPS_VARIABLES if name in variables]
    if own:
        return _without(made, FirstValueRefusal.OWN_LIMITS, f"{what}, and sets {', '.join(own)} itself")
    if not answers:
        return _without(made, FirstValueRefusal.NO_DAEMON, f"{what}, and no MPS control daemon answers at {pipe}")
    terms = (
        *(() if share.threads_percent is None else (DecisionTerm("percent of the threads", share.threads_percent),)),
        *(() if share.memory_mib is None else (DecisionTerm("MiB of memory", share.memory_mib),)),
    )
    mounts = [BindMount(pipe, pipe)]
    if shared_memory:
        mounts.append(BindMount(shared_memory, SHARED_MEMORY))
    return replace(
        made,
        environment=(*made.environment, *share.variables(pipe)),
        mounts=(*made.mounts, *mounts),
        reasons=(*made.reasons, Reason(RULE, f"{what}: each of its processes is limited to it", terms)),
    )


def unlimited(container: ShareContainer, gpus: Sequence[GpuCounters] | None, pipe: str, beside: int = 0) -> bool:
    """Whether a container that runs has a share and other limits than it."""
    share = share_of_pod(container.pod, gpus, beside)
    return share is not None and dict(container.variables) != dict(share.variables(pipe))


def shares_now(
    containers: Sequence[ShareContainer],
    gpus: Sequence[GpuCounters] | None,
    *,
    pipe: str,
    answers: bool,
    beside: int = 0,
) -> HookedShares:
    """What the hook says of the shares of its node. Without a pipe it holds none."""
    if not pipe:
        return HookedShares()
    named = sorted(f"{one.pod.key}/{one.name}" for one in containers if unlimited(one, gpus, pipe, beside))
    return HookedShares(pipe, answers, tuple(named[:NAMED]), len(named))


def shares_held(gpus: Sequence[GpuCounters], hook: HookedShares | None, *, asked: bool) -> ShareVerdict:
    """The verdict of a node. `hook`: None where none acts on new containers; `asked`: whether limits are configured."""
    if not asked and (hook is None or not hook.pipe):
        return ShareVerdict()
    if hook is None or not hook.pipe:
        return ShareVerdict(why="no runtime hook that acts gives containers the limits of their share")
    if not gpus:
        return ShareVerdict(why="no GPU of this node is known")
    if not hook.answers:
        return ShareVerdict(why=f"no MPS control daemon answers at {hook.pipe}")
    for gpu in gpus:
        if gpu.compute_mode != EXCLUSIVE_PROCESS:
            mode = gpu.compute_mode or "not known"
            return ShareVerdict(
                why=f"the compute mode of GPU {gpu.index} is {mode}: a process reaches it beside MPS "
                f"(nvidia-smi -i {gpu.index} -c EXCLUSIVE_PROCESS)"
            )
    if hook.unlimited_count:
        more = hook.unlimited_count - len(hook.unlimited)
        rest = f" and {more} more" if more else ""
        return ShareVerdict(why=f"{', '.join(hook.unlimited)}{rest}: a share, and not its limits")
    return ShareVerdict(HELD_BY_MPS)


def _memory(gpus: Sequence[GpuCounters]) -> Mapping[int, int]:
    return {gpu.index: gpu.memory_total_bytes for gpu in gpus}


def _without(made: FirstValues, cause: FirstValueRefusal, text: str) -> FirstValues:
    return replace(made, left_out=(*made.left_out, LeftOut(cause, Reason(RULE, text))))
