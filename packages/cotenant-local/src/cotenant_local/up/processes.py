"""The processes beside a local cluster, each with its arguments; what they share is the kubeconfig and the folder."""

from __future__ import annotations

from pathlib import Path

from cotenant.services.credit.opening import FILE
from cotenant_local.up.children import Child, ChildSpec
from cotenant_local.up.config import UpConfig


class Processes:
    """Makes the children of one cluster; starts none."""

    def __init__(self, config: UpConfig, kubeconfig: Path, report_token: Path) -> None:
        self._config = config
        self._kubeconfig = kubeconfig
        self._report_token = report_token

    def alone(self, name: str, command: tuple[str, ...], port: int) -> Child:
        """A process that is the only replica here, so it needs no lease."""
        arguments = (
            *command,
            "--kubeconfig",
            str(self._kubeconfig),
            "--listen",
            f"127.0.0.1:{port}",
            "--no-leader-elect",
            "--log-format",
            self._config.log_format,
        )
        return Child(ChildSpec(name, arguments, self._config.directory / "logs" / f"{name}.log", port))

    def traces(self, http: int, grpc: int) -> Child:
        """Counts the cluster's ServiceObjectives; the ports are those that exporters send to by default, where they
        are free.
        """
        arguments = [
            "traces",
            "--kubeconfig",
            str(self._kubeconfig),
            "--http",
            f"127.0.0.1:{http}",
            "--grpc",
            f"127.0.0.1:{grpc}",
            "--log-format",
            self._config.log_format,
        ]
        if not self._config.is_ephemeral:
            arguments += ["--state", str(self._config.directory / "objective-counts")]
        if self._config.has_rebalancer:
            arguments += ["--request-moves"]
        return Child(ChildSpec("traces", tuple(arguments), self._config.directory / "logs" / "traces.log", http))

    def credit(self, port: int, *more: str) -> Child:
        """The only replica here; its journal is in the directory."""
        directory = self._config.directory
        arguments = (
            "credit",
            "serve",
            "--kubeconfig",
            str(self._kubeconfig),
            "--store",
            str(directory / FILE),
            "--listen",
            f"127.0.0.1:{port}",
            "--no-leader-elect",
            "--state-dir",
            "",
            "--log-format",
            self._config.log_format,
            *more,
        )
        return Child(ChildSpec("credit", arguments, directory / "logs" / "credit.log", port))

    def client(self, name: str, port: int, *more: str) -> Child:
        """A process that takes the reports of nodes: the scheduler, the extender."""
        arguments = (
            name,
            "--kubeconfig",
            str(self._kubeconfig),
            "--listen",
            f"127.0.0.1:{port}",
            "--report-token-file",
            str(self._report_token),
            "--log-format",
            self._config.log_format,
            *more,
        )
        return Child(ChildSpec(name, arguments, self._config.directory / "logs" / f"{name}.log", port))
