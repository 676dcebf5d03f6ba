"""What containers may mount of this host: what lies below the folders that the agent's configuration names.

Links are followed before it is judged, and the runtime is given where they lead.
Limits: who may write to a part of that path can put a link there between the look and the start.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from cotenant.model.errors import Permanent
from cotenant.model.fleet.template import ContainerTemplate, Mount


def mounted(template: ContainerTemplate, allowed: Iterable[str]) -> ContainerTemplate:
    """The template with its paths as this host has them. Makes what is to be made. Raises `Permanent`."""
    roots = [os.path.realpath(root) for root in allowed]
    return replace(template, mounts=tuple(_mounted(mount, roots) for mount in template.mounts))


def _mounted(mount: Mount, roots: list[str]) -> Mount:
    if mount.is_volume:
        return mount
    found = os.path.realpath(mount.source)
    if not any(os.path.commonpath((root, found)) == root for root in roots):
        led = f", which is {found} here," * (found != mount.source)
        allowed = ", ".join(roots) or "nothing"
        raise Permanent(
            f"{mount.source}{led} may not be mounted: this host's agent lets containers mount {allowed}; "
            "`mount_paths` of its configuration names what"
        )
    try:
        if mount.is_made:
            Path(found).mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        pass  # a file
    except OSError as error:
        raise Permanent(f"{mount.source} cannot be made on this host: {error.strerror}") from error
    if not os.path.exists(found):
        hint = "make it, or say `bind: {create_host_path: true}` in the long form"
        raise Permanent(f"{mount.source} is not there on this host: {hint}")
    return replace(mount, source=found)
