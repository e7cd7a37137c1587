"""The package in which programs written for TileLang look for the hints of tile operations: :mod:`zellige.tileop.base`."""
