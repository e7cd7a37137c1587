"""The smallest complete backend, from which a vendor's package grows.

Not built yet: this package holds its place in the tree. It registers no entry point, so it is no target.
docs/recipes/add-a-backend.md says what a backend must have.
"""
