"""One run of the optimizer, from a model to a faster one that is proven, compared and measured.

The phases of `optimize` (`api.py`, `run.py`), in order:

    read       the file once, as bytes, protobuf and terms                  source.py
    prepare    the original run at the sizes of the run; its numbers read   preparation.py, rule_reading.py
               as formulas, where rules know one
    search     proven rules where the cost model predicts a gain, and       remembered_search.py,
               a timing confirms it; bodies of control flow first           model_search.py, bodies.py
    replay     every step of the candidate checked by the kernel            candidate_check.py, verify/replay.py
    validate   outputs of both compared with float64, on inputs of several  validator.py, expected.py, float64.py,
               scales, and with each other on NaN and infinity              input_sets.py, non_finite_inputs.py,
                                                                            comparison_cache.py
    measure    latency against the original's, interleaved, at several      speed_check.py, measured_sizes.py,
               sizes if it has dynamic ones: to choose, then anew to accept model_timer.py, timing_cache.py
    write      the candidate that passed, else the original, atomically     files.py

`pace.py` divides the run's budget of wall time among them. `candidates.py` lists the candidates (the whole result of
the search, then parts of it), and `selection.py` selects the one to write. A candidate that fails a check is never
written. `outcome.py` keeps the best candidate so far, in case that the run is stopped.
"""

import importlib

# The names are imported on first use: the command line's help needs a small module of this package only.
TYPE_CHECKING = False  # as in `typing`
if TYPE_CHECKING:
    from superopt.optimizer.exports import *  # noqa: F403
else:

    def __getattr__(name):
        return getattr(importlib.import_module("superopt.optimizer.exports"), name)
