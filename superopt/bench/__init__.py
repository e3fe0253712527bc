"""The benchmark: superopt, other optimizers, and the runtime alone, in one run on one machine.

`contestants.py` lists the optimizers, `optimizers.py` and `engines.py` call them; `processes.py` and `worker.py` run
each in its own process; `contest.py` runs one model, `run.py` all models; `result.py` holds the figures, and `chart.py`
draws them. Nothing is imported here: the memory of a worker is measured, so it must hold only the optimizer under test.
"""
