"""The package in which programs written for TileLang look for facts of a machine: :mod:`zellige.carver.arch.driver`."""
