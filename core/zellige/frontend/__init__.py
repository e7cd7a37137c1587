"""From a Python function to tile IR.

The function's source is interpreted once: constants are Python values, the rest becomes expressions of the IR.
"""
