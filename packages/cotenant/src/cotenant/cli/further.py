"""Commands that other packages bring: `cotenant lab`, `cotenant up`, `cotenant node experiment`, ...

`cotenant` is one command, and the product knows nothing of the packages that are tried on a laptop; looking for
installed packages reads a file of each. Entry points of the group `GROUP`, named by the words of the command, looked up
only where the words that were typed are no command of ours, or where a list of commands is asked for.
Limits: `PACKAGES` names, for its errors, the commands of our own packages.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points

from cyclopts import App

from cotenant.cli.groups import LAB, TRY
from cotenant.model.errors import Unsupported

GROUP = "cotenant.commands"
HELP = ("--help", "-h")
GROUPS = {"demo": TRY, "up": TRY, "lab": LAB}  # in `cotenant --help`
PACKAGES = {
    "demo": "cotenant-local",
    "lab": "cotenant-lab",
    "node experiment": "cotenant-lab",
    "up": "cotenant-local",
}


def add_further(app: App, tokens: Sequence[str]) -> None:
    """Add what these words may mean and `app` does not have. Raises `Unsupported` for a command whose package is
    not installed.
    """
    if tokens and tokens[0].startswith("-") and tokens[0] not in HELP:
        return  # `cotenant --version`: no command's words, and no list of commands
    words: list[str] = []
    at, asked = app, ""
    for token in tokens:
        if token.startswith("-"):
            break
        if token not in _commands(at):
            asked = token
            break
        at = at[token]
        words.append(token)
    if not _commands(at) and at is not app:
        return  # a command of ours, with its arguments
    found = {point.name: point for point in entry_points(group=GROUP)}
    names = {name.split()[-1]: name for name in {*found, *PACKAGES} if name.split()[:-1] == words}
    for last in [asked] if asked in names else sorted(names):
        point = found.get(names[last])
        if last in _commands(at):
            continue  # in this process, an earlier call has added it
        if point is not None:
            command, group = point.load(), GROUPS.get(names[last])
            if not isinstance(command, App):
                at.command(command, name=last, group=group)
                continue
            if group is not None:
                command.group = group
            at.command(command, name=last)
        elif last == asked:
            package = PACKAGES[names[last]]
            raise Unsupported(f"cotenant {names[last]}", f"the package {package}: pip install {package}")


def add_all(app: App) -> None:
    """Add every command that is installed."""
    for name in sorted({point.name for point in entry_points(group=GROUP)}):
        add_further(app, name.split())


def _commands(app: App) -> set[str]:
    return {name for name in app if not name.startswith("-")}
