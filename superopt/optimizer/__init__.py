"""The whole path from a model to a faster one, and its promise: nothing is written that is wrong or slower."""

from superopt.optimizer.result import Result
from superopt.optimizer.run import optimize

__all__ = ["Result", "optimize"]
