"""The names of `superopt.optimizer`."""

from superopt.optimizer.api import optimize
from superopt.optimizer.options import COST_SOURCES, DOMAINS, Options
from superopt.optimizer.result import Result, RuleAttempts
from superopt.optimizer.simplifier import simplify

__all__ = ["COST_SOURCES", "DOMAINS", "Options", "Result", "RuleAttempts", "optimize", "simplify"]
