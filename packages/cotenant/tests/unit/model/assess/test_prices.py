from __future__ import annotations

import pytest

from cotenant.model.assess.prices import INSTANCE_TYPE, REGION, PricedNode, read_prices, unpriced
from cotenant.model.errors import InvalidInput

YAML = b"""
currency: EUR
nodes:
  - {name: special, perHour: 9}
  - {instanceType: m5.large, region: west, perHour: 0.12}
  - {instanceType: m5.large, perHour: 0.10}
  - {shape: {cpu: 16, memory: 64Gi}, perHour: 0.8}
  - {labels: {pool: own}, perHour: 0.4}
otherwise: {cpuPerHour: 0.03, memoryGiBPerHour: 0.004, gpuPerHour: 2}
"""
HEAD = "EndTimestamp,InstanceID,Region,AssetClass,InstanceIDField,InstanceType,MarketPriceHourly,Version\n"


def node(name: str = "n", cpu_m: int = 2000, memory_mib: int = 8192, gpus: int = 0, **labels: str) -> PricedNode:
    words = {"kind": INSTANCE_TYPE, "region": REGION}
    return PricedNode(name, cpu_m, memory_mib, gpus, {words.get(key, key): value for key, value in labels.items()})


@pytest.mark.parametrize(
    ("of", "per_hour", "basis"),
    [
        (node("special", kind="m5.large"), 9.0, "special"),
        (node(kind="m5.large", region="west"), 0.12, "m5.large"),
        (node(kind="m5.large", region="east"), 0.10, "m5.large"),
        (node(cpu_m=15_900, memory_mib=61_000), 0.8, "its shape"),
        (node(cpu_m=14_000, memory_mib=61_000, pool="own"), 0.4, "pool=own"),
        (node(gpus=1), 2 * 0.03 + 8 * 0.004 + 2.0, "by amount"),
    ],
)
def test_the_first_rule_that_matches_counts(of: PricedNode, per_hour: float, basis: str) -> None:
    price = read_prices(YAML, "prices.yaml").of(of)
    assert price is not None
    assert (price.per_hour, price.basis) == (pytest.approx(per_hour), basis)


def test_a_nodes_price_is_the_sum_of_its_parts() -> None:
    table = read_prices(YAML, "prices.yaml")
    for one in (node(kind="m5.large"), node("special", 64_000, 262_144, 4), node(gpus=2)):
        price = table.of(one)
        assert price is not None
        parts = one.cpu_m / 1000 * price.core_per_hour + one.memory_mib / 1024 * price.gib_per_hour
        assert parts + one.gpus * price.gpu_per_hour == pytest.approx(price.per_hour)
        assert price.basis == "by amount" or price.core_per_hour == pytest.approx(8 * price.gib_per_hour)


def test_opencosts_csv() -> None:
    text = HEAD + (
        "2019-04-17 23:34:22 UTC,i-1,east,node,spec.providerID,m5.large,0.50,\n"
        ",i-1,,node,spec.providerID,m5.large,0.40,\n"
        ",node-b,,node,metadata.name,m5.large,0.30,v1\n"
        ",own,,node,metadata.labels.pool,,0.2,\n"
        ",a100,,gpu,nvidia.com/gpu.product,,1.5,\n"
        ",disk,,pv,metadata.name,,0.01,\n"
    )
    table = read_prices(b"\xef\xbb\xbf" + text.encode(), "prices.csv")
    by_id = PricedNode("a", 2000, 8192, 0, {REGION: "east"}, "i-1")
    found = [
        table.of(one)
        for one in (
            by_id,
            PricedNode("a", 2000, 8192, 0, {REGION: "west"}, "i-1"),
            node("node-b"),
            node(pool="own"),
            node("c", kind="m5.large", region="east"),
            node("d", kind="m5.large"),
        )
    ]
    assert [price.per_hour for price in found if price is not None] == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.5, 0.35])
    cards = PricedNode("g", 2000, 8192, 2, {"nvidia.com/gpu.product": "a100", "pool": "own"})
    priced = table.of(cards)
    assert priced is not None
    assert (priced.per_hour, priced.gpu_per_hour) == (pytest.approx(3.2), 1.5)
    assert table.left_out == ("1 rows of asset class pv are not prices of nodes",)
    assert unpriced(table, [node("x"), by_id, node("y")]) == ("x", "y")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "prices"),
        ("nodes: []", "a price of nodes"),
        ("nodes: [{perHour: 1}]", "name, instanceType, labels or shape"),
        ("nodes: [{instanceType: a, perHour: -1}]", "0 or more"),
        ("nodes: [{instanceType: a, perHour: .nan}]", "0 or more"),
        ("nodes: [{instanceType: a, perhour: 1}]", "unknown field `perhour`"),
        ("nodes: [{shape: {cpu: two, memory: 1Gi}, perHour: 1}]", "shape.cpu"),
        ("otherwise: {cpuPerHour: 1}", "memoryGiBPerHour"),
        ("memoryPerCore: 0\notherwise: {cpuPerHour: 1, memoryGiBPerHour: 1}", "memory"),
        (HEAD + ",a,,node,metadata.name,,free,\n", "line 2: MarketPriceHourly"),
        (HEAD + ",a,,node,metadata.name,,inf,\n", "0 or more"),
        (HEAD + ",a,,node,spec.unknown,,1,\n", "metadata.labels.NAME"),
        (HEAD + ",,,node,metadata.name,,1,\n", "what the node is known by"),
        (HEAD.replace("InstanceID,", "Id,"), "InstanceID is missing"),
        (HEAD, "a price of nodes"),
    ],
)
def test_prices_that_cannot_be_are_refused_with_the_place(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_prices(text.encode(), "prices")
    assert said in str(refused.value)
    assert "prices" in str(refused.value)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_prices(HEAD.encode() + b"\xff\xfe", "prices.csv")
