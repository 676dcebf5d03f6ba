"""The manifests beside the chart: rendered from it, for those who install without Helm.

    python -m tools.manifests        (`make manifests` does it; needs `helm`, or its path in $HELM)

Manifests and a chart that are both written by hand differ after the next change. deploy/chart is the source. Every
template is rendered with all parts switched on (deploy/chart/everything.yaml) into deploy/PART/FILE.yaml, the kinds
into deploy/chart/crds, and the agent's settings into the schema of the values; kustomizations select what is installed.
A test renders again and compares.
Limits: what is chosen by values is fixed here to the defaults; change it by patches of your own kustomization.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from cotenant.drivers.kube.kinds.custom.definitions import manifests as kinds
from tools import values_schema

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy/chart"
NAMESPACE = "cotenant-system"
KUBERNETES = "1.33.0"  # of the capabilities that templates see
HEAD = "# Rendered from deploy/chart by `make manifests`: change it there.\n"
_SOURCE = re.compile(r"^# Source: cotenant/templates/(\S+)$", re.MULTILINE)


def helm() -> str:
    """The program; "" where there is none."""
    return os.environ.get("HELM", "") or shutil.which("helm") or ""


def template(*arguments: str) -> str:
    """What `helm template` prints for the chart. Raises `subprocess.CalledProcessError`, whose `stderr` has the
    reason.
    """
    command = [helm(), "template", "cotenant", str(CHART), "--namespace", NAMESPACE, "--kube-version", KUBERNETES]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def rendered() -> dict[str, str]:
    """The text of each file by its path below deploy/."""
    found: dict[str, list[str]] = {}
    for document in re.split(r"^---\n", template("--values", str(CHART / "everything.yaml")), flags=re.MULTILINE):
        source = _SOURCE.search(document)
        lines = (line.rstrip() for line in _SOURCE.sub("", document).splitlines())
        text = "\n".join(line for line in lines if line)
        if source is not None and yaml.safe_load(text):
            found.setdefault(source[1], []).append(text + "\n")
    return {path: HEAD + "---\n".join(texts) for path, texts in sorted(found.items())}


def definitions() -> dict[str, str]:
    """The kinds, by their path below deploy/."""
    return {f"chart/crds/{name}.yaml": text for name, text in kinds()}


def main() -> int:
    """Write the files."""
    if not helm():
        print("helm is needed: put it on the path, or name it in $HELM", file=sys.stderr)
        return 1
    values_schema.FILE.write_text(values_schema.schema())  # before the rendering, which checks values by it
    for path, text in (rendered() | definitions()).items():
        file = ROOT / "deploy" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
