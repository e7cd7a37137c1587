"""The static checks of plans, one module a theme; :mod:`zellige.plan.check` lists and runs them."""
