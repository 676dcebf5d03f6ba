"""The `cotenant` command.

A user needs one clear line when something is wrong, a script an exit status and clean standard output. Every command
returns its exit status, and only this file turns errors into lines: 2 = bad arguments or input, 1 = failure, 130 =
interrupted.
Limits: an unexpected error keeps its traceback.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Group

from cotenant import __version__
from cotenant.cli.defaults import COMMON
from cotenant.cli.further import HELP, add_further
from cotenant.cli.groups import ASK, CLUSTER, FLEET, INSTALL, NODE, TRY
from cotenant.cli.interrupted import Interrupted
from cotenant.model.errors import CotenantError, InvalidInput

BAD_INPUT = 2
FAILED = 1
INTERRUPTED = 130

app = App(
    name="cotenant",
    help="Latency-critical services and best-effort work on shared machines, while the services' objectives hold.",
    version=__version__,
    result_action="return_value",
    help_format="plaintext",
    default_parameter=COMMON,
)


def _register(group: Group, **commands: str) -> None:
    for name, path in commands.items():
        app.command(f"cotenant.cli.{path}", name=name, group=group)


# By what a person does, and imported when it is the one that runs: a command costs the imports of no other.
_register(
    TRY,
    warm="cluster.warm:warm",
)
_register(
    INSTALL,
    assess="assess.assess:app",
    crds="cluster.crds:crds",
    lint="cluster.lint:lint",
    migrate="cluster.migrate:app",
    withdraw="cluster.withdraw:withdraw",
)
_register(
    CLUSTER,
    app="applications.app:app",
    vm="applications.vm:app",
    scheduler="cluster.scheduler:scheduler",
    extender="cluster.extender:extender",
    manager="cluster.manager:manager",
    webhook="cluster.webhook:webhook",
    rebalancer="cluster.rebalancer:app",
    credit="cluster.credit:app",
    traces="traces.commands:app",
    console="cluster.console:console",
    federate="fleet.federate:app",
)
_register(
    FLEET,
    fleet="fleet.app:app",
    logs="fleet.logs:app",
)
_register(
    ASK,
    explain="ask.explain:app",
    objective="traces.objective:app",
    profile="ask.profile:app",
    receipts="ask.receipts:app",
    autonomy="ask.autonomy:autonomy",
    freeze="ask.autonomy:freeze",
    thaw="ask.autonomy:thaw",
)
_register(
    NODE,
    agent="node.agent:agent",
    keeper="node.keeper:keeper",
    nri="node.nri:nri",
    node="node.commands:app",
    zone="zone.commands:app",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status. `arguments` default to the process's."""
    logging.getLogger("cotenant").addHandler(
        logging.NullHandler()
    )  # a command that sets up no logging prints its error only
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    try:
        add_further(app, tokens)
        if not tokens or tokens[0] in HELP:
            for name in app:
                app[name]  # imports it: the list of commands has the first sentence of each
        status = app(tokens, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        return _fail(error, BAD_INPUT)
    except InvalidInput as error:
        return _fail(error, BAD_INPUT)
    except CotenantError as error:
        return _fail(error, FAILED)
    except Interrupted as error:
        return _fail(error, INTERRUPTED)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has closed it
        return FAILED
    return status if isinstance(status, int) else 0


def _fail(error: object, status: int) -> int:
    print("cotenant:", " ".join(str(error).split()), file=sys.stderr)
    return status
