"""Ports of templates: addresses, ranges, the long form, and what is refused."""

from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.template import ContainerTemplate, PortMapping, host_port
from cotenant.services.fleet.templates.ports import ports


def test_ports_are_pairs_single_ones_mappings_and_the_long_form() -> None:
    assert ports("x", None) == ()
    assert ports("x", 80) == (PortMapping(80, 80, "tcp"),)
    assert ports("x", ["8080:80", "53/udp"]) == (PortMapping(8080, 80, "tcp"), PortMapping(53, 53, "udp"))
    assert ports("x", {8080: 80, 9090: 90}) == (PortMapping(8080, 80), PortMapping(9090, 90))
    long_form = {"target": 80, "published": "8080", "protocol": "udp", "mode": "host", "name": "web"}
    assert ports("x", [long_form]) == (PortMapping(8080, 80, "udp"),)
    assert ports("x", [{"target": 80, "published": 81}]) == (PortMapping(81, 80, "tcp"),)


def test_ports_of_one_address() -> None:
    assert ports("x", ["127.0.0.1:8080:80", "[::1]:53:53/udp"], are_chosen=True) == (
        PortMapping(8080, 80, "tcp", "127.0.0.1"),
        PortMapping(53, 53, "udp", "::1"),
    )
    long_form = {"target": 80, "published": 8080, "host_ip": "10.0.0.7"}
    assert ports("x", [long_form]) == (PortMapping(8080, 80, "tcp", "10.0.0.7"),)


def test_ranges_are_as_many_pairs() -> None:
    three = tuple(PortMapping(8000 + i, 80 + i) for i in range(3))
    assert ports("x", ["8000-8002:80-82"], are_chosen=True) == three
    assert ports("x", ["127.0.0.1:70-71:80-81/udp"]) == (
        PortMapping(70, 80, "udp", "127.0.0.1"),
        PortMapping(71, 81, "udp", "127.0.0.1"),
    )
    assert ports("x", ["80-81"]) == (PortMapping(80, 80), PortMapping(81, 81))
    assert len(ports("x", ["1-65535:1-65535"])) == 65535


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["127.0.0.1::80"], "expected ADDRESS:HOST:CONTAINER; no port of the host is chosen"),
        (["::1:80:80"], "an address of IPv6 stands in brackets"),
        (["localhost:80:80"], "address: localhost: expected an IP address of the host"),
        (["8000-8003:80"], "as many ports of the host as of the container; no port of the host is chosen here"),
        (["8000-8003:80-81"], "as many ports of the host as of the container"),
        (["8003-8000:83-80"], "expected a range that begins with its lower port"),
        (["80-:80"], "expected a port number, or a range"),
        ([{"target": 80}], "target and published"),
        ([{"target": 80, "published": ""}], "target and published"),
        ([{"published": 80}], "target and published"),
        ([{"target": "80-81", "published": "80-81"}], "x.target: 80-81: expected one port number"),
        ([{"target": 80, "published": "80-81"}], "as many ports"),
        ([{"target": 80, "published": 80, "mode": "swarm"}], "x.mode: swarm: expected host or ingress"),
        ([{"target": 80, "published": 80, "ip": "::1"}], "ip: expected supported keys"),
        ([[80]], "expected text"),
        (["a:80"], "expected a port number"),
        (["80:b"], "expected a port number"),
    ],
)
def test_a_port_that_cannot_be_had_is_refused(given: object, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        ports("x", given)
    assert said in str(refused.value)


def test_a_single_port_is_refused_where_the_hosts_would_be_chosen() -> None:
    assert ports("x", ["80:80"], are_chosen=True) == (PortMapping(80, 80),)
    for single in (["3000"], [3000], ["53/udp"], ["80-81"]):
        with pytest.raises(InvalidInput, match=f"x: {single[0]}: expected HOST:CONTAINER; no port of the host is"):
            ports("x", single, are_chosen=True)


def test_a_container_has_at_most_a_hundred_ports() -> None:
    assert len(ContainerTemplate("web", "x", ports=ports("x", ["1-100:1-100"])).ports) == 100
    with pytest.raises(InvalidInput, match="web: ports: 101: expected at most 100 ports; network_mode: host has all"):
        ContainerTemplate("web", "x", ports=ports("x", ["1-101:1-101"]))


@pytest.mark.parametrize(
    ("one", "other", "is_one_only"),
    [
        (PortMapping(80, 80), PortMapping(80, 81), True),
        (PortMapping(80, 80), PortMapping(80, 80, "udp"), False),
        (PortMapping(80, 80, "tcp", "127.0.0.1"), PortMapping(80, 80), True),
        (PortMapping(80, 80, "tcp", "127.0.0.1"), PortMapping(80, 80, "tcp", "0.0.0.0"), True),
        (PortMapping(80, 80, "tcp", "::1"), PortMapping(80, 80, "tcp", "::"), True),
        (PortMapping(80, 80, "tcp", "::1"), PortMapping(80, 80, "tcp", "127.0.0.1"), False),
    ],
)
def test_a_port_of_one_address_is_taken_by_that_of_all(one: PortMapping, other: PortMapping, is_one_only: bool) -> None:
    assert host_port(one.taken).conflicts(host_port(other.taken)) is is_one_only
    assert host_port(other.taken).conflicts(host_port(one.taken)) is is_one_only


def test_what_a_port_takes_and_how_it_is_called() -> None:
    assert PortMapping(80, 81).taken == PortMapping(80, 81, "tcp", "0.0.0.0").taken == "80/tcp"
    assert PortMapping(80, 81, "udp", "::1").taken == "[::1]:80/udp"
    assert str(PortMapping(80, 81, "tcp", "127.0.0.1")) == "127.0.0.1:80:81/tcp"
