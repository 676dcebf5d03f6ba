"""When a container is started again, and whether it is healthy, by Docker's rules, where no daemon does it.

Whether there is a restart to do follows from what the runtime tells alone, so an agent that was killed decides the same
again. Health is known by the agent only: a container that it finds running is starting until its next check, which is
due at once where it has run for an interval. A clock that is set back makes nothing wait longer than once more.

Source: Docker, restart policies (0.1 s, doubled to a minute; anew after a run of 10 s) and HEALTHCHECK.
"""

from __future__ import annotations

from enum import Enum

from cotenant.model.fleet.supervision import SupervisedContainer
from cotenant.model.fleet.template import HealthCheck

_FIRST_S, _MAX_S = 0.1, 60.0
_LONG_S = 10.0  # a run of so long ends a row of quick ends
_REFUSED_S = 1.0  # at least, before a start that was refused is tried again
_INTERVAL_S, _TIMEOUT_S, _RETRIES = 30.0, 30.0, 3  # where a template has 0


class SupervisionAct(Enum):
    """What is to be done now."""

    NOTHING = "nothing"
    PROBE = "probe"  # run its check, and tell with `probed` or `unprobed`
    START = "start"  # this attempt was made, and its maker was killed
    RESTART = "restart"  # make the next attempt and start it


class Supervisor:
    """Of one name, over its attempts."""

    def __init__(self) -> None:
        self._id = ""
        self._fails = 0
        self._is_probing = False
        self._due_s = 0.0
        self._is_waiting = False  # to be started
        self._health = ""
        self._said = ""

    @property
    def due_s(self) -> float:
        """When there is something to do; of use right after `act`."""
        return self._due_s

    def health_of(self, found: SupervisedContainer) -> tuple[str, str]:
        """(starting, healthy or unhealthy, what its last check said); nothing where it has no check."""
        if found.id == self._id:
            return self._health, self._said
        return "" if check_of(found) is None else "starting", ""

    def act(self, found: SupervisedContainer, now_s: float) -> SupervisionAct:
        """What to do with the container as it is. Asked for a check, it asks for none until that has been told."""
        if found.id != self._id:
            self._begin(found)
        if is_to_start(found) or is_to_restart(found):
            delay_s = 0.0 if is_to_start(found) else backoff_s(found)
            if not self._is_waiting:
                self._due_s, self._is_waiting = min(found.finished_s or now_s, now_s) + delay_s, True
            self._due_s = min(self._due_s, now_s + max(_REFUSED_S, delay_s))
            if now_s < self._due_s:
                return SupervisionAct.NOTHING
            return SupervisionAct.START if is_to_start(found) else SupervisionAct.RESTART
        check = check_of(found)
        if check is None or found.status != "running" or self._is_probing:
            self._due_s = now_s + _MAX_S
            return SupervisionAct.NOTHING
        self._due_s = min(self._due_s, now_s + (check.interval_s or _INTERVAL_S))
        if now_s < self._due_s:
            return SupervisionAct.NOTHING
        self._is_probing = True
        return SupervisionAct.PROBE

    def probed(self, found: SupervisedContainer, said: str, began_s: float, now_s: float, *, is_passed: bool) -> None:
        """Its check has ended; one of an earlier attempt says nothing of this one."""
        check = check_of(found)
        if found.id != self._id or check is None:
            return
        self.unprobed(found, now_s)
        self._said = said
        if is_passed:
            self._health, self._fails = "healthy", 0
            return
        if self._health == "starting" and began_s - found.started_s < check.start_period_s:
            return
        self._fails += 1
        if self._fails >= (check.retries or _RETRIES):
            self._health = "unhealthy"

    def unprobed(self, found: SupervisedContainer, now_s: float) -> None:
        """Its check could not be run, for want of the runtime: nothing is known."""
        check = check_of(found)
        if found.id == self._id and check is not None:
            self._is_probing = False
            self._due_s = now_s + (check.interval_s or _INTERVAL_S)

    def refused(self, found: SupervisedContainer, now_s: float) -> None:
        """The runtime did not start it again: once more after the back-off, and a second at least."""
        self._due_s, self._is_waiting = now_s + max(_REFUSED_S, backoff_s(found)), True

    def _begin(self, found: SupervisedContainer) -> None:
        check = check_of(found)
        self._id, self._fails, self._is_probing, self._is_waiting = found.id, 0, False, False
        self._health, self._said = ("", "") if check is None else ("starting", "")
        interval_s = 0.0 if check is None else check.interval_s or _INTERVAL_S
        self._due_s = found.started_s + interval_s if found.started_s else float("inf")


def check_of(found: SupervisedContainer) -> HealthCheck | None:
    """Its health check, unless that is switched off."""
    check = found.supervision.health
    return None if check is None or check.test[:1] == ("NONE",) else check


def words_of(check: HealthCheck) -> tuple[str, ...]:
    """The command to run."""
    return ("/bin/sh", "-c", *check.test[1:]) if check.test[0] == "CMD-SHELL" else check.test[1:]


def timeout_s(check: HealthCheck) -> float:
    """How long it may take."""
    return check.timeout_s or _TIMEOUT_S


def is_to_start(found: SupervisedContainer) -> bool:
    """Whether it is an attempt of ours that was made and not started. The first one is started by who asked for it."""
    return found.status == "created" and found.attempt > 0 and not found.is_held


def is_to_restart(found: SupervisedContainer) -> bool:
    """Whether the next attempt follows, by its policy. A first one that never ran has failed to its asker."""
    if found.status != "exited" or found.is_held or not (found.attempt or found.started_s):
        return False
    match found.supervision.restart:
        case "always" | "unless-stopped":
            return True
        case "on-failure":
            most = found.supervision.max_restarts
            return found.exit_code != 0 and (not most or found.attempt < most)
    return False


def quick_ends_after(found: SupervisedContainer) -> int:
    """How many attempts in a row have ended soon before the next one, whose label this is."""
    is_long = found.started_s > 0 and found.finished_s - found.started_s >= _LONG_S
    return 1 if is_long else found.quick_ends + 1


def backoff_s(found: SupervisedContainer) -> float:
    """From its end to the next attempt."""
    return float(min(_FIRST_S * 2.0 ** min(quick_ends_after(found) - 1, 30), _MAX_S))
