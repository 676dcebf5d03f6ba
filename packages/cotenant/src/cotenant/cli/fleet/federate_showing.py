"""What a federation's hub knows, as tables for people and one JSON object for programs."""

from __future__ import annotations

import sys

import msgspec

from cotenant.cli import tables
from cotenant.engine.federation.hub import FederationView
from cotenant.model.counted import counted
from cotenant.policy.federation.statement import Vector
from cotenant.policy.federation.where import JobNeeds, ranked

FAILED = 1
_MIB_OF_GIB = 1024


def show(view: FederationView, as_json: bool) -> int:
    """Clusters, then tenants by share."""
    if as_json:
        _print_json(view)
        return 0
    rows = []
    for cluster in view.clusters:
        room = cluster.room
        if room is None:
            rows.append((cluster.cluster, "", "", "", "", "", cluster.refused or "silent"))
            continue
        noise = f"epsilon {cluster.epsilon_milli / 1000:g}" if cluster.epsilon_milli else "exact"
        age = f"{cluster.age_ms / 1000:.0f} s"
        note = cluster.refused or noise
        rows.append((cluster.cluster, age, _text(room.capacity), _text(room.free), _text(room.lent_free),
                     str(cluster.tenants), note))  # fmt: skip
    headings = ("cluster", "heard", "capacity", "free", "lent and free", "tenants", "")
    tables.print_words(headings, rows, right=("heard", "tenants"))
    if not view.tenants:
        print("no tenants")
        return 0
    print()
    shown = [
        (tenant.tenant, f"{tenant.share_ppm / 10_000:.2f} %", f"{tenant.permille / 1000:.3f}", str(tenant.clusters))
        for tenant in view.tenants
    ]
    numbers = ("dominant share", "weight x", "clusters")
    tables.print_words(("tenant", *numbers), shown, right=numbers)
    if view.tenants_known > len(view.tenants):
        print(f"and {view.tenants_known - len(view.tenants)} smaller ones")
    return 0


def show_where(needs: JobNeeds, view: FederationView, as_json: bool) -> int:
    """The ranking; clusters of which nothing live is known are named with the reason."""
    found = ranked(needs, [(cluster.cluster, cluster.room) for cluster in view.clusters if cluster.room is not None])
    silent = [(cluster.cluster, cluster.refused or "silent") for cluster in view.clusters if cluster.room is None]
    best = found[0].cluster if found and found[0].fits else ""
    if as_json:
        rows = [{"cluster": one.cluster, "fits": one.fits, "why": one.why} for one in found]
        rows += [{"cluster": name, "fits": False, "why": why} for name, why in silent]
        _print_json({"best": best, "clusters": rows})
    else:
        kind = "lent " if needs.is_lent else ""
        beside = f" and {_text(needs.beside)} that nobody lends" if any(needs.beside) else ""
        print(f"{counted(needs.pods, 'pod')} of {kind}{_text(needs.pod)}{beside}")
        lines = [(one.cluster, "yes" if one.fits else "no", one.why) for one in found]
        tables.print_words(("cluster", "room", "why"), [*lines, *((name, "no", why) for name, why in silent)], (best,))
    return 0 if best else FAILED


def _text(amounts: Vector) -> str:
    cpu, memory, gpus = amounts
    parts = [f"{cpu / 1000:g} cores", f"{memory / _MIB_OF_GIB:.4g} GiB"]
    return ", ".join(parts + ([counted(gpus, "GPU")] if gpus else []))


def _print_json(value: object) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
