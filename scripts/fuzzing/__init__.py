"""Attacks on `superopt` with random graphs and damaged files; `scripts/fuzz.py` is the command.

    values.py      arrays of numbers: simple, wide, at the edges of a type, and not numbers at all
    graphs.py      a random graph while it grows: every node is run before it is kept
    nodes.py       one random node of each operator, with moving_nodes.py, integer_nodes.py and opaque_nodes.py
    patterns.py    subgraphs that models are made of
    growth.py      a whole random graph
    feeds.py       inputs for it
    judge.py       if two models compute the same, by ONNX Runtime and by noise of the size of roundings
    attacks.py     what is done with a graph: written back, rewritten at random, optimized
    shrink.py      a smaller graph that still fails
    cases.py       failures as files, and their replay
    damage.py      model files with flipped, lost and exchanged parts
    reading.py     what is done with a damaged file
    instances.py   instances of rules and of wrong rules as pairs of models
    mutations.py   single mutations of a model
    mutants.py     what `superopt check` says of a mutated model
    rule_check.py  both sides run and compared
    workers.py     work in child processes, so that a crash, a hang or a flood of memory is a finding

Graphs, their nodes and the judge use nothing of `superopt`: what it believes about an operator is to be found out.
"""
