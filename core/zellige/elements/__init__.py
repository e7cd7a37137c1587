"""Elements in NumPy: what conversions and operations on values of each element type mean.

Neutral ground: the interpreter, the simulator, the interpreter of plans and the machines of backends compute with it.
:mod:`zellige.elements.conversion` converts and rounds, :mod:`zellige.elements.arithmetic` computes; for machines that are played by NumPy
:mod:`zellige.elements.operations` runs operations by their names, :mod:`zellige.elements.tiles` holds tiles, and
:mod:`zellige.elements.lockstep` runs points together.
"""
