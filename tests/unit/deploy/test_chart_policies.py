"""NetworkPolicies of the chart against what its parts connect to: each address in a part's arguments and files is
allowed on both sides, and no side allows a port to a part that nobody's address names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

import pytest
from tests.unit.deploy.chart import helm_only, objects
from tests.unit.deploy.objects import Identity, Obj

HERE = "cotenant-system"
ANY = "any pod"
ON = ("traces", "rebalancer", "console", "credit", "extender")
ALL = tuple(f"--set={part}.enabled=true" for part in ON)
OWN_SPANS = tuple(f"--set={part}.traces=true" for part in ("scheduler", "manager", "rebalancer"))
ADDRESS = re.compile(r"https?://([a-z0-9-]+)\.([a-z0-9-]+)\.svc:(\d+)")
CASES = {
    "defaults": (),
    "all parts": ALL,
    "their own spans": (*ALL, *OWN_SPANS),
    "books and agents": (*ALL, "--set=credit.tokenSecret=books,console.agents=http://{ip}:10262"),
}


@helm_only
@pytest.mark.parametrize("case", CASES)
def test_what_a_part_connects_to_is_allowed_on_both_sides_and_nothing_else(case: str) -> None:
    made = objects(*CASES[case])
    needed, may = set(connections(made)), set(egress(made))
    assert needed == {edge for edge in may if edge[1] in deployments(made)}, "from, to, port of the pod"
    let_in = set(ingress(made))
    assert not [edge for edge in needed if edge not in let_in and (ANY, *edge[1:]) not in let_in]
    assert {edge for edge in let_in if edge[0] in deployments(made)} <= needed


@helm_only
@pytest.mark.parametrize("case", CASES)
def test_a_policy_lets_in_what_its_own_pod_listens_on_and_out_to_dns_and_the_api_server(case: str) -> None:
    made = objects(*CASES[case])
    pods = deployments(made)
    policies = {name: found["spec"] for (kind, _, name), found in made.items() if kind == "NetworkPolicy"}
    assert set(policies) == set(pods)
    for name, policy in policies.items():
        assert policy["podSelector"]["matchLabels"] == {"app": name}
        listens = {
            port["containerPort"]
            for container in pods[name]["spec"]["containers"]
            for port in container.get("ports", ())
        }
        assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} <= listens
        dns, api, *_ = policy["egress"]
        assert dns == {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53}]}
        assert api == {"ports": [{"port": 443}, {"port": 6443}]}


def deployments(made: Mapping[Identity, Obj]) -> dict[str, Obj]:
    """Pods of the parts by their label: agents are in the network of their node, where no policy applies."""
    return {
        found["spec"]["template"]["metadata"]["labels"]["app"]: found["spec"]["template"]
        for (kind, namespace, _), found in made.items()
        if kind == "Deployment" and namespace == HERE
    }


def connections(made: Mapping[Identity, Obj]) -> Iterator[tuple[str, str, int]]:
    """By the addresses in a pod's arguments, environment and mounted ConfigMaps: a policy sees the port behind the
    Service.
    """
    services = {key[1:]: found["spec"] for key, found in made.items() if key[0] == "Service"}
    for app, pod in deployments(made).items():
        maps = [volume["configMap"]["name"] for volume in pod["spec"].get("volumes", ()) if "configMap" in volume]
        texts = [json.dumps(pod["spec"]["containers"])]
        texts += [json.dumps(made[key]["data"]) for name in maps if (key := ("ConfigMap", HERE, name)) in made]
        for service, namespace, port in ADDRESS.findall(" ".join(texts)):
            target = services[namespace, service]
            (known,) = (entry for entry in target["ports"] if entry["port"] == int(port))
            yield app, target["selector"]["app"], number(made, target["selector"]["app"], known)


def number(made: Mapping[Identity, Obj], app: str, port: Obj) -> int:
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target
    containers = deployments(made)[app]["spec"]["containers"]
    (found,) = (p for container in containers for p in container.get("ports", ()) if p.get("name") == target)
    return int(found["containerPort"])


def egress(made: Mapping[Identity, Obj]) -> Iterator[tuple[str, str, int]]:
    for name, rule in _rules(made, "egress"):
        for app in _apps(rule.get("to", ())):
            for port in rule["ports"]:
                yield name, app, port["port"]


def ingress(made: Mapping[Identity, Obj]) -> Iterator[tuple[str, str, int]]:
    for name, rule in _rules(made, "ingress"):
        for app in _apps(rule.get("from", ())):
            for port in rule["ports"]:
                yield app, name, port["port"]


def _rules(made: Mapping[Identity, Obj], way: str) -> Iterator[tuple[str, Obj]]:
    for (kind, _, name), found in made.items():
        if kind == "NetworkPolicy":
            for rule in found["spec"][way]:
                yield name, rule


def _apps(peers: list[Obj]) -> Iterator[str]:
    for peer in peers:
        if "ipBlock" not in peer:
            yield peer.get("podSelector", {}).get("matchLabels", {}).get("app", ANY)
