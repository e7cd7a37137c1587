"""Core names no vendor, chip, instruction, vendor tool or format, in identifiers, strings or comments."""

from __future__ import annotations

import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES = (Path(__file__).parent / "vendor_words.txt").read_text(encoding="utf-8").splitlines()
PATTERNS = [line.strip() for line in LINES if line.strip() and not line.startswith("#")]
WORDS = re.compile("|".join(f"(?:{p if any(c.isupper() for c in p) else f'(?i:{p})'})" for p in PATTERNS))

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CAPITALS = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")


def words(identifier: str) -> set[str]:
    """The identifier itself, its parts between underscores, runs of those, and its parts by capitals."""
    parts = [part for part in identifier.split("_") if part]
    runs = {"_".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, min(i + 3, len(parts)) + 1)}
    return {identifier, *runs, *(word for part in parts for word in _CAPITALS.findall(part))}


@cache
def listed(identifier: str) -> tuple[str, ...]:
    """The words of an identifier that are in the list."""
    return tuple(word for word in sorted(words(identifier)) if WORDS.fullmatch(word))


def found(source: str) -> list[tuple[int, str]]:
    """The lines and words of a module that are in the list."""
    hits = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.OP, tokenize.NUMBER, tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            continue
        for identifier in _IDENTIFIER.findall(token.string):
            hits += [(token.start[0], word) for word in listed(identifier)]
    return hits


@pytest.mark.parametrize("path", sorted((ROOT / "core").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_core_names_no_vendor(path: Path) -> None:
    hits = found(path.read_text(encoding="utf-8"))
    assert not hits, "\n".join(f"{path.relative_to(ROOT)}:{line}: {word}" for line, word in hits)


@pytest.mark.parametrize(
    "line",
    [
        "use_tma = 1",
        "x = 'needs CUDA'",
        "# as on Hopper",
        "emitWgmmaFence()",
        "CudaBackend",
        "target = 'sm_90a'",
        'f"{x} ptx"',
        "cp_async_wait()",
        "TensorCore = 2",
        "arch == 'gfx942'",
        "AVX512 = True",
        "x = '''\n\nthe AMD way'''",
    ],
)
def test_the_list_is_effective(line: str) -> None:
    assert found(line + "\n")


@pytest.mark.parametrize("line", ["shipped = chip", "gamma = hypot(x, y)", "# the arm of the match", "metallic = 1", "mmap", "# compute"])
def test_ordinary_words_pass(line: str) -> None:
    assert not found(line + "\n")
