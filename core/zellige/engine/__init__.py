"""The package in which programs written for TileLang look for the compiler's stages: :mod:`zellige.engine.lower`."""
