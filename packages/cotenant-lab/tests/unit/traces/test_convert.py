"""Conversion is all or nothing: after any error the destination is unchanged and nothing else is left behind."""

import errno
import gzip
import os
from pathlib import Path

import polars as pl
import pytest

from cotenant.model.errors import InvalidInput, Permanent
from cotenant_lab.traces import formats, import_trace, read_table
from cotenant_lab.traces.convert import stem, write_parquet

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{i},1000,2000,0,\n" for i in range(50))
PODS = "".join(f"p{i},100,200,0,0,,LS,Running,{i},{i + 5},{i}\n" for i in range(50)) + "p1,1,1,0,0,,LS,Running,1,2,1\n"


def make(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_a_file_becomes_parquet_that_reads_back_identically(tmp_path: Path) -> None:
    source = make(tmp_path, "openb_pod_list_x.csv.gz", PODS)
    steps: list[tuple[int, int]] = []
    report = import_trace("openb", source, tmp_path / "out.parquet", lambda done, total: steps.append((done, total)))
    frame, _ = read_table("openb", "pods", source)
    again, second = read_table("openb", "pods", tmp_path / "out.parquet")
    assert again.equals(frame)
    assert (report.rows_read, report.rows_kept, second.rows_read) == (51, 50, 50)
    assert [(bad.kind, bad.lines) for bad in report.bad] == [("duplicate", (51,))]
    assert steps[-1] == (source.stat().st_size, source.stat().st_size)
    assert pl.read_parquet_metadata(tmp_path / "out.parquet") is not None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["openb_pod_list_x.csv.gz", "out.parquet"]


def test_a_folder_becomes_a_folder_and_says_what_it_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    make(folder, "openb_pod_list_a.csv", PODS)
    make(folder, "openb_pod_list_b.csv.gz", PODS)
    make(folder, "openb_node_list.csv", NODES)
    make(folder, "README.md", "about")
    steps: list[tuple[int, int]] = []
    report = import_trace("openb", folder, tmp_path / "out", lambda done, total: steps.append((done, total)))
    names = ["openb_node_list.parquet", "openb_pod_list_a.parquet", "openb_pod_list_b.parquet"]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == names
    assert [(t.table, t.rows_kept) for t in report.tables] == [("nodes", 50), ("pods", 50), ("pods", 50)]
    assert [p.name for p in report.skipped] == ["README.md"]
    assert [done for done, _ in steps] == sorted({done for done, _ in steps})
    assert steps[-1][0] == steps[-1][1]
    assert any("README.md: skipped" in line for line in report.sentences())


def full_disk(rows: pl.LazyFrame, path: Path) -> None:
    path.write_bytes(b"PAR1 half of it")
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_the_earlier_file_and_no_temporary_one(tmp_path: Path) -> None:
    source = make(tmp_path, "openb_node_list.csv", NODES)
    target = tmp_path / "nodes.parquet"
    import_trace("openb", source, target)
    before = target.read_bytes()
    with pytest.raises(Permanent, match=r"nodes\.parquet: cannot be written: No space left on device; .*unchanged"):
        import_trace("openb", source, target, None, full_disk)
    assert target.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["nodes.parquet", "openb_node_list.csv"]


def test_a_disk_that_fills_at_the_second_table_leaves_the_first_as_it_was(tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    make(folder, "openb_node_list.csv", NODES)
    make(folder, "openb_pod_list_a.csv", PODS)
    import_trace("openb", folder, out)
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    make(folder, "openb_node_list.csv", NODES.replace("1000", "3000"))

    def second_fails(rows: pl.LazyFrame, path: Path) -> None:
        (full_disk if "pod_list" in path.name else write_parquet)(rows, path)

    with pytest.raises(Permanent):
        import_trace("openb", folder, out, None, second_fails)
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before


def test_the_real_writer_on_a_full_device(tmp_path: Path) -> None:
    if not Path("/dev/full").is_char_device():
        pytest.skip("no /dev/full on this machine")
    source = make(tmp_path, "openb_node_list.csv", NODES)

    def to_full_device(rows: pl.LazyFrame, path: Path) -> None:
        write_parquet(rows, Path("/dev/full"))

    with pytest.raises(Permanent, match="No space left"):
        import_trace("openb", source, tmp_path / "nodes.parquet", None, to_full_device)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["openb_node_list.csv"]


def test_a_killed_conversion_leaves_the_earlier_file(tmp_path: Path) -> None:
    source = make(tmp_path, "openb_node_list.csv", NODES)
    target = tmp_path / "nodes.parquet"
    target.write_bytes(b"earlier")

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_trace("openb", source, target, stop)
    assert target.read_bytes() == b"earlier"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["nodes.parquet", "openb_node_list.csv"]


def test_a_bad_source_is_refused_and_leaves_the_earlier_file(tmp_path: Path) -> None:
    source = make(tmp_path, "openb_node_list.csv", "a,b\n1,2\n")
    target = tmp_path / "nodes.parquet"
    target.write_bytes(b"earlier")
    with pytest.raises(InvalidInput, match="2 columns"):
        import_trace("openb", source, target)
    assert target.read_bytes() == b"earlier"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("parent", ["absent", "file/below"])
def test_a_destination_below_a_new_folder_is_made_and_below_a_file_refused(tmp_path: Path, parent: str) -> None:
    source = make(tmp_path, "openb_node_list.csv", NODES)
    (tmp_path / "file").write_text("")
    if parent == "absent":
        import_trace("openb", source, tmp_path / parent / "n.parquet")
        assert (tmp_path / parent / "n.parquet").is_file()
    else:
        with pytest.raises(Permanent, match="cannot be written"):
            import_trace("openb", source, tmp_path / parent / "n.parquet")


def test_sources_that_are_no_table_of_the_format(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        import_trace("openb", tmp_path / "absent", tmp_path / "out")
    with pytest.raises(InvalidInput, match="openb_node_list"):
        import_trace("openb", make(tmp_path / "in", "something.csv", NODES), tmp_path / "out")
    with pytest.raises(InvalidInput, match="at least one table"):
        import_trace("openb", tmp_path / "in", tmp_path / "out")
    with pytest.raises(InvalidInput, match="one of alibaba2018"):
        import_trace("nonsense", tmp_path / "in", tmp_path / "out")
    make(tmp_path / "twice", "openb_node_list.csv", NODES)
    make(tmp_path / "twice", "openb_node_list.csv.gz", NODES)
    with pytest.raises(InvalidInput, match="differ only in their ending"):
        import_trace("openb", tmp_path / "twice", tmp_path / "out")
    (tmp_path / "out").write_text("a file")
    with pytest.raises(InvalidInput, match="a folder, as the source is one"):
        import_trace("openb", tmp_path / "twice", tmp_path / "out")


def test_pipes_and_devices_are_not_replaced_links_are_followed_and_a_source_is_not_overwritten(tmp_path: Path) -> None:
    source = make(tmp_path, "openb_node_list.csv", NODES)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match="not a regular file"):
        import_trace("openb", source, tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "link").symlink_to(tmp_path / "behind.parquet")
    import_trace("openb", source, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "behind.parquet").is_file()
    with pytest.raises(InvalidInput, match="also a source"):
        import_trace("openb", source, source)
    assert source.read_text() == NODES


def test_stems() -> None:
    names = ["a.csv", "a.csv.gz", "a.tsv", "a.parquet", "a.gz", "a"]
    assert {stem(Path(name)) for name in names} == {"a"}


def test_every_format_is_listed_with_its_provenance_and_licence() -> None:
    listed = formats()
    assert {
        "alibaba2018",
        "alibaba2017",
        "openb",
        "tianchi",
        "pai2020",
        "azure-vm",
        "swim",
        "dlrm2025",
        "google2019",
        "generic",
    } <= {info.name for info in listed}
    assert all(info.tables and info.provenance and info.licence and info.meaning for info in listed)
