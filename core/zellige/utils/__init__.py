"""The package in which programs written for TileLang look for what tests of kernels use: :mod:`zellige.utils.tensor`."""
