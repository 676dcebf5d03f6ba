"""The `cotenant` command.

Problem: a user needs one clear line when something is wrong, a script an exit status and clean standard output. Choice: every
command returns its exit status, and only this file turns errors into lines: 2 = bad arguments or input, 1 = failure,
130 = interrupted. Limits: an unexpected error keeps its traceback.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from cotenant import __version__
from cotenant.cli.cluster import credit, explain, profile, rebalancer
from cotenant.cli.cluster.console import console
from cotenant.cli.cluster.crds import crds
from cotenant.cli.cluster.extender import extender
from cotenant.cli.cluster.lint import lint
from cotenant.cli.cluster.manager import manager
from cotenant.cli.cluster.scheduler import scheduler
from cotenant.cli.cluster.warm import warm
from cotenant.cli.cluster.webhook import webhook
from cotenant.cli.cluster.withdraw import withdraw
from cotenant.cli.defaults import COMMON
from cotenant.cli.further import add_further
from cotenant.cli.interrupted import Interrupted
from cotenant.cli.node import commands as node
from cotenant.cli.node.agent import agent
from cotenant.cli.node.keeper import keeper
from cotenant.cli.node.nri import nri
from cotenant.cli.traces import commands as traces
from cotenant.cli.traces import objective
from cotenant.cli.zone import commands as zone
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
app.command(agent)
app.command(node.app)
app.command(console)
app.command(crds)
app.command(credit.app)
app.command(explain.app)
app.command(extender)
app.command(keeper)
app.command(lint)
app.command(manager)
app.command(nri)
app.command(objective.app)
app.command(profile.app)
app.command(rebalancer.app)
app.command(scheduler)
app.command(traces.app)
app.command(warm)
app.command(webhook)
app.command(withdraw)
app.command(zone.app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status. `arguments` default to the process's."""
    logging.getLogger("cotenant").addHandler(
        logging.NullHandler()
    )  # a command that sets up no logging prints its error only
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    try:
        add_further(app, tokens)
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
