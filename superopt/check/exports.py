"""The names of `superopt.check`."""

from superopt.check.answer import DIFFERENT, EQUIVALENT, UNKNOWN, Answer
from superopt.check.options import CheckOptions
from superopt.check.run import check, replay

__all__ = ["DIFFERENT", "EQUIVALENT", "UNKNOWN", "Answer", "CheckOptions", "check", "replay"]
