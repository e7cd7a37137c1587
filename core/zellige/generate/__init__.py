"""Tile programs by the thousand: valid ones with arguments and a rule to compare them by, damaged ones, and the search for failures.

:func:`generate` makes a :class:`Program` from a source of choices, :func:`generate_seeded` from a number; :func:`check_program` runs it
everywhere; :func:`shrink` makes a failing one small. Nothing here needs a test framework.
"""

from __future__ import annotations

from zellige.generate.choices import Choices, RandomChoices
from zellige.generate.comparison import Problem, check_program
from zellige.generate.kernels import generate, generate_seeded
from zellige.generate.program import Program
from zellige.generate.shrink import shrink

__all__ = ["Choices", "Problem", "Program", "RandomChoices", "check_program", "generate", "generate_seeded", "shrink"]
