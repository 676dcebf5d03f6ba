"""Requests that processes made, compared with the roles of deploy/: which of them RBAC would have refused.

    python -m tests.fakes.servers.api_roles AUDIT_LOG...      # rights that no request in these logs used, by process

The local API server has no RBAC. Its audit log names the client of each request by its User-Agent, so the requests of
any run with it can be judged afterwards as kube-apiserver's authorizer does: by verb, group, resource with subresource,
and name. A Role holds in every namespace here, because tests use other ones than the release's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

DEPLOY = Path(__file__).parents[3] / "deploy"
ROLES = {  # by the User-Agent, up to a slash
    "cotenant-scheduler": "scheduler/rbac.yaml",
    "cotenant-manager": "manager/rbac.yaml",
    "cotenant-rebalancer": "rebalancer/rbac.yaml",
    "cotenant-webhook": "webhook/rbac.yaml",
    "cotenant-agent": "node/rbac.yaml",
    "cotenant-extender": "extender/rbac.yaml",
    "cotenant-console": "console/rbac.yaml",
    "cotenant-traces": "traces/rbac.yaml",
    "cotenant-assess": "assess/rbac.yaml",
    "cotenant-credit": "credit/rbac.yaml",
    "cotenant-withdraw": "uninstall/rbac.yaml",
}
# Bound to every client by the roles that each cluster has: system:discovery, system:public-info-viewer,
# system:basic-user.
OPEN_PATHS = ("/api", "/apis", "/healthz", "/livez", "/openapi", "/readyz", "/version")
OPEN_REVIEWS = ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews")

# What a process does with a flag that its deployment does not set; the guide says which rights the flag needs besides.
NOT_DEPLOYED = {
    ("cotenant-scheduler", "list", "ovens"): "--workload-kinds: who declares a kind grants it",
    ("cotenant-scheduler", "watch", "ovens"): "--workload-kinds: who declares a kind grants it",
    ("cotenant-scheduler", "get", "leases"): "--shards: the chart grants each name with that value",
    ("cotenant-scheduler", "update", "leases"): "--shards: the chart grants each name with that value",
    ("cotenant-webhook", "watch", "pods"): "--quota-admission: the chart grants it with that argument",
    ("cotenant-extender", "create", "pods/binding"): "--bind: the chart grants it with that argument",
    ("cotenant-webhook", "create", "mutatingwebhookconfigurations"): "--register: the chart has the configurations",
    ("cotenant-webhook", "create", "validatingwebhookconfigurations"): "--register: the chart has the configurations",
    **{
        ("cotenant-manager", verb, kind): "--right-sizing: the chart grants it with that value"
        for kind in ("rightsizings", "replicasets", "horizontalpodautoscalers")
        for verb in ("list", "watch")
    },
    ("cotenant-manager", "patch", "rightsizings/status"): "--right-sizing: the chart grants it with that value",
    ("cotenant-manager", "patch", "pods/resize"): "--right-sizing: the chart grants it with that value",
}


class NotGranted(AssertionError):
    """A process made a request that its role does not grant: with RBAC it would have been a 403."""


class Call(NamedTuple):
    """One request, as RBAC sees it. `resource` includes the subresource; it is a path where the request has none."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


class Rule(NamedTuple):
    """One rule of a role."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    is_namespaced: bool

    def grants(self, call: Call) -> bool:
        return (
            call.verb in self.verbs
            and call.group in self.groups
            and call.resource in self.resources
            and (not self.names or call.name in self.names)
            and not (self.is_namespaced and not call.namespace)
        )


class Grant(NamedTuple):
    """What a rule allows, taken apart. `namespace`: of a Role; "" where it is for all. `name`: "" where it is for
    all.
    """

    verb: str
    group: str
    resource: str
    name: str = ""
    namespace: str = ""

    def allows(self, call: Call) -> bool:
        sets = (frozenset({name}) for name in (self.verb, self.group, self.resource))
        names = frozenset({self.name} if self.name else ())
        return Rule(*sets, names, is_namespaced=bool(self.namespace)).grants(call)


def grants_of(given: Iterable[Mapping[str, Any]], namespace: str = "") -> set[Grant]:
    """The rules of a role or of a SelfSubjectRulesReview."""
    return {
        Grant(verb, group, resource, name, namespace)
        for rule in given
        for verb in rule["verbs"]
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
        for name in rule.get("resourceNames") or [""]
    }


def granted(role: str) -> set[Grant]:
    """What the roles in a file of deploy/ grant."""
    found: set[Grant] = set()
    for document in yaml.safe_load_all((DEPLOY / role).read_text()):
        if document:
            found |= grants_of(document.get("rules") or (), document["metadata"].get("namespace", ""))
    return found


@cache
def rules(role: str) -> tuple[Rule, ...]:
    """The rules in a file of deploy/; of all objects in it, whose subjects are one process."""
    found = []
    for document in yaml.safe_load_all((DEPLOY / role).read_text()):
        for rule in (document or {}).get("rules", ()):
            assert "*" not in [*rule["verbs"], *rule["apiGroups"], *rule["resources"]], f"{role} grants everything"
            sets = (frozenset(rule.get(key, ())) for key in ("verbs", "apiGroups", "resources", "resourceNames"))
            found.append(Rule(*sets, is_namespaced=document["kind"] == "Role"))
    return tuple(found)


def calls(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Call]]:
    """The client and the call of each event of an audit log, for the clients that have a role."""
    for event in events:
        agent = event["userAgent"].partition("/")[0]
        if agent in ROLES:
            of = event.get("objectRef")
            if of is None:
                yield agent, Call(event["verb"], "", event["requestURI"].partition("?")[0])
                continue
            sub = of.get("subresource", "")
            resource = f"{of['resource']}/{sub}" if sub else of["resource"]
            group = of.get("apiGroup", "")
            yield agent, Call(event["verb"], group, resource, of.get("namespace", ""), of.get("name", ""))


def read(log: Path) -> list[dict[str, Any]]:
    """The events of an audit log; [] where there is none. A server that was killed may have left half a line."""
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]


def forbidden(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """The calls that RBAC would refuse, each once."""
    found = set()
    for agent, call in calls(events):
        if call.resource.startswith("/"):
            is_granted = any(call.resource == path or call.resource.startswith(f"{path}/") for path in OPEN_PATHS)
        elif call.resource in OPEN_REVIEWS or (agent, call.verb, call.resource) in NOT_DEPLOYED:
            is_granted = True
        else:
            is_granted = any(rule.grants(call) for rule in rules(ROLES[agent]))
        if not is_granted:
            found.add(f"{agent}: {call.verb} {call.resource} of {call.group or 'core'} {call.namespace}/{call.name}")
    return sorted(found)


def unused(events: Iterable[Mapping[str, Any]], agent: str) -> list[Grant]:
    """The rights of a process that no request used."""
    made = {call for who, call in calls(events) if who == agent}
    return sorted(grant for grant in granted(ROLES[agent]) if not any(grant.allows(call) for call in made))


def check(log: Path) -> None:
    """Raise `NotGranted` for the requests in an audit log that RBAC would refuse."""
    found = forbidden(read(log))
    if found:
        raise NotGranted("not granted by deploy/:\n" + "\n".join(found))


def main() -> None:
    events = [event for name in sys.argv[1:] for event in read(Path(name))]
    seen = {agent for agent, _ in calls(events)}
    for agent in sorted(ROLES):
        if agent not in seen:
            print(f"{agent}: made no request")
            continue
        for grant in unused(events, agent):
            where = f" {grant.namespace}/{grant.name}" if grant.name or grant.namespace else ""
            print(f"{agent}: {grant.verb} {grant.resource} of {grant.group or 'core'}{where}")


if __name__ == "__main__":
    main()
