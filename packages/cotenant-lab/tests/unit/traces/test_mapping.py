"""Any table through a mapping: scales, constants, positions, and every invalid mapping."""

from pathlib import Path

import polars as pl
import pytest

from cotenant.model.errors import InvalidInput
from cotenant_lab.traces import import_trace, read_mapped

DATA = "JobID,submit,cores,note\nj1,1500,2,x\nj2,1000,3,y\nj3,2500,x,\nj3,2500,-1,\nj1,2600,1,z\nj5,3000,1,z\n"
OWN = """
file: data.csv
columns:
  job: {from: JobID, type: text}
  submit_s: {from: submit, type: number, scale: 0.001, unit: s, minimum: 0}
  cpu_milli: {from: cores, type: integer, scale: 1000, minimum: 1}
  kind: {value: batch, type: text}
key: [job]
ascending: submit_s
"""


def mapping(folder: Path, text: str, data: str = DATA, name: str = "mapping.yaml") -> Path:
    (folder / "data.csv").write_text(data)
    (folder / name).write_text(text)
    return folder / name


def test_own_columns_with_scale_constant_key_and_time(tmp_path: Path) -> None:
    frame, report = read_mapped(mapping(tmp_path, OWN))
    assert frame.rows() == [("j1", 1.5, 2000, "batch"), ("j5", 3.0, 1000, "batch")]
    assert frame.schema == {"job": pl.String, "submit_s": pl.Float64, "cpu_milli": pl.Int64, "kind": pl.String}
    assert {(bad.kind, bad.column, bad.lines) for bad in report.bad} == {
        ("not a number", "cpu_milli", (4,)),
        ("negative", "cpu_milli", (5,)),
        ("duplicate", "job", (6,)),
        ("time goes backwards", "submit_s", (3,)),
    }


def test_a_catalogued_table_by_position_in_toml(tmp_path: Path) -> None:
    text = """
file = "data.csv"
as = "azure-vm/vms"
header = false
separator = ";"
[columns]
arrival_hours = {from = 2, scale = 0.5}
duration_hours = {value = 1.5}
cpus = {from = 1}
"""
    frame, report = read_mapped(mapping(tmp_path, text, "4;2;a\n8;6;b\n0;7;c\n", "m.toml"))
    assert frame.rows() == [(1.0, 1.5, 4.0), (3.0, 1.5, 8.0)]
    assert [(bad.kind, bad.lines) for bad in report.bad] == [("below the allowed range", (3,))]


def test_parquet_through_a_mapping_and_import(tmp_path: Path) -> None:
    pl.DataFrame({"when": [1, 2], "size": [4, 5], "other": [True, False]}).write_parquet(tmp_path / "data.parquet")
    path = mapping(
        tmp_path, "file: data.parquet\ncolumns: {t: {from: when, type: integer}, n: {from: size, type: number}}"
    )
    report = import_trace("generic", path, tmp_path / "out.parquet", None)
    assert report.format == "generic"
    assert pl.read_parquet(tmp_path / "out.parquet").rows() == [(1, 4.0), (2, 5.0)]


def test_integers_that_a_scale_makes_inexact_are_rounded_and_real_fractions_are_faults(tmp_path: Path) -> None:
    text = "file: data.csv\ncolumns: {n: {from: a, type: integer, scale: 0.1}, t: {from: b, type: text}}"
    frame, report = read_mapped(mapping(tmp_path, text, "a,b\n30,x\n70,y\n5,z\n"))
    assert frame["n"].to_list() == [3, 7]
    assert [(bad.kind, bad.lines) for bad in report.bad] == [("not an integer", (4,))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file: data.csv\ncolumns: {}\n", "at least one column"),
        ("file: data.csv\ncolumns: {a: {from: JobID}}\n", "columns.a.type: missing"),
        ("file: data.csv\ncolumns: {a: {type: text}}\n", "either `from` or `value`"),
        ("file: data.csv\ncolumns: {a: {from: JobID, value: 3, type: text}}\n", "either `from` or `value`"),
        ("file: data.csv\ncolumns: {a: {from: nope, type: text}}\n", "one of its columns: JobID, submit"),
        ("file: data.csv\ncolumns: {a: {from: 1, type: text}}\n", "a name of the header"),
        ("file: data.csv\nheader: false\ncolumns: {a: {from: JobID, type: text}}\n", "a position from 1"),
        ("file: data.csv\nheader: false\ncolumns: {a: {from: 9, type: text}}\n", "one of its columns: 1, 2, 3, 4"),
        ("file: data.csv\ncolumns: {a: {from: JobID, type: text}, b: {from: JobID, type: text}}\n", "used once"),
        ("file: data.csv\ncolumns: {a: {from: JobID, type: text, scale: 2}}\n", "no scale on a text"),
        ("file: data.csv\ncolumns: {a: {from: cores, type: number, scale: .nan}}\n", "a finite number"),
        ("file: data.csv\ncolumns: {a: {value: 3, type: number, scale: 2}}\n", "no scale on a value"),
        ("file: data.csv\ncolumns: {a: {from: JobID, type: text}}\nkey: [b]\n", "key: b"),
        ("file: data.csv\ncolumns: {a: {from: JobID, type: text}}\nascending: a\n", "a numeric column"),
        ("file: data.csv\ncolumns: {a: {from: JobID, type: word}}\n", "$.columns"),
        ("file: data.csv\ncolums: {}\n", "unknown field `colums`"),
        ("file: data.csv\ncolumns: {a: {from: JobID, type: text}\n", "YAML with a mapping"),
        ("file: absent.csv\ncolumns: {a: {from: JobID, type: text}}\n", "no such file"),
        ("file: data.csv\nas: azure-vm/vms\ncolumns: {cpus: {from: cores}}\n", "no arrival_hours"),
        ("file: data.csv\nas: azure-vm/vms\ncolumns: {cores: {from: cores}}\n", "a column of azure-vm/vms"),
        ("file: data.csv\nas: azure-vm/vms\ncolumns: {cpus: {from: cores, type: number}}\n", "declares them"),
        ("file: data.csv\nas: azure-vm/machines\ncolumns: {cpus: {from: cores}}\n", "one of vms"),
        ("file: data.csv\nseparator: ab\ncolumns: {a: {from: JobID, type: text}}\n", "one character"),
    ],
)
def test_a_wrong_mapping_is_refused_with_its_field(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_mapped(mapping(tmp_path, text))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_mapping_that_is_missing_or_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        read_mapped(tmp_path / "absent.yaml")
    with pytest.raises(InvalidInput, match=r"\.yaml, \.yml or \.toml"):
        read_mapped(mapping(tmp_path, OWN, name="mapping.json"))
