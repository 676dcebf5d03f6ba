"""The equal set-up as files, and the steps there and back.

Koordinator's objects stay as they are: ours reads the same ones, so that going back is to start its processes again.
The first step changes nothing (a shadow beside koord-scheduler), and each later one has its way back.
"""

from __future__ import annotations

import yaml  # type: ignore[import-untyped]

from cotenant.model.json_object import JsonObject
from cotenant.services.migrate.koordinator_pieces import DESCHEDULER_CONFIG, JudgedInstallation
from cotenant.services.scheduling.load_aware import KIND

_SCHEDULER = "koord-scheduler"
_PROFILE = "kube-default"  # as koord-scheduler scores, load apart


def files(judged: JudgedInstallation) -> dict[str, str]:
    """Text by name: values of the chart, and what options name."""
    names = list(judged.scheduler_names) or [_SCHEDULER]
    week = {"shadow": {"enabled": True, "schedulerNames": names, "profile": _PROFILE}}
    values: JsonObject = {
        "scheduler": {
            "names": names,
            "profile": _PROFILE,
            "seal": {"enabled": False},
            "arguments": list(judged.options),
        },
        "manager": {"createConfigNamespace": False},
        "priorityClasses": {"create": False},
        "rebalancer": {"enabled": bool(judged.descheduler)},
        "node": {"mode": "observe"},
    }
    found = {
        "values-shadow.yaml": _text("Step 1, on top of shadow.yaml: what ours would decide.", week),
        "values.yaml": _text("Step 2, in place of Koordinator's processes; its objects stay.", values),
        "STEPS.md": _steps(judged, names),
    }
    if judged.load_aware is not None:
        found["load-aware.yaml"] = _text("For cotenant scheduler --load-aware.", {"kind": KIND, **judged.load_aware})
    if judged.descheduler:
        found["descheduler.yaml"] = (
            f"# For cotenant rebalancer --config; from {DESCHEDULER_CONFIG}.\n{judged.descheduler.rstrip()}\n"
        )
    return found


def _text(head: str, value: object) -> str:
    return f"# {head}\n{yaml.safe_dump(value, sort_keys=False)}"


def _steps(judged: JudgedInstallation, names: list[str]) -> str:
    of = " ".join(f"--shadow-of {name}" for name in names)
    replaced = ["koord-scheduler", "koord-manager", *(["koord-descheduler"] if judged.descheduler else [])]
    deployments = " ".join(f"deployment/{name}" for name in replaced)
    mounted = (
        "\nThe chart mounts no file for `--load-aware`: give `load-aware.yaml` to the scheduler's pods by a patch of\n"
        "your own, and `--load-aware=/that/file` in `scheduler.arguments`. Without it load does not count.\n"
        if judged.load_aware is not None
        else ""
    )
    return f"""# From Koordinator, and back

1. Beside it, without a change: the chart with `shadow.yaml` and `values-shadow.yaml`, or

       cotenant scheduler --shadow {of} --profile {_PROFILE}

   `cotenant explain shadow` says what would differ. Back: `helm uninstall cotenant`.
2. Note how many replicas there are:

       kubectl -n koordinator-system get {deployments}

3. One scheduler and one manager at a time, so theirs first, then the chart with `values.yaml`:

       kubectl -n koordinator-system scale {deployments} --replicas=0

   Pods that run stay; pods that wait are placed by ours. koordlet stays and goes on to enforce: our agents only
   observe beside it (`node.mode: observe`). Back: `helm uninstall cotenant`, then the same `scale` with the number of
   step 2.
4. Once it is as you want it, node by node: koordlet off the node, `node.mode: act` for it. Back: the reverse; the
   keeper restores every setting as it stops.
{mounted}"""
