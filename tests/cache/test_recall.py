"""Kernels found on disk: which change compiles anew, and what a damaged cache does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.cache import artifacts, cache_statistics, keys, recall, sources, store
from zellige.cache.disk import DiskStore
from zellige.diagnostics import InternalError
from zellige.driver import compile_kernel
from zellige.options import CompileOptions
from zellige.plugin.contract import Binary, Emitted
from zellige.plugin.registry import BackendHandle, registry
from zellige.target import Target

Forget = Callable[[], None]


def doubled(kernel: Any) -> float:
    return float(kernel(np.ones(64, np.float32))[0])


def compiled(make: Any, **options: Any) -> Any:
    return zl.compile(make, out_idx=-1, target="cpu", **options)


def entries(folder: Path, kind: str) -> list[Path]:
    return sorted(path for path in (folder / "v1" / kind).rglob("*") if path.is_file())


def test_a_second_process_neither_emits_nor_compiles(folder: Path, forget: Forget, steps: Any, scaled: Any) -> None:
    first = compiled(scaled(2.0))
    assert doubled(first) == 2 and steps.taken == (1, 1)
    assert doubled(compiled(scaled(2.0))) == 2 and steps.taken == (0, 0)
    forget()
    again = compiled(scaled(2.0))
    assert doubled(again) == 2 and steps.taken == (0, 0)
    assert again.get_kernel_source() == first.get_kernel_source()
    assert doubled(compiled(scaled(3.0))) == 3 and steps.taken == (1, 1)
    assert doubled(compiled(scaled(2.0), pass_configs={"tl.enable_fast_math": True})) == 2 and steps.taken[0] == 1
    found = cache_statistics()
    assert found.entries["artifacts"] == 3 and found.folder == folder


def test_machine_code_is_shared_by_programs_that_come_to_the_same_text(folder: Path, forget: Forget, steps: Any, scaled: Any) -> None:
    compiled(scaled(2.0))
    assert steps.taken == (1, 1)
    for path in entries(folder, "artifacts"):
        path.unlink()
    forget()
    assert doubled(compiled(scaled(2.0))) == 2 and steps.taken == (1, 0)


def test_machine_code_that_is_gone_is_made_again_without_emitting(folder: Path, forget: Forget, steps: Any, scaled: Any) -> None:
    compiled(scaled(2.0))
    steps.taken  # noqa: B018
    for path in entries(folder, "binaries"):
        path.unlink()
    forget()
    assert doubled(compiled(scaled(2.0))) == 2 and steps.taken == (0, 1)
    forget()
    assert doubled(compiled(scaled(2.0))) == 2 and steps.taken == (0, 0)


@pytest.mark.parametrize("kind", ["artifacts", "binaries"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "exchanged"])
def test_a_damaged_entry_is_rebuilt(folder: Path, forget: Forget, steps: Any, kind: str, damage: str, scaled: Any) -> None:
    compiled(scaled(3.0))
    compiled(scaled(2.0))
    steps.taken  # noqa: B018
    paths = entries(folder, kind)
    assert len(paths) == 2
    originals = [path.read_bytes() for path in paths]
    for path, data, other in zip(paths, originals, reversed(originals)):
        match damage:
            case "cut":
                path.write_bytes(data[: len(data) // 2])
            case "flipped":
                path.write_bytes(data[:-9] + bytes([data[-9] ^ 4]) + data[-8:])
            case "emptied":
                path.write_bytes(b"")
            case "exchanged":
                path.write_bytes(other)
    forget()
    assert doubled(compiled(scaled(2.0))) == 2
    assert steps.taken == ((1, 0) if kind == "artifacts" else (0, 1))


def test_what_is_kept_but_cannot_be_used_is_compiled_again(
    folder: Path, forget: Forget, steps: Any, monkeypatch: pytest.MonkeyPatch, scaled: Any
) -> None:
    compiled(scaled(2.0))
    disk = store()
    for path in entries(folder, "artifacts"):
        disk.keep("artifacts", path.name, b"\0\0\0\0no artifact")
    forget()
    steps.taken  # noqa: B018
    assert doubled(compiled(scaled(2.0))) == 2 and steps.taken == (1, 0)
    load = BackendHandle.load
    failed: list[bool] = []

    def refuses_once(self: Any, *arguments: Any) -> Any:
        if not failed:
            failed.append(True)
            raise InternalError("the machine code cannot be linked")
        return load(self, *arguments)

    monkeypatch.setattr(BackendHandle, "load", refuses_once)
    forget()
    assert doubled(compiled(scaled(2.0))) == 2 and failed


def test_the_versions_of_compiler_and_tools_belong_to_the_key(
    folder: Path, forget: Forget, steps: Any, monkeypatch: pytest.MonkeyPatch, scaled: Any
) -> None:
    compiled(scaled(2.0))
    steps.taken  # noqa: B018
    changes = {"installed_version": lambda _name: "99", "source_digest": lambda name, _store: f"other {name}", "__version__": "99.0"}
    for name, value in changes.items():
        with monkeypatch.context() as patch:
            patch.setattr(keys, name, value)
            forget()
            compiled(scaled(2.0))
            assert steps.taken[0] == 1, name
    monkeypatch.setattr(BackendHandle, "description", lambda self, ctx: "another machine")
    forget()
    compiled(scaled(2.0))
    assert steps.taken == (1, 1)


def test_who_makes_the_code_belongs_to_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    handle, target = registry().named("cpu"), Target(name="cpu")
    ctx = handle.context(target, CompileOptions())
    known = recall.conditions_of(handle, ctx)

    def other() -> str:
        recall._conditions.cache_clear()
        return recall.conditions_of(handle, ctx)

    assert other() == known
    for change in ({"value": "zellige_cpu.backend:another"}, {"name": "another"}, {"distribution": "another"}):
        with monkeypatch.context() as patched:
            patched.setattr(handle, "origin", replace(handle.origin, **change))
            assert other() != known, change
    with monkeypatch.context() as patched:
        patched.setattr(keys, "source_digest", lambda name, _: f"digest of {name}")
        before = other()
        patched.setattr(handle, "packages", (*handle.packages, "made_here"))
        assert other() != before
    with monkeypatch.context() as patched:
        patched.setattr(keys, "sys", SimpleNamespace(flags=SimpleNamespace(optimize=1), meta_path=[], path=[]))
        assert other() != known
    assert other() == known


def test_another_machine_has_another_description(monkeypatch: pytest.MonkeyPatch) -> None:
    from zellige_cpu import host

    handle = registry().named("cpu")
    here = host.running_host()
    ctx = handle.context(Target(name="cpu"), CompileOptions())
    known = handle.description(ctx)
    assert handle.description(ctx) == known
    changes: list[dict[str, Any]] = [
        {"cpu": "other"}, {"features": here.features | {"other"}}, {"cores": here.cores + 1}, {"triple": "aarch64-unknown-linux-gnu"},
        {"disabled": here.disabled | {"other"}}, {"memory_bytes": here.memory_bytes + 1},
    ]  # fmt: skip
    for change in changes:
        other = here._replace(**change)
        monkeypatch.setattr(host, "running_host", lambda other=other: other)
        assert handle.description(ctx) != known, change


def test_machines_that_differ_in_memory_alone_have_one_description(monkeypatch: pytest.MonkeyPatch) -> None:
    from zellige_cpu import host

    handle = registry().named("cpu")
    here = host.running_host()
    ctx = handle.context(Target(name="cpu"), CompileOptions())
    known = set()
    for gibibytes in (4, 5, 64):
        monkeypatch.setattr(host, "_memory_bytes", lambda size=gibibytes: here.cores * size << 30)
        other = host.make_host(here.triple, here.cpu, dict.fromkeys(here.features, True))
        monkeypatch.setattr(host, "running_host", lambda other=other: other)
        known.add(handle.description(ctx))
    assert len(known) == 1


def test_capabilities_stand_for_a_backend_without_a_description(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = registry().named("interp")
    ctx = handle.context(Target(name="interp"), CompileOptions())
    assert handle.description(ctx) == repr(ctx.capabilities)


def test_the_digest_of_a_packages_source_follows_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_backend"
    (package / "deep" / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").write_text("a = 1\n")
    (package / "deep" / "part.py").write_text("b = 1\n")
    (package / "deep" / "__pycache__" / "part.pyc").write_text("left out")
    monkeypatch.syspath_prepend(str(tmp_path))
    disk = DiskStore(tmp_path / "cache")
    far = 2**62
    monkeypatch.setattr(sources, "LOADED_NS", far)

    def digest() -> str:
        sources._digests.clear()
        return sources.source_digest("some_backend", disk)

    first = digest()
    assert digest() == first
    (package / "deep" / "__pycache__" / "part.pyc").write_text("changed")
    assert digest() == first
    (package / "deep" / "part.py").write_text("b = 2\n")
    assert digest() != first
    (package / "deep" / "part.py").write_text("b = 1\n")
    os.utime(package / "deep" / "part.py", (1, 1))
    assert digest() == first  # the same source installed at another time
    (package / "more.py").write_text("")
    assert digest() != first
    sources._digests.clear()
    assert sources.source_digest("no_such_package", disk) == "no_such_package"
    monkeypatch.setattr(sources, "LOADED_NS", 0)  # the files are younger than what runs
    assert digest() != digest()


def test_an_edited_place_is_the_one_that_is_named(folder: Path, steps: Any, tmp_path: Path) -> None:
    program = """
import zellige as zl, zellige.language as T, numpy as np
{padding}
@T.prim_func
def checked(A: T.Tensor((4,), "float32")):
    with T.Kernel(1) as _:
        for j in T.serial(4):
            T.device_assert(A[j] > 0, "positive")
zl.compile(checked, target="cpu")(np.zeros(4, np.float32))
"""
    places = []
    for padding in ("", "# one\n# two\n"):
        file = tmp_path / "program.py"
        file.write_text(program.format(padding=padding))
        done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, env=os.environ)
        assert "E620: assertion failed: positive" in done.stderr, done.stderr
        places.append(int(done.stderr.split("program.py:")[-1].split(":")[0]))
    assert places[1] == places[0] + 2
    assert len(entries(folder, "artifacts")) == 1


def test_a_cache_that_is_off_is_neither_asked_nor_filled(folder: Path, steps: Any, scaled: Any) -> None:
    zl.disable_cache()
    try:
        compiled(scaled(2.0))
        compiled(scaled(2.0))
    finally:
        zl.enable_cache()
    assert steps.taken == (2, 2) and not folder.exists()


def test_clear_cache_forgets_both_and_kernels_in_use_go_on(folder: Path, steps: Any, scaled: Any) -> None:
    kernel = compiled(scaled(2.0))
    zl.clear_cache()
    assert doubled(kernel) == 2
    assert sum(cache_statistics().entries.values()) == 0
    compiled(scaled(2.0))
    assert steps.taken == (2, 2)


def test_stages_are_written_even_when_the_kernel_is_kept(folder: Path, tmp_path: Path, steps: Any, scaled: Any) -> None:
    compiled(scaled(2.0))
    compiled(scaled(2.0), debug_root_path=tmp_path / "stages")
    assert steps.taken == (2, 1)
    assert len(list((tmp_path / "stages" / "scale").iterdir())) == 5


def test_a_kernel_with_wrong_ir_is_still_refused(folder: Path) -> None:
    from zellige.ir.parser import parse_kernel

    text = Path(__file__).parents[1].joinpath("ir", "refused", "signature.tile").read_text()
    with pytest.raises(zl.CompileError):
        compile_kernel(parse_kernel(text), "cpu")


def test_places_and_headers_survive_the_way_to_disk() -> None:
    emitted = Emitted(text="text ü", format="f", facts='{"a": 1}', spans=())
    artifact = artifacts.Artifact(kernel="k", target="t", binary="b", emitted=emitted, places=())
    assert artifacts.unpack_artifact(artifacts.pack_artifact(artifact)) == artifact
    binary = Binary(data=b"\0\1", format="object", assembly="asm", log="log")
    assert artifacts.unpack_binary(artifacts.pack_binary(binary)) == binary
    for data in (b"", b"\1\0\0\0", b"\2\0\0\0{}", b"\2\0\0\0[]", b"\xff\xff\xff\xff{}", b"\2\0\0\0nn"):
        with pytest.raises(artifacts.Unreadable):
            artifacts.unpack_artifact(data)
        with pytest.raises(artifacts.Unreadable):
            artifacts.unpack_binary(data)


def test_printing_kernels_work_from_disk(folder: Path, forget: Forget, steps: Any, capfd: pytest.CaptureFixture[str]) -> None:
    @T.prim_func
    def shown(A: T.Tensor((4,), "float32")):
        with T.Kernel(1) as _:
            T.print(A[1], msg="second")

    for expected in ((1, 1), (0, 0)):
        forget()
        zl.compile(shown, target="cpu")(np.arange(4, dtype=np.float32))
        assert steps.taken == expected
    first, second = capfd.readouterr().out.splitlines()
    assert first == second and "second" in first


COMPILER = """
import sys
import numpy as np
import zellige as zl, zellige.language as T

def kernel(n):
    @T.prim_func
    def scale(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1) as _:
            for j in T.Parallel(64):
                B[j] = A[j] * float(n)
    return zl.compile(scale, out_idx=-1, target="cpu")

for n in range(1, 5):
    assert kernel(n)(np.ones(64, np.float32))[0] == n
"""


def test_processes_that_compile_the_same_kernels_at_once_all_get_them(folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(COMPILER)
    started = [subprocess.Popen([sys.executable, "-W", "error", str(program)], stderr=subprocess.PIPE) for _ in range(5)]
    started[0].kill()
    for process in started:
        _, errors = process.communicate(timeout=120)
        assert process is started[0] or process.returncode == 0, errors.decode()
