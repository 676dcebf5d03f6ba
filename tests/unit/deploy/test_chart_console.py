"""The chart's console: it writes what viewers approve where that is asked for, and nothing else."""

from __future__ import annotations

from typing import Any

from cotenant.services.console.acting.allowing import RIGHTS_BY_REQUEST

from .chart import helm_only, objects

ROLE, DEPLOYMENT = ("ClusterRole", "", "cotenant-console"), ("Deployment", "cotenant-system", "cotenant-console")


def written(made: Any) -> set[tuple[str, str, str]]:
    """Verbs beside those that read, by group and kind."""
    return {
        (verb, group, kind)
        for rule in made[ROLE]["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for kind in rule["resources"]
        if verb not in ("get", "list", "watch")
    }


@helm_only
def test_approvals_are_written_only_where_they_are_asked_for() -> None:
    plain = objects("--set=console.enabled=true")
    asked = objects("--set=console.enabled=true,console.approvals=true")
    assert written(plain) == set()
    rights = {right for needed in RIGHTS_BY_REQUEST.values() for right in needed}
    assert written(asked) == {(right.verb, right.group, right.resource) for right in rights}
    for made, is_asked in ((plain, False), (asked, True)):
        (container,) = made[DEPLOYMENT]["spec"]["template"]["spec"]["containers"]
        assert ("--approvals" in container["args"]) is is_asked
