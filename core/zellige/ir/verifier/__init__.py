"""The parts of the tile IR's verifier; :mod:`zellige.ir.verify` numbers the invariants and is the way in."""
