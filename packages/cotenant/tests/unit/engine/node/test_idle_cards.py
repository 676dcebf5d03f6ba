"""GPUs that somebody holds and nobody uses: who holds them, now and for how long."""

from __future__ import annotations

import json
from dataclasses import replace

from cotenant.engine.node.idle_cards import HeldTime, IdleCards
from cotenant.model.cluster.labels import Labels
from cotenant.model.devices.allocation import DEVICE_ALLOCATED
from cotenant.model.devices.gpu_use import IdleGpus
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.counters import GpuCounters, GpuInstance, GpuPodUse
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse
from cotenant.policy.interference.attribution.cards import holders_of_cards

GIB = 1 << 30
SECOND = 1_000_000
TRAIN, SERVE = (NodePod(f"uid-{name}", "ml", name, f"pods/{name}") for name in ("train", "serve"))


def card(index: int, busy: int | None = 0, *uids: str, **more: object) -> GpuCounters:
    uses = tuple(GpuPodUse(uid, GIB) for uid in uids)
    made = GpuCounters(index, f"GPU-{index}", "H100", True, busy, 80 * GIB, 2 * GIB, pods=uses)
    return replace(made, **more)  # type: ignore[arg-type]


def state(
    *gpus: GpuCounters, given: tuple[tuple[str, str], ...] = (), pods: tuple[NodePod, ...] = (TRAIN, SERVE)
) -> NodeState:
    uses = tuple(PodUse(pod, GroupUse(pod.group)) for pod in pods)
    kubelet = KubeletFacts(given_devices=given)
    return NodeState(SECOND, SECOND, HostUse(8, 0, 64 * GIB, 0), uses, gpus=gpus, kubelet=kubelet)


def test_a_card_is_held_by_whom_the_kubelet_gave_it_without_a_process_on_it() -> None:
    cards = IdleCards()
    cards.seen(state(card(0), card(1), card(2, 60, "uid-serve"), given=(("GPU-0", "ml/train"), ("GPU-9", "ml/serve"))))
    assert cards.now == IdleGpus(2, 1, 0, 2 * GIB, ("ml/train",))
    assert cards.times == {"GPU-0": HeldTime(SECOND, SECOND), "GPU-2": HeldTime(SECOND, 0)}


def test_devices_have_the_names_that_their_plugins_give_them() -> None:
    mig = card(3, None, divided=True, instances=(GpuInstance(7, "MIG-ab", GIB, 0),))
    for device in ("GPU-0", "GPU-0::2", "0", "0000:17:00.0", "nvidia0"):
        found = holders_of_cards(state(card(0, bus="0000:17:00.0"), card(1), given=((device, "ml/train"),)))
        assert found == {"GPU-0": {"uid-train"}, "GPU-1": set()}, device
    for device in ("MIG-ab", "nvidia3/gi7", "MIG-GPU-3/7/0"):
        assert holders_of_cards(state(mig, given=((device, "ml/train"),)))["GPU-3"] == {"uid-train"}, device
    for device, pod in (("GPU-00", "ml/train"), ("GPU-0", "ml/other"), ("", "ml/train")):
        assert holders_of_cards(state(card(0), given=((device, pod),)))["GPU-0"] == set(), device


def test_what_a_finished_pod_was_given_is_held_by_nobody() -> None:
    written = Labels.of({DEVICE_ALLOCATED: json.dumps({"gpu": [{"minor": 0, "resources": {}}]})})
    running = replace(TRAIN, annotations=written)
    cards = IdleCards()
    cards.seen(state(card(0), pods=(running,)))
    assert (cards.now.allocated, cards.now.idle_holders) == (1, ("ml/train",))
    cards.seen(state(card(0), pods=(replace(running, phase=NodePodPhase.OVER),), given=(("GPU-0", "ml/train"),)))
    assert cards.now.allocated == 0


def test_a_card_whose_driver_does_not_say_is_neither_busy_nor_idle() -> None:
    cards = IdleCards()
    cards.seen(state(card(0, None, "uid-train"), card(1, 0, "")))
    assert cards.now == IdleGpus(2, 1, 1, 2 * GIB, ("programs outside pods",))
    assert cards.times == {"GPU-1": HeldTime(SECOND, SECOND)}


def test_times_add_up_and_a_tick_without_cards_adds_none() -> None:
    cards = IdleCards()
    for busy in (0, 0, 1, 100):
        cards.seen(state(card(0, busy, "uid-train")))
    assert cards.times["GPU-0"] == HeldTime(4 * SECOND, 2 * SECOND)
    cards.seen(state())
    assert cards.now == IdleGpus(0, 0, 0, 0, ())
    assert cards.times["GPU-0"] == HeldTime(4 * SECOND, 2 * SECOND)
