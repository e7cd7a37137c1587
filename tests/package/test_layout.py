"""The tree has its fixed places, modules stay readable in size, and the release's papers agree with its version."""

from __future__ import annotations

from pathlib import Path

import pytest

import zellige

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "core": ("zellige",),
    "backends/cpu": ("zellige_cpu",),
    "backends/cuda": ("zellige_cuda",),
    "backends/hip": ("zellige_hip",),
    "backends/template": ("zellige_template", "zellige_template_simt"),
    "intrinsics": ("zellige_intrinsics",),
    "conformance": ("zellige_conformance",),
}


@pytest.mark.parametrize(
    "entry",
    ["core/", "backends/cuda/", "backends/hip/", "backends/template/", "intrinsics/", "conformance/", "pyproject.toml", "README.md"],
)
def test_the_fixed_entries_exist(entry: str) -> None:
    path = ROOT / entry
    assert path.is_dir() if entry.endswith("/") else path.is_file()


@pytest.mark.parametrize(("folder", "packages"), PACKAGES.items())
def test_every_source_root_holds_its_typed_packages_with_docstrings(folder: str, packages: tuple[str, ...]) -> None:
    assert [p.name for p in sorted((ROOT / folder).iterdir()) if p.is_dir() and (p / "__init__.py").exists()] == list(packages)
    for package in packages:
        assert (ROOT / folder / package / "py.typed").is_file()
        assert (ROOT / folder / package / "__init__.py").read_text(encoding="utf-8").startswith('"""')


def modules() -> list[Path]:
    return [path for folder in PACKAGES for path in sorted((ROOT / folder).rglob("*.py"))]


def test_no_module_is_longer_than_800_lines() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules() + sorted((ROOT / "tests").rglob("*.py"))}
    assert not [f"{path.relative_to(ROOT)}: {length}" for path, length in lengths.items() if length > 800]


def test_every_module_says_what_it_is() -> None:
    assert not [str(path.relative_to(ROOT)) for path in modules() if not path.read_text(encoding="utf-8").startswith('"""')]


def test_names_of_test_files_are_unique() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_the_changelog_mentions_the_version() -> None:
    assert f"## {zellige.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_relative_links_of_the_manual_lead_somewhere() -> None:
    import re

    broken = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in link and not (page.parent / link).exists():
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert not broken
