"""Sources: which form an argument has, and what of a text is an object."""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cotenant.model.apps.release import ReleaseName
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.json_object import JsonObject
from cotenant.services.apps.sources import AppSource, ManifestText, documents_of, placed, read_source, source_of

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


def read(given: str | ManifestText, source: AppSource = AppSource.MANIFESTS) -> list[str]:
    return [one["metadata"]["name"] for one in asyncio.run(read_source(given, source))]


def test_a_folder_is_its_files_of_yaml_and_json_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", "d.txt", "e.md"):
        (tmp_path / name).write_text(MAP % name[0])
    (tmp_path / "f.yaml").mkdir()
    assert read(str(tmp_path)) == ["a", "b", "c"]
    assert read(str(tmp_path / "b.yaml")) == ["b"]
    (tmp_path / "g.yaml").write_text(MAP % "a")
    with pytest.raises(InvalidInput):  # the same object in two files
        read(str(tmp_path))


def test_a_folder_without_objects_and_a_file_that_is_gone_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a folder with YAML or JSON files"):
        read(str(tmp_path))
    with pytest.raises(InvalidInput, match=r"gone\.yaml.?: expected a readable file"):
        read(str(tmp_path / "gone.yaml"))


def test_a_text_that_was_handed_over_names_no_file(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(MAP % "secret")
    assert source_of(ManifestText(str(tmp_path))) is AppSource.MANIFESTS
    assert read(ManifestText(MAP % "own")) == ["own"]
    with pytest.raises(InvalidInput, match="manifests"):
        read(ManifestText(str(tmp_path / "web.yaml")))


def test_standard_input_is_read_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO((MAP % "in").encode())))
    assert read("-") == ["in"]
    for size, said in ((16 << 20, "YAML or JSON"), ((16 << 20) + 1, "at most 16777216 bytes")):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"[" * size)))
        with pytest.raises(InvalidInput, match=said):
            read("-")


def test_only_what_is_called_a_list_is_taken_apart() -> None:
    items = "items: [{apiVersion: v1, kind: Secret, metadata: {name: b}}]\n"
    text = f"apiVersion: x/v1\nkind: Basket\nmetadata: {{name: whole}}\n{items}"
    assert [one["metadata"]["name"] for one in documents_of(text, "x")] == ["whole"]


@pytest.mark.parametrize("program", ["kustomize", "kubectl"])
def test_a_kustomization_is_built_by_the_program_that_is_there(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / program
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match="the program kustomize or kubectl"):
        read("folder", AppSource.KUSTOMIZATION)
    path.write_text("#!/bin/sh\necho \"$1 $2\" >&2\necho 'apiVersion: v1\nkind: A\nmetadata: {name: built}'\n")
    path.chmod(0o755)
    assert read("folder", AppSource.KUSTOMIZATION) == ["built"]
    path.write_text('#!/bin/sh\necho "no $1 $2" >&2\nexit 1\n')
    word = {"kustomize": "build", "kubectl": "kustomize"}[program]
    with pytest.raises(Permanent, match=f"{program}: no {word} folder"):
        read("folder", AppSource.KUSTOMIZATION)


class Serving:
    """An API server that knows Pods, in namespaces, and Nodes, in none."""

    async def served(self, version: str, kind: str) -> object:
        known = {("v1", "Pod"): True, ("v1", "Node"): False}
        where = known.get((version, kind))
        return None if where is None else SimpleNamespace(is_namespaced=where)


def document(version: str, kind: str, name: str, namespace: str = "", **more: object) -> JsonObject:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def definition(kind: str, scope: str) -> JsonObject:
    spec = {"group": "bake.example.com", "names": {"kind": kind}, "scope": scope}
    return document("apiextensions.k8s.io/v1", "CustomResourceDefinition", kind.lower(), spec=spec)


def in_place(*documents: JsonObject) -> list[str]:
    class Objects(Serving):
        async def served(self, version: str, kind: str) -> object:
            if kind == "CustomResourceDefinition":
                return SimpleNamespace(is_namespaced=False)
            return await super().served(version, kind)

    found = asyncio.run(placed(cast(Any, Objects()), list(documents), ReleaseName("shop", "web")))
    return [f"{one['metadata'].get('namespace', '')}/{one['metadata']['name']}" for one in found]


def test_what_has_a_namespace_goes_to_its_own_or_to_that_of_the_release() -> None:
    documents = [document("v1", "Pod", "a"), document("v1", "Pod", "b", "other"), document("v1", "Node", "c", "wrong")]
    assert in_place(*documents) == ["shop/a", "other/b", "/c"]


def test_a_kind_that_comes_with_its_definition_goes_where_that_says() -> None:
    cake, oven = document("bake.example.com/v1", "Cake", "x"), document("bake.example.com/v1", "Oven", "y", "shop")
    assert in_place(cake, definition("Cake", "Namespaced"), oven, definition("Oven", "Cluster")) == [
        "shop/x",
        "/cake",
        "/y",
        "/oven",
    ]
    for stranger in (document("other.example.com/v1", "Cake", "x"), document("bake.example.com/v1", "Pan", "x")):
        with pytest.raises(InvalidInput, match="a kind that the server has"):
            in_place(definition("Cake", "Namespaced"), stranger)
    with pytest.raises(InvalidInput):  # the second goes to where the first is
        in_place(document("v1", "Pod", "a"), document("v1", "Pod", "a", "shop"))
