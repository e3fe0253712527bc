"""The benchmark: ours, its peers and the runtime alone, in one run on one machine.

`contestants.py` says who takes part, `optimizers.py` and `engines.py` how; `processes.py` and `worker.py` give each
optimizer a process of its own; `contest.py` is one model, `run.py` all of them; `result.py` holds what came out, and
`chart.py` draws it. Nothing is imported here: a worker is to hold what it measures, and no more.
"""
