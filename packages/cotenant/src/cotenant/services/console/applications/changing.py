"""Changes that viewers ask for, where they are switched on.

    POST /api/releases/NAMESPACE/NAME   {"verb": "stop" | "start" | "rollback" | "uninstall", "to": 0}: {"id"} of the
                                        change
                                        {"verb": "install" | "upgrade", "manifests" or "chart", "values", "version",
                                        "class_name"}
    POST /api/vms/NAMESPACE/NAME        {"verb": "start" | "stop" | "restart" | "pause" | "unpause" | "migrate"}
                                        {"verb": "resize", "flavor" or "vcpus" and "memory_mib"}

Only JSON of the page's own origin is taken. The change itself is made by the console's kubeconfig, so a viewer with a
Kubernetes token needs every right that it may take: a release has objects of any kind, so all kinds' (`patch` to stop
and start, everything for the rest); a machine's verb the one that KubeVirt asks for.
"""

from __future__ import annotations

import msgspec

from cotenant.drivers.http.messages import BodyRefused, Disconnected, HttpAnswer, Receive, Scope
from cotenant.drivers.kube.client.errors import Forbidden
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.vms.machine import MachineSize, MachineVerb
from cotenant.services.changes.machines import Machines
from cotenant.services.changes.releases import GivenApplication, Releases, how_of
from cotenant.services.console.access import Right
from cotenant.services.console.asker import Asker
from cotenant.services.console.posted import posted
from cotenant.services.console.questions import API, wrong

OFF = "changes are switched off: cotenant console --changes"
TIMEOUT_S = 300.0
_KUBEVIRT, _SUBRESOURCES = "kubevirt.io", "subresources.kubevirt.io"
_PATCH_ALL, _ALL = Right("*", "*", "patch"), Right("*", "*", "*")
RIGHTS_BY_VERB: dict[tuple[str, str], tuple[Right, ...]] = {
    ("releases", "stop"): (_PATCH_ALL,),
    ("releases", "start"): (_PATCH_ALL,),
    **{("releases", verb): (_ALL,) for verb in ("rollback", "install", "upgrade", "uninstall")},
    ("vms", "migrate"): (Right(_KUBEVIRT, "virtualmachineinstancemigrations", "create"),),
    **{
        ("vms", verb): (Right(_SUBRESOURCES, "virtualmachines", "update", verb),)
        for verb in ("start", "stop", "restart")
    },
    ("vms", "resize"): (Right(_KUBEVIRT, "virtualmachines", "patch"),),
    ("vms", "pause"): (Right(_SUBRESOURCES, "virtualmachineinstances", "update", "pause"),),
    ("vms", "unpause"): (Right(_SUBRESOURCES, "virtualmachineinstances", "update", "unpause"),),
}


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    verb: str
    to: int = 0
    manifests: str = ""
    chart: str = ""
    values: str = ""
    version: str = ""
    class_name: str = ""
    flavor: str = ""
    vcpus: int = 0
    memory_mib: int = 0


class Changing:
    """Takes changes; with no releases and machines they are switched off."""

    def __init__(self, releases: Releases | None = None, machines: Machines | None = None) -> None:
        self._releases, self._machines = releases, machines

    def takes(self, method: str, path: str) -> bool:
        """Whether this is a change, be it switched on or not."""
        return method == "POST" and path.removeprefix(API).partition("/")[0] in ("releases", "vms")

    async def answer(self, scope: Scope, receive: Receive, asker: Asker) -> HttpAnswer | None:
        """The name of the change that was begun; None where the viewer is gone."""
        if self._releases is None or self._machines is None:
            return wrong(403, OFF, "console")
        try:
            section, *names = str(scope["path"]).removeprefix(API).split("/")
            if len(names) != 2 or not all(names):
                return wrong(404, "there is no such page", "console")
            asked = await posted(scope, receive, _Asked)
            needed = RIGHTS_BY_VERB.get((section, asked.verb))
            if needed is None:
                known = ", ".join(verb for of, verb in RIGHTS_BY_VERB if of == section)
                raise InvalidInput("verb", asked.verb[:64], f"one of {known}")
            for right in needed:
                if not await asker.has(right):
                    raise Forbidden(f"your token may not {right.words} in all namespaces")
            namespace, name = names
            if section == "releases":
                change = self._release(self._releases, asked, namespace, name, asker.viewer)
            else:
                to = MachineSize(asked.vcpus, asked.memory_mib, asked.flavor)
                change = self._machines.tell(MachineVerb(asked.verb), namespace, name, TIMEOUT_S, to, asker.viewer)
            return HttpAnswer(202, msgspec.json.encode({"id": change}))
        except BodyRefused as refused:
            return refused.answer
        except Disconnected:
            return None
        except InvalidInput as error:
            return wrong(400, str(error), "console")
        except Forbidden as error:
            return wrong(403, str(error), "cluster")
        except CotenantError as error:
            return wrong(409, str(error), "console")

    def _release(self, releases: Releases, asked: _Asked, namespace: str, name: str, by: str) -> str:
        how = how_of(TIMEOUT_S)
        if asked.verb == "rollback":
            return releases.roll_back(namespace, name, asked.to, how, by)
        if asked.verb in ("install", "upgrade"):
            given = GivenApplication(asked.manifests, asked.chart, asked.values, asked.version, asked.class_name)
            return (releases.install if asked.verb == "install" else releases.upgrade)(namespace, name, given, how, by)
        plain = {"stop": releases.stop, "start": releases.start, "uninstall": releases.uninstall}
        return plain[asked.verb](namespace, name, how, by)
