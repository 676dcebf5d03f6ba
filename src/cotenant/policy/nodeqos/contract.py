"""What every policy of this folder answers with: `Verdict`, which `model/verdict.py` describes, since policies of other folders answer so too."""

from cotenant.model.verdict import Verdict

__all__ = ["Verdict"]
