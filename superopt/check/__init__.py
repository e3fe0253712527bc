"""Equivalence of two models, whoever wrote them.

joining.py       both models as terms over the same leaves; regions that are equal in structure become one term
equality.py      proves outputs equal: structure first, then the kernel
certificate.py   the proof as a file, and its replay by the kernel
"""
