"""Sources: which form an argument has, and what of a text is an object."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.apps.sources import AppSource, documents_of, source_of

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"


def test_the_form_follows_from_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "chart").mkdir()
    (tmp_path / "chart" / "Chart.yaml").touch()
    (tmp_path / "kust").mkdir()
    (tmp_path / "kust" / "kustomization.yaml").touch()
    (tmp_path / "web-1.tgz").touch()
    (tmp_path / "web.yaml").touch()
    forms = [source_of(str(tmp_path / name)) for name in ("chart", "kust", "web-1.tgz", "web.yaml", "")]
    assert forms == [
        AppSource.CHART,
        AppSource.KUSTOMIZATION,
        AppSource.CHART,
        AppSource.MANIFESTS,
        AppSource.MANIFESTS,
    ]
    assert [source_of(given) for given in ("-", "oci://a/b", "repo/web")] == [
        AppSource.MANIFESTS, AppSource.CHART, AppSource.CHART,
    ]  # fmt: skip
    for wrong in ("nothing", "./a/b", "./nothing.yaml"):
        with pytest.raises(InvalidInput, match="SOURCE"):
            source_of(wrong)


def test_lists_are_taken_apart_and_hooks_left_out() -> None:
    inner = "- {apiVersion: v1, kind: Secret, metadata: {name: b}}"
    listed = f"apiVersion: v1\nkind: List\nitems:\n{inner}\n"
    hook = "apiVersion: v1\nkind: Pod\nmetadata: {name: t, annotations: {helm.sh/hook: test}}\n"
    text = f"{MAP % 'a'}---\n---\n{listed}---\n{hook}"
    assert [one["metadata"]["name"] for one in documents_of(text, "x")] == ["a", "b"]
    assert [one["metadata"]["name"] for one in documents_of(text, "x", hooks=True)] == ["a", "b", "t"]


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "- 1",
        "apiVersion: v1\nkind: Pod\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a}\n",
        "kind: Pod\nmetadata: {name: a}\n",
        f"{MAP % 'a'}---\n{MAP % 'a'}",
        "a: \xff".encode("latin-1"),
        "[" * 3000,
    ],
)
def test_what_is_no_list_of_objects_is_refused(text: str | bytes) -> None:
    with pytest.raises(InvalidInput):
        documents_of(text, "x")


def test_dates_stay_text() -> None:
    (found,) = documents_of(MAP % "a" + "data: {when: 2026-01-02}\n", "x")
    assert found["data"]["when"] == "2026-01-02"
