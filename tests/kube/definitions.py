"""The definitions of `cotenant crds` on a server under test, for as long as a module's cases need them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from cotenant.drivers.kube.kinds.custom.definitions import manifests

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_DEFINITIONS = {plural: yaml.load(text, Loader=yaml.CSafeLoader) for plural, text in manifests()}
PLURALS = tuple(_DEFINITIONS)


def collection(plural: str, namespace: str = "") -> str:
    """The path of a kind's objects, in a namespace if the kind is namespaced."""
    spec = _DEFINITIONS[plural]["spec"]
    base = f"/apis/{spec['group']}/{spec['versions'][0]['name']}"
    inner = f"/namespaces/{namespace}" if namespace and spec["scope"] == "Namespaced" else ""
    return f"{base}{inner}/{spec['names']['plural']}"


@contextmanager
def installed(kube: Any) -> Iterator[None]:
    """Install the definitions that are missing, wait until all are served, and remove the installed ones at the end."""
    ours = []
    for plural, definition in _DEFINITIONS.items():
        name = definition["metadata"]["name"]
        if kube.request("GET", f"{CRDS}/{name}").code == 404:
            kube.create(CRDS, definition, fieldValidation="Strict")
            ours.append((plural, name))
    for plural in PLURALS:
        kube.eventually(collection(plural), lambda page: str(page.get("kind", "")).endswith("List"))
    yield
    for plural, name in ours:
        kube.request("DELETE", f"{CRDS}/{name}")
        kube.eventually(collection(plural), lambda page: "items" not in page)
