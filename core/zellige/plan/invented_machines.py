"""Five machines that no one sells: the capability sets that plans are tested with.

In: nothing. Out: :data:`TEST_TARGETS`, by name: a CPU (``scalar_vector_cpu``); lanes with asynchronous copies, asynchronous products and
barriers that count bytes (``lanes_async``); lanes whose copies run beside them but whose parts cannot run programs of their own, and whose
products are waited for at once (``lanes_copies``); engines with queues and flags around one product of 16 x 16 x 16 (``queues_cube``); one
local memory with an asynchronous copy engine and no product unit (``local_only``). Between them they need every way of planning.
"""

from __future__ import annotations

from typing import Final

from zellige.dtypes import all_dtypes
from zellige.plugin.contract import Capabilities, CopyPath, Engine, MatmulUnit, RegisterFile, Space, Synchronisation

_KIB: Final = 1024
_NAMES: Final = tuple(t.name for t in all_dtypes())
_ARITHMETIC: Final = tuple(t.name for t in all_dtypes() if t.is_bool or t.is_integer or t.name in ("float32", "float64"))

SCALAR_VECTOR_CPU: Final = Capabilities(
    target="test:scalar_vector_cpu",
    lanes=32,
    are_lanes_emulated=True,
    threads=2,
    vector_bytes=64,
    cache_line_bytes=64,
    spaces=tuple(Space(name=name, alignment=64) for name in ("global", "shared", "fragment", "local", "var")),
    dtypes=_NAMES,
    compute_dtypes=_ARITHMETIC,
    matmul=(
        MatmulUnit(name="multiply-add", engine="vector", a="float32", b="float32", c="float32"),
        MatmulUnit(name="multiply-add", engine="vector", a="float64", b="float64", c="float64"),
        MatmulUnit(name="multiply-add", engine="vector", a="int32", b="int32", c="int32"),
        MatmulUnit(name="pair dot", engine="vector", a="bfloat16", b="bfloat16", c="float32", k=2, interleave=2),
        MatmulUnit(name="quad dot", engine="vector", a="uint8", b="int8", c="int32", k=4, interleave=4),
        MatmulUnit(name="quad dot", engine="vector", a="int8", b="int8", c="int32", k=4, interleave=4),
    ),
    engines=(Engine(name="vector", kind="vector"),),
    copies=(CopyPath(source="*", destination="*", mechanism="vector moves", engine="vector", fills_out_of_bounds=True),),
    registers=RegisterFile(vectors=32, vector_bytes=64),
    cache_bytes=(32 * _KIB, 1024 * _KIB, 16384 * _KIB),
)

LANES_ASYNC: Final = Capabilities(
    target="test:lanes_async",
    lanes=32,
    threads=132,
    vector_bytes=16,
    cache_line_bytes=128,
    spaces=(
        Space(name="global", role="global", alignment=16),
        Space(name="shared", role="shared", bytes=227 * _KIB, alignment=1024),
        Space(name="registers", role="register", bytes=256 * _KIB, alignment=4, engines=("lanes", "product")),
    ),
    dtypes=_NAMES,
    compute_dtypes=(*_ARITHMETIC, "float16", "bfloat16"),
    matmul=tuple(
        MatmulUnit(
            name="product", engine="product", a=operand, b=operand, c=result, m=64, n=8, k=k, shape="multiple", largest=(64, 256, k),
            a_spaces=("shared", "registers"), b_spaces=("shared",), c_space="registers", is_asynchronous=True,
        )
        for operand, result, k in (("float16", "float32", 16), ("bfloat16", "float32", 16), ("int8", "int32", 32), ("uint8", "int32", 32))
    ),
    engines=(
        Engine(name="lanes", kind="vector", count=4),
        Engine(name="product", kind="matmul", count=4, is_asynchronous=True),
        Engine(name="copier", kind="copy", is_asynchronous=True),
    ),
    copies=(
        CopyPath(
            source="global", destination="shared", mechanism="box copy", engine="copier", is_asynchronous=True, alignment=16,
            granule=16, fills_out_of_bounds=True, casts=False,
        ),
        CopyPath(
            source="shared", destination="global", mechanism="box copy", engine="copier", is_asynchronous=True, alignment=16, granule=16,
            fills_out_of_bounds=True, casts=False,
        ),
        CopyPath(source="*", destination="*", mechanism="lane moves", engine="lanes"),
    ),
    synchronisation=(
        Synchronisation(mechanism="byte-counting barrier", scope="block", count=64, counts_bytes=True),
        Synchronisation(mechanism="counted wait", scope="token"),
        Synchronisation(mechanism="barrier of some lanes", scope="turn", count=16),
    ),
    registers=RegisterFile(per_lane=255, per_block=65536, step=8),
    can_specialise_roles=True,
    block_lanes=1024,
)  # fmt: skip

LANES_COPIES: Final = Capabilities(
    target="test:lanes_copies",
    lanes=32,
    threads=108,
    vector_bytes=16,
    cache_line_bytes=128,
    spaces=(
        Space(name="global", role="global", alignment=16),
        Space(name="shared", role="shared", bytes=163 * _KIB, alignment=128),
        Space(name="registers", role="register", bytes=256 * _KIB, alignment=4, engines=("lanes", "product")),
    ),
    dtypes=_NAMES,
    compute_dtypes=(*_ARITHMETIC, "float16", "bfloat16"),
    matmul=tuple(
        MatmulUnit(
            name="product", engine="product", a=operand, b=operand, c=result, m=16, n=8, k=k,
            a_spaces=("shared", "registers"), b_spaces=("shared", "registers"), c_space="registers",
        )
        for operand, result, k in (("float16", "float32", 16), ("bfloat16", "float32", 16), ("int8", "int32", 32), ("uint8", "int32", 32))
    ),
    engines=(Engine(name="lanes", kind="vector", count=4), Engine(name="product", kind="matmul", count=4)),
    copies=(
        CopyPath(
            source="global", destination="shared", mechanism="lane copy group", engine="lanes", is_asynchronous=True, alignment=16,
            granule=16, fills_out_of_bounds=True, casts=False,
        ),
        CopyPath(source="*", destination="*", mechanism="lane moves", engine="lanes"),
    ),
    synchronisation=(Synchronisation(mechanism="counted groups", scope="token"), Synchronisation(mechanism="barrier", scope="block")),
    registers=RegisterFile(per_lane=255),
    block_lanes=1024,
)  # fmt: skip

QUEUES_CUBE: Final = Capabilities(
    target="test:queues_cube",
    threads=20,
    vector_bytes=256,
    cache_line_bytes=512,
    spaces=(
        Space(name="global", role="global", alignment=32),
        Space(name="staging", role="shared", bytes=512 * _KIB, alignment=32, engines=("load", "store", "cube", "vector")),
        Space(name="sums", role="accumulator", bytes=128 * _KIB, alignment=32, engines=("cube", "store")),
        Space(name="vectors", role="local", bytes=192 * _KIB, alignment=32, engines=("vector", "load", "store")),
    ),
    dtypes=_NAMES,
    compute_dtypes=(*_ARITHMETIC, "float16"),
    matmul=tuple(
        MatmulUnit(
            name="cube", engine="cube", a=operand, b=operand, c=result, m=16, n=16, k=k,
            a_spaces=("staging",), b_spaces=("staging",), c_space="sums",
        )
        for operand, result, k in (("float16", "float32", 16), ("bfloat16", "float32", 16), ("int8", "int32", 32))
    ),
    engines=(
        Engine(name="vector", kind="vector"),
        Engine(name="cube", kind="matmul", is_asynchronous=True),
        Engine(name="load", kind="copy", is_asynchronous=True),
        Engine(name="store", kind="copy", is_asynchronous=True),
    ),
    copies=(
        CopyPath(source="global", destination="staging", mechanism="load queue", engine="load", casts=False),
        CopyPath(source="global", destination="vectors", mechanism="load queue", engine="load", casts=False),
        CopyPath(source="vectors", destination="global", mechanism="store queue", engine="store", casts=False),
        CopyPath(source="staging", destination="global", mechanism="store queue", engine="store", casts=False),
        CopyPath(source="sums", destination="global", mechanism="store queue", engine="store"),
        CopyPath(source="sums", destination="vectors", mechanism="store queue", engine="store"),
        CopyPath(source="*", destination="*", mechanism="vector moves", engine="vector"),
    ),
    synchronisation=(Synchronisation(mechanism="flag pair", scope="block", count=64),),
    can_specialise_roles=True,
)  # fmt: skip

LOCAL_ONLY: Final = Capabilities(
    target="test:local_only",
    threads=8,
    vector_bytes=128,
    spaces=(
        Space(name="global", role="global", alignment=64),
        Space(name="local", role="local", bytes=512 * _KIB, alignment=64),
    ),
    dtypes=_NAMES,
    compute_dtypes=(*_ARITHMETIC, "float16", "bfloat16"),
    engines=(Engine(name="vector", kind="vector"), Engine(name="mover", kind="copy", is_asynchronous=True)),
    copies=(
        CopyPath(source="global", destination="local", mechanism="transfer", engine="mover", is_asynchronous=True, casts=False),
        CopyPath(source="local", destination="global", mechanism="transfer", engine="mover", is_asynchronous=True, casts=False),
        CopyPath(source="*", destination="*", mechanism="vector moves", engine="vector"),
    ),
    synchronisation=(Synchronisation(mechanism="counted wait", scope="token"),),
    registers=RegisterFile(vectors=32, vector_bytes=128),
)

TEST_TARGETS: Final[dict[str, Capabilities]] = {
    "scalar_vector_cpu": SCALAR_VECTOR_CPU,
    "lanes_async": LANES_ASYNC,
    "lanes_copies": LANES_COPIES,
    "queues_cube": QUEUES_CUBE,
    "local_only": LOCAL_ONLY,
}
"""By the name behind ``test:``."""
