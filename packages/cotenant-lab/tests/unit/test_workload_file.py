"""A user's workload file is read strictly, and errors name the field."""

from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput
from cotenant_lab.workload_file import WorkloadFile, is_workload_file, read_workload_file


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def test_every_field_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "base: colocation\ntitle: mine\nnodes: 100\nload: [0.7, 0.8]\nservice_share: 0.45\ninterference: "
        "2\npressure_law: mixed\ndeclared_profiles: no\n"
        "estimate_error: 0.5\nnode_qos: no\nnode_guard: yes\nfailures: true\nhorizon_h: 6\nseeds: 5\npolicies: "
        "[cotenant, random]\n",
    )
    assert read_workload_file(path) == WorkloadFile(
        base="colocation",
        title="mine",
        nodes=100,
        load=(0.7, 0.8),
        service_share=0.45,
        interference=2.0,
        pressure_law="mixed",
        declared_profiles=False,
        estimate_error=0.5,
        node_qos=False,
        node_guard=True,
        failures=True,
        horizon_h=6.0,
        seeds=5,
        policies=("cotenant", "random"),
    )


def test_one_load_is_a_sweep_of_one(tmp_path: Path) -> None:
    assert read_workload_file(write(tmp_path, "base: founding\nload: 0.8\n")).loads == (0.8,)
    assert read_workload_file(write(tmp_path, "base: founding\nload: 1\n")).loads == (1,)
    assert read_workload_file(write(tmp_path, "base: founding\n")).loads is None
    assert read_workload_file(write(tmp_path, "base: founding\nload: 1.5\n")).loads == (1.5,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("base: founding\nnods: 9\n", "unknown field `nods`: expected a workload file; did you mean nodes"),
        ("base: founding\nzzz: 9\n", "fields are base, title, nodes"),
        ("nodes: 9\n", "missing required field `base`"),
        ("base: openb\n", "Invalid enum value 'openb'"),
        ("base: founding\nnodes: many\n", r"Expected `int \| null`, got `str` - at `\$.nodes`"),
        ("base: founding\npressure_law: cubic\n", "pressure_law"),
        ("base: founding\nnodes: 0\n", "nodes: 0: expected 1..100000 nodes"),
        ("base: founding\nnodes: 900000\n", "nodes: 900000: expected 1..100000 nodes"),
        ("base: founding\nload: .nan\n", "load: nan: expected a share"),
        ("base: founding\nload: -0.5\n", "load: -0.5: expected a share"),
        ("base: founding\nload: []\n", "expected at least one"),
        ("base: founding\npolicies: []\n", "expected at least one"),
        ("base: founding\nhorizon_h: .inf\n", "horizon_h: inf: expected hours"),
        ("base: founding\nload: 1.51\n", "load: 1.51: expected a share of the cluster's CPU above 0, at most 1.5"),
        ("base: founding\nservice_share: 0.9\nload: 0.5\n", "more than service_share"),
        ("base: founding\nservice_share: 0.45\nload: [0.7, 0.45]\n", "load: 0.45: expected more than service_share"),
        ("base: [founding\n", "expected YAML"),
        ("", "Expected `object`"),
        ("- founding\n", "Expected `object`"),
    ],
)
def test_errors_name_the_field(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        read_workload_file(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        read_workload_file(tmp_path / "absent.yaml")
    with pytest.raises(InvalidInput, match="Is a directory"):
        read_workload_file(tmp_path)
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"base: \x00\x81")
    with pytest.raises(InvalidInput, match=r"b.yaml.*expected YAML"):
        read_workload_file(binary)


def test_a_workload_file_is_known_by_its_ending() -> None:
    assert is_workload_file("a/b.yaml")
    assert is_workload_file("B.YML")
    assert not is_workload_file("openb:cpu250")
