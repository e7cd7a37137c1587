"""Hardware instructions as data: products, copies, synchronisation and mathematics, shared by the backends that have them.

Not built yet: no instruction is described here so far, and no backend reads this package.
"""
