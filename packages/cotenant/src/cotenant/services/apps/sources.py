"""Where an application comes from: a chart, a kustomization, or YAML; and its objects in their namespace."""

from __future__ import annotations

import asyncio
import shutil
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from cotenant.drivers.kube.client.objects import Objects
from cotenant.model.apps.objects import DEFINITION, HOOK, annotation, checked, refuse_twice
from cotenant.model.apps.release import ReleaseName
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.json_object import JsonObject

MAX_BYTES = 16 << 20
_KUSTOMIZATION = ("kustomization.yaml", "kustomization.yml", "Kustomization")


class AppSource(Enum):
    """The form of an application."""

    CHART = "chart"
    KUSTOMIZATION = "kustomization"
    MANIFESTS = "manifests"


@dataclass(frozen=True, slots=True)
class ManifestText:
    """YAML that was handed over as it is, by somebody who may name no file of this machine."""

    text: str

    def __str__(self) -> str:
        return "manifests"


class _Loader(yaml.CSafeLoader):  # type: ignore[misc]
    """Values as JSON has them: dates stay text."""


_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: loader.construct_scalar(node))


def source_of(given: str | ManifestText) -> AppSource:
    """What an argument names. Raises `InvalidInput` for what is none of the forms."""
    if isinstance(given, ManifestText):
        return AppSource.MANIFESTS
    path = Path(given)
    if given == "-":
        return AppSource.MANIFESTS
    if path.is_dir():
        if (path / "Chart.yaml").is_file():
            return AppSource.CHART
        return (
            AppSource.KUSTOMIZATION if any((path / name).is_file() for name in _KUSTOMIZATION) else AppSource.MANIFESTS
        )
    if path.is_file():
        return AppSource.CHART if path.suffix == ".tgz" else AppSource.MANIFESTS
    if given.startswith(("oci://", "https://", "http://")) or (given.count("/") == 1 and not given.startswith(".")):
        return AppSource.CHART
    raise InvalidInput("SOURCE", given, "a file or folder of YAML, a kustomization, or a chart", "- is standard input")


async def read_source(given: str | ManifestText, source: AppSource) -> list[JsonObject]:
    """The documents of YAML or of a kustomization. Raises `InvalidInput`."""
    if isinstance(given, ManifestText):
        return documents_of(given.text, str(given))
    if source is AppSource.KUSTOMIZATION:
        return documents_of(await _kustomized(given), given)
    if given == "-":
        return documents_of(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input")
    path = Path(given)
    files = [path]
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.suffix in (".yaml", ".yml", ".json") and one.is_file())
        if not files:
            raise InvalidInput("SOURCE", given, "a folder with YAML or JSON files")
    found: list[JsonObject] = []
    for file in files:
        try:
            found += documents_of(file.read_bytes(), str(file))
        except OSError as error:
            raise InvalidInput("SOURCE", str(file), "a readable file", error.strerror or "") from None
    refuse_twice(found, given)
    return found


def documents_of(text: bytes | str, where: str, *, hooks: bool = False) -> list[JsonObject]:
    """The objects of a text, lists taken apart. Chart hooks are left out unless `hooks`. Raises `InvalidInput`."""
    if len(text) > MAX_BYTES:
        raise InvalidInput(where, f"{len(text)} bytes", f"at most {MAX_BYTES} bytes")
    found: list[JsonObject] = []
    try:
        for document in yaml.load_all(text, Loader=_Loader):
            items = document.get("items") if isinstance(document, dict) else None
            is_list = isinstance(items, list) and str(document.get("kind") or "").endswith("List")
            for one in items if is_list and items is not None else [document]:
                if one is None:
                    continue
                if not isinstance(one, dict):
                    raise InvalidInput(where, type(one).__name__, "an object in each document")
                if hooks or not annotation(one, HOOK):
                    found.append(checked(one, where))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(where, "its text", "YAML or JSON", " ".join(str(error).split())) from None
    refuse_twice(found, where)
    return found


async def placed(objects: Objects, documents: list[JsonObject], release: ReleaseName) -> list[JsonObject]:
    """The documents with the namespaces that they go to. Raises `InvalidInput` for a kind that neither the server nor
    one of the documents defines.
    """
    defined: dict[tuple[str, str], bool] = {}
    for document in documents:
        if document["kind"] == DEFINITION:
            spec = document.get("spec") or {}
            defined[str(spec.get("group")), str((spec.get("names") or {}).get("kind"))] = (
                spec.get("scope") == "Namespaced"
            )
    found = []
    for document in documents:
        version, kind = document["apiVersion"], document["kind"]
        served = await objects.served(version, kind)
        is_namespaced = served.is_namespaced if served else defined.get((version.rpartition("/")[0], kind))
        if is_namespaced is None:
            raise InvalidInput("SOURCE", f"{version} {kind}", "a kind that the server has", "install its definition")
        metadata = {key: value for key, value in document["metadata"].items() if key != "namespace"}
        if is_namespaced:
            metadata["namespace"] = document["metadata"].get("namespace") or release.namespace
        found.append({**document, "metadata": metadata})
    refuse_twice(found, "SOURCE")
    return found


async def _kustomized(folder: str) -> bytes:
    choices = (("kustomize", "build"), ("kubectl", "kustomize"))
    found = next(((name, word, path) for name, word in choices if (path := shutil.which(name))), None)
    if found is None:
        raise Unsupported("a kustomization", "the program kustomize or kubectl on the path")
    program, word, path = found
    process = await asyncio.create_subprocess_exec(
        path, word, folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, said = await process.communicate()
    if process.returncode:
        raise Permanent(f"{program}: {said.decode(errors='replace').strip()[:2000]}")
    return out
