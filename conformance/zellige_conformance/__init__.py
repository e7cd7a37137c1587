"""The suite that judges any backend, which it finds by discovery only.

Not built yet: it holds no case so far. Backends are compared with the interpreter by the tests of the repository.
"""
