"""Looks at a part of the candidate's replies: whether the rest is still worth asking for.

The rule is in :mod:`pipeline.statistics.sequential`; this scores what was asked so far and puts it to the decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import Verdict
from pipeline.evidence.outcomes import read_outcomes
from pipeline.golden import GoldenSet, restrict
from pipeline.progress import Progress
from pipeline.settings import GateSettings
from pipeline.stages import evaluate
from pipeline.statistics.sequential import plan_looks
from pipeline.statistics.verdict import decide
from pipeline.store import StageOutput, Store


@dataclass
class Looks:
    """The looks that a policy declares on a golden set.

    :ivar parts: the golden set up to each look; none until :meth:`plan`.
    :ivar given_up_at: number of the look (from 1) at which the candidate was given up; None: it was not.
    """

    store: Store
    golden: GoldenSet
    policy: GateSettings
    progress: Progress
    parts: tuple[GoldenSet, ...] = ()
    given_up_at: int | None = None

    def plan(self) -> None:
        """From now on look."""
        looks = plan_looks(self.golden.turns, self.policy.looks)
        self.parts = tuple(restrict(self.golden, look.turns, ["look", look.scenarios]) for look in looks)

    @property
    def asked(self) -> GoldenSet:
        """What the candidate was asked: the whole set, or the part up to the look at which it was given up."""
        return self.golden if self.given_up_at is None else self.parts[self.given_up_at - 1]

    def hopeless(self, look: int, replay: StageOutput, baseline: Sequence[Path]) -> bool:
        """Give the candidate up if it is rejected at a look. Anything but a REJECT goes on.

        What it would gain is not asked yet: its load is not measured.

        :param look: its number, from 1.
        :param replay: the candidate's replies up to it.
        :param baseline: files of outcomes over the whole set, of all replays of the baseline, the first one first.
        :raises RecordError: an outcome file is unreadable or damaged.
        """
        part = self.parts[look - 1]
        scored = evaluate.run(self.store, part, replay.path, "candidate", self.progress)
        first, *repeats = map(read_outcomes, baseline)
        candidate = read_outcomes(scored.path / evaluate.OUTCOMES)
        turns, policy = self.golden.turns, self.policy
        decision = decide(turns, first, candidate, policy, repeats=repeats, look=look)
        rejected = decision.verdict is Verdict.REJECT
        if rejected:
            self.given_up_at = look
        found = f"{decision.reasons[0].text} Given up." if rejected else "going on"
        where = f"look {look} of {len(self.parts)}, {len(part.turns)} of {len(self.golden.turns)} turns"
        self.progress.say("replay candidate", f"{where}: {found}")
        return rejected
