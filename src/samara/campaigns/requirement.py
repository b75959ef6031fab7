"""`success > 0.99 @ 95%`: what a campaign has to show, and whether it has shown it."""

import math
import re
from enum import Enum
from typing import NamedTuple

from samara.campaigns.confidence_sequence import log_evidence_above, log_evidence_below
from samara.campaigns.intervals import check_count, lower_bound, upper_bound

_FORM = re.compile(r"\s*([A-Za-z_]\w*)\s*([<>])=?\s*([^\s@%]+)\s*(%?)\s*(?:@\s*([^\s@%]+)\s*%\s*)?")


class Verdict(Enum):
    """What the flights flown so far say"""

    HELD = "held"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


class Requirement(NamedTuple):
    """The rate of `subject` is above (or below) `rate`, shown with a confidence of `level`"""

    subject: str
    above: bool
    rate: float
    level: float = 0.95

    def __str__(self) -> str:
        return f"{self.subject} {'>' if self.above else '<'} {self.rate:.15g} @ {100.0 * self.level:.15g}%"


def parse_requirement(text: str) -> Requirement:
    """`success > 0.99 @ 95%`, `failure < 1e-3`, `expect_0 > 99.9% @ 99%`; 95 % where no confidence is given"""
    found = _FORM.fullmatch(text)
    if found:
        subject, sign, rate, percent, level = found.groups()
        try:
            wanted = Requirement(subject, sign == ">", _number(rate, percent), _number(level or "95", "%"))
        except ValueError:
            wanted = None
        if wanted and 0.0 < wanted.rate < 1.0 and 0.0 < wanted.level < 1.0:
            return wanted
    raise ValueError(
        f"requirement {text!r}; expected a name, > or <, a rate between 0 and 1 and a confidence, as in 'success > 0.99 @ 95%'"
    )


def _number(text: str, percent: str) -> float:
    return float(text) / 100.0 if percent else float(text)


def judge(requirement: Requirement, count: int, n: int, *, looked: bool = False) -> Verdict:
    """By the one-sided Clopper–Pearson bound; if you `looked` before, and might have stopped, by evidence that allows for it

    Each of "held" and "refuted" is wrong with a probability of at most 1 − level. `count` is how often the subject was true.
    """
    check_count(count, n)
    rate, level = requirement.rate, requirement.level
    if looked:
        limit = -math.log1p(-level)
        above, below = log_evidence_above(rate, count, n) >= limit, log_evidence_below(rate, count, n) >= limit
    else:
        above, below = lower_bound(count, n, level) > rate, upper_bound(count, n, level) < rate
    if above or below:
        return Verdict.HELD if above is requirement.above else Verdict.REFUTED
    return Verdict.UNDECIDED
