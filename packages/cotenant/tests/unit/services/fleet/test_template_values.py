"""Values of templates: each form that people write, and at which key one is refused."""

from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.template import ContainerTemplate
from cotenant.model.json_object import JsonMapping
from cotenant.services.fleet.templates import values
from cotenant.services.fleet.templates.compose import ComposePlace, containers_of


def test_texts_are_texts_numbers_and_truth_values() -> None:
    given = ("a", 5, 1.5, True, False)
    assert [values.text("x", value) for value in given] == ["a", "5", "1.5", "true", "false"]
    with pytest.raises(InvalidInput, match="x"):
        values.text("x", ["a"])


def test_commands_are_lists_or_lines_as_for_a_shell() -> None:
    given = (None, ["a", 1, "b c"], "run 'a b' --x=1")
    assert [values.words("x", value) for value in given] == [(), ("a", "1", "b c"), ("run", "a b", "--x=1")]
    with pytest.raises(InvalidInput, match="words as for a shell"):
        values.words("x", "run 'a")


def test_names_are_one_or_a_list() -> None:
    given = (None, "", "a", 7, ["a", "b"], [])
    assert [values.names("x", value) for value in given] == [(), (), ("a",), ("7",), ("a", "b"), ()]


def test_environments_take_missing_values_from_who_asks() -> None:
    ours = {"TOKEN": "t", "EMPTY": ""}
    assert values.environment("x", None, ours) == {}
    assert values.environment("x", {"A": 1, "TOKEN": None, "EMPTY": None}, ours) == {
        "A": "1",
        "TOKEN": "t",
        "EMPTY": "",
    }
    assert values.environment("x", ["A=b=c", "B=", "TOKEN"], ours) == {"A": "b=c", "B": "", "TOKEN": "t"}
    assert values.environment("x", "TOKEN, EMPTY", ours) == ours
    with pytest.raises(InvalidInput, match="set B in the environment"):
        values.environment("x", {"B": None}, ours)
    with pytest.raises(InvalidInput, match=r"x\.A"):
        values.environment("x", {"A": ["b"]}, ours)


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [
        (512, 512), ("512b", 512), ("1k", 1024), ("64kb", 64 << 10), ("512M", 512 << 20), ("512Mi", 512 << 20),
        ("1.5g", 3 << 29), ("2TiB", 2 << 40), (" 7 m ", 7 << 20), ("8388607t", 8388607 << 40),
    ],
)  # fmt: skip
def test_sizes_are_of_1024(given: object, bytes_: int) -> None:
    assert values.size_bytes("x", given) == bytes_


@pytest.mark.parametrize("given", ["", "many", "-1m", "1x", "1.m", "8388608t", "9223372036854775808"])
def test_a_size_that_no_machine_has_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match="as 512M"):
        values.size_bytes("x", given)


def test_the_largest_size_is_what_an_integer_of_64_bits_holds() -> None:
    assert values.size_bytes("x", str((1 << 63) - 1)) == (1 << 63) - 1


def test_cpus_are_numbers_or_texts() -> None:
    assert [values.cpu_milli("x", value) for value in ("0.5", 2, 1.25, "250m")] == [500, 2000, 1250, 250]
    with pytest.raises(InvalidInput, match=r"CPUs, as 0\.5"):
        values.cpu_milli("x", ["1"])


def test_numbers_have_at_most_five_digits() -> None:
    assert [values.number("x", value, "n") for value in (7, "7", 0, 99999)] == [7, 7, 0, 99999]
    for wrong in (True, "1e3", -1, 100000, "٣", ""):
        with pytest.raises(InvalidInput):
            values.number("x", wrong, "n")


def test_truth_values_may_be_texts() -> None:
    assert [values.flag("x", given) for given in (True, False, "yes", "No", "on", "FALSE")] == [
        True, False, True, False, True, False,
    ]  # fmt: skip
    for wrong in ("maybe", None, [], 2):
        with pytest.raises(InvalidInput, match="expected true or false"):
            values.flag("x", wrong)


def test_an_authors_own_keys_are_let_through() -> None:
    values.refuse_unknown("x", {"a": 1, "x-own": 2}, ("a",))
    with pytest.raises(InvalidInput, match="x: b, c: expected supported keys; supported are a"):
        values.refuse_unknown("x", {"a": 1, "b": 2, "c": 3}, ("a",))
    assert values.mapping("x", {"a": 1}) == {"a": 1}
    with pytest.raises(InvalidInput, match="a mapping of keys to values"):
        values.mapping("x", ["a"])


def service(**given: object) -> ContainerTemplate:
    (made,) = containers_of({"web": {"image": "x", **given}}, ComposePlace({}))
    return made


def test_what_compose_does_not_say_is_its_default() -> None:
    made = service()
    assert (made.appkey, made.image, made.command, made.entrypoint) == ("web", "x", (), ())
    assert (made.environment, made.labels, made.ports, made.after, made.host_tags) == ({}, {}, (), (), ())
    assert (made.cpu_milli, made.memory_bytes, made.cpu_limit_milli, made.memory_limit_bytes) == (0, 0, 0, 0)
    assert (made.stop_grace_s, made.restart, made.max_restarts, made.health, made.network) == (10, "no", 0, None, "")


def test_short_limits_of_compose_come_before_those_of_deploy() -> None:
    deploy: JsonMapping = {"resources": {"limits": {"cpus": 2, "memory": "1g"}}}
    both = service(cpus="0.5", mem_limit="64m", deploy=deploy)
    assert (both.cpu_limit_milli, both.memory_limit_bytes) == (500, 64 << 20)
    long_form = service(deploy=deploy)
    assert (long_form.cpu_limit_milli, long_form.memory_limit_bytes, long_form.cpu_milli) == (2000, 1 << 30, 0)
    halves = service(deploy={"resources": {"reservations": {"cpus": 1}, "limits": {"memory": "1g"}}})
    assert (halves.cpu_milli, halves.memory_bytes, halves.cpu_limit_milli, halves.memory_limit_bytes) == (
        1000, 0, 0, 1 << 30,
    )  # fmt: skip
    assert service(deploy={"resources": None}).cpu_milli == 0


def test_other_settings_of_compose() -> None:
    made = service(
        entrypoint=["sh", "-c"],
        labels=["a=b"],
        depends_on={"db": None, "bus": {"condition": "service_started", "required": True}},
        network_mode="bridge",
        stop_grace_period="1m30s",
    )
    assert (made.entrypoint, made.labels, made.after, made.network, made.stop_grace_s) == (
        ("sh", "-c"), {"a": "b"}, ("db", "bus"), "bridge", 90,
    )  # fmt: skip
    assert service(depends_on=["db"]).after == ("db",)
    assert service(stop_grace_period="10m").stop_grace_s == 600
    assert service(restart="on-failure:9999999").max_restarts == 9999999


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"network_mode": "container:db"}, "services.web.network_mode: container:db: expected host, bridge or none"),
        ({"stop_grace_period": "601s"}, "services.web.stop_grace_period: 601s: expected at most 600 seconds"),
        ({"depends_on": {"db": {"condition": "service_completed"}}}, "depends_on.db.condition: service_completed"),
        ({"depends_on": {"db": {"restart": True}}}, "depends_on.db: restart"),
        ({"depends_on": {"db": {"required": False}}}, "depends_on.db.required: False: expected true; all of a group"),
        ({"depends_on": {"db": {"required": "no"}}}, "depends_on.db.required: no: expected true"),
        ({"ports": ["3000"]}, "services.web.ports: 3000: expected HOST:CONTAINER"),
        ({"command": []}, "services.web.command: []: expected words; what the image says stays"),
        ({"entrypoint": ""}, "services.web.entrypoint: : expected words"),
        ({"deploy": {"resources": {"pids": 1}}}, "services.web.deploy.resources: pids"),
        ({"deploy": {"resources": {"limits": {"pids": 1}}}}, "services.web.deploy.resources.limits: pids"),
        ({"deploy": {"resources": {"reservations": [1]}}}, "resources.reservations: [1]: expected a mapping"),
        ({"deploy": ["a"]}, "services.web.deploy: ['a']: expected a mapping"),
        ({"labels": ["a"]}, "services.web.labels: a: expected a value"),
    ],
)
def test_what_compose_says_and_a_group_cannot_do_is_refused(given: JsonMapping, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        service(**given)
    assert said in str(refused.value)
