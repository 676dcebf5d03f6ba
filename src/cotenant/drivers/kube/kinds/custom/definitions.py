"""The definitions of the custom kinds that are read, as manifests beside this file, by their plural (`plural.group` for a second API group).

Problem: a scheduler that reads PodGroups and quotas is of no use where those kinds are not installed. Choice: the manifests travel with the
package; `cotenant crds` prints them and `cotenant up` installs them. They have upstream's groups, versions and names, so where upstream's own
definitions are installed they stay. Limits: fields that are not read here are kept by the server and not checked.
"""

from __future__ import annotations

from importlib.resources import files


def manifests() -> tuple[tuple[str, str], ...]:
    """(plural or plural.group, YAML text) of every definition, by name."""
    folder = files(__package__ or __name__)
    found = sorted(each.name for each in folder.iterdir() if each.name.endswith(".yaml"))
    return tuple((name.removesuffix(".yaml"), folder.joinpath(name).read_text()) for name in found)
