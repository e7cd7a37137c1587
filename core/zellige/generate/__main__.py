"""``python -m zellige.generate SEED``: print the program of a seed, with its arguments as comments."""

from __future__ import annotations

import sys

from zellige.generate.kernels import generate_seeded


def main() -> None:
    """Print one program. Exits with 2 where the seed is missing."""
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        print("usage: python -m zellige.generate SEED", file=sys.stderr)
        sys.exit(2)
    print(generate_seeded(int(sys.argv[1])).text(), end="")


if __name__ == "__main__":
    main()
