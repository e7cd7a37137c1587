import functools

import zellige.language as T


def logged(function):
    @functools.wraps(function)
    def wrapper(*values, **named):
        return function(*values, **named)

    return wrapper


def program() -> None:
    @T.macro
#    ^ E129
    @logged
    def store(B, i, value):
        B[i] = value
