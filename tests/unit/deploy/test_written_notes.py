"""Every annotation and label that our processes write, and who keeps a pod's owner from writing it too.

They are found in the sources: keys of written mappings that are named after a domain. One that is not in the tables
below fails, so that a new one is in the admission policy of the chart from the beginning, or says why it need not be.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import yaml

from cotenant.drivers.kube.kinds.shard_table import EVICTS, FENCED, STIRRED
from cotenant.model.cluster.annotations import EXPECTED_ROOM
from cotenant.model.cluster.seal import BY_SCHEDULER, SETTLED_LABELS
from cotenant.model.groups.migration import SOFT_EVICTION

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "packages/cotenant/src"
POLICY = ROOT / "deploy/scheduler/admission-policy.yaml"
WRITERS = (  # what the scheduler, the extender, the manager and the rebalancer write is put together here
    "drivers/kube/kinds",
    "services/extender",
    "services/kube_process",
    "services/manager",
    "services/rebalancer",
    "services/scheduler",
    "services/scheduling",
)
_NAME = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+/[A-Za-z0-9._-]+")
OF_PODS_AND_ANYBODYS = {
    FENCED: "only changes the version of a pending pod; its value is not read",
    STIRRED: "only changes the version of a pending pod; its value is not read",
    EVICTS: "changes the version of a victim; a forged one is removed once, and one that is removed saves nobody",
    SOFT_EVICTION: "asks a controller to delete the pod: its owner may, too",
}
OF_OTHER_OBJECTS = {
    "a PodMigrationJob": {
        "app.kubernetes.io/created-by",
        "cotenant.io/allowed-by",
        "cotenant.io/move",
        "cotenant.io/or-pods",
        "cotenant.io/suggested",
        "cotenant.io/what-if",
        "koordinator.sh/evict-policy",
        "koordinator.sh/evict-reason",
        "koordinator.sh/evict-trigger",
    },
    "a Reservation of a migration": {"cotenant.io/surge", "scheduling.koordinator.sh/reservation-order"},
    "a Deployment": {"cotenant.io/surge", "cotenant.io/surge-before"},
    "a node": {"cotenant.io/gpu-totals", "cotenant.io/lent"},
    "a quota": {
        "cotenant.io/quota-problem",
        "quota.scheduling.koordinator.sh/allocated",
        "quota.scheduling.koordinator.sh/child-request",
        "quota.scheduling.koordinator.sh/guaranteed",
        "quota.scheduling.koordinator.sh/request",
        "quota.scheduling.koordinator.sh/runtime",
        "quota.scheduling.koordinator.sh/tree-id",
    },
    "a claim or a volume": {
        "pv.kubernetes.io/bound-by-controller",
        "resource.kubernetes.io/extended-resource-claim",
        "volume.kubernetes.io/selected-node",
    },
    "the Lease of a shard": {"cotenant.io/shards"},
}
ONLY_READ = {  # keys of mappings that are not written
    "cotenant.io/link-domain",
    "cotenant.io/tenant",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "node.koordinator.sh/extended-resource-spec",
    "quota.scheduling.koordinator.sh/name",
}


def written() -> Iterator[tuple[str, str]]:
    """Names that are keys of a mapping, and the file."""
    for path in (path for room in WRITERS for path in sorted((SOURCES / "cotenant" / room).rglob("*.py"))):
        where = path.relative_to(SOURCES)
        module = import_module(".".join(where.with_suffix("").parts).removesuffix(".__init__"))
        for node in ast.walk(ast.parse(path.read_text())):
            keys: list[ast.expr | None] = []
            if isinstance(node, ast.Dict):
                keys = list(node.keys)
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                keys = [node.slice]
            for key in keys:
                value = key and value_of(key, module)
                if isinstance(value, str) and _NAME.fullmatch(value):
                    yield value, str(where)


def value_of(key: ast.expr, module: ModuleType) -> object:
    match key:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return getattr(module, name, None)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return getattr(getattr(module, name, None), attribute, None)
        case _:
            return None


def guarded(texts: str) -> dict[str, list[str]]:
    """By message of the policy in this file: the names that only some may write."""
    (policy, _) = yaml.safe_load_all(texts)
    return {
        entry["message"]: re.search(r"\[('[^\]]*')\]\.all\(name,", entry["expression"])[1].strip("'").split("', '")  # type: ignore[index]
        for entry in policy["spec"]["validations"]
    }


def test_the_admission_policy_guards_what_is_believed_of_pods_and_what_is_settled() -> None:
    by_message = guarded(POLICY.read_text())
    (scheduler,) = (names for said, names in by_message.items() if said.startswith("only the scheduler"))
    (rebalancer,) = (names for said, names in by_message.items() if said.startswith("only the rebalancer"))
    assert (set(scheduler), rebalancer) == (set(BY_SCHEDULER), [EXPECTED_ROOM])
    settled = [name for said, names in by_message.items() if not said.startswith("only the") for name in names]
    assert set(settled) == set(SETTLED_LABELS)
    for said, names in by_message.items():
        assert [name for name in names if name.rpartition("/")[2] not in said] == []


def test_every_name_that_is_written_is_guarded_or_says_why_not() -> None:
    known = {*BY_SCHEDULER, EXPECTED_ROOM, *OF_PODS_AND_ANYBODYS, *ONLY_READ}.union(*OF_OTHER_OBJECTS.values())
    found: dict[str, list[str]] = {}
    for name, where in written():
        found.setdefault(name, []).append(where)
    new = {name: places for name, places in found.items() if name not in known}
    assert new == {}, "to be guarded by the policy of deploy/chart, or to be listed here with the reason"
    assert known - found.keys() == set(), "not written any more"
