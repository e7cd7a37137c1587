"""The smallest complete backend, from which a vendor's package grows: ``zellige new-backend NAME`` copies it.

It emits programs in an instruction set of its own (:mod:`zellige_template.instructions`) and has a machine that executes them
(:mod:`zellige_template.machine`). A vendor keeps the shape and replaces, file by file:

- ``backend``: who the backend is and what its device can do;
- ``lower`` and ``expressions``: a planned kernel as the vendor's own language or instructions;
- ``instructions``: the vendor's assembler or compiler;
- ``machine``: the device and its driver.
"""

from zellige_template.backend import backend

__all__ = ["backend"]
