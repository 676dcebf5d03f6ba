"""`cotenant lint`: what the admission webhook would do with manifests, without a cluster.

Only signatures, help texts and printing are here; the rules are imported when the command runs, so that `--help` stays
quick.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cotenant.model.counted import counted

if TYPE_CHECKING:
    from cotenant.services.lint.manifest_verdicts import LintFinding


def lint(
    *files: Annotated[
        Path, Parameter(name="FILE", help="YAML or JSON files with any number of objects; -: standard input.")
    ],
    json: Annotated[bool, Parameter(negative=(), help="Print the findings as JSON, with their patches.")] = False,
) -> int:
    """Say what the webhook would change and refuse in manifests, and a scheduler in a configuration file.

    Pods, pod templates, reservations, profiles, quotas and KubeSchedulerConfigurations are judged; profiles, priority
    classes, namespaces and quotas of the same files are what the cluster has. Exit status: 0, 1 where something is
    refused, 2 bad input.
    """
    import msgspec

    from cotenant.model.errors import InvalidInput
    from cotenant.services.lint.manifest_reading import read_file, read_manifests
    from cotenant.services.lint.manifest_verdicts import CHANGE, REFUSED, WARNING
    from cotenant.services.lint.manifest_verdicts import lint as judge

    if not files:
        raise InvalidInput("FILE", "none", "at least one file")
    manifests = []
    for file in files:
        if str(file) == "-":
            manifests += read_manifests("standard input", sys.stdin.buffer.read())
        else:
            manifests += read_file(file)
    findings = judge(manifests)
    refused = sum(finding.level == REFUSED for finding in findings)
    if json:
        print(msgspec.json.format(msgspec.json.encode(findings)).decode())
    else:
        for finding in findings:
            for line in _shown(finding):
                print(line)
        counts = [sum(finding.level == level for finding in findings) for level in (REFUSED, WARNING, CHANGE)]
        print(
            f"{counted(len(manifests), 'object')}: {counted(counts[0], 'refusal')}, "
            f"{counted(counts[1], 'warning')}, {counts[2]} changed"
        )
    return 1 if refused else 0


def _shown(finding: LintFinding) -> list[str]:
    lines = [
        f"{finding.file}:{finding.line}: {finding.level}: {finding.kind} {finding.name}: {finding.message} "
        f"[{finding.rule}]"
    ]
    for entry in finding.patch:
        value = "" if entry["op"] == "remove" else f" {_text(entry['value'])}"
        lines.append(f"    {entry['op']:<7} {_path(entry['path'])}{value}")
    return lines


def _path(pointer: str) -> str:
    """A JSON pointer as people write paths: keys with dots or slashes in quotes."""
    keys = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    return ".".join(f'"{key}"' if "." in key or "/" in key else key for key in keys)


def _text(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()
