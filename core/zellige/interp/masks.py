"""Which points of a frame are active: ``True`` for all of them, ``False`` for none, else a bool array with one entry a point.

In: masks and conditions. Out: masks in that form, so that the common cases cost nothing.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from zellige.elements.conversion import Array

Mask: TypeAlias = "bool | Array"


def mask_of(condition: Array) -> Mask:
    """The mask of a condition that has one value or one a point."""
    if condition.all():
        return True
    return condition if condition.any() else False


def both(left: Mask, right: Mask) -> Mask:
    """The points in both masks."""
    if left is True:
        return right
    if right is True or left is False:
        return left
    return False if right is False else mask_of(left & right)


def either(left: Mask, right: Mask) -> Mask:
    """The points in at least one of the masks."""
    if left is False or right is True:
        return right
    if right is False or left is True:
        return left
    return mask_of(left | right)


def without(left: Mask, right: Mask) -> Mask:
    """The points of ``left`` that are not in ``right``."""
    if right is False or left is False:
        return left
    if right is True:
        return False
    return mask_of(~right if left is True else left & ~right)


def active_points(mask: Mask, count: int) -> Array:
    """The indices of the active points, ascending."""
    if mask is True:
        return np.arange(count)
    return np.flatnonzero(mask) if mask is not False else np.arange(0)
