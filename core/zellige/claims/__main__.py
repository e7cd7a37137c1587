"""The process of its own in which claims are tried: see :mod:`zellige.claims`."""

import sys

from zellige.claims import main

sys.exit(main(sys.argv[1:]))
