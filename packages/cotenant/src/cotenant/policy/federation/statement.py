"""What a cluster says of itself and its tenants: sums, and no name of a pod or a node.

A statement comes from another organisation's machine. Everything about it is checked before it counts: ranges, sums
that exceed what the cluster has, tenants named twice. Amounts are triples of milli-CPU, MiB and whole GPUs, arrays in
JSON, so that ten thousand tenants fit into one message of a bus.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from cotenant.model.errors import InvalidInput
from cotenant.model.prediction.shared_use import MAX_PREDICTIONS, UseEvidence, check_evidence
from cotenant.policy.federation.shared_profiles import SharedProfile, is_possible

RESOURCES = ("cpu_milli", "memory_mib", "gpus")
MAX_AMOUNT = 2**53
MAX_TENANTS = 10_000
MAX_PROFILES = 1000
MAX_LASTS_MS = 3_600_000
MAX_STANDING = 1000
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_DIGITS = 20  # of an amount, in a message

Vector = tuple[int, int, int]
NONE: Vector = (0, 0, 0)


class TenantSums(msgspec.Struct, frozen=True, array_like=True):
    """Of one tenant in one cluster."""

    tenant: str
    used: Vector
    guaranteed: Vector = NONE
    credit: int = 0  # its standing there, -1000 to 1000
    violations: int = 0  # 1: pods wait while the tenant uses less than its guarantee


class ClusterRoom(msgspec.Struct, frozen=True):
    """Of one cluster: what `where` needs."""

    capacity: Vector
    free: Vector
    largest_free: Vector = NONE  # on one node, each resource by itself
    lent_free: Vector = NONE  # batch resources that are not requested yet
    price_micro: int = 0  # of a core-hour, in millionths; 0: not stated
    objectives: int = 0
    objectives_missed: int = 0


class Statement(msgspec.Struct, frozen=True):
    """Of one cluster at one time. `epoch` grows with each statement; `session` is the process that made it."""

    cluster: str
    session: str
    epoch: int
    issued_ms: int
    lasts_ms: int
    epsilon_milli: int  # of the noise on `used` and `violations`; 0: exact
    room: ClusterRoom
    tenants: tuple[TenantSums, ...] = ()
    profiles: tuple[SharedProfile, ...] = ()
    predictions: tuple[UseEvidence, ...] = ()


def check_name(field: str, name: str) -> None:
    """Raises `InvalidInput` unless it can be a cluster's, a tenant's or a shared profile's."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(field, name[:100], "at most 253 lower-case letters, digits, '-' and '.'")


def check_statement(statement: Statement, registered: Vector) -> None:
    """Raises `InvalidInput` for what no honest cluster of this registered capacity states."""
    check_name("cluster", statement.cluster)
    if not statement.session or len(statement.session) > 64:
        raise InvalidInput("session", statement.session[:64], "1 to 64 characters")
    _check_range("epoch", statement.epoch, 1, MAX_AMOUNT)
    _check_range("issued_ms", statement.issued_ms, 0, MAX_AMOUNT)
    _check_range("lasts_ms", statement.lasts_ms, 1000, MAX_LASTS_MS)
    _check_range("epsilon_milli", statement.epsilon_milli, 0, 1_000_000)
    _check_room(statement.room, registered)
    if len(statement.tenants) > MAX_TENANTS:
        raise InvalidInput("tenants", len(statement.tenants), f"at most {MAX_TENANTS}")
    seen: set[str] = set()
    used = [0, 0, 0]
    for sums in statement.tenants:
        check_name("tenant", sums.tenant)
        if sums.tenant in seen:
            raise InvalidInput("tenants", sums.tenant, "each tenant once")
        seen.add(sums.tenant)
        _check_vector(f"{sums.tenant}.used", sums.used)
        _check_vector(f"{sums.tenant}.guaranteed", sums.guaranteed)
        _check_range(f"{sums.tenant}.credit", sums.credit, -MAX_STANDING, MAX_STANDING)
        _check_range(f"{sums.tenant}.violations", sums.violations, 0, MAX_AMOUNT)
        used = [before + more for before, more in zip(used, sums.used, strict=True)]
    for name, total, most in zip(RESOURCES, used, statement.room.capacity, strict=True):
        if total > most:
            raise InvalidInput(f"sum of used {name}", total, f"at most the stated capacity, {most}")
    _check_profiles(statement.profiles)
    _check_predictions(statement.predictions)


def _check_profiles(profiles: Sequence[SharedProfile]) -> None:
    if len(profiles) > MAX_PROFILES:
        raise InvalidInput("profiles", len(profiles), f"at most {MAX_PROFILES}")
    seen: set[str] = set()
    for profile in profiles:
        check_name("profile", profile.name)
        if profile.name in seen:
            raise InvalidInput("profiles", profile.name, "each name once")
        seen.add(profile.name)
        for found in (profile.sensitivity, profile.pressure, profile.tolerates):
            if found is not None and not is_possible(found):
                raise InvalidInput(
                    f"profile {profile.name}",
                    repr(found)[:100],
                    "0 <= low <= value <= high <= 1000, and at least one window",
                )


def _check_predictions(predictions: Sequence[UseEvidence]) -> None:
    if len(predictions) > MAX_PREDICTIONS:
        raise InvalidInput("predictions", len(predictions), f"at most {MAX_PREDICTIONS}")
    seen: set[str] = set()
    for found in predictions:
        check_name("prediction", found.name)
        if found.name in seen:
            raise InvalidInput("predictions", found.name, "each name once")
        seen.add(found.name)
        check_evidence(f"prediction {found.name}", found)


def _check_room(room: ClusterRoom, registered: Vector) -> None:
    for field in ("capacity", "free", "largest_free", "lent_free"):
        _check_vector(field, getattr(room, field))
    for name, stated, most in zip(RESOURCES, room.capacity, registered, strict=True):
        if stated > most:
            raise InvalidInput(f"capacity {name}", stated, f"at most what is registered, {most}")
    for name, free, capacity in zip(RESOURCES, room.free, room.capacity, strict=True):
        if free > capacity:
            raise InvalidInput(f"free {name}", free, f"at most the capacity, {capacity}")
    _check_range("price_micro", room.price_micro, 0, MAX_AMOUNT)
    _check_range("objectives", room.objectives, 0, MAX_AMOUNT)
    _check_range("objectives_missed", room.objectives_missed, 0, room.objectives)


def fit_to(capacity: Vector, tenants: Sequence[TenantSums]) -> tuple[TenantSums, ...]:
    """The tenants with uses scaled down where noise made their sum exceed the capacity; rounded down, so it fits."""
    totals = [sum(sums.used[i] for sums in tenants) for i in range(3)]
    if all(total <= most for total, most in zip(totals, capacity, strict=True)):
        return tuple(tenants)

    def scaled(used: Vector) -> Vector:
        found = [
            amount * most // total if total > most else amount
            for amount, total, most in zip(used, totals, capacity, strict=True)
        ]
        return found[0], found[1], found[2]

    return tuple(msgspec.structs.replace(sums, used=scaled(sums.used)) for sums in tenants)


def _check_vector(field: str, vector: Vector) -> None:
    for name, amount in zip(RESOURCES, vector, strict=True):
        _check_range(f"{field} {name}", amount, 0, MAX_AMOUNT)


def _check_range(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidInput(field, str(value)[:_DIGITS], f"{least} to {most}")
