"""A configuration file among a command's options: what both may say is said by one of them.

What the file says of the API server and the Lease takes the place of the options. Options that name schedulers and
scores are refused beside a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from cotenant.model.errors import InvalidInput
from cotenant.services.scheduler_config.configuration_file import SchedulerConfig


class NamedOptions(Protocol):
    """The options that name schedulers and scores."""

    @property
    def config(self) -> Path | None:
        """The file."""
        ...

    @property
    def scheduler_names(self) -> tuple[str, ...]:
        """With profiles."""
        ...

    @property
    def profile(self) -> str:
        """For names without one."""
        ...

    @property
    def default_spread(self) -> str:
        """Of replicas."""
        ...


def refuse_beside(request: NamedOptions, usual: NamedOptions) -> None:
    """Raise `InvalidInput` for an option that says what the file says."""
    for flag, given, default in (
        ("--scheduler-name", request.scheduler_names, usual.scheduler_names),
        ("--profile", request.profile, usual.profile),
        ("--default-spread", request.default_spread, usual.default_spread),
    ):
        if given != default:
            shown = " ".join(given) if isinstance(given, tuple) else given
            raise InvalidInput(flag, shown, "no such option beside --config", "the file names profiles")


def taken_options(config: SchedulerConfig) -> dict[str, object]:
    """The options that the file sets, by field."""
    connection = config.connection
    found: dict[str, object] = {
        "kubeconfig": connection.kubeconfig,
        "qps": connection.qps,
        "burst": connection.burst,
        "leader_elect": connection.leader_elect,
        "leader_elect_lease_s": connection.lease_s,
        "leader_elect_renew_deadline_s": connection.renew_deadline_s,
        "leader_elect_retry_s": connection.retry_s,
        "lease_namespace": connection.lease_namespace,
    }
    return {name: value for name, value in found.items() if value is not None} | {
        "scheduler_names": tuple(config.profiles)
    }
