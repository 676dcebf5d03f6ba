"""The roles in deploy/ grant the verbs that each process uses, and no others.

The calls are found in the source: every module that a process imports is searched for calls of the API client and for
watched kinds, so a call that no test runs counts too. The extender's role is compared in
tests/kube/test_extender_manifests.py.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import pytest
import yaml

import cotenant
from cotenant.drivers.kube.kinds.event import EVENTS
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.kube.kinds.workload.declarations import packaged

SOURCE = Path(cotenant.__file__).parent
DEPLOY = Path(__file__).parents[3] / "deploy"
CLIENT = {"client", "_client", "_api", "api"}
VERBS = {
    "get": ("get", ""),
    "has_any": ("list", ""),
    "create": ("create", ""),
    "update": ("update", ""),
    "patch": ("patch", ""),
    "delete": ("delete", ""),
    "patch_status": ("patch", "status"),
}
WATCHING = {"handle", "keep", "deliver", "Reflector", "CustomKind"}
TAKING_A_KIND = WATCHING | set(VERBS) | {"set_status"}
BY_OPERATION = {  # calls of the client that name no kind
    "bind": ("create", PODS, "binding"),
    "evict": ("create", PODS, "eviction"),
    "create_event": ("create", EVENTS, ""),
}
CALLS = re.compile(rf"\b({'|'.join(TAKING_A_KIND | set(BY_OPERATION) | {'request'})})\s*\(")


class Use(NamedTuple):
    """A right: a verb on a resource of a group; the resource may have a subresource."""

    verb: str
    group: str
    resource: str


class Process(NamedTuple):
    """A process: the module that starts it, its role, and what its deployment does not do, though the module could."""

    entry: str
    role: str
    unused: frozenset[Use] = frozenset()
    foreign: tuple[str, ...] = ()  # modules that it imports and whose calls it does not make
    reads_only: bool = False  # it lists and watches, and its client sends nothing else
    paths: frozenset[Use] = frozenset()  # what it requests by a path, which the source does not show as a kind


WATCHES = ("list", "watch")
DECLARED = frozenset(Use(verb, kind.group, kind.plural) for kind in packaged() for verb in ("list", "watch"))
DEVICES = frozenset(  # in every version, and written in the version that a claim was read in
    Use(verb, "resource.k8s.io", plural)
    for plural in ("deviceclasses", "devicetaintrules", "resourceclaims", "resourceslices")
    for verb in ("list", "watch")
)
CLAIM_WRITES = frozenset(
    {
        *(Use(verb, "resource.k8s.io", "resourceclaims") for verb in ("get", "create", "patch", "delete")),
        Use("patch", "resource.k8s.io", "resourceclaims/status"),
        Use("patch", "resource.k8s.io", "resourceclaims/binding"),  # asked for beside the right on the status
    }
)
RIGHT_SIZING = frozenset(
    {
        *(Use(verb, "slo.cotenant.io", "rightsizings") for verb in WATCHES),
        *(Use(verb, "apps", "replicasets") for verb in WATCHES),
        *(Use(verb, "autoscaling", "horizontalpodautoscalers") for verb in WATCHES),
        Use("patch", "slo.cotenant.io", "rightsizings/status"),
        Use("patch", "slo.cotenant.io", "rightsizings"),  # its definition has the subresource
        Use("patch", "", "pods/resize"),
    }
)
APPROVALS = frozenset(
    {
        *(Use(verb, "slo.cotenant.io", kind) for verb in ("get", "patch") for kind in ("rightsizings", "poollendings")),
        *(Use(verb, "scheduling.koordinator.sh", "podmigrationjobs") for verb in ("get", "patch")),
        *(Use(verb, "slo.cotenant.io", "autonomies") for verb in ("create", "patch", "delete")),
    }
)
PROCESSES = {
    "scheduler": Process(
        "cotenant.services.scheduler.scheduler_process",
        "scheduler/rbac.yaml",
        paths=DECLARED | DEVICES | CLAIM_WRITES,
        unused=frozenset({Use("patch", "slo.cotenant.io", "workloadprofiles")}),  # its definition has the subresource
    ),
    "shadow": Process(
        "cotenant.services.scheduler.shadow.shadow_process",
        "scheduler/shadow-rbac.yaml",
        paths=DECLARED | DEVICES,
        reads_only=True,  # it has the scheduler's engine and watches; its client refuses everything but GET
    ),
    "manager": Process(
        "cotenant.services.manager.main",
        "manager/rbac.yaml",
        # with manager.rightSizing; the chart's test has it. The definition of a PoolLending has the subresource.
        unused=RIGHT_SIZING | {Use("patch", "slo.cotenant.io", "poollendings")},
    ),
    "rebalancer": Process(
        "cotenant.services.rebalancer.main",
        "rebalancer/rbac.yaml",
        paths=DECLARED | DEVICES,
        foreign=(  # it has the scheduler's engine and watches, and none of its writes
            "cotenant.services.reporting.identity",
            "cotenant.services.scheduling.claims",
            "cotenant.drivers.kube.kinds.custom.pod_group",
            "cotenant.drivers.kube.kinds.custom.workload_pod_group",
        ),
    ),
    "agent": Process(
        "cotenant.services.agent.main",
        "node/rbac.yaml",
        unused=frozenset(
            {
                Use("patch", "slo.cotenant.io", "controlzones/status"),  # with node.zones
                *(
                    Use(verb, "", "events") for verb in ("create", "patch")
                ),  # with node.zones; its agents cannot load the probe of stalls
                Use("patch", "", "nodes/status"),
            }
        ),
    ),
    "credit": Process(
        "cotenant.services.credit.credit_process",
        "credit/rbac.yaml",
        unused=frozenset({Use("create", "", "events"), Use("patch", "", "events")}),  # it records none
    ),
    "console": Process(
        "cotenant.services.console.main",
        "console/rbac.yaml",
        unused=APPROVALS,  # with console.approvals; the chart's test has them
        foreign=("cotenant.services.manager.watches",),  # names of the ConfigMap
        paths=frozenset({Use("list", "metrics.k8s.io", "nodes"), Use("list", "metrics.k8s.io", "pods")}),
    ),
    "traces": Process(
        "cotenant.services.traces.traces_process",
        "traces/rbac.yaml",
        # with --request-moves, which the manifests leave out as their rebalancer makes a dry run; the chart's test has
        # it
        unused=frozenset({Use("get", "", "pods"), Use("create", "scheduling.koordinator.sh", "podmigrationjobs")})
        | frozenset({Use("list", "", "pods"), Use("watch", "", "pods")}),  # with pods in --model-servers
    ),
    "withdraw": Process(
        "cotenant.cli.cluster.withdraw",
        "uninstall/rbac.yaml",
        paths=frozenset(  # of both kinds, in a loop
            Use("delete", "admissionregistration.k8s.io", f"{element}webhookconfigurations")
            for element in ("mutating", "validating")
        ),
    ),
    "webhook": Process(
        "cotenant.services.webhook.webhook_process",
        "webhook/rbac.yaml",
        frozenset(
            {
                Use("create", "", "events"),  # it records none
                Use("patch", "", "events"),
                Use("watch", "", "pods"),  # with --quota-admission, where the chart grants it
                Use("create", "admissionregistration.k8s.io", "mutatingwebhookconfigurations"),  # --register
                Use("create", "admissionregistration.k8s.io", "validatingwebhookconfigurations"),
            }
        ),
    ),
}


def source(module: str) -> str | None:
    path = SOURCE.parent / Path(*module.split("."))
    return next(
        (entry.read_text() for entry in (path.with_suffix(".py"), path / "__init__.py") if entry.is_file()), None
    )


@cache
def tree(module: str) -> ast.Module | None:
    written = source(module)
    return None if written is None else ast.parse(written)


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The statements of a block and of all blocks in it: a tenth of the nodes that `ast.walk` visits."""
    for entry in body:
        yield entry
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(entry, block, ()))


@cache
def imported(module: str) -> frozenset[str]:
    parsed = tree(module)
    found: set[str] = set()
    for node in statements(parsed.body) if parsed is not None else ():
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cotenant"):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("cotenant")}
    return frozenset(found)


def reached(entry: str) -> set[str]:
    """Every module that the entry imports, directly or not."""
    found: set[str] = set()
    waiting = [entry]
    while waiting:
        module = waiting.pop()
        if module not in found and tree(module) is not None:
            found.add(module)
            waiting += imported(module)
    return found


@cache
def uses(module: str) -> frozenset[Use]:
    """The rights that calls in a module need. Processes share most of their modules, so each is searched once."""
    return frozenset(_uses(module))


def _uses(module: str) -> Iterator[Use]:
    parsed = tree(module)
    assert parsed is not None
    if module == "cotenant.drivers.kube.client.client":
        return  # its methods are counted where they are called
    if not CALLS.search(source(module) or ""):
        return
    names = vars(importlib.import_module(module))
    for loop in (node for node in statements(parsed.body) if isinstance(node, ast.For)):
        if any(_called(node) in WATCHING for node in ast.walk(loop)):
            for name in (node.id for node in ast.walk(loop.iter) if isinstance(node, ast.Name)):
                yield from _watched(names.get(name))
    for call in (node for node in ast.walk(parsed) if isinstance(node, ast.Call)):
        function, called = call.func, _called(call)
        kinds = list(_kinds(call.args[0], parsed, names)) if call.args and called in TAKING_A_KIND else []
        for kind in kinds:
            if called in WATCHING:
                yield from _watched(kind)
            elif called in VERBS:
                verb, sub = VERBS[called]
                for keyword in call.keywords:
                    if keyword.arg == "subresource" and isinstance(keyword.value, ast.Constant):
                        sub = str(keyword.value.value)
                yield Use(verb, kind.group, f"{kind.plural}/{sub}" if sub else kind.plural)
            else:  # set_status; without the subresource in the definition the object itself is patched
                yield from (Use("patch", kind.group, entry) for entry in (f"{kind.plural}/status", kind.plural))
        if not kinds and called in BY_OPERATION and _is_client(function):
            verb, on, sub = BY_OPERATION[called]
            yield Use(verb, on.group, f"{on.plural}/{sub}" if sub else on.plural)
        elif called == "request" and _is_client(function) and len(call.args) > 1:
            yield from _request(call, names)


def _kinds(written: ast.expr, parsed: ast.Module, names: Mapping[str, object]) -> Iterator[Kind[Any]]:
    """The kinds that an argument may be: a constant, or a variable that was assigned from constants or by a
    function that returns them.
    """
    if not isinstance(written, ast.Name):
        return
    found = names.get(written.id)
    if isinstance(found, Kind):
        yield found
        return
    for statement in statements(parsed.body):
        targets = (
            [n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            if isinstance(statement, ast.Assign)
            else []
        )
        if written.id not in targets:
            continue
        assert isinstance(statement, ast.Assign)
        for name in (node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)):
            value = names.get(name)
            if isinstance(value, Kind):
                yield value
            elif isinstance(value, FunctionType) and value.__module__.startswith("cotenant"):
                yield from _returned(value)


def _returned(function: FunctionType) -> Iterator[Kind[Any]]:
    parsed = tree(function.__module__)
    for statement in statements(parsed.body) if parsed is not None else ():
        if isinstance(statement, ast.FunctionDef) and statement.name == function.__name__:
            values = (function.__globals__.get(node.id) for node in ast.walk(statement) if isinstance(node, ast.Name))
            yield from (value for value in values if isinstance(value, Kind))


def _called(node: ast.AST) -> str:
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _watched(kind: object) -> Iterator[Use]:
    if isinstance(kind, Kind):
        yield from (Use(verb, kind.group, kind.plural) for verb in ("list", "watch"))


def _is_client(function: ast.expr) -> bool:
    owner = function.value if isinstance(function, ast.Attribute) else None
    return getattr(owner, "attr", getattr(owner, "id", "")) in CLIENT


def _request(call: ast.Call, names: dict[str, object]) -> Iterator[Use]:
    """`client.request("POST", KIND.path(namespace, name, "sub"))`."""
    method, path = call.args[0], call.args[1]
    if not (isinstance(path, ast.Call) and isinstance(path.func, ast.Attribute) and isinstance(method, ast.Constant)):
        return
    kind = names.get(getattr(path.func.value, "id", ""))
    if isinstance(kind, Kind):
        verb = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method.value]
        if verb == "get" and len(path.args) < 2:
            verb = "list"  # without a name
        sub = path.args[2].value if len(path.args) > 2 and isinstance(path.args[2], ast.Constant) else ""
        yield Use(verb, kind.group, f"{kind.plural}/{sub}" if sub else kind.plural)


def granted(role: str) -> set[Use]:
    return {
        Use(verb, group, resource)
        for document in yaml.load_all((DEPLOY / role).read_text(), Loader=yaml.CSafeLoader)
        if document
        for rule in document.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("name", PROCESSES)
def test_a_role_grants_the_verbs_that_its_process_uses_and_no_others(name: str) -> None:
    process = PROCESSES[name]
    own = {module for module in reached(process.entry) if not module.startswith(process.foreign or "-")}
    needed = ({use for module in own for use in uses(module)} | process.paths) - process.unused
    if process.reads_only:
        needed = {use for use in needed if use.verb in ("list", "watch")}
    has = granted(process.role)
    assert needed - has == set(), "used and not granted"
    assert has - needed == set(), "granted and not used"


def test_the_policy_of_the_node_agent_covers_everything_that_its_role_may_write_but_evictions() -> None:
    policy, binding = yaml.safe_load_all((DEPLOY / "node/admission-policy.yaml").read_text())
    covered = {
        (group, resource)
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if set(rule["operations"]) == {"CREATE", "UPDATE"}
    }
    written = {
        (use.group, use.resource) for use in granted("node/rbac.yaml") if use.verb not in ("get", "list", "watch")
    }
    assert covered == written - {("", "pods/eviction")}
    roles = list(yaml.safe_load_all((DEPLOY / "node/rbac.yaml").read_text()))
    (subject,) = next(role for role in roles if role["kind"] == "ClusterRoleBinding")["subjects"]
    user = f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    assert [user in entry["expression"] for entry in policy["spec"]["matchConditions"]] == [True]
    assert (policy["spec"]["failurePolicy"], binding["spec"]["policyName"]) == ("Fail", policy["metadata"]["name"])
    assert "Deny" in binding["spec"]["validationActions"]


def test_the_agent_gets_a_token_that_names_its_node() -> None:
    """Only a token that the kubelet projects is bound to the pod, and has the claim that the policy compares."""
    documents = yaml.safe_load_all((DEPLOY / "node/daemonset.yaml").read_text())
    (daemons,) = (document for document in documents if document and document["kind"] == "DaemonSet")
    sources = [
        source
        for volume in daemons["spec"]["template"]["spec"]["volumes"]
        for source in volume.get("projected", {}).get("sources", ())
    ]
    assert any("serviceAccountToken" in source for source in sources)
