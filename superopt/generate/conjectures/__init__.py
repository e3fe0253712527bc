"""Makes conjectures: equations between graphs that are probably equal, before generalisation and proof.

ground_equation.py    a ground equation: two graphs of typed terms with known sizes
equal_pairs.py        equations from the equal pairs of an enumeration
target_pairs.py       equations between windows of models and graphs that may be faster
written_functions.py  windows of models that write out a function, such as RMSNormalization
reals.py              equations from the values of small graphs at real numbers, truth values and integers
operation_counts.py   scalar operations of a graph
minimal_filtering.py  Winograd convolution (fewer multiplications), from interpolation
softmax_shift.py      Softmax with exponentials that do not underflow
"""
