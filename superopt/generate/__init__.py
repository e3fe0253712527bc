"""The generator: finds rewrite rules by enumerating small graphs, proves them for all sizes, and writes `rules/`.

    families --enumerate--> graphs --fingerprint--> classes of equal graphs --pair--> conjectures (ground equations)
        --generalise--> rules with variables --prove--> proven rules --minimise--> rules/*.rules

The modules and packages, in the order of the flow:

    grammar.py      inputs, operators with attributes, and families of them
    families/       the grammar itself: one file for each kind of operator, data only
    targets/        families from windows of models: the window is a target that other graphs are wanted for
    enumeration/    all graphs of a family, bottom-up, by fingerprints; graphs that known rules rewrite are left out
    conjectures/    equations from pairs of equal graphs, and from formulas (Winograd convolution, Softmax)
    generalise/     from an equation at fixed sizes to a rule: attributes and sizes become variables
    derive/         rewriting by rules: derivations of an equation, neighbours of a term
    minimise/       cost of a graph; equations that can be derived from the kept rules
    prove/          conjectures to proven rules; the signatures at which each is shipped; rules of more operands
    run/            shards of work, their results on disk, and the processes or machines that run them
    stages.py       the four kinds of shards: enumerate, prove, merge, prove at more signatures
    stage_counts.py counts of what each stage kept
    pipeline.py     one run, from families to files

Operators are evaluated modulo a prime for fingerprints (`superopt.evaluate.modular`). Results depend on the seed, the
families and the code only; not on the machine, the number of workers or the memory.
"""

from superopt.generate.pipeline import UnknownFamily, choose, generate
from superopt.generate.stage_counts import StageCounts, Summary

__all__ = ["StageCounts", "Summary", "UnknownFamily", "choose", "generate"]
