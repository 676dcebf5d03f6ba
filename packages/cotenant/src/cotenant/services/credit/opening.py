"""Opening the journal that a command names: a URL, or credit.db in the state folder."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.services.kube_process.identity import state_folder

if TYPE_CHECKING:
    from cotenant.drivers.journal.journal import Journal

FILE = "credit.db"


def store_url(given: str) -> str:
    """The URL of the journal: a path means SQLite; empty = `FILE` in the state folder. Raises `InvalidInput` where
    there is no such folder.
    """
    if "://" in given:
        return given
    if given:
        return f"sqlite:///{Path(given).expanduser().absolute()}"
    folder = state_folder()
    if folder is None:
        raise InvalidInput("--store", "", "a path or a URL", "there is no home directory")
    return f"sqlite:///{folder / FILE}"


def open_journal(given: str, *, migrates: bool) -> Journal:
    """Open the journal; `migrates` makes the folder and the tables. Raises `InvalidInput`, `Unsupported` without
    SQLAlchemy.
    """
    if find_spec("sqlalchemy") is None:
        raise Unsupported("credit", "the package sqlalchemy (pip install 'cotenant[credit]')")
    from cotenant.drivers.journal.journal import Journal

    url = store_url(given)
    if url.startswith("sqlite:///"):
        path = Path(url.removeprefix("sqlite:///").partition("?")[0])
        if migrates:
            try:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as error:
                raise InvalidInput("--store", str(path), "a path that can be written", error.strerror or "") from error
        elif not path.exists():
            raise InvalidInput(
                "--store",
                str(path),
                "a journal of credit",
                "`cotenant credit serve` and `cotenant up --credit` make one",
            )
    return Journal(url, migrates=migrates)
