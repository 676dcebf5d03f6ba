from __future__ import annotations

import pytest

from cotenant.model.sizes.container import ContainerProgram
from cotenant.policy.assess.heap_floor import MIB, NOTHING_TOLD, heap_floor


def program(line: str, **env: str | None) -> ContainerProgram:
    return ContainerProgram(tuple(line.split()), tuple(env.items()))


@pytest.mark.parametrize(
    ("told", "floor_mib", "why"),
    [
        (program("java -Xmx2g -jar a.jar"), 2560, "the JVM was told a heap of 2,048 MiB"),
        (program("java -Xmx2g -Xmx1024m -jar a.jar"), 1280, "a heap of 1,024 MiB"),  # the last one counts
        (program("java -XX:MaxHeapSize=100m -jar a.jar"), 164, "a heap of 100 MiB"),  # at least 64 MiB beside it
        (program("java -Xmx1g -XX:MaxDirectMemorySize=2g -jar a.jar"), 3072, "a heap of 1,024 MiB"),
        (program("run.sh", JAVA_OPTS="-Xms1g -Xmx4096m"), 5120, "a heap of 4,096 MiB"),
        (program("java $(HEAP) -jar a.jar", HEAP="-Xmx512m"), 640, "a heap of 512 MiB"),
        (program("java -XX:MaxRAM=4g -XX:MaxRAMPercentage=50 -jar a.jar"), 2560, "2,048 MiB by MaxRAM"),
        (program("/server", GOMEMLIMIT="900MiB"), 990, "GOMEMLIMIT is 900 MiB"),
        (program("node --max-old-space-size=1024 a.js"), 1280, "node was told a heap of 1,024 MiB"),
        (program("npm start", NODE_OPTIONS="--max-old-space-size=400"), 500, "node was told"),
        (program("celery worker --max-memory-per-child=204800 --concurrency=4"), 800, "Celery was told 200 MiB"),
        (program("uwsgi --reload-on-rss 256 --processes 3"), 768, "uWSGI was told 256 MiB for each of 3"),
        # the runtime reads this variable last, so the command does not win
        (program("java -Xmx1g -jar a.jar", _JAVA_OPTIONS="-Xmx4g"), 5120, "a heap of 4,096 MiB"),
        (
            program("run.sh", A_OPTS="-Xmx4g", B_JAVA_OPTS="-Xmx1g"),
            5120,
            "a heap of 4,096 MiB",
        ),  # in no order
        (program("run.sh", SIZE="2g", JAVA_OPTS="-Xmx$(SIZE)"), 2560, "a heap of 2,048 MiB"),
        (ContainerProgram(("sh", "-c", "exec java -Xmx${SIZE} -jar a.jar"), (("SIZE", "2g"),)), 2560, "2,048 MiB"),
        (ContainerProgram(("sh", "-c", 'exec java -Xmx"$SIZE" -jar a.jar'), (("SIZE", "2g"),)), 2560, "2,048 MiB"),
        (ContainerProgram(("sh", "-c", "GOMEMLIMIT=900MiB exec /server")), 990, "GOMEMLIMIT is 900 MiB"),
        (program("run.sh", MAX_HEAP_SIZE="4G"), 5120, "a heap of 4,096 MiB"),
        (program("uwsgi", UWSGI_RELOAD_ON_RSS="256", UWSGI_WORKERS="3"), 768, "256 MiB for each of 3"),
        (program("celery worker --max-memory-per-child=204800 --autoscale=10,3"), 2000, "200 MiB for each of 10"),
        (program("java -Xmx1g -jar a.jar", GOMEMLIMIT="4GiB"), 4506, "GOMEMLIMIT is 4,096 MiB"),
    ],
)
def test_a_fixed_amount_is_a_floor(told: ContainerProgram, floor_mib: int, why: str) -> None:
    found = heap_floor(told)
    assert found.bytes == pytest.approx(floor_mib * MIB, abs=MIB)
    assert (found.keeps_limit, found.keeps_all) == (False, False)
    assert why in found.why


@pytest.mark.parametrize(
    "told",
    [
        program("java -XX:MaxRAMPercentage=75.0 -jar a.jar"),
        program("/usr/bin/java -jar a.jar"),  # 25 % of the limit, by default
        program("run.sh", JDK_JAVA_OPTIONS="-XX:MaxRAMPercentage=80"),
        program("run.sh", JAVA_TOOL_OPTIONS="-XX:+UseG1GC"),  # started by the image
        program("run.sh", JAVA_OPTS="-Duser.timezone=UTC"),
        ContainerProgram(("sh", "-c", "exec java -jar a.jar")),
        program("node --max-old-space-size-percentage=50 a.js"),
    ],
)
def test_a_share_of_the_limit_keeps_the_limit(told: ContainerProgram) -> None:
    found = heap_floor(told)
    assert (found.bytes, found.keeps_limit, found.keeps_all) == (0, True, False)
    assert "share of the limit" in found.why


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (program("run.sh", JAVA_TOOL_OPTIONS=None), "the value of JAVA_TOOL_OPTIONS is taken from elsewhere"),
        (program("/server", GOMEMLIMIT=None), "the value of GOMEMLIMIT"),
        (ContainerProgram(("run.sh",), (), has_more_env=True), "a whole ConfigMap or Secret"),
        (ContainerProgram(is_known=False), "the copy has no arguments"),
        (program("celery worker --max-memory-per-child=204800"), "no fixed number"),
        (program("java -Xmx$(HEAP) -jar a.jar", HEAP=None), "the value of -Xmx is taken from elsewhere"),
        (program("java $(EXTRA) -jar a.jar", EXTRA=None), "the value of EXTRA is taken from elsewhere"),
        (ContainerProgram(("sh", "-c", "java -Xmx${HEAP:-1g} -jar a.jar")), "the value of -Xmx"),
        (program("/server", GOMEMLIMIT="$(LIMIT)", LIMIT=None), "the value of GOMEMLIMIT"),
        (program("node --max-old-space-size=$(OLD) a.js"), "the value of --max-old-space-size"),
        (ContainerProgram(("sh", "-c", "a long script"), is_cut=True), "too long to be read whole"),
    ],
)
def test_what_cannot_be_read_keeps_all(told: ContainerProgram, why: str) -> None:
    found = heap_floor(told)
    assert found.keeps_all
    assert why in found.why


def test_what_is_known_is_a_floor_also_where_something_else_is_not() -> None:
    for told in (
        program("java -Xmx2g -jar a.jar", JAVA_OPTS=None),
        ContainerProgram(("java", "-Xmx2g"), (), has_more_env=True),
    ):
        found = heap_floor(told)
        assert (found.bytes, found.keeps_all) == (2560 * MIB, True)


def test_a_first_heap_is_a_floor_and_no_bound() -> None:
    found = heap_floor(program("java -Xms2g -jar a.jar"))
    assert (found.bytes, found.keeps_limit) == (2560 * MIB, True)
    assert not heap_floor(program("java -Xms2g -Xmx2g -jar a.jar")).keeps_limit


def test_a_share_that_was_written_is_told_and_the_usual_one_is_not() -> None:
    assert heap_floor(program("java -XX:MaxRAMPercentage=75 -jar a.jar")).share == 0.75
    assert heap_floor(program("java -jar a.jar")).share == 0.0


@pytest.mark.parametrize(
    "told",
    [
        program("nginx -g daemon-off"),
        program("/server", GOMEMLIMIT="off"),
        program("/server", GOMEMLIMIT="1.5GiB"),  # the runtime refuses it too
        program("sh -c ./javascript-server", PATH="/usr/lib/jvm/bin"),
        program("run.sh", PASSWORD=None),
    ],
)
def test_nothing_told(told: ContainerProgram) -> None:
    assert heap_floor(told) == NOTHING_TOLD
