"""What every policy of this folder answers with: `Verdict`, which `model/machine/verdict.py` describes, since policies of other folders answer so too."""

from cotenant.model.machine.verdict import Verdict

__all__ = ["Verdict"]
