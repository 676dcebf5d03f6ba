"""The CPU accounts of all nodes, and the encoder's rows that they belong to.

Topologies are reported by node name, before or after the node is known, and the CPU rule judges rows. Accounts by name
(accounts.py), a map from rows to nodes that follows the encoder's revision, and a version per row that increases with
every change, from which cached verdicts know what to judge again. What own CPUs take beside requests on amplified nodes
is withheld from the capacity of the row.
Limits: after a change of any node all rows are compared once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.rules.cpus.accounts import CpuAccount, CpuClaim, validate_accounts
from cotenant.model.arrays import Int
from cotenant.model.cluster.node import Node
from cotenant.model.cpus.reported import NodeTopology
from cotenant.model.cpus.topology import CpuTopology
from cotenant.model.errors import Permanent
from cotenant.policy.placement.cpus.node_fit import CpuNode

_MAX_TOPOLOGIES = 4096


class CpuNodes:
    """Accounts by node name. `forget` is called before topologies are dropped that cached verdicts may refer to."""

    def __init__(self, forget: Callable[[], None]) -> None:
        self.accounts: dict[str, CpuAccount] = {}
        self.reporting = 0  # nodes with a reported topology
        self.aligning: set[str] = set()  # nodes with a NUMA policy
        self.amplified: set[str] = set()  # nodes with amplified CPU
        self._forget = forget
        self._topologies: dict[
            int, CpuTopology
        ] = {}  # by identity: kept alive so that no id is reused while verdicts refer to it
        self._begin(None)

    def _begin(self, encoder: Encoder | None) -> None:
        self._encoder = encoder
        self._clock = 0
        self.versions: Int = np.zeros(0, dtype=np.int64)
        self.at: dict[int, Node] = {}  # row -> node, as last compared
        self._revision = -1

    @property
    def encoder(self) -> Encoder:
        """The encoder of the rows. Only after `attach`."""
        assert self._encoder is not None
        return self._encoder

    def attach(self, encoder: Encoder) -> None:
        """Start over with this encoder's rows and no claims; reported topologies stay."""
        self._begin(encoder)
        for name, account in list(self.accounts.items()):
            for number in list(account.claims):
                account.release(number)
            self._drop_if_idle(name, account)

    # ---- facts

    def report(self, reported: NodeTopology) -> CpuAccount | None:
        """Record a node's reported topology. Returns its account, None if nothing changed."""
        account = self._account_of(reported.name)
        if account.reported == reported:
            return None
        self.reporting += account.reported is None
        self._keep_alive(reported.topology)
        account.report(reported)
        self._changed(reported.name, account)
        return account

    def stop_reporting(self, name: str) -> CpuAccount | None:
        """A node's topology is no longer reported. Returns its account, None if nothing changed."""
        account = self.accounts.get(name)
        if account is None or account.reported is None:
            return None
        self.reporting -= 1
        account.report(None)
        self._changed(name, account)
        self._drop_if_idle(name, account)
        return account

    def _keep_alive(self, topology: CpuTopology) -> None:
        if id(topology) in self._topologies:
            return
        if len(self._topologies) >= _MAX_TOPOLOGIES:
            current = [account.reported.topology for account in self.accounts.values() if account.reported is not None]
            self._topologies = {id(cpu_topology): cpu_topology for cpu_topology in current}
            self._forget()
        self._topologies[id(topology)] = topology

    # ---- claims

    def claim(self, name: str, number: int, claim: CpuClaim) -> int:
        """Enter a pod's claim. Returns the mask of claimed CPUs that it cannot have."""
        account = self._account_of(name)
        conflicts = account.claim(number, claim)
        self._changed(name, account)
        return conflicts

    def release(self, name: str, number: int) -> None:
        """Remove a pod's claim."""
        account = self.accounts[name]
        account.release(number)
        self._changed(name, account)
        self._drop_if_idle(name, account)

    # ---- rows

    def name(self, row: int) -> str:
        """The node name of a row."""
        return self.encoder.node(row).name

    def account_at(self, row: int) -> CpuAccount | None:
        """The account of the row's node, with current labels."""
        node = self.encoder.node(row)
        if self.at.get(row) is not node:
            self._note(row, node)
        return self.accounts.get(node.name)

    def standing(self, row: int) -> CpuNode | None:
        """The node of a row as the policy sees it; None where no topology is reported."""
        account = self.accounts.get(self.at[row].name)
        return account.node if account is not None else None

    def accounts_by_row(self) -> dict[int, CpuAccount]:
        """The accounts of rows that have one."""
        return {row: self.accounts[node.name] for row, node in self.at.items() if node.name in self.accounts}

    def sync(self) -> None:
        """Bring the rows up to date with the encoder."""
        encoder = self.encoder
        size = encoder.all_rows
        if size > len(self.versions):
            more = np.zeros(size - len(self.versions), dtype=np.int64)
            self.versions = np.concatenate([self.versions, more])
        if self._revision == encoder.revision:
            return
        self._revision = encoder.revision
        for row in self.at.keys() - set(encoder.node_rows.values()):
            del self.at[row]
            self._touch(row)
        for row in encoder.node_rows.values():
            node = encoder.node(row)
            if self.at.get(row) is not node:
                self._note(row, node)

    def validate(self, assigned: Mapping[str, Mapping[int, CpuClaim]]) -> None:
        """Check each account against the claims of the pods on its node: `assigned`, by node and pod number. Raises
        `Permanent`.
        """
        validate_accounts(self.accounts, assigned)
        if self.reporting != sum(account.reported is not None for account in self.accounts.values()):
            raise Permanent("the number of nodes with a reported topology is wrong")
        if self.aligning != {name for name, account in self.accounts.items() if account.aligns}:
            raise Permanent("the recorded set of nodes with a NUMA policy is wrong")
        if self.amplified != {name for name, account in self.accounts.items() if account.is_amplified}:
            raise Permanent("the recorded set of nodes with amplified CPU is wrong")

    # ---- internals

    def _account_of(self, name: str) -> CpuAccount:
        """The account of a node, created with its known labels if absent."""
        account = self.accounts.get(name)
        if account is None:
            account = self.accounts[name] = CpuAccount()
            row = self._encoder.node_rows.get(name) if self._encoder is not None else None
            if row is not None:
                account.describe_node(self.encoder.node(row))
        return account

    def _changed(self, name: str, account: CpuAccount) -> None:
        """An account changed: its policy, its capacity and its row's version follow."""
        was_amplified = name in self.amplified
        (self.aligning.add if account.aligns else self.aligning.discard)(name)
        (self.amplified.add if account.is_amplified else self.amplified.discard)(name)
        if self._encoder is None:
            return
        if was_amplified or name in self.amplified:
            self._encoder.set_withheld(name, sum(map(account.surplus_m, account.claims)))
        row = self._encoder.node_rows.get(name)
        if row is not None:
            self._touch(row)

    def _drop_if_idle(self, name: str, account: CpuAccount) -> None:
        if account.is_idle:
            del self.accounts[name]

    def _touch(self, row: int) -> None:
        self._clock += 1
        if row < len(self.versions):
            self.versions[row] = self._clock

    def _note(self, row: int, node: Node) -> None:
        self.at[row] = node
        account = self.accounts.get(node.name)
        if account is not None and not account.is_described_by(node):
            account.describe_node(node)
            self._changed(node.name, account)
        self._touch(row)
