"""The package in which tuned programs look for what a proposed configuration is made of: :mod:`zellige.carver.roller.rasterization`."""
