"""Files of groups in both forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.template import GroupTemplate, HealthCheck, PortMapping, start_order
from cotenant.services.fleet.templates.compose import ComposePlace
from cotenant.services.fleet.templates.group_file import named_by_file, read_template, template_of


def read(text: str, **environment: str) -> GroupTemplate:
    return template_of(text.encode(), "shop.yml", ComposePlace(environment, Path("/src")), "shop")


def test_the_notes_form() -> None:
    group = read(
        """
        - {appkey: camera, image: cam:2, child: [detect], portmap: "8080:80", envskey: [MODE=fast, TOKEN], cmd: run -a}
        - {appkey: detect, image: darknet, parent: camera, portmap: {9000: 9000}, envskey: {GPU: 0}, cmd: [a, b c]}
        """,
        TOKEN="secret",
    )
    camera, detect = group.containers
    assert (camera.appkey, camera.image, camera.command) == ("camera", "cam:2", ("run", "-a"))
    assert camera.environment == {"MODE": "fast", "TOKEN": "secret"}
    assert camera.ports == (PortMapping(8080, 80),)
    assert camera.after == ()
    assert detect.after == ("camera",)
    assert detect.environment == {"GPU": "0"}
    assert detect.command == ("a", "b c")
    assert start_order(group.containers) == ("camera", "detect")


def test_a_compose_file() -> None:
    group = read(
        """
        name: front
        services:
          web:
            image: ${IMAGE:-web}:$TAG
            command: serve --port 80
            environment: [MODE=x]
            ports: ["8080:80/udp", {target: 90, published: 9090}]
            depends_on: {db: {condition: service_healthy}}
            deploy: {resources: {reservations: {cpus: "0.5", memory: 64M}, limits: {cpus: 2, memory: 1g}}}
            restart: no
            x-tags: [edge]
          db:
            image: db
            healthcheck: {test: pg_isready, interval: 1m30s, retries: 5}
        """,
        TAG="7",
    )
    web, db = group.containers
    assert group.name == "front"
    assert web.image == "web:7"
    assert web.ports == (PortMapping(8080, 80, "udp"), PortMapping(9090, 90))
    assert web.after == ("db",)
    assert (web.cpu_milli, web.memory_bytes) == (500, 64 << 20)
    assert (web.cpu_limit_milli, web.memory_limit_bytes) == (2000, 1 << 30)
    assert (web.restart, web.host_tags) == ("no", ("edge",))
    assert db.health == HealthCheck(("CMD-SHELL", "pg_isready"), interval_s=90.0, retries=5)


def test_scalars_are_what_compose_reads() -> None:
    """By YAML 1.1 these were 1342, true, false, a date, 45045 and 10 million."""
    group = read(
        """
        services:
          web:
            image: x
            ports: [22:22, 53:53/udp]
            restart: no
            environment:
              {DEBUG: yes, OFF: off, DAY: 2024-01-01, TIME: 12:30:45, N: n, REAL: true, TEN: 1e7, TEXT: "007", I: -7}
            healthcheck: {test: x, disable: "no"}
        """
    )
    (web,) = group.containers
    assert web.ports == (PortMapping(22, 22), PortMapping(53, 53, "udp"))
    assert web.restart == "no"
    assert web.environment == {
        "DEBUG": "yes", "OFF": "off", "DAY": "2024-01-01", "TIME": "12:30:45", "N": "n", "REAL": "true", "TEN": "1e7",
        "TEXT": "007", "I": "-7",
    }  # fmt: skip
    assert web.health == HealthCheck(("CMD-SHELL", "x"))


def test_anchors_and_merged_keys() -> None:
    group = read(
        """
        x-env: &env {LANG: C, ROLE: none}
        x-app: &app
          image: app
          environment: &of_app {<<: *env, ROLE: base}
        services:
          web: {<<: *app, environment: {<<: [*env, *of_app], ROLE: web}}
          job: *app
        """
    )
    assert [dict(container.environment) for container in group.containers] == [
        {"LANG": "C", "ROLE": "web"},
        {"LANG": "C", "ROLE": "base"},
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("{name: '${PROJECT:-front}', services: {web: {image: x}}}", "front"),
        ("{name: 2024-01-01, services: {web: {image: x}}}", "2024-01-01"),
        ("{name: back, containers: [{appkey: web, image: x}]}", "back"),
        ("services: {web: {image: x}}", "my-shop"),
        ("- {appkey: web, image: x}", "my-shop"),
    ],
)
def test_a_group_goes_down_by_the_file_that_it_came_up_by(tmp_path: Path, text: str, name: str) -> None:
    file = tmp_path / "My.Shop.yml"
    file.write_text(text)
    assert read_template(file, {}).name == named_by_file(file, {}) == name
    assert named_by_file(tmp_path / "gone.yml", {}) == "gone"


def test_restarts_of_compose_may_be_bounded() -> None:
    def restart(policy: str) -> tuple[str, int]:
        (web,) = read(f"services: {{web: {{image: x, restart: {policy}}}}}").containers
        return web.restart, web.max_restarts

    assert [restart(policy) for policy in ("no", "'no'", "always", "unless-stopped", "on-failure", "on-failure:5")] == [
        ("no", 0),
        ("no", 0),
        ("always", 0),
        ("unless-stopped", 0),
        ("on-failure", 0),
        ("on-failure", 5),
    ]


def test_health_checks_of_compose_have_its_defaults() -> None:
    def health(check: str) -> HealthCheck | None:
        (web,) = read(f"services: {{web: {{image: x, healthcheck: {check}}}}}", TRIES="7").containers
        return web.health

    assert health("null") is None
    assert health("{test: [CMD, a, b]}") == HealthCheck(("CMD", "a", "b"), 30.0, 30.0, 0.0, 3)
    assert health("{test: a, timeout: 2s, start_period: 1m, retries: $TRIES}") == HealthCheck(
        ("CMD-SHELL", "a"), 30.0, 2.0, 60.0, 7
    )
    assert health("{test: a, retries: 0}") == HealthCheck(("CMD-SHELL", "a"), 30.0, 30.0, 0.0, 0)
    for off in ("{disable: true, test: a}", "{test: [NONE]}"):
        found = health(off)
        assert found is not None
        assert found.test == ("NONE",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("services: {web: {image: x, user: a, tty: b}}", "services.web: user, tty: expected supported"),
        (
            "services: {web: {image: x, networks: [b]}}",
            "services.web.networks: ['b']: expected no such key; containers",
        ),
        ("services: {web: {extends: {service: b}}}", "no such key; `docker compose config` writes the file with these"),
        ("services: {web: {image: x, secrets: [a]}}", "files of this machine are not sent to hosts: mount one"),
        ("services: {web: {image: x, deploy: {replicas: 2}}}", "services.web.deploy: replicas"),
        ("{services: {web: {image: x}}, networks: {}}", "networks: {}: expected no such key; containers of a group"),
        ("{services: {web: {image: x}}, wrong: {}}", "shop.yml: wrong: expected supported keys"),
        ("services: {web: {build: .}}", "services.web.build: .: expected no such key; images are not built here"),
        ("services: {web: {command: x}}", "services.web.image: missing"),
        ("services: {web: {image: $NOTHING}}", "services.web.image: $NOTHING: expected a value; set NOTHING"),
        ("services: {web: {image: x, depends_on: [db]}}", "web: starts after: db: expected a container of the group"),
        ("services: {a: {image: x, depends_on: [b]}, b: {image: x, depends_on: [a]}}", "order of starts: a, b"),
        ("services: {web: {image: x, ports: ['80-90:80']}}", "80-90:80: expected as many ports of the host as of the"),
        ("services: {web: {image: x, ports: ['70000:80']}}", "port on the host: 70000"),
        (f"services: {{web: {{image: x, ports: ['{'9' * 5000}:80']}}}}", "expected a port number"),
        *(
            (f"services: {{web: {{image: x, healthcheck: {{test: a, retries: {value}}}}}}}", "healthcheck.retries: ")
            for value in ("many", "-1", "1.5", "[1]", "null", "yes", "123456")
        ),
        (
            f"services: {{web: {{image: x, deploy: {{resources: {{limits: {{memory: '{'9' * 400}'}}}}}}}}}}",
            "memory: '999",
        ),
        *(
            (f"services: {{web: {{image: x, restart: '{policy}'}}}}", "services.web.restart: ")
            for policy in ("often", "always:3", "on-failure:", "on-failure:0", "on-failure:-1", "on-failure:99999999")
        ),
        ("services: {web: {image: x, healthcheck: {test: []}}}", "healthcheck.test: []: expected a text, or a list"),
        ("services: {web: {image: x, healthcheck: {test: [pg]}}}", "healthcheck.test: ['pg']: expected a text"),
        ("services: {web: {image: x, healthcheck: {interval: 1s}}}", "healthcheck.test: None: expected a text"),
        ("services: {web: {image: x, network_mode: host, ports: ['80:81']}}", "web: ports: 80:81/tcp"),
        (
            "services: {web: {image: x, network_mode: host, ports: ['127.0.0.1:80:80']}}",
            "web: ports: 127.0.0.1:80:80/tcp: expected no address; its network is the host's",
        ),
        ("services: {Web: {image: x}}", "appkey: Web: expected a name"),
        ("- {appkey: a, image: x, volumes: [b]}", "a: volumes: expected supported keys; supported are appkey, parent"),
        ("- {image: x}", "[0].appkey: missing"),
        ("- {appkey: a}", "a.image: missing"),
        ("- {appkey: a, image: x, child: b}", "child: b"),
        ("- {appkey: a, image: x, envskey: [TOKEN]}", "a.envskey: TOKEN: expected a value"),
        ("- {appkey: a, image: x}\n- {appkey: a, image: y}", "appkey: a: expected a name that no other"),
        ("services: {web: {image: a, image: b}}", "image stands twice in one mapping, in lines 1 and 1"),
        ("services:\n  web: {image: a}\n  db: {image: b}\n  web: {image: c}", "web stands twice in one mapping, in li"),
        ("services: &all {web: {image: x, environment: *all}}", "line 1 is part of itself, by an alias"),
        ("just text", "shop.yml: "),
        ("[]", "containers: 0: expected 1 to 100"),
    ],
)
def test_what_is_refused_is_named(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read(text)
    assert said in str(error.value)
