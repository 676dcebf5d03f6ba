"""What an installation of another version relies on: fields of the kinds, names of Leases and Secrets. Writes
promised.json.

    python -m tests.unit.deploy.promised [COMMIT]         of a commit's chart; run it for each release

`kubectl apply` of changed kinds must not lose a field of stored objects, and two versions run side by side during an
upgrade. Each kind is flattened to its served versions and the types of its fields by path; the file is that of the last
release (before the first: of the first chart).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_suffix(".json")
ROOT = Path(__file__).parents[3]
CRDS = "deploy/chart/crds"


def fields(schema: dict[str, Any], path: str = "") -> dict[str, str]:
    """The type of each field below a schema, by its path; `*` for items and values of maps, `?` where any field is
    kept.
    """
    found = {path: str(schema.get("type", "any"))} if path else {}
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        found[f"{path}.?"] = "any"
    for name, entry in schema.get("properties", {}).items():
        found |= fields(entry, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found |= fields(schema[key], f"{path}.*")
    return found


def required(schema: dict[str, Any], path: str = "") -> set[str]:
    """Paths of fields that an object must have."""
    found = {f"{path}.{name}" for name in schema.get("required", ())}
    for name, entry in schema.get("properties", {}).items():
        found |= required(entry, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found |= required(schema[key], f"{path}.*")
    return found


def kinds(definitions: Iterable[str]) -> dict[str, Any]:
    """Of each kind by its full name: scope, and by served version its fields, required fields and subresources."""
    found: dict[str, Any] = {}
    for text in definitions:
        for document in yaml.safe_load_all(text):
            spec = document["spec"]
            found[document["metadata"]["name"]] = {
                "scope": spec["scope"],
                "stored": next(entry["name"] for entry in spec["versions"] if entry["storage"]),
                "versions": {
                    entry["name"]: {
                        "fields": fields(entry["schema"]["openAPIV3Schema"]),
                        "required": sorted(required(entry["schema"]["openAPIV3Schema"])),
                        "subresources": sorted(entry.get("subresources", {})),
                    }
                    for entry in spec["versions"]
                    if entry["served"]
                },
            }
    return found


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> None:
    commit = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    paths = _git("ls-tree", "--name-only", commit, f"{CRDS}/").split()
    found = kinds(_git("show", f"{commit}:{path}") for path in paths)
    FILE.write_text(json.dumps({"kinds": found}, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
