"""The whole path from a model to a faster one, and its promise: nothing is written that is wrong or slower."""

from superopt.optimizer.result import Result, RuleAttempts
from superopt.optimizer.run import optimize

__all__ = ["Result", "RuleAttempts", "optimize"]
