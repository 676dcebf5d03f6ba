"""The hub's memory: one live statement a cluster, the factors of tenants, and what others learned.

A statement is taken when its sums are possible, its clock is within `MAX_SKEW_MS` of ours, its epoch is above the last
one of its cluster (so a recorded one is worth nothing), and no other process speaks for the cluster at the time. It
counts from when it came, by a clock that does not go back, and for as long as it says; then its cluster counts no more.
What is refused changes nothing. Factors move at most once a round, however often clusters speak. A tenant of which
nobody states anything is forgotten.
Limits: a hub that starts again has no epochs; then a recorded statement can be repeated while its clock is still near.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from cotenant.model.errors import InvalidInput
from cotenant.model.prediction.shared_use import UseEvidence
from cotenant.policy.federation.shared_predictions import predicted_together
from cotenant.policy.federation.shared_profiles import SharedProfile, is_empty, together
from cotenant.policy.federation.statement import ClusterRoom, Statement, Vector, check_statement
from cotenant.policy.federation.weights import NEUTRAL, factors, global_shares_ppm

MAX_SKEW_MS = 600_000
ROUND_MS = 10_000
SHOWN_TENANTS = 200


class FederationWeights(msgspec.Struct, frozen=True):
    """The answer to a statement. `refused`: why it was not taken; empty: it was."""

    cluster: str
    epoch: int
    lasts_ms: int = 0
    factors: tuple[tuple[str, int], ...] = ()  # tenant and permille, where that is not 1000
    refused: str = ""
    profiles: tuple[SharedProfile, ...] = ()  # of the names that it stated: what the other clusters learned
    predictions: tuple[UseEvidence, ...] = ()  # the same


class SeenCluster(msgspec.Struct, frozen=True):
    """A member as the hub knows it; without `room`: nothing live is known of it."""

    cluster: str
    room: ClusterRoom | None = None
    age_ms: int = 0
    epsilon_milli: int = 0
    tenants: int = 0
    refused: str = ""  # the last refusal since its last good statement


class SeenTenant(msgspec.Struct, frozen=True):
    """A tenant over all clusters."""

    tenant: str
    share_ppm: int
    permille: int
    clusters: int


class FederationView(msgspec.Struct, frozen=True):
    """What `show` and `where` get: tenants by share, the largest `SHOWN_TENANTS` of `tenants_known`."""

    clusters: tuple[SeenCluster, ...]
    tenants: tuple[SeenTenant, ...]
    tenants_known: int


@dataclass(slots=True)
class _Member:
    registered: Vector
    epoch: int = 0
    statement: Statement | None = None
    profiles: dict[str, SharedProfile] = field(default_factory=dict)  # its statement's, by name
    predictions: dict[str, UseEvidence] = field(default_factory=dict)
    came_ms: int = 0
    until_ms: int = 0
    refused: str = ""


@dataclass(slots=True)
class Hub:
    """`members`: registered capacity by cluster. Times: `wall_ms` Unix, `now_ms` of a clock that does not go back."""

    members: Mapping[str, Vector]
    round_ms: int = ROUND_MS
    _known: dict[str, _Member] = field(default_factory=dict)
    _factors: dict[str, int] = field(default_factory=dict)
    _rounded_ms: int | None = None

    def __post_init__(self) -> None:
        self._known = {cluster: _Member(capacity) for cluster, capacity in sorted(self.members.items())}

    def hear(self, statement: Statement, wall_ms: int, now_ms: int) -> FederationWeights:
        """Take a statement whose signature is right; the weights for its cluster, or why it was refused."""
        member = self._known.get(statement.cluster)
        if member is None:
            return FederationWeights(
                statement.cluster, statement.epoch, refused="no cluster of this name is registered"
            )
        self._drop_expired(now_ms)
        why = self._refusal(member, statement, wall_ms)
        if why:
            member.refused = why
            return FederationWeights(statement.cluster, statement.epoch, refused=why)
        member.epoch, member.statement, member.refused = statement.epoch, statement, ""
        member.came_ms, member.until_ms = now_ms, now_ms + statement.lasts_ms
        member.profiles = {profile.name: profile for profile in statement.profiles}
        member.predictions = {found.name: found for found in statement.predictions}
        self._round(now_ms)
        return FederationWeights(
            statement.cluster,
            statement.epoch,
            statement.lasts_ms,
            tuple(
                (sums.tenant, self._factors[sums.tenant])
                for sums in statement.tenants
                if self._factors.get(sums.tenant, NEUTRAL) != NEUTRAL
            ),
            profiles=self._learned_elsewhere(member),
            predictions=self._predicted_elsewhere(member),
        )

    def view(self, now_ms: int) -> FederationView:
        """All that is known now."""
        self._drop_expired(now_ms)
        live = [member.statement for member in self._known.values() if member.statement is not None]
        shares = global_shares_ppm(live)
        spread: dict[str, int] = {}
        for statement in live:
            for sums in statement.tenants:
                spread[sums.tenant] = spread.get(sums.tenant, 0) + 1
        largest = sorted(shares, key=lambda tenant: (-shares[tenant], tenant))[:SHOWN_TENANTS]
        return FederationView(
            tuple(_seen(cluster, member, now_ms) for cluster, member in self._known.items()),
            tuple(
                SeenTenant(tenant, shares[tenant], self._factors.get(tenant, NEUTRAL), spread[tenant])
                for tenant in largest
            ),
            len(shares),
        )

    def _learned_elsewhere(self, member: _Member) -> tuple[SharedProfile, ...]:
        others = [other for other in self._known.values() if other is not member and other.statement is not None]
        found = (
            together(name, [other.profiles[name] for other in others if name in other.profiles])
            for name in member.profiles
        )
        return tuple(profile for profile in found if not is_empty(profile))

    def _predicted_elsewhere(self, member: _Member) -> tuple[UseEvidence, ...]:
        others = [other for other in self._known.values() if other is not member and other.statement is not None]
        found = (
            predicted_together(name, [other.predictions[name] for other in others if name in other.predictions])
            for name in member.predictions
        )
        return tuple(one for one in found if one.hours)

    def _refusal(self, member: _Member, statement: Statement, wall_ms: int) -> str:
        try:
            check_statement(statement, member.registered)
        except InvalidInput as error:
            return str(error)
        if statement.issued_ms > wall_ms + MAX_SKEW_MS:
            return f"its clock is {(statement.issued_ms - wall_ms) // 1000} s ahead, more than {MAX_SKEW_MS // 1000} s"
        if statement.issued_ms + statement.lasts_ms < wall_ms - MAX_SKEW_MS:
            return f"it was made {(wall_ms - statement.issued_ms) // 1000} s ago and has expired"
        before = member.statement
        if before is not None and before.session != statement.session:
            return "another joiner speaks for this cluster; it is heard until its last statement expires"
        if statement.epoch <= member.epoch:
            return f"epoch {statement.epoch} is not above the last one, {member.epoch}"
        return ""

    def _drop_expired(self, now_ms: int) -> None:
        for member in self._known.values():
            if member.statement is not None and now_ms >= member.until_ms:
                member.statement = None

    def _round(self, now_ms: int) -> None:
        if self._rounded_ms is not None and now_ms < self._rounded_ms + self.round_ms:
            return
        self._rounded_ms = now_ms
        live = [member.statement for member in self._known.values() if member.statement is not None]
        self._factors = factors(live, self._factors)


def _seen(cluster: str, member: _Member, now_ms: int) -> SeenCluster:
    statement = member.statement
    if statement is None:
        return SeenCluster(cluster, refused=member.refused)
    return SeenCluster(
        cluster,
        statement.room,
        now_ms - member.came_ms,
        statement.epsilon_milli,
        len(statement.tenants),
        member.refused,
    )
