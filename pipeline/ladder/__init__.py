"""The ladder: one model, several recipes, one baseline; the smallest candidate that passes is chosen.

Candidates are gated one after another in the declared order, each by a run of its own with the same policy, so each
has its own record. One that breaks is a row with its error, and the ladder goes on. ``docs/ladder.md`` has the rules.
"""

from pipeline.ladder.climbing import LadderResult, climb, default_ladder
from pipeline.ladder.keeping import PAGE_FILE

__all__ = ["PAGE_FILE", "LadderResult", "climb", "default_ladder"]
