"""The journal over SQLite and PostgreSQL: transactions, migrations, crashes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Connection
from tests.fakes.processes.credit_postings import due, loaded, post_all, store

from cotenant.drivers.journal.journal import ConflictError, Journal
from cotenant.drivers.journal.schema import VERSION, migrate_once, version_of, version_table
from cotenant.model.errors import InvalidInput, Permanent


class CutOffError(Exception):
    """The process ends here."""


def everything(journal: Journal) -> tuple[object, ...]:
    return journal.contents(), tuple(journal.records())


@pytest.fixture
def expected(tmp_path: Path) -> tuple[object, ...]:
    journal = Journal(f"sqlite:///{tmp_path / 'expected.db'}")
    post_all(journal)
    found = everything(journal)
    journal.close()
    return found


def test_postings_are_read_back(url: str, expected: tuple[object, ...]) -> None:
    journal = Journal(url)
    post_all(journal)
    journal.validate()
    assert everything(journal) == expected
    journal.close()
    again = Journal(url, migrates=False)
    assert everything(again) == expected
    by_key = again.record("incident/n1-2")
    assert by_key is not None
    assert by_key.evidence[0] == ("victim", "a")
    assert again.record(str(by_key.number)) == by_key
    assert again.record("none") is None
    assert [r.payer for r in again.records("tenant/b", limit=1, newest=True)] == ["house"]
    again.close()


@pytest.mark.slow
def test_a_process_cut_off_after_any_statement_loses_and_doubles_nothing(
    url: str, expected: tuple[object, ...]
) -> None:
    journal = Journal(url)
    count = 0
    left = 0

    @event.listens_for(journal.engine, "after_cursor_execute")
    def cut(*_: object) -> None:
        nonlocal count, left
        count += 1
        left -= 1
        if left == 0:
            raise CutOffError

    cuts = 0
    accounts = loaded(journal)
    while (posting := due(accounts)) is not None:
        for after in range(1, 100):  # cut the same posting after each of its statements
            before = count
            left = after
            try:
                store(journal, posting)
            except CutOffError:
                cuts += 1
                left = 0
                journal.validate()
                accounts = loaded(journal)
                assert due(accounts) == posting  # nothing of it was stored
                continue
            assert count - before < after
            break
        left = 0
        accounts = loaded(journal)
        with pytest.raises(ConflictError):  # the answer was lost and the posting is repeated
            store(journal, posting)
    assert cuts > 15
    journal.validate()
    assert everything(journal) == expected
    journal.close()


def test_of_two_writers_the_second_is_refused(url: str) -> None:
    one, two = Journal(url), Journal(url)
    posting = due(loaded(one))
    assert posting is not None
    assert due(loaded(two)) == posting
    store(one, posting)
    with pytest.raises(ConflictError):
        store(two, posting)
    two.validate()
    assert loaded(two).revision == 1
    one.close()
    two.close()


@pytest.mark.slow
def test_a_writer_killed_by_sigkill_loses_and_doubles_nothing(url: str, expected: tuple[object, ...]) -> None:
    program = (
        "import sys\n"
        "from cotenant.drivers.journal.journal import Journal\n"
        "from sqlalchemy import event\n"
        "from tests.fakes.processes.credit_postings import post_all\n"
        "journal = Journal(sys.argv[1])\n"
        "event.listen(journal.engine, 'after_cursor_execute', lambda *_: print('.', flush=True))\n"
        "post_all(journal)\n"
    )
    for lines in (13, 21):
        writer = subprocess.Popen(
            [sys.executable, "-c", program, url],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[6],
        )
        assert writer.stdout is not None
        for _ in range(lines):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        journal = Journal(url)
        journal.validate()
        journal.close()
    journal = Journal(url)
    post_all(journal)
    journal.validate()
    assert everything(journal) == expected
    journal.close()


def test_a_database_of_the_first_version_is_migrated(url: str, expected: tuple[object, ...]) -> None:
    journal = Journal(url)
    post_all(journal)
    with journal.engine.begin() as connection:  # back to the schema of version 1
        connection.exec_driver_sql("DROP TABLE credit_balances")
        connection.execute(version_table.delete().where(version_table.c.version == 2))
    with pytest.raises(Permanent, match="schema version 1"):
        Journal(url, migrates=False)
    journal.close()
    migrated = Journal(url)
    migrated.validate()
    assert everything(migrated) == expected
    migrated.close()


def test_a_migration_cut_off_is_repeated(url: str) -> None:
    journal = Journal(url)
    with journal.engine.begin() as connection:
        for name in ("credit_balances", "credit_entries", "credit_marks"):
            connection.exec_driver_sql(f"DROP TABLE {name}")
        connection.execute(version_table.delete())

    def cut_off(connection: Connection) -> None:
        migrate_once(connection)
        raise CutOffError

    with pytest.raises(CutOffError), journal.engine.begin() as connection:
        cut_off(connection)
    journal.close()
    again = Journal(url)
    with again.engine.connect() as connection:
        assert version_of(connection) == VERSION
    post_all(again)
    again.validate()
    again.close()


def test_a_newer_database_is_refused(url: str) -> None:
    journal = Journal(url)
    with journal.engine.begin() as connection:
        connection.execute(version_table.insert(), [{"version": VERSION + 1}])
    journal.close()
    with pytest.raises(Permanent, match="run the newer cotenant"):
        Journal(url)


@pytest.mark.parametrize("bad", ["nonsense", "mysql://host/db", "oracle+none://x"])
def test_other_urls_are_refused(bad: str) -> None:
    with pytest.raises(InvalidInput, match="sqlite:///PATH"):
        Journal(bad)


def test_an_error_does_not_show_a_password() -> None:
    with pytest.raises(InvalidInput) as refused:
        Journal("mysql://someone:hunter2@host/db")
    assert "hunter2" not in str(refused.value)


def test_a_reader_does_not_make_a_database(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="credit serve"):
        Journal(f"sqlite:///{tmp_path / 'none.db'}", migrates=False)
