"""A starting point for machines with lanes, from which a vendor's package grows: ``zellige new-backend NAME --family simt`` copies it.

Kernels are lowered by :mod:`zellige.simt` to programs of lanes and printed in a C++-like language; until there is a compiler and a driver
for it, the simulator executes the program, with every access checked. A vendor keeps the shape and replaces, file by file:

- ``machine``: the facts of the device: lanes, memory, products with the registers of their operands, copies that land later;
- ``spelling``: the words of the vendor's language;
- ``backend``: who the backend is, and the simulator by the vendor's compiler and driver.
"""

from zellige_template_simt.backend import backend

__all__ = ["backend"]
