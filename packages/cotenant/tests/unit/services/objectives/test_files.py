"""Objectives in files: each document in its place, and a file that is wrong anywhere is refused as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.objectives.files import MAX_BYTES, documents, objectives_of, read_file, text_of

GOOD = """apiVersion: slo.cotenant.io/v1alpha1
kind: ServiceObjective
metadata: {name: NAME, namespace: shop}
spec: {service: {name: web}, indicator: {latency: {below: 200ms}}, target: 99, window: 1d}
"""


def of(text: str) -> list[str]:
    return [objective.key for objective in objectives_of(documents(text, "f.yaml"), "f.yaml")]


def test_every_document_is_an_objective_and_empty_ones_are_left_out() -> None:
    text = "---\n".join(GOOD.replace("NAME", name) for name in ("a", "b"))
    assert of(f"---\n---\n{text}---\n") == ["shop/a", "shop/b"]
    assert of("") == []


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        (GOOD.replace("v1alpha1", "v2"), "f.yaml, document 2", "slo.cotenant.io/v1alpha1 ServiceObjective"),
        (GOOD.replace("kind: Service", "kind: Other"), "f.yaml, document 2", "slo.cotenant.io/v1alpha1 Service"),
        (GOOD.replace("name: NAME, ", ""), "f.yaml, document 2: metadata.name", "a name"),
        (GOOD.replace("{name: NAME, namespace: shop}", "[]"), "f.yaml, document 2: metadata", "an object's metadata"),
        (GOOD.replace("target: 99", "target: 101"), "f.yaml, document 2: shop/NAME", "a valid spec"),
        ("- 1", "f.yaml", "YAML objects"),
        ("a: {", "f.yaml", "YAML"),
    ],
)
def test_a_document_that_cannot_be_used_refuses_the_file_with_its_place(text: str, field: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        of(f"{GOOD}---\n{text}")
    assert caught.value.field == field
    assert caught.value.expected.startswith(expected)


def test_each_name_is_there_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        of("---\n".join(GOOD.replace("NAME", name) for name in ("b", "a", "b", "c", "a")))
    assert (caught.value.field, caught.value.value) == ("f.yaml", "shop/a, shop/b")


def test_a_file_of_at_most_four_mebibytes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "objectives.yaml"
    path.write_text(GOOD)
    assert [objective.key for objective in read_file(path)] == ["shop/NAME"]
    path.write_text("#" * MAX_BYTES)
    assert MAX_BYTES == 4 * 1024 * 1024
    assert len(text_of(path)) == MAX_BYTES
    path.write_text("#" * (MAX_BYTES + 1))
    with pytest.raises(InvalidInput, match=r"4194305 bytes.*at most 4194304"):
        text_of(path)


def test_what_cannot_be_read_as_text_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("binary", "missing", ""):
        with pytest.raises(InvalidInput, match="a text file that can be read") as caught:
            text_of(tmp_path / name)
        assert caught.value.field == str(tmp_path / name)
