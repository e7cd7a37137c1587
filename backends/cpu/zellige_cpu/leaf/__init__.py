"""The leaf library: conversions, math functions, tile products, reductions and scans as LLVM IR.

A leaf is emitted once a module as an internal function and called from the code of the kernel.
"""
