"""Instructions executed by a device and by their specifications, on the same registers and memory: what no table can get wrong twice.

Runs where a driver and a device of the family are; elsewhere the tests are skipped and say so. Kernels are PTX text made here from the
specification's layouts: each thread loads its registers, one instruction runs, each thread stores its results.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from zellige.layouts import reordered
from zellige_intrinsics import Copy, Pointers, Product, intrinsic, run, scatter
from zellige_intrinsics.nvidia import warpgroup_product
from zellige_intrinsics.nvidia_fragments import SharedDescriptor, k_major, row_major_of_128

pytestmark = pytest.mark.slow

PTX_TYPES = {
    "float16": "f16",
    "bfloat16": "bf16",
    "tfloat32": "tf32",
    "float32": "f32",
    "float64": "f64",
    "int8": "s8",
    "uint8": "u8",
    "int32": "s32",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}


class Driver:
    """The few calls of the driver that launch a kernel of text."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} gives {status}")

    def launch(self, text: str, threads: int, inputs: list[np.ndarray], result: np.ndarray) -> np.ndarray:
        """Run the kernel ``main`` with the arrays' addresses, the result's last; the result afterwards."""
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(5, 6)  # error log and its size
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), 8192)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        status = self.library.cuModuleLoadDataEx(ctypes.byref(module), text.encode() + b"\0", 2, options, values)
        assert status == 0, log.value.decode() + text
        self._call("cuModuleGetFunction", ctypes.byref(function), module, b"main")
        addresses = []
        for array in (*inputs, result):
            address = ctypes.c_uint64()
            self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(array.nbytes, 16)))
            data = np.ascontiguousarray(array).ctypes.data_as(ctypes.c_void_p)
            self._call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(array.nbytes))
            addresses.append(address)
        arguments = (ctypes.c_void_p * len(addresses))(*(ctypes.addressof(address) for address in addresses))
        self._call("cuLaunchKernel", function, 1, 1, 1, threads, 1, 1, 0, None, arguments, None)
        self._call("cuCtxSynchronize")
        after = np.zeros_like(np.ascontiguousarray(result))
        self._call("cuMemcpyDtoH_v2", after.ctypes.data_as(ctypes.c_void_p), addresses[-1], ctypes.c_size_t(after.nbytes))
        for address in addresses:
            self._call("cuMemFree_v2", address)
        self._call("cuModuleUnload", module)
        return after


@cache
def driver() -> Driver:
    try:
        return Driver()
    except (OSError, RuntimeError) as error:
        pytest.skip(f"no device that runs PTX: {error}")


def words_of(held: np.ndarray) -> np.ndarray:
    """Registers of elements as words of 32 (or 64) bits: [word, thread]."""
    registers = held.reshape(held.shape[0], held.shape[1], -1).transpose(0, 2, 1).reshape(held.shape[0], -1)  # thread = 32 warp + lane
    if held.dtype.itemsize == 8:
        return registers.view(np.uint64)
    each = 4 // held.dtype.itemsize
    grouped = np.ascontiguousarray(registers.reshape(-1, each, registers.shape[1]).transpose(0, 2, 1))
    return grouped.view(np.uint32).reshape(-1, registers.shape[1])


def elements_of(words: np.ndarray, like: np.ndarray) -> np.ndarray:
    """The inverse of :func:`words_of`."""
    threads = words.shape[1]
    if like.dtype.itemsize == 8:
        registers = words.view(like.dtype)
    else:
        each = 4 // like.dtype.itemsize
        registers = np.ascontiguousarray(words).view(like.dtype).reshape(-1, threads, each).transpose(0, 2, 1).reshape(-1, threads)
    return registers.reshape(like.shape[0], -1, like.shape[1]).transpose(0, 2, 1).reshape(like.shape)


def numbers(operand, variant: int, seed: int) -> np.ndarray:
    element = operand.element(variant if len(operand.types) > 1 else 0).numpy
    low = 0 if np.issubdtype(element, np.unsignedinteger) else -3
    return np.random.default_rng(seed).integers(low, 4, tuple(operand.sizes.values())).astype(np.float64).astype(element)


def held_by(operand, whole: np.ndarray) -> np.ndarray:
    sizes = operand.layout.output_sizes if operand.holder == "memory" else operand.layout.input_sizes
    return scatter(operand, whole, np.zeros(tuple(sizes.values()), whole.dtype))


def kernel(body: str, declarations: str, parameters: int) -> str:
    listed = ", ".join(f".param .u64 p{n}" for n in range(parameters))
    loads = "".join(f"ld.param.u64 %g{n}, [p{n}]; add.u64 %t{n}, %g{n}, %at;\n" for n in range(parameters))
    registers = ".reg .b32 %x; .reg .b64 %at, %g<9>, %t<9>, %d<9>; .reg .pred %p;"
    begin = f".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry main({listed}) {{\n{registers}\n{declarations}\n"
    return begin + f"mov.u32 %x, %tid.x; mul.wide.u32 %at, %x, 4;\n{loads}{body}\nret;\n}}\n"


def moves(kind: str, name: str, pointer: int, count: int, threads: int, width: int) -> str:
    """Loads or stores of a thread's words."""
    lines = []
    for word in range(count):
        place = f"[%t{pointer}+{word * threads * width}]"
        sides = f"%{name}{word}, {place}" if kind == "ld" else f"{place}, %{name}{word}"
        lines.append(f"{kind}.global.b{8 * width} {sides};")
    return "\n".join(lines)


def listed(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{n}" for n in range(count)) + "}"


PRODUCTS = [
    (name, variant)
    for name, variants in [
        ("mma.sync.aligned.m16n8k16.row.col", 3),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 1),
        ("mma.sync.aligned.m16n8k32.row.col.s32", 4),
        ("mma.sync.aligned.m16n8k32.row.col.f32.f8", 4),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 1),
        ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 1),
        ("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", 1),
        ("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 1),
        ("mma.sync.aligned.m16n8k16.row.col.s32", 4),
    ]
    for variant in range(variants)
]


@pytest.mark.parametrize(("name", "variant"), PRODUCTS)
def test_products_of_a_warp(name: str, variant: int) -> None:
    machine = driver()
    value = intrinsic(name)
    assert isinstance(value, Product)
    held = {operand.name: held_by(operand, numbers(operand, variant, seed)) for seed, operand in enumerate(value.operands)}
    expected = run(value, held)["d"]
    words = {key: words_of(array) for key, array in held.items()}
    width = words["a"].dtype.itemsize
    names = [PTX_TYPES[str(value.operand(key).element(variant if value.variants > 1 else 0))] for key in ("d", "a", "b", "c")]
    shape = f"m{value.m}n{value.n}k{value.k}"
    spelling = f"mma.sync.aligned.{shape}.row.col.{'.'.join(names)}"
    counts = {key: len(words[key]) for key in "abcd"}
    declarations = "".join(f".reg .b{8 * width} %{key}<{counts[key]}>;" for key in "abc") + f" .reg .b{8 * width} %e<{counts['d']}>;"
    text = "".join(moves("ld", key, n, counts[key], 32, width) for n, key in enumerate("abc"))
    text += f"\n{spelling} {listed('e', counts['d'])}, {', '.join(listed(key, counts[key]) for key in 'abc')};\n"
    text += moves("st", "e", 3, counts["d"], 32, width)
    source = kernel(text, declarations, 4).replace("mul.wide.u32 %at, %x, 4", f"mul.wide.u32 %at, %x, {width}")
    after = machine.launch(source, 32, [words["a"], words["b"], words["c"]], np.zeros_like(words["d"]))
    np.testing.assert_array_equal(elements_of(after, expected).astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("is_load", [True, False])
def test_matrix_loads_and_stores(count: int, transposed: bool, is_load: bool) -> None:
    machine = driver()
    ending = f"x{count}{'.trans' if transposed else ''}.shared.b16"
    value = intrinsic(f"{'ldmatrix' if is_load else 'stmatrix'}.sync.aligned.m8n8.{ending}")
    assert isinstance(value, Copy)
    addresses = np.random.default_rng(count).permutation(32)[np.arange(32) % (8 * count)] * 8
    memory = np.arange(256, dtype=np.uint16) + 1
    pointers = Pointers(memory=memory if is_load else np.zeros_like(memory), addresses=addresses)
    fragment = np.random.default_rng(5).permutation(2 * count * 32).astype(np.uint16).reshape(2 * count, 32)
    fill = "".join(f"ld.global.b32 %v, [%t0+{128 * n}]; st.shared.b32 [%s+{128 * n}], %v;\n" for n in range(4))
    begin = f"mov.u32 %s, image; shl.b32 %v, %x, 2; add.u32 %s, %s, %v;\n{fill}bar.sync 0;\n"
    begin += "ld.global.b32 %q, [%t1]; mov.u32 %v, image; add.u32 %q, %q, %v;\n"
    shared = ".shared .align 16 .b8 image[512]; .reg .b32 %s, %q, %v, %a<4>;"
    words = words_of(fragment)
    if is_load:
        expected = words_of(run(value, {"source": pointers, "destination": np.zeros_like(fragment)})["destination"])
        text = begin + f"ldmatrix.sync.aligned.m8n8.{ending} {listed('a', count)}, [%q];\n" + moves("st", "a", 3, count, 32, 4)
        result = np.zeros_like(words)
    else:
        expected = run(value, {"source": fragment, "destination": pointers})["destination"].memory.view(np.uint32)
        text = begin + moves("ld", "a", 2, count, 32, 4)
        text += f"\nstmatrix.sync.aligned.m8n8.{ending} [%q], {listed('a', count)};\nbar.sync 0;\n"
        text += "".join(f"ld.shared.b32 %v, [%s+{128 * n}]; st.global.b32 [%t3+{128 * n}], %v;\n" for n in range(4))
        result = np.zeros(128, np.uint32)
    after = machine.launch(kernel(text, shared, 4), 32, [pointers.memory, (2 * addresses).astype(np.uint32), words], result)
    np.testing.assert_array_equal(after, expected)


def image_into_shared(name: str, pointer: int, size: int) -> str:
    """Copy ``size`` bytes (a multiple of 512) from global memory into a shared array, 4 bytes a thread and step."""
    lines = [f"mov.u32 %s, {name}; shl.b32 %v, %x, 2; add.u32 %s, %s, %v;"]
    lines += [f"ld.global.b32 %v, [%t{pointer}+{step}]; st.shared.b32 [%s+{step}], %v;" for step in range(0, size, 512)]
    return "\n".join(lines) + "\n"


def descriptor(register: str, name: str, word: int) -> str:
    """A descriptor of a shared array: the constant parts and its address in units of 16 bytes."""
    return f"mov.u32 %v, {name}; shr.u32 %v, %v, 4; cvt.u64.u32 {register}, %v; or.b64 {register}, {register}, {word};\n"


def padded_image(memory: np.ndarray) -> np.ndarray:
    raw = np.ascontiguousarray(memory).view(np.uint8)
    return np.concatenate([raw, np.zeros(-len(raw) % 512, np.uint8)])


def run_warpgroup(value: Product, variant: int, words: tuple[int | None, int], flags: str) -> None:
    """One warpgroup product on the device against its specification; ``words`` are the descriptors of a (None: registers) and b."""
    machine = driver()
    held = {operand.name: held_by(operand, numbers(operand, variant, seed)) for seed, operand in enumerate(value.operands)}
    expected = run(value, held)["d"]
    names = [PTX_TYPES[str(value.operand(key).element(variant))] for key in ("d", "a", "b")]
    image_b, sums = padded_image(held["b"]), words_of(held["c"])
    count = len(sums)
    declarations = f".reg .b32 %s, %v, %e<{count}>, %a<4>; .shared .align 1024 .b8 right[{len(image_b)}];"
    text = moves("ld", "e", 2, count, 128, 4) + "\n" + image_into_shared("right", 1, len(image_b)) + descriptor("%d1", "right", words[1])
    if words[0] is None:
        first = words_of(held["a"])
        text += moves("ld", "a", 0, 4, 128, 4) + "\n"
        left = listed("a", 4)
    else:
        first = padded_image(held["a"])
        declarations += f" .shared .align 1024 .b8 left[{len(first)}];"
        text += image_into_shared("left", 0, len(first)) + descriptor("%d0", "left", words[0])
        left = "%d0"
    text += "fence.proxy.async; bar.sync 0; setp.eq.u32 %p, 0, 0; wgmma.fence.sync.aligned;\n"
    shape = f"m{value.m}n{value.n}k{value.k}"
    text += f"wgmma.mma_async.sync.aligned.{shape}.{'.'.join(names)} {listed('e', count)}, {left}, %d1, %p, 1, 1{flags};\n"
    text += "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n" + moves("st", "e", 3, count, 128, 4)
    after = machine.launch(kernel(text, declarations, 4), 128, [first, image_b, sums], np.zeros_like(sums))
    np.testing.assert_array_equal(elements_of(after, expected).astype(np.float64), expected.astype(np.float64))


def word(operand, swizzle: int) -> int:
    return SharedDescriptor(address=0, leading=operand.leading, stride=operand.stride, swizzle=swizzle).encode()


@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize(("bits", "variant"), [(16, 0), (16, 1), (8, 0), (8, 3)])
@pytest.mark.parametrize("columns", [8, 80, 112, 256])
def test_products_of_a_warpgroup(columns: int, bits: int, variant: int, swizzle: int, in_registers: bool) -> None:
    value = warpgroup_product(columns, bits=bits, a_in_registers=in_registers, swizzle=swizzle)
    a, b = k_major(("m", 64), value.k, bits, swizzle), k_major(("n", columns), value.k, bits, swizzle)
    flags = "" if bits == 8 else ", 0" if in_registers else ", 0, 0"
    run_warpgroup(value, variant, (None if in_registers else word(a, swizzle), word(b, swizzle)), flags)


@pytest.mark.parametrize("columns", [64, 128, 256])
def test_an_operand_that_is_contiguous_along_its_columns(columns: int) -> None:
    """B with n contiguous: the descriptor of :func:`row_major_of_128`, the instruction's transposed form."""
    plain = warpgroup_product(columns, a_in_registers=True)
    b = row_major_of_128(("n", columns), 16, 16)
    operand = replace(plain.operand("b"), layout=reordered(b.layout, ["k", "n"], ["offset"]))
    value = replace(plain, operands=tuple(operand if o.name == "b" else o for o in plain.operands))
    run_warpgroup(value, 1, (None, word(b, 128)), ", 1")


def test_without_a_device_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    driver.cache_clear()
    with pytest.raises(pytest.skip.Exception, match="no device that runs PTX"):
        driver()
    driver.cache_clear()
