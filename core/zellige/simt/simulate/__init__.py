"""Runs thread-level programs lane by lane in NumPy, and finds what they do wrong.

In: a :class:`~zellige.simt.ir.Module` and the tensors. Out: :func:`~zellige.simt.simulate.run.simulate` for programs, and
:mod:`zellige.simt.simulate.kernel` as a runtime of a backend. Nothing is imported here.
"""
