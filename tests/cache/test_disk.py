"""The store on disk: what is kept comes back whole or not at all, whoever writes, dies or meddles."""

from __future__ import annotations

import hmac
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from zellige.cache import disk as store_module
from zellige.cache.disk import DiskStore
from zellige.diagnostics import ZelligeWarning
from zellige.options import options

KEY = "ab" * 32
OTHER = "cd" * 32


def path_of(folder: Path, kind: str = "binaries", key: str = KEY) -> Path:
    return folder / "v1" / kind / key[:2] / key


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * 4096])
def test_what_is_kept_comes_back_in_another_store(tmp_path: Path, content: bytes) -> None:
    DiskStore(tmp_path).keep("binaries", KEY, content)
    assert DiskStore(tmp_path).find("binaries", KEY) == content
    assert DiskStore(tmp_path).find("binaries", OTHER) is None
    assert DiskStore(tmp_path).find("artifacts", KEY) is None


@pytest.mark.parametrize("kind, key", [("binaries", "../secret"), ("binaries", KEY[:-1]), ("binaries", KEY.upper()), ("..", KEY)])
def test_a_name_that_is_none_is_refused(tmp_path: Path, kind: str, key: str) -> None:
    with pytest.raises(ValueError, match="names no entry"):
        DiskStore(tmp_path).find(kind, key)
    with pytest.raises(ValueError, match="names no entry"):
        DiskStore(tmp_path).keep(kind, key, b"")


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    store.keep("binaries", KEY, b"machine code")
    path = path_of(tmp_path)
    whole = path.read_bytes()
    broken = [whole[:n] for n in range(len(whole))] + [whole + b"\0"]
    broken += [whole[:i] + bytes([whole[i] ^ bit]) + whole[i + 1 :] for i in range(len(whole)) for bit in (1, 128)]
    for data in broken:
        path.write_bytes(data)
        assert store.find("binaries", KEY) is None
        assert not path.exists()
    store.keep("binaries", KEY, b"machine code")
    assert store.find("binaries", KEY) == b"machine code"


def test_an_entry_put_in_the_place_of_another_is_refused(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    for kind, key in (("binaries", KEY), ("binaries", OTHER), ("artifacts", OTHER)):
        store.keep(kind, key, f"{kind} {key}".encode())
    good = path_of(tmp_path, key=OTHER).read_bytes()
    path_of(tmp_path).write_bytes(good)
    assert store.find("binaries", KEY) is None
    path_of(tmp_path, "artifacts", OTHER).write_bytes(good)
    assert store.find("artifacts", OTHER) is None
    assert store.find("binaries", OTHER) is not None


def test_a_forger_without_the_secret_is_not_believed(tmp_path: Path) -> None:
    ours, theirs = DiskStore(tmp_path / "ours"), DiskStore(tmp_path / "theirs")
    ours.keep("binaries", KEY, b"good")
    theirs.keep("binaries", KEY, b"evil")
    path_of(tmp_path / "ours").write_bytes(path_of(tmp_path / "theirs").read_bytes())
    assert DiskStore(tmp_path / "ours").find("binaries", KEY) is None


def test_a_link_in_the_place_of_an_entry_is_not_followed(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "a")
    store.keep("binaries", KEY, b"good")
    path = path_of(tmp_path / "a")
    moved = tmp_path / "moved"
    path.rename(moved)
    path.symlink_to(moved)
    assert store.find("binaries", KEY) is None


@pytest.mark.parametrize("damage", ["missing", "short", "public", "link"])
def test_a_secret_that_is_damaged_is_made_anew_and_old_entries_are_gone(tmp_path: Path, damage: str) -> None:
    DiskStore(tmp_path).keep("binaries", KEY, b"good")
    secret = tmp_path / "v1" / "secret"
    data = secret.read_bytes()
    assert secret.stat().st_mode & 0o777 == 0o600 and len(data) == 32
    match damage:
        case "missing":
            secret.unlink()
        case "short":
            secret.write_bytes(data[:-1])
        case "public":
            secret.chmod(0o644)
        case "link":
            secret.rename(tmp_path / "elsewhere")
            secret.symlink_to(tmp_path / "elsewhere")
    store = DiskStore(tmp_path)
    assert store.find("binaries", KEY) is None
    store.keep("binaries", KEY, b"new")
    assert DiskStore(tmp_path).find("binaries", KEY) == b"new"
    assert secret.read_bytes() != data and secret.stat().st_mode & 0o777 == 0o600 and not secret.is_symlink()


def test_a_cache_of_another_user_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DiskStore(tmp_path).keep("binaries", KEY, b"theirs")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    store = DiskStore(tmp_path)
    with pytest.warns(ZelligeWarning, match="E744: the cache .* its secret belongs to another user"):
        assert store.find("binaries", KEY) is None
    store.keep("binaries", KEY, b"ours")
    monkeypatch.undo()
    assert DiskStore(tmp_path).find("binaries", KEY) == b"theirs"


def unwritable(folder: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    if how == "file":
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text("no folder")
    else:

        def full(*_arguments: Any, **_named: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", full)


@pytest.mark.parametrize("how", ["file", "full"])
def test_a_folder_that_cannot_be_written_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    folder = tmp_path / "cache"
    unwritable(folder, monkeypatch, how)
    store = DiskStore(folder)
    with pytest.warns(ZelligeWarning, match="E744: the cache .* cannot be written"):
        store.keep("binaries", KEY, b"x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.keep("binaries", OTHER, b"y")
    assert store.find("binaries", KEY) is None
    if how == "full":
        assert not [path for path in folder.rglob("*") if path.is_file()]


def test_a_folder_that_cannot_be_written_is_still_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DiskStore(tmp_path).keep("binaries", KEY, b"x")
    unwritable(tmp_path, monkeypatch, "full")
    monkeypatch.setattr(os, "utime", lambda *_a: (_ for _ in ()).throw(OSError(30, "read-only")))
    store = DiskStore(tmp_path)
    with pytest.warns(ZelligeWarning, match="E744"):
        store.keep("binaries", OTHER, b"y")
    assert store.find("binaries", KEY) == b"x"


def test_the_entries_not_used_for_longest_go_first(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, limit_bytes=10_000)
    keys = [f"{n:064x}" for n in range(12)]
    for place, key in enumerate(keys[:9]):
        store.keep("binaries", key, bytes(1000))
        os.utime(path_of(tmp_path, key=key), (place, place))
    assert store.find("binaries", keys[0]) is not None  # used now: the youngest
    for key in keys[9:]:
        store.keep("binaries", key, bytes(1000))
    left = {key for _, key in store.entries()}
    assert keys[0] in left and keys[1] not in left and set(keys[9:]) <= left
    assert sum(DiskStore(tmp_path).statistics().bytes.values()) <= 10_000


def test_an_entry_above_the_limit_is_not_kept(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, limit_bytes=1000)
    store.keep("binaries", KEY, bytes(2000))
    assert store.find("binaries", KEY) is None


def test_other_processes_count_towards_the_limit(tmp_path: Path) -> None:
    one, two = DiskStore(tmp_path, limit_bytes=20_000), DiskStore(tmp_path, limit_bytes=20_000)
    for n in range(60):
        (one if n % 2 else two).keep("binaries", f"{n:064x}", bytes(1000))
    assert sum(one.statistics().bytes.values()) <= 20_000


def test_a_store_does_not_ask_for_every_entry_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DiskStore(tmp_path).keep("binaries", KEY, bytes(10))
    monkeypatch.setattr(DiskStore, "_files", lambda _self: pytest.fail("the entries were counted"))
    DiskStore(tmp_path).keep("binaries", OTHER, bytes(10))


@pytest.mark.parametrize("note", [b"", b"x", b"10", b"-5 1", b"9" * 30, b"0 99999999999", b"0 1\n", b"1 " * 600], ids=repr)
def test_a_damaged_or_old_note_of_what_is_filled_is_made_anew(tmp_path: Path, note: bytes) -> None:
    store = DiskStore(tmp_path, limit_bytes=10_000)
    for n in range(9):
        store.keep("binaries", f"{n:064x}", bytes(1000))
    (tmp_path / "v1" / "filled").write_bytes(note)
    for n in range(9, 12):
        store.keep("binaries", f"{n:064x}", bytes(1000))
    assert 5_000 < sum(store.statistics().bytes.values()) <= 10_000


def test_a_note_of_what_is_filled_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    store.keep("binaries", KEY, bytes(10))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes((tmp_path / "v1" / "filled").read_bytes())
    before = elsewhere.read_bytes()
    (tmp_path / "v1" / "filled").unlink()
    (tmp_path / "v1" / "filled").symlink_to(elsewhere)
    store.keep("binaries", OTHER, bytes(10))
    assert elsewhere.read_bytes() == before and not (tmp_path / "v1" / "filled").is_symlink()


def test_strays_of_killed_writers_go_when_they_are_old(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, limit_bytes=10_000)
    store.keep("binaries", KEY, bytes(10))
    folder = path_of(tmp_path).parent
    old, young = folder / ".writing-1-old", folder / ".writing-1-young"
    for stray in (old, young):
        stray.write_bytes(bytes(10))
    os.utime(old, (1, 1))
    (tmp_path / "v1" / "filled").write_bytes(b"10 1\n")  # counted long ago
    DiskStore(tmp_path, limit_bytes=10_000).keep("binaries", OTHER, bytes(10))
    assert not old.exists() and young.exists()
    assert {key for _, key in store.entries()} == {KEY, OTHER}


def test_statistics_and_clear(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    store.keep("binaries", KEY, bytes(100))
    store.keep("artifacts", KEY, bytes(50))
    assert [store.find("artifacts", key) is None for key in (KEY, OTHER)] == [False, True]
    found = store.statistics()
    assert found.entries == {"artifacts": 1, "binaries": 1, "sources": 0, "remarks": 0, "traces": 0, "starts": 0}
    assert found.bytes["binaries"] > 100 > found.bytes["artifacts"] > 50
    assert (found.found, found.missed) == (1, 1)
    (tmp_path / "tuning").mkdir()
    (tmp_path / "tuning" / "x.jsonl").write_text("{}")
    assert store.clear() == 3
    assert list(store.entries()) == [] and not list((tmp_path / "tuning").iterdir())


def test_threads_share_a_store(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    wrong: list[object] = []

    def work(number: int) -> None:
        for n in range(40):
            key = f"{n % 10:064x}"
            store.keep("binaries", key, key.encode())
            found = store.find("binaries", key)
            if found != key.encode():
                wrong.append((number, key, found))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


WRITER = """
import os, random, sys
from pathlib import Path
from zellige.cache.disk import DiskStore
folder, seed, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
import time
random.seed(seed)
store = DiskStore(folder, limit_bytes=400_000)
end = time.monotonic() + seconds
wrong = 0
while time.monotonic() < end:
    n = random.randrange(40)
    key = f"{n:064x}"
    expected = key.encode() * random.Random(n).randrange(1, 400)
    if random.random() < 0.5:
        store.keep("binaries", key, expected)
    else:
        found = store.find("binaries", key)
        wrong += found is not None and found != expected
sys.exit(1 if wrong else 0)
"""


def test_sixteen_processes_with_kills_in_the_middle(tmp_path: Path) -> None:
    seconds = 3.0
    started = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", WRITER, str(tmp_path), str(n), str(seconds)], stderr=subprocess.PIPE)
        for n in range(16)
    ]
    deadline = time.monotonic() + 20
    while not (tmp_path / "v1" / "binaries").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    for n, victim in enumerate(started[:8]):
        time.sleep(0.07 + 0.013 * n)
        victim.send_signal(signal.SIGKILL)
    for process in started[:8]:
        process.communicate()
    for process in started[8:]:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()
    store = DiskStore(tmp_path)
    kept = list(store.entries())
    assert kept and all(store.find(kind, key) is not None for kind, key in kept)


@pytest.mark.parametrize(
    "text, size",
    [("1024", 1024), ("512K", 512 << 10), ("5 M", 5 << 20), ("2GiB", 2 << 30), ("1tb", 1 << 40), ("-1", None), ("many", None)],
)
def test_the_limit_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch, text: str, size: int | None) -> None:
    from zellige.options import Options

    if size is None:
        with pytest.raises(Exception, match="E741: ZELLIGE_CACHE_SIZE"):
            Options.from_environment({"ZELLIGE_CACHE_SIZE": text})
    else:
        assert Options.from_environment({"ZELLIGE_CACHE_SIZE": text}).cache_size == size


def test_the_store_of_the_process_follows_its_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store_module.store().folder == folder
    monkeypatch.setenv("ZELLIGE_CACHE_DIR", str(folder / "other"))
    options.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store_module.store().folder == folder / "other"


@pytest.mark.parametrize("length", [0, 1, 55, 56, 64, 1000])
def test_a_proof_is_the_hmac_of_kind_key_and_content(length: int) -> None:
    """As OpenSSL makes it by name: RFC 2104 with SHA-256."""
    secret, content = b"s" * 32, bytes(range(256)) * 4
    text = f"starts/{'a' * 64}\n".encode() + content[:length]
    assert store_module._proof(secret, "starts", "a" * 64, content[:length]) == hmac.digest(secret, text, "sha256")
