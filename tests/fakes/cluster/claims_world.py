"""An engine with device claims, and the API server's side of them: claims are written as binds say, and freed as
Kubernetes' controllers free them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.claims.instructions import ReleaseClaim
from cotenant.engine.rules.claims.rules import ClaimRules
from cotenant.model.claims.claim import ResourceClaim
from cotenant.model.claims.devices import DeviceId, OfferedDevice, Reach, ResourceSlice
from cotenant.model.claims.needs import ClaimGroup, ClaimNeeds, ContainerRequest, NamedClaim
from cotenant.model.claims.requests import ClaimRequest, ClaimSpec, DeviceClass, DeviceConstraint, ExactRequest
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.gang import GangNotes
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

DRIVER = "gpu.example.com"


class ByModel:
    """Selectors that are names of models; `fails` has none."""

    spent = 0

    def matches(self, expression: str, driver: str, device: OfferedDevice) -> bool:
        if expression == "fails":
            raise InvalidInput("selector", expression, "a value for every device", "no such key")
        return dict(device.attributes).get("model") == expression


def request(name: str = "gpu", count: int = 1, *selectors: str, device_class: str = "gpu") -> ClaimRequest:
    return ClaimRequest(name, (ExactRequest(name, device_class, selectors, count=count),))


def spec(*requests: ClaimRequest, constraints: tuple[DeviceConstraint, ...] = ()) -> ClaimSpec:
    return ClaimSpec(requests or (request(),), constraints)


def gpus(count: int, model: str = "a") -> tuple[OfferedDevice, ...]:
    return tuple(OfferedDevice(f"gpu-{at}", (("model", model), ("uuid", f"u{at}"))) for at in range(count))


class ClaimsWorld:
    """One cluster. Claims are observed after each write, unless `is_late`: then `catch_up` shows them."""

    def __init__(self, is_late: bool = False) -> None:
        self.rules = ClaimRules(ByModel())
        self.facts = self.rules.facts
        self.engine = Cluster(
            profile("cotenant-requests"), np.random.default_rng(1), EngineSettings(), PluginRegistry(claims=self.rules)
        )
        self.facts.class_seen(DeviceClass("gpu"))
        self.claims: dict[str, ResourceClaim] = {}  # as stored
        self.pods: dict[str, ObservedPod] = {}  # by UID, as stored
        self.now_s = 0.0
        self.is_late = is_late
        self._unseen: dict[str, None] = {}
        self._version = 0
        self.told: list[Instruction] = []

    # ---- objects

    def node(self, name: str, devices: tuple[OfferedDevice, ...] = (), **allocatable: int) -> None:
        amounts = {"cpu": 64_000, "memory": 2**36, "pods": 100, **allocatable}
        self.engine.node_seen(Node(name, Amounts.of(amounts)))
        if devices:
            self.facts.slice_seen(ResourceSlice(f"{name}-gpus", DRIVER, name, 1, 1, Reach(name), devices))

    def claim(self, name: str, wanted: ClaimSpec | None = None, owner: str = "") -> None:
        self.put(ResourceClaim("default", name, f"uid-{name}", wanted or spec(), owner_uid=owner))

    def put(self, claim: ResourceClaim) -> None:
        self._version += 1
        self.claims[claim.key] = replace(claim, version=self._version)
        self._unseen[claim.key] = None
        if not self.is_late:
            self.catch_up()

    def delete(self, key: str) -> None:
        if self.claims.pop(key, None) is not None:
            self._unseen[key] = None
            if not self.is_late:
                self.catch_up()

    def catch_up(self) -> None:
        """The watch delivers what it has not yet."""
        for key in self._unseen:
            if key in self.claims:
                self.facts.claim_seen(self.claims[key])
            else:
                self.facts.claim_gone(key)
        self._unseen.clear()

    def pod(
        self,
        name: str,
        *claims: str,
        priority: int = 0,
        gang: str = "",
        members: int = 0,
        cpu_milli: int = 100,
        containers: tuple[ContainerRequest, ...] = (),
        group: str = "",
        **requests: int,
    ) -> None:
        """`group`: the PodGroup that its claims are reserved for."""
        uid = f"uid-{name}"
        shared = ClaimGroup(group, f"uid-{group}") if group else None
        named = tuple(NamedClaim(f"default/{claim}", group=shared) for claim in claims)
        needs = ClaimNeeds((), containers, shared, uid, named)
        notes = GangNotes(name=gang, min_available=members) if gang else None
        amounts = {"cpu": cpu_milli, "memory": 2**20, **{key.replace("__", "/"): v for key, v in requests.items()}}
        self.see(
            ObservedPod(
                Pod(name, "default", Amounts.of(amounts), priority=priority),
                uid,
                "cotenant",
                1.0 + len(self.pods),
                demands=Demands(claims=needs if claims or containers else None, gang=notes),
            )
        )

    def see(self, seen: ObservedPod) -> None:
        self.pods[seen.uid] = seen
        self.engine.pod_seen(seen, self.now_s)

    def own(self, name: str, wanted: ClaimSpec | None = None, **pod: int) -> None:
        """A pod with a claim of the same name that was made for it."""
        self.claim(name, wanted, f"uid-{name}")
        self.pod(name, name, **pod)  # type: ignore[arg-type]

    def end(self, name: str) -> None:
        """A pod is deleted; claims that were made for it go, others are not reserved for it any more."""
        uid = f"uid-{name}"
        if self.pods.pop(uid, None) is None:
            return
        self.engine.pod_gone(uid, self.now_s)
        for key, claim in list(self.claims.items()):
            left = tuple(other for other in claim.reserved_for if other != uid)
            if claim.owner_uid == uid:
                self.delete(key)
            elif left != claim.reserved_for:
                self.put(replace(claim, reserved_for=left, allocation=claim.allocation if left else None))

    # ---- decisions

    def decide(self) -> list[Bind]:
        """One decision; its binds are not carried out yet."""
        given = self.engine.decide(self.now_s)
        self.told += [instruction for instruction in given if not isinstance(instruction, Bind)]
        for instruction in given:
            if isinstance(instruction, ReleaseClaim):
                self.release(instruction)
        return [instruction for instruction in given if isinstance(instruction, Bind)]

    def release(self, given: ReleaseClaim) -> None:
        claim = self.claims.get(given.key)
        if claim is not None and set(claim.reserved_for) <= {given.consumer_uid}:
            if given.delete:
                self.delete(given.key)
            else:
                self.put(replace(claim, reserved_for=(), allocation=None))

    def write(self, bind: Bind) -> bool:
        """Write the claims of a bind; whether all could be written."""
        for holding in bind.holds.claims:
            if not holding.key:
                made = ResourceClaim(
                    "default",
                    f"{bind.uid}-extended",
                    f"extended {bind.uid}",
                    ClaimSpec(),
                    owner_uid=bind.uid,
                    is_for_extended=True,
                )
                self.put(replace(made, allocation=holding.allocation, reserved_for=(bind.uid,)))
                continue
            claim = self.claims.get(holding.key)
            if claim is None or claim.uid != holding.uid:
                return False
            if claim.allocation is None:
                if holding.allocation is None:
                    return False
                claim = replace(claim, allocation=holding.allocation)
            elif holding.allocation is not None and claim.allocation.devices != holding.allocation.devices:
                return False
            consumer = holding.group.uid if holding.group is not None else bind.uid
            if consumer not in claim.reserved_for:
                claim = replace(claim, reserved_for=(*claim.reserved_for, consumer))
            self.put(claim)
        return True

    def take_back(self, bind: Bind) -> None:
        """Give up what a failed bind wrote."""
        for holding in bind.holds.claims:
            claim = self.claims.get(holding.key)
            if claim is not None and bind.uid in claim.reserved_for:
                left = tuple(other for other in claim.reserved_for if other != bind.uid)
                ours = holding.allocation is not None and not left
                self.put(replace(claim, reserved_for=left, allocation=None if ours else claim.allocation))

    def carry_out(self, bind: Bind) -> bool:
        """Write and bind."""
        if not self.engine.sending(bind.uid, self.now_s):
            return False
        if not self.write(bind):
            self.take_back(bind)
            self.engine.bind_failed(bind.uid, "device claims", self.now_s)
            return False
        self.engine.bound(bind.uid, self.now_s)
        self.see(replace(self.pods[bind.uid], node=bind.node))
        return True

    def settle(self, rounds: int = 40) -> dict[str, str]:
        """Decide and carry out until nothing more happens. Returns the node of each pod, by name."""
        for _ in range(rounds):
            for bind in self.decide():
                self.carry_out(bind)
            if self.engine.next_s() > self.now_s + 60.0:
                break
            self.now_s = max(self.now_s + 0.1, min(self.engine.next_s(), self.now_s + 10.0))
        return self.nodes()

    def nodes(self) -> dict[str, str]:
        return {seen.pod.name: seen.node for seen in self.pods.values() if seen.node}

    def given(self) -> dict[str, list[DeviceId]]:
        """Devices by claim, as stored."""
        return {
            claim.name: [device.id for device in claim.allocation.devices]
            for claim in self.claims.values()
            if claim.allocation is not None
        }

    def reason(self, name: str) -> str:
        """What a pod's owner was last told."""
        entry = self.engine.find(f"default/{name}")
        return entry.last_message if entry is not None else ""
