"""The process of its own in which hooks are asked and claims are tried: see :mod:`zellige.claims`."""

import os
import sys

from zellige.claims import main

os._exit(main(sys.argv[1:]))  # threads that a backend left running would hold the process
