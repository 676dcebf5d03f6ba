import pytest

from cotenant_lab.traces.dag import DagFault, GraphShape, job_dag, parse_task_name


@pytest.mark.parametrize(
    ("name", "number", "parents"),
    [
        ("M1", 1, ()),
        ("R2_1", 2, (1,)),
        ("R4_2_3", 4, (2, 3)),
        ("J10_9_2_9", 10, (2, 9)),
        ("M3_Stg1", 3, ()),
        ("R5_4_Stg12", 5, (4,)),
        ("task_Nzg3ODcyMTI5OTY5NTg1NTM1", None, ()),
        ("task_12", None, ()),
        ("MergeTask", None, ()),
        ("", None, ()),
    ],
)
def test_names_of_the_grammar_and_outside_it(name: str, number: int | None, parents: tuple[int, ...]) -> None:
    code = parse_task_name(name)
    assert (code.number, code.parents, code.fault) == (number, parents, None)


@pytest.mark.parametrize("name", ["M1_", "R2_x", "R3_1__2"])
def test_a_name_that_begins_like_a_code_is_reported_and_independent(name: str) -> None:
    code = parse_task_name(name)
    assert code.number is None
    assert code.fault is DagFault.MALFORMED


def test_a_name_of_fifty_characters_is_cut_and_its_last_number_is_not_believed() -> None:
    name = "J28_4_5_6_7_8_10_11_12_14_15_16_17_19_20_22_23_2401"[:50]
    assert name.endswith("_240")  # cut after its third digit: task 240 is not a parent
    code = parse_task_name(name)
    assert code.fault is DagFault.CUT
    assert code.number == 28
    assert code.parents == (4, 5, 6, 7, 8, 10, 11, 12, 14, 15, 16, 17, 19, 20, 22, 23)


def test_positions_follow_the_order_of_the_names() -> None:
    dag = job_dag(["R3_1_2", "M1", "M2", "task_x"])
    assert dag.parents == ((1, 2), (), (), ())
    assert dag.order == (1, 2, 3, 0)
    assert dag.levels() == (2, 1, 1, 1)
    assert dag.faults == ()


def test_unknown_parents_are_reported_and_the_rest_kept() -> None:
    dag = job_dag(["M1", "R2_1_9"])
    assert dag.parents == ((), (0,))
    assert dag.faults == ((1, DagFault.UNKNOWN_PARENT),)


def test_cycles_are_distinguished_from_tasks_behind_them() -> None:
    dag = job_dag(["M1", "R2_3", "R3_2", "R4_3", "R5_5"])
    assert not dag.is_acyclic
    assert dag.order == (0, 4)
    assert set(dag.faults) == {(1, DagFault.CYCLE), (2, DagFault.CYCLE), (4, DagFault.OWN_PARENT)}
    assert dag.levels() == (1, 0, 0, 0, 1)


def test_two_tasks_with_one_number_are_reported() -> None:
    dag = job_dag(["M1", "R1", "R2_1"])
    assert dag.parents[2] == (0,)
    assert dag.faults == ((1, DagFault.REPEATED),)


@pytest.mark.parametrize(
    ("names", "shape"),
    [
        (["M1"], GraphShape.SINGLE),
        (["M1", "M2", "task_a"], GraphShape.INDEPENDENT),
        (["M1", "R2_1", "R3_2"], GraphShape.CHAIN),
        (["M1", "M2", "R3_1_2", "R4_3"], GraphShape.IN_TREE),
        (["M1", "R2_1", "R3_1"], GraphShape.OUT_TREE),
        (["M1", "R2_1", "R3_1", "J4_2_3"], GraphShape.OTHER),
        (["M1", "R2_1", "M3", "R4_3"], GraphShape.OTHER),
        (["M1", "R2_1", "M3"], GraphShape.OTHER),
    ],
)
def test_shapes(names: list[str], shape: GraphShape) -> None:
    assert job_dag(names).shape() is shape
