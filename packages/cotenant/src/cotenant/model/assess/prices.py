"""What nodes cost an hour, as a user says it: our YAML, or OpenCost's CSV. No vendor's price list is here.

    currency: EUR
    memoryPerCore: 8Gi                # as dear as one core, to divide a node's price; 8Gi by default
    coresPerGpu: 20                   # as dear as one card; 20 by default
    nodes:                            # the first rule that matches a node counts
      - {instanceType: m5.large, region: eu-west-1, perHour: 0.096}
      - {shape: {cpu: 16, memory: 64Gi}, perHour: 0.77}     # within 10 % of the node's capacity
      - {labels: {pool: own}, perHour: 0.30}
    otherwise: {cpuPerHour: 0.03, memoryGiBPerHour: 0.004, gpuPerHour: 2.0}

OpenCost's CSV: rows of asset class `node` by the field that a row names (`spec.providerID`, `metadata.name`,
`metadata.labels.NAME`), with its region where it has one; where no row names a node, the mean of the rows of its
instance type. Rows of class `gpu` price a card by a node's label. Other classes (volumes) are counted and left out.
Limits: one currency; the price of now, whatever EndTimestamp says; no discounts but those in the numbers.
Source: OpenCost, pkg/cloud/provider (CSV provider) and configs/pricing_schema.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

import msgspec

from cotenant.model.document import read_struct
from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import milli, whole

INSTANCE_TYPE, REGION = "node.kubernetes.io/instance-type", "topology.kubernetes.io/region"
_GIB = 2.0**30
_SHAPE_TOLERANCE = 0.10  # an instance of 64 GiB has a little less
_CSV_COLUMNS = ("InstanceID", "AssetClass", "InstanceIDField", "MarketPriceHourly")


@dataclass(frozen=True, slots=True)
class PricedNode:
    """What a node's price is found by."""

    name: str
    cpu_m: int
    memory_mib: int
    gpus: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    provider_id: str = ""

    @property
    def instance_type(self) -> str:
        """As the cloud named it, "" where none did."""
        return self.labels.get(INSTANCE_TYPE, "")

    @property
    def region(self) -> str:
        """As the cloud named it, "" where none did."""
        return self.labels.get(REGION, "")


@dataclass(frozen=True, slots=True)
class NodePrice:
    """What a node costs an hour, and what that makes of its parts. `basis` says by which rule."""

    per_hour: float
    core_per_hour: float
    gib_per_hour: float
    gpu_per_hour: float
    basis: str


@dataclass(frozen=True, slots=True)
class NodeRule:
    """A price of nodes that are as it says; what is empty or None is not asked for."""

    per_hour: float
    name: str = ""
    provider_id: str = ""
    instance_type: str = ""
    region: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    cpu_m: int | None = None
    memory_mib: int | None = None

    def matches(self, node: PricedNode) -> bool:
        """Whether it is the node's."""
        same = (
            (self.name, node.name), (self.provider_id, node.provider_id), (self.instance_type, node.instance_type),
            (self.region, node.region),
        )  # fmt: skip
        return (
            all(wanted in ("", found) for wanted, found in same)
            and all(node.labels.get(label) == value for label, value in self.labels.items())
            and _near(self.cpu_m, node.cpu_m)
            and _near(self.memory_mib, node.memory_mib)
        )


@dataclass(frozen=True, slots=True)
class UnitPrices:
    """By amount, where no rule is a node's."""

    core_per_hour: float
    gib_per_hour: float
    gpu_per_hour: float = 0.0


@dataclass(frozen=True, slots=True)
class PriceTable:
    """All prices. `cards`: of a card by a node's label and its value, where it is priced beside the node."""

    currency: str
    rules: tuple[NodeRule, ...]
    otherwise: UnitPrices | None = None
    gib_per_core: float = 8.0
    cores_per_gpu: float = 20.0
    cards: Mapping[tuple[str, str], float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()  # rows that price something else, a sentence

    def __post_init__(self) -> None:
        if not self.rules and self.otherwise is None:
            raise InvalidInput("prices", "none", "a price of nodes", "nodes: or otherwise:")
        if not (self.gib_per_core > 0 and self.cores_per_gpu >= 0):
            raise InvalidInput("prices memoryPerCore", self.gib_per_core, "above 0")

    def of(self, node: PricedNode) -> NodePrice | None:
        """A node's price; None where no rule matches and there are no prices by amount."""
        for rule in self.rules:
            if rule.matches(node):
                return self._divided(rule, node)
        unit = self.otherwise
        if unit is None:
            return None
        cores, gib = node.cpu_m / 1000, node.memory_mib / 1024
        per_hour = cores * unit.core_per_hour + gib * unit.gib_per_hour + node.gpus * unit.gpu_per_hour
        return NodePrice(per_hour, unit.core_per_hour, unit.gib_per_hour, unit.gpu_per_hour, "by amount")

    def _divided(self, rule: NodeRule, node: PricedNode) -> NodePrice:
        """A node's price over its parts, in proportion to what they are worth in cores."""
        card = sum(price for (label, value), price in self.cards.items() if node.labels.get(label) == value)
        cores_of_cards = 0.0 if card else node.gpus * self.cores_per_gpu
        worth = node.cpu_m / 1000 + node.memory_mib / 1024 / self.gib_per_core + cores_of_cards
        core = rule.per_hour / worth if worth > 0 else 0.0
        per_card = card or core * self.cores_per_gpu
        basis = next(
            (text for text in (rule.name, rule.provider_id, rule.instance_type) if text),
            ", ".join(f"{label}={value}" for label, value in rule.labels.items()) or "its shape",
        )
        return NodePrice(rule.per_hour + card * node.gpus, core, core / self.gib_per_core, per_card, basis)


def credit_price(table: PriceTable, name: str) -> float:
    """What one credit is worth: a core for an hour, of no node in particular. `name` is the file's in errors. Raises
    `InvalidInput` for a table that has prices of whole nodes only.
    """
    if table.otherwise is None:
        hint = "a credit is a core-hour of no node in particular"
        raise InvalidInput(name, "prices of nodes only", "otherwise: with cpuPerHour", hint)
    return table.otherwise.core_per_hour


class _Shape(msgspec.Struct, forbid_unknown_fields=True):
    cpu: str | int | float
    memory: str | int


class _Rule(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    per_hour: float
    name: str = ""
    instance_type: str = ""
    region: str = ""
    labels: dict[str, str] = {}
    shape: _Shape | None = None


class _Units(msgspec.Struct, forbid_unknown_fields=True):
    core: float = msgspec.field(name="cpuPerHour")
    gib: float = msgspec.field(name="memoryGiBPerHour")
    gpu: float = msgspec.field(name="gpuPerHour", default=0.0)


class _Document(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    currency: str = ""
    nodes: list[_Rule] = []
    otherwise: _Units | None = None
    memory_per_core: str = "8Gi"
    cores_per_gpu: float = 20.0


def read_prices(text: bytes, name: str) -> PriceTable:
    """Prices from a file's text, either form: a first line with OpenCost's columns makes it a CSV. `name` is the file's
    in errors. Raises `InvalidInput`.
    """
    first = text.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n", 1)[0]
    return _from_csv(text, name) if b"MarketPriceHourly" in first else _from_yaml(text, name)


def _from_yaml(text: bytes, name: str) -> PriceTable:
    document = read_struct(_Document, text, name, "prices")
    rules = []
    for i, rule in enumerate(document.nodes):
        where = f"{name}: nodes[{i}]"
        if not (rule.name or rule.instance_type or rule.labels or rule.shape):
            raise InvalidInput(where, "no condition", "name, instanceType, labels or shape", "or otherwise: by amount")
        made = NodeRule(
            _price(rule.per_hour, f"{where}.perHour"), rule.name, "", rule.instance_type, rule.region, rule.labels
        )
        if rule.shape is not None:
            cpu_m = milli(rule.shape.cpu, f"{where}.shape.cpu")
            memory_mib = whole(rule.shape.memory, f"{where}.shape.memory") >> 20
            made = replace(made, cpu_m=cpu_m, memory_mib=memory_mib)
        rules.append(made)
    units = document.otherwise
    otherwise = None
    if units is not None:
        where = f"{name}: otherwise"
        otherwise = UnitPrices(
            _price(units.core, f"{where}.cpuPerHour"),
            _price(units.gib, f"{where}.memoryGiBPerHour"),
            _price(units.gpu, f"{where}.gpuPerHour"),
        )
    gib_per_core = whole(document.memory_per_core, f"{name}: memoryPerCore") / _GIB
    return PriceTable(document.currency, tuple(rules), otherwise, gib_per_core, document.cores_per_gpu)


def _from_csv(text: bytes, name: str) -> PriceTable:
    try:
        lines = text.decode("utf-8-sig").strip().splitlines()
    except UnicodeDecodeError as error:
        raise InvalidInput(name, str(error), "text in UTF-8") from None
    rows = csv.DictReader(lines)
    missing = [column for column in _CSV_COLUMNS if column not in (rows.fieldnames or ())]
    if missing:
        raise InvalidInput(name, ", ".join(rows.fieldnames or ()), f"OpenCost's columns; {missing[0]} is missing")
    exact: list[NodeRule] = []
    by_type: dict[tuple[str, str], list[float]] = {}
    cards: dict[tuple[str, str], float] = {}
    others: dict[str, int] = {}
    try:
        for row in rows:
            where = f"{name}: line {rows.line_num}"
            kind, price = (row["AssetClass"] or "").strip().lower(), _text_price(row["MarketPriceHourly"], where)
            field_name, key = (row["InstanceIDField"] or "").strip(), (row["InstanceID"] or "").strip()
            region, instance_type = (row.get("Region") or "").strip(), (row.get("InstanceType") or "").strip()
            if kind == "node":
                exact.append(_csv_rule(field_name, key, region, price, where))
                if instance_type:
                    by_type.setdefault((instance_type, region), []).append(price)
            elif kind == "gpu":
                cards[field_name.removeprefix("metadata.labels."), key] = price
            else:
                others[kind or "(none)"] = others.get(kind or "(none)", 0) + 1
    except csv.Error as error:
        raise InvalidInput(name, str(error), "a CSV file") from None
    exact.sort(key=lambda rule: not rule.region)  # a row with a region before one for all
    means = [
        NodeRule(sum(prices) / len(prices), instance_type=kind, region=region)
        for (kind, region), prices in sorted(by_type.items(), key=lambda item: not item[0][1])
    ]
    left_out = tuple(f"{count} rows of asset class {kind} are not prices of nodes" for kind, count in others.items())
    return PriceTable("USD", (*exact, *means), cards=cards, left_out=left_out)


def _csv_rule(field_name: str, key: str, region: str, price: float, where: str) -> NodeRule:
    if not key:
        raise InvalidInput(f"{where}: InstanceID", key, "what the node is known by")
    if field_name == "metadata.name":
        return NodeRule(price, name=key, region=region)
    if field_name == "spec.providerID":
        return NodeRule(price, provider_id=key, region=region)
    label = field_name.removeprefix("metadata.labels.")
    if label == field_name or not label:
        expected = "spec.providerID, metadata.name or metadata.labels.NAME"
        raise InvalidInput(f"{where}: InstanceIDField", field_name, expected)
    return NodeRule(price, region=region, labels={label: key})


def _text_price(text: str | None, where: str) -> float:
    try:
        return _price(float(text or ""), f"{where}: MarketPriceHourly")
    except ValueError:
        raise InvalidInput(f"{where}: MarketPriceHourly", text, "a price an hour") from None


def _price(value: float, where: str) -> float:
    if not (isfinite(value) and 0 <= value < 1e9):
        raise InvalidInput(where, value, "a price an hour, 0 or more")
    return value


def _near(wanted: int | None, found: int) -> bool:
    return wanted is None or abs(found - wanted) <= _SHAPE_TOLERANCE * wanted


def unpriced(table: PriceTable, nodes: Sequence[PricedNode]) -> tuple[str, ...]:
    """Nodes without a price, in their order."""
    return tuple(node.name for node in nodes if table.of(node) is None)
