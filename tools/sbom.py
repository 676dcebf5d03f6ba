"""A list of the parts of this Python environment, as CycloneDX 1.5 JSON on standard output.

    python tools/sbom.py [FILE]        (the image's build runs it; FILE: `dpkg-query -W -f '${Package} ${Version}\\n'`)

The distributions that are installed, with version, licence and package URL, and the Debian packages of a list; the
standard library is enough for that.
Limits: files that no package owns are not listed; the serial number follows from the parts, so equal environments give
equal bytes.
"""

import json
import sys
import uuid
from importlib.metadata import Distribution, distributions
from pathlib import Path
from urllib.parse import quote


def component(found: Distribution) -> dict[str, object]:
    """One Python distribution."""
    name = found.metadata["Name"]
    made: dict[str, object] = {
        "type": "library",
        "name": name,
        "version": found.version,
        "purl": f"pkg:pypi/{name.lower().replace('_', '-')}@{quote(found.version)}",
    }
    if "License-Expression" in found.metadata:
        made["licenses"] = [{"expression": found.metadata["License-Expression"]}]
    return made


def debian(text: str) -> list[dict[str, object]]:
    """The packages of a list, a name and a version a line."""
    pairs = [line.split() for line in text.splitlines() if line.strip()]
    return [
        {"type": "library", "name": name, "version": version, "purl": f"pkg:deb/debian/{name}@{quote(version)}"}
        for name, version in pairs
    ]


def document(components: list[dict[str, object]]) -> dict[str, object]:
    """The whole list, sorted by package URL."""
    ordered = sorted(components, key=lambda component: str(component["purl"]))
    own = next((entry for entry in ordered if entry["name"] == "cotenant"), {"name": "cotenant", "version": "0"})
    serial = uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(str(entry["purl"]) for entry in ordered))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": own["name"], "version": own["version"]}},
        "components": ordered,
    }


def main(arguments: list[str]) -> int:
    """Print the list."""
    parts = [component(distribution) for distribution in distributions()]
    for path in arguments:
        parts += debian(Path(path).read_text())
    print(json.dumps(document(parts), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
