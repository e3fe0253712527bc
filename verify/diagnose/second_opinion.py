"""A second opinion on Z3: every query that a proof relied on is put to cvc5 as SMT-LIB 2 text.

The answers do not change what counts as proven. They check Z3, the one trusted part that this project did not write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import z3

from verify.prove import facts, real_queries
from verify.prove.facts import Query, SolverQuery

__all__ = ["Opinion", "SecondSolverMissing", "ask_cvc5", "cvc5_version", "script", "second_opinion"]

# Options of cvc5, tried in this order until one decides. No single strategy decides all queries with products of
# unknowns.
_STRATEGIES: tuple[dict[str, str], ...] = (
    {},
    {"decision": "justification"},
    {"simplification": "none"},
    {"nl-ext-tplanes": "true", "decision": "justification"},
)

# Limit of cvc5's own count of work for one strategy. A clock would give other answers on a slow or busy machine.
_RESOURCES = 1_000_000


class SecondSolverMissing(RuntimeError):
    """cvc5 is not installed."""


@dataclass(frozen=True)
class Opinion:
    """Answers of the second solver: counts of all queries, of `unsat`, of no answer; the scripts that are `sat`."""

    queries: int
    agreed: int
    undecided: int
    contradicted: tuple[str, ...] = ()


def cvc5_version() -> str:
    """Return the name and version of the second solver. Raises SecondSolverMissing."""
    try:
        import cvc5
    except ImportError as error:
        raise SecondSolverMissing("cvc5 is not installed; try: pip install 'superopt[second-opinion]'") from error
    return f"cvc5 {cvc5.__version__}"


def ask_cvc5(script: str) -> str:
    """Return cvc5's answer to a script: sat, unsat or unknown. Raises RuntimeError if it cannot read the script."""
    answer = "unknown"
    for strategy in _STRATEGIES:
        answer = _ask(script, strategy)
        if answer != "unknown":
            break
    return answer


def script(query: SolverQuery) -> str:
    """Return the query that was put to Z3 as a self-contained SMT-LIB 2 script."""
    context = z3.Context()
    solver = z3.Solver(ctx=context)
    if isinstance(query, Query):
        logic, encoded = "QF_NIA", facts.encoded_query(query, context)
    else:
        logic, encoded = "QF_NRA", real_queries.encoded_query(query, context)
    solver.add(encoded)
    return f"(set-logic {logic})\n{solver.to_smt2()}"


def second_opinion(queries: Iterable[SolverQuery], ask: Callable[[str], str] = ask_cvc5) -> Opinion:
    """Put queries that Z3 found unsatisfiable to `ask`. Equal queries are asked once."""
    scripts = [script(query) for query in dict.fromkeys(queries)]
    answers = [ask(script) for script in scripts]
    return Opinion(
        len(scripts),
        answers.count("unsat"),
        sum(answer not in ("unsat", "sat") for answer in answers),
        tuple(script for script, answer in zip(scripts, answers, strict=True) if answer == "sat"),
    )


def _ask(script: str, strategy: dict[str, str]) -> str:
    import cvc5

    solver = cvc5.Solver(cvc5.TermManager())
    for name, value in {"incremental": "false", "rlimit": str(_RESOURCES), **strategy}.items():
        solver.setOption(name, value)
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, script, "query")
    symbols = parser.getSymbolManager()
    said = ""
    while not (command := parser.nextCommand()).isNull():
        said += command.invoke(solver, symbols)
    answer = said.partition(" ")[0].strip()  # "unknown (RESOURCEOUT)"
    if answer not in ("sat", "unsat", "unknown"):
        raise RuntimeError(f"cvc5 cannot answer: {said.strip()}")
    return answer
