"""What `cotenant assess` says of a cluster of the demonstration at the end of its day, while it still runs."""

from __future__ import annotations

from pathlib import Path

from cotenant import __version__
from cotenant.model.errors import CotenantError
from cotenant.services.assess.assess_arguments import ReadArguments
from cotenant.services.assess.copy_reading import read_cluster
from cotenant.services.assess.page import page
from cotenant.services.assess.whole_report import assess
from cotenant.services.assess.words import headline

RISK = 0.01


def assessed(kubeconfig: Path, out: Path) -> str:
    """Read the cluster as a stranger's, over its API, and write the page. Returns the report's first sentence, or why
    there is none.
    """
    try:
        snapshot = read_cluster(ReadArguments(kubeconfig=kubeconfig), lambda kind, objects: None)
        found = assess(snapshot, None, RISK, lambda words: None)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(found, f"Written by cotenant {__version__}, at the end of the day."), encoding="utf-8")
    except (CotenantError, OSError) as error:
        return f"not assessed: {error}"
    return headline(found)
