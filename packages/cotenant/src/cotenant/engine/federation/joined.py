"""A joined cluster's side: the next statement's epoch, the weights that are in force, and the writes that bring quotas
there or give them back.

The weight that an owner wrote must survive a joiner that dies. So the first write keeps it beside the new one, in an
annotation of the quota object itself, and every later write starts from it. A weight that differs from the one that was
written here was changed by its owner: it is the new original. Weights are in force from the moment when the statement
was sent, which is before the hub counted, and by a clock that does not go back: clocks of two machines are never
compared. Whatever is not in force is given back: the original stands, the annotation is gone.
Limits: a quota in whose annotation nothing can be read keeps its weight, and loses the annotation. A joiner that was
killed gives back when it runs again, or `cotenant federate leave` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from cotenant.engine.federation.hub import FederationWeights
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import NO_LIMIT
from cotenant.model.prediction.shared_use import UseEvidence, check_evidence
from cotenant.model.resources import Amounts
from cotenant.policy.federation.shared_profiles import Evidence, SharedProfile, is_possible
from cotenant.policy.federation.statement import MAX_LASTS_MS
from cotenant.policy.federation.weights import MAX_PERMILLE, MIN_PERMILLE, NEUTRAL, weighted_permille


class KeptWeight(msgspec.Struct, frozen=True, omit_defaults=True):
    """The annotation's content: texts of the weight, the owner's (None: it wrote none) and the one that was written."""

    before: str | None
    written: str


@dataclass(frozen=True, slots=True)
class WeighedQuota:
    """A quota object as its writer must see it. `shared_weight` and `kept` are the annotations' texts."""

    key: str
    uid: str
    version: str
    tenant: str
    maximum: Amounts
    shared_weight: str | None
    weight: Amounts  # that of the text; of the maximum where there is none
    kept: str | None
    written: Amounts | None  # the weight in `kept`, parsed; None: there is none, or it cannot be read
    original: Amounts | None  # the owner's in `kept`, the same


@dataclass(frozen=True, slots=True)
class WriteWeight:
    """`weight` None with `before`: give back that text (None: no annotation). Otherwise write it, and keep `before`."""

    key: str
    uid: str
    version: str
    before: str | None
    weight: Amounts | None


@dataclass(slots=True)
class Joined:
    """Times are of a clock that does not go back, in ms. `lasts_ms`: for how long an answer may count at most."""

    cluster: str
    lasts_ms: int = MAX_LASTS_MS
    epoch: int = 0
    _until_ms: int = 0
    _factors: dict[str, int] = field(default_factory=dict)
    _profiles: dict[str, SharedProfile] = field(default_factory=dict)
    _predictions: dict[str, UseEvidence] = field(default_factory=dict)

    def next_epoch(self, wall_ms: int) -> int:
        """Above all before, those of earlier processes too, as long as this machine's clock went on."""
        self.epoch = max(self.epoch + 1, wall_ms)
        return self.epoch

    def answered(self, weights: FederationWeights, epoch: int, sent_ms: int) -> str:
        """Take the hub's answer to the statement with this epoch; why not, where it is not taken. Factors and
        times beyond the bounds are cut, and figures beyond them left out: a hub is believed within them only.
        """
        if weights.cluster != self.cluster or weights.epoch != epoch:
            return "the answer is to another statement"
        if weights.refused:
            return weights.refused
        self._until_ms = sent_ms + max(0, min(self.lasts_ms, weights.lasts_ms))
        self._factors = {tenant: max(MIN_PERMILLE, min(MAX_PERMILLE, permille)) for tenant, permille in weights.factors}
        self._profiles = {profile.name: _possible(profile) for profile in weights.profiles}
        self._predictions = {found.name: found for found in weights.predictions if _is_possible(found)}
        return ""

    def in_force(self, now_ms: int) -> Mapping[str, int]:
        """Factors by tenant; none once they expired."""
        self._drop_expired(now_ms)
        return self._factors

    def profiles_in_force(self, now_ms: int) -> Mapping[str, SharedProfile]:
        """What others learned, by shared name; nothing once it expired."""
        self._drop_expired(now_ms)
        return self._profiles

    def predictions_in_force(self, now_ms: int) -> Mapping[str, UseEvidence]:
        """What others learned of use, by shared name; nothing once it expired."""
        self._drop_expired(now_ms)
        return self._predictions

    def _drop_expired(self, now_ms: int) -> None:
        if now_ms >= self._until_ms:
            self._factors, self._profiles, self._predictions = {}, {}, {}


def _possible(profile: SharedProfile) -> SharedProfile:
    def kept(found: Evidence | None) -> Evidence | None:
        return found if found is not None and is_possible(found) else None

    return SharedProfile(
        profile.name, kept(profile.sensitivity), kept(profile.pressure), kept(profile.tolerates), profile.clusters
    )


def _is_possible(found: UseEvidence) -> bool:
    try:
        check_evidence("prediction", found)
    except InvalidInput:
        return False
    return True


def writes(quotas: Iterable[WeighedQuota], in_force: Mapping[str, int]) -> list[WriteWeight]:
    """What to write so that each quota has its original weight times its factor."""
    found = []
    for quota in quotas:
        ours = bool(quota.shared_weight) and quota.written is not None and same_weight(quota.weight, quota.written)
        base = quota.original if ours and quota.original is not None else quota.weight
        before = _before(quota.kept) if ours else quota.shared_weight
        permille = in_force.get(quota.tenant, NEUTRAL)
        if permille == NEUTRAL:
            if quota.kept is not None:
                found.append(WriteWeight(quota.key, quota.uid, quota.version, before, None))
            continue
        weight = Amounts.of({name: min(NO_LIMIT, weighted_permille(amount, permille)) for name, amount in base.items})
        if not (ours and same_weight(weight, quota.weight)):
            found.append(WriteWeight(quota.key, quota.uid, quota.version, before, weight))
    return found


def same_weight(one: Amounts, other: Amounts) -> bool:
    """Whether they weigh the same: a webhook may have added resources of weight 0."""
    return _weighing(one) == _weighing(other)


def _weighing(amounts: Amounts) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items if amount}


def _before(kept: str | None) -> str | None:
    return msgspec.json.decode(kept, type=KeptWeight).before if kept else None
