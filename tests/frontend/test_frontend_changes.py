"""Python's own objects under run-time control: what would happen once for all iterations is E119, what belongs to the body works."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige as zl
from zellige.diagnostics import CompileError

PROGRAM = '''
import collections, contextvars, fractions, functools, itertools, operator, types, weakref
import numpy as np
import zelligefoo
import zellige.language as T

class Plain:
    v = 1

class Counter:
    def __init__(self):
        self.items, self.n = [], 0
    def next(self):
        self.n += 1
        return self.n
    def push(self, x):
        self.items.append(x)
    @functools.cached_property
    def size(self):
        return 3
    def sized(self):
        return self.size

class Slotted:
    __slots__ = ("v",)

seen = []
total = 0

def push(values):
    values.append(3)
def push_global():
    seen.append(1)
def count_global():
    global total
    total += 1
    return total
def count_in_class():
    Plain.v += 1
def first(values):
    return values[0]
fraction = fractions.Fraction(5)
def first_of(x):
    return x
def hash_of(number):
    return hash(number)
@functools.cache
def lookup(n):
    return n
def set_slot(holder):
    holder.v = 2

class Private:
    __slots__ = ("__hidden",)
    def __init__(self):
        self.__hidden = 1
    def count(self):
        self.__hidden += 1
        return self.__hidden

class Shared:
    items = []
    def push(self, x):
        self.items.append(x)

class Property:
    @property
    def counted(self):
        seen.append(1)
        return 1
    @property
    def fresh(self):
        return [1]
    def __len__(self):
        seen.append(1)
        return 1

class Resets:
    def reset(self):
        self.items = []
    def push(self, x):
        self.items.append(x)
        return len(self.items)

def key_of(x):
    seen.append(x)
    return x
def nested_change():
    (lambda: seen.append(1))()
def change_in_comprehension():
    [seen.append(x) for x in (1, 2)]
def count_in_module():
    zelligefoo.count += 1
def bump_module():
    zelligefoo.bump()
def count_by_text():
    setattr(zelligefoo, "count", 7)
def count_imported():
    import zelligefoo as other
    other.count += 1
def count_in(module):
    module.count += 1
def with_default(x, kept=[]):
    kept.append(x)
def generated(values):
    for x in values:
        seen.append(x)
        yield x
def twice(values):
    it = iter(values)
    for x in it:
        yield x
@functools.cache
def kept_list():
    return [1]
def kept_behind():
    return kept_list()
kept_list()
context = contextvars.ContextVar("context")
context.set([1])
reference = weakref.ref(Plain)
vectorized = np.vectorize(key_of)
large = np.zeros((1 << 26) + 8, np.int8)
def change_large():
    large[-1] += 1
def make_lists(counts):
    counts.default_factory = list

def make():
    held = []
    def push_held():
        held.append(1)
    @T.prim_func
    def kernel(D: T.Tensor((9,), "int32"), n: T.int32):
        with T.Kernel(1):
            h = Plain(); values = [1, 2]; nested = [[1]]; array = np.zeros(3, int); queue = collections.deque([5, 6])
            it = itertools.count(); listed = iter([1, 2]); d = {"a": 1}; ordered = collections.OrderedDict(a=1, b=2)
            c = Counter(); slotted = Slotted(); slotted.v = 1; byte = bytearray(2); space = types.SimpleNamespace(v=1)
            private = Private(); shared = Shared(); prop = Property(); factory = collections.defaultdict(int)
            HEAD
                BODY
    return kernel
'''


FOREIGN = """
count = 0
items = []
def bump():
    global count
    count += 1
    return count
class Kept:
    def __init__(self):
        self.n = 0
    def next(self):
        self.n += 1
        return self.n
"""


@pytest.fixture(autouse=True)
def _a_package_that_begins_as_ours_does(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("zelligefoo")
    exec(FOREIGN, module.__dict__)
    monkeypatch.setitem(sys.modules, "zelligefoo", module)


def made(tmp_path: Path, body: str, head: str = "for j in T.serial(n):") -> Any:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace("HEAD", head).replace("BODY", body.replace("; ", "\n                ")))
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make()


CHANGES = [
    'setattr(h, "v", 2)', "list.append(values, 4)", "push(values)", "push(nested[0])", "array += 5", "array.fill(5)",
    "np.add(array, 1, out=array)", "queue.rotate(1)", "queue.popleft()", 'ordered.move_to_end("a")', "next(it)", "D[j] = next(it)",
    'operator.setitem(d, "a", 2)', "c.next()", "c.push(3)", "push_global()", "count_global()", "push_held()", "count_in_class()",
    "set_slot(slotted)", "nested[0] += [1]", "c.items += [1]", "a, b = listed", "z = [x for x in listed]", "z = sum(listed)",
    "z = max(listed)", "z = list(zip(listed, [1]))", "print(*listed)", "byte.extend(b'x')",
    "functools.partial(push, values)()", "z = c.next; z()",
    "set_slot(space)",
    "z = getattr(c, 'items'); z.append(3)", "z = operator.attrgetter('items')(c); z.append(3)", "z = d.get('b', values); z.append(3)",
    "z = sorted(values, key=key_of)", "z = list(map(key_of, values))", "z = max(values, key=key_of)", "z = any(map(key_of, values))",
    "z = getattr(prop, 'counted')", "z = len(prop)", "z = list(generated(values))", "z = zelligefoo.bump()", "count_in_module()",
    "bump_module()", "count_by_text()", "count_imported()", "count_in(zelligefoo)", "nested_change()", "change_in_comprehension()",
    "private.count()", "shared.push(3)", "with_default(3)", "change_large()", "z = kept_list(); z.append(3)",
    "z = kept_behind(); z.append(3)",
    "z = context.get(); z.append(3)", "vectorized(values)", "z = array.reshape(-1); z += 1", "z = memoryview(byte); z[0] = 1",
    "z = np.asarray(array); z += 1", "z = collections.ChainMap(d, {}).maps; push(z)", "z = max(nested); z.append(3)",
    "make_lists(factory)",
]  # fmt: skip


@pytest.mark.parametrize("body", CHANGES)
@pytest.mark.parametrize("head", ["for j in T.serial(n):", "if n > 3:"])
def test_change_that_would_happen_once(tmp_path: Path, body: str, head: str) -> None:
    with pytest.raises(CompileError) as caught:
        made(tmp_path, body.replace("D[j]", "D[0]"), head)
    assert caught.value.code == "E119", str(caught.value)
    assert caught.value.span is not None and caught.value.span.source_line().strip() == body.split("; ")[-1].replace("D[j]", "D[0]")
    assert caught.value.diagnostics[0].hint


def test_loop_over_an_iterator_from_outside(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        made(tmp_path, "for x in listed: D[0] = x")
    assert caught.value.code == "E119"


def test_attribute_of_a_class_through_setattr(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        made(tmp_path, 'setattr(Plain, "v", 2)')
    assert caught.value.code == "E130"


FINE = [
    ("D[j] += hash_of(fraction) + lookup(3)", 8),
    ("z = Counter(); z.push(4); z.n = 4; D[j] += z.n + z.next() + z.items[0]", 13),
    ("D[j] += first(values) + c.sized()", 4),
    ("z = itertools.count(); D[j] += 10 * next(z) + next(z)", 1),
    ("z = []; push(z); z.append(4); D[j] += z[0] + len(z)", 5),
    ("z = values + [7]; z.append(2); z += [1]; push(z); D[j] += len(z)", 6),
    ("z = sorted(values); z.append(1); D[j] += len(z)", 3),
    ("z = values[:]; z.append(1); D[j] += len(z) + len(values)", 5),
    ("z = values.copy(); z.append(1); D[j] += len(z) + len(values)", 5),
    ("z = dict(a=1); z.update(b=2); D[j] += len(z)", 2),
    ("z = np.zeros(3, int); z += 5; z[1] = 4; D[j] += int(z.sum())", 14),
    ("z = collections.deque([1, 2]); z.rotate(1); D[j] += z[0]", 2),
    ("D[j] += sum(x for x in values) + functools.partial(first, values)()", 4),
    ("z = Resets(); z.reset(); z.push(4); D[j] += z.push(5)", 2),
    ("z = twice(values); D[j] += next(z); D[j] += 10 * next(z)", 21),
    ("z = getattr(prop, 'fresh'); z.append(4); D[j] += len(z)", 2),
    ("z = sorted(values, key=first_of); z.append(1); D[j] += len(z)", 3),
    ("z = array.copy(); z += 1; D[j] += int(z[0]) + len(c.items)", 1),
    ("z = np.arange(4).reshape(2, 2); z += 1; D[j] += int(z.sum())", 10),
    ("D[j] += max(values, key=first_of) + len(list(map(first_of, values)))", 4),
    ("z = zelligefoo.Kept(); D[j] += z.next() + z.next()", 3),
    ("for x, y in zip(values, [10, 20]): D[j] += x * y", 50),
    ("D[j] += sum(map(first, [values, [4]])) + len(dict(zip(values, [3, 4])))", 7),
    ("D[j] += list(enumerate(values))[1][1] + sum(list(reversed(values))) + max(filter(None, values))", 7),
    ("D[j] += list(map(first, zip([values], [3])))[0][0]", 1),
]


@pytest.mark.parametrize(("body", "wanted"), FINE, ids=[body for body, _ in FINE])
def test_what_is_made_in_the_body_may_change(tmp_path: Path, body: str, wanted: int) -> None:
    kernel = made(tmp_path, body)
    for target in ("interp", "cpu"):
        D = np.zeros(9, np.int32)
        zl.compile(kernel, target=target)(D, 4)
        assert D.tolist() == [wanted] * 4 + [0] * 5, target


TENSORS = {
    "plain": "torch.zeros(4)",
    "bfloat16": "torch.zeros(4, dtype=torch.bfloat16)",
    "made in inference mode": "inferred()",
    "read for a gradient": "torch.zeros(4, requires_grad=True)",
}
TENSOR_HEAD = """
import torch
def inferred():
    with torch.inference_mode():
        return torch.zeros(4)
def fill(values):
    with torch.inference_mode() if values.is_inference() else torch.no_grad():
        values.fill_(2)
def fill_by_numpy(values):
    values.detach().view(torch.uint8).numpy()[:] = 1
def length(values):
    return len(values)
held_tensor = MADE
"""


@pytest.mark.parametrize("kind", TENSORS)
def test_tensors_are_compared_by_their_elements(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", PROGRAM.replace("class Plain:", TENSOR_HEAD + "\nclass Plain:", 1))
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", PROGRAM.replace("MADE", TENSORS[kind]))
    kernel = made(tmp_path, "D[j] += length(held_tensor)")
    for target in ("interp", "cpu"):
        D = np.zeros(9, np.int32)
        zl.compile(kernel, target=target)(D, 4)
        assert D.tolist() == [4] * 4 + [0] * 5, target
    for change in ("fill(held_tensor)", "fill_by_numpy(held_tensor)"):
        with pytest.raises(CompileError) as caught:
            made(tmp_path, change)
        assert caught.value.code == "E119", str(caught.value)


def test_a_view_of_a_tensor_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", PROGRAM.replace("class Plain:", TENSOR_HEAD + "\nclass Plain:", 1))
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", PROGRAM.replace("MADE", "torch.zeros(4)"))
    with pytest.raises(CompileError) as caught:
        made(tmp_path, "z = held_tensor.view(2, 2); z += 1")
    assert caught.value.code == "E119", str(caught.value)
    kernel = made(tmp_path, "z = held_tensor.clone(); z += 1; D[j] += int(z[0])")
    D = np.zeros(9, np.int32)
    zl.compile(kernel, target="interp")(D, 4)
    assert D.tolist() == [1] * 4 + [0] * 5
