"""What is allowed now, by the objects that were seen last."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cotenant.model.autonomy.autonomy import Action, Autonomy, AutonomyRung, Permission
from cotenant.policy.autonomy.permission import permission

_UNKNOWN = Permission(
    AutonomyRung.SHADOW, may_begin=False, is_frozen=True, why="the cluster's Autonomy objects are not known yet"
)


class Permissions:
    """Objects by name. Times are Unix seconds."""

    def __init__(self, known: Callable[[], bool] = lambda: True) -> None:
        """`known`: whether the objects have been listed once; before, nothing may be begun."""
        self._objects: dict[str, Autonomy] = {}
        self._known = known

    def seen(self, found: Autonomy) -> None:
        """An object as it is stored."""
        self._objects[found.name] = found

    def gone(self, name: str) -> None:
        """Deleted."""
        self._objects.pop(name, None)

    def of(self, action: Action, namespace: str, now_s: float) -> Permission:
        """What may be done of this kind there."""
        return permission(self._objects.values(), action, namespace, now_s) if self._known() else _UNKNOWN

    def frozen(self, action: Action, namespace: str, now_s: float) -> str:
        """Why all of this kind is frozen there; "" = it is not."""
        if not self._objects and self._known():
            return ""
        found = self.of(action, namespace, now_s)
        return found.why if found.is_frozen else ""

    def held(self, action: Action, namespaces: Iterable[str], now_s: float) -> dict[str, str]:
        """Of these namespaces, those in which nothing of this kind may be begun now, and why."""
        if not self._objects and self._known():
            return {}
        asked = {namespace: self.of(action, namespace, now_s) for namespace in set(namespaces)}
        return {namespace: found.why for namespace, found in asked.items() if not found.may_act}
