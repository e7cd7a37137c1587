"""The codes, one module a stage; :mod:`zellige.diagnostics.catalogue` has them all."""
