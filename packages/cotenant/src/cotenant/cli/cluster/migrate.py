"""`cotenant migrate`: what an installation of another system becomes here.

Only signatures, help texts and printing are here; the rules are imported when the command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from cotenant.cli import tables
from cotenant.cli.options import Json
from cotenant.model.errors import InvalidInput
from cotenant.services.options import Context, Kubeconfig

if TYPE_CHECKING:
    from cotenant.services.migrate.installed import Installed
    from cotenant.services.migrate.koordinator_pieces import JudgedInstallation

app = App(
    name="migrate",
    help="What an installation of Koordinator becomes here: the equal set-up, what differs, and the way back.",
    help_format="plaintext",
)


@app.command
def koordinator(
    *,
    file: Annotated[
        tuple[Path, ...],
        Parameter(
            name=("--file", "-f"),
            negative=(),
            help="Objects as `kubectl get -o yaml` prints them, in place of a cluster; may be repeated.",
        ),
    ] = (),
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    out: Annotated[
        Path | None, Parameter(help="Folder for the files of the equal set-up; one that exists must be empty.")
    ] = None,
    json: Json = False,
) -> int:
    """Read an installed Koordinator, or files of one, and change nothing: say what of it is supported, what differs and
    what is not, with the files of the equal set-up and the way back.

    Exit status: 0 said, 1 nothing could be read, 2 bad input.
    """
    import asyncio

    import msgspec

    from cotenant.services.migrate.installed import from_files
    from cotenant.services.migrate.koordinator_pieces import judge
    from cotenant.services.migrate.setup import files

    if file and (kubeconfig is not None or context):
        raise InvalidInput("--file", ", ".join(map(str, file)), "not together with --kubeconfig")
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InvalidInput("--out", str(out), "a folder that is empty, or does not exist")
    judged = judge(from_files(file) if file else asyncio.run(_cluster(kubeconfig, context)))
    made = files(judged)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            (out / name).write_text(text)
    if json:
        print(msgspec.json.encode({"judged": judged, "files": made}).decode())
        return 0
    _print(judged)
    if out is None:
        for name, text in made.items():
            print(f"\n--- {name}\n{text}", end="")
    else:
        tables.print_folded(f"{', '.join(made)} are in {out}; begin with STEPS.md.")
    return 0


async def _cluster(kubeconfig: Path | None, context: str) -> Installed:
    from cotenant.drivers.kube.client.access import load_access
    from cotenant.drivers.kube.client.client import Client
    from cotenant.services.migrate.installed import from_cluster

    access = load_access(kubeconfig, context)
    async with Client(access, qps=20.0, burst=20, in_flight=2, user_agent="cotenant-migrate", read_only=True) as client:
        return await from_cluster(client)


def _print(judged: JudgedInstallation) -> None:
    if not judged.pieces:
        tables.print_folded("Nothing of Koordinator was found.")
    else:
        rows = [
            (piece.verdict.value, f"{piece.found:,}", piece.what, piece.words or "–", piece.guide.removesuffix(".md"))
            for piece in sorted(judged.pieces, key=lambda one: (-_ORDER.index(one.verdict), one.what))
        ]
        tables.print_words(("verdict", "found", "what", "how", "guide"), rows, right=("found",))
        counts = [sum(piece.verdict == verdict for piece in judged.pieces) for verdict in _ORDER]
        words = ", ".join(f"{count} {verdict}" for count, verdict in zip(counts, _ORDER, strict=True))
        tables.print_folded(f"{len(judged.pieces)} pieces: {words}. Pages are those of docs/guide.")
    for sentence in judged.unread:
        tables.print_folded(f"not read: {sentence}")


_ORDER = ("supported", "differs", "not supported", "unknown")
