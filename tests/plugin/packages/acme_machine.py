"""A whole backend of another package, for tests: it emits the tile IR as text, and its runtime interprets that.

It does everything that the contract has: operations and a memory space of its own, passes, scheduling strategies, choices of
implementations, an older version of the IR's text, and answers about caches, devices, conformance and its errors.
"""

from dataclasses import dataclass, replace

from zellige.ir.stmt import Copy, Dialect, For, Pipelined
from zellige.ir.traverse import rewrite
from zellige.plugin.contract import (
    API,
    Binary,
    Candidate,
    Capabilities,
    Compatibility,
    Conformance,
    CopyPath,
    Diagnosis,
    DialectName,
    Emitted,
    Engine,
    Insert,
    Manifest,
    MatmulUnit,
    Rejection,
    Space,
    Veto,
    Waiver,
)
from zellige.plugin.hooks import hookimpl


class AcmeError(Exception):
    """What Acme's own driver raises."""


def acme_dma(source, destination):
    """``T.acme_dma(source, destination)``: moves a tile."""
    from zellige.language.dialects import operation  # who only looks for devices does without the language

    operation("acme.dma", reads=(source,), writes=(destination,))


@dataclass(frozen=True)
class Deeper:
    """A scheduling strategy: every pipelined loop gets more stages."""

    stages: int
    name: str = "deeper"

    def __call__(self, kernel):
        def deeper(node):
            is_loop = isinstance(node, For) and isinstance(node.kind, Pipelined) and node.kind.stages < self.stages
            return replace(node, kind=replace(node.kind, stages=self.stages)) if is_loop else node

        return replace(kernel, launches=tuple(rewrite(launch, deeper) for launch in kernel.launches))


@dataclass(frozen=True)
class Seen:
    """Writes its name down and changes nothing."""

    name: str
    log: list

    def __call__(self, value):
        self.log.append(self.name)
        return value


@dataclass(frozen=True)
class Signed:
    """A pass over emitted text."""

    name: str = "signed"

    def __call__(self, emitted):
        return replace(emitted, text=emitted.text + "# signed by acme\n")


class AcmeKernel:
    def __init__(self, binary, source):
        from zellige.interp.kernel import InterpretedKernel  # as above
        from zellige.ir.parser import parse_kernel

        kernel = parse_kernel(binary.data.decode())

        def plain(node):
            is_dma = isinstance(node, Dialect) and node.op == "acme.dma"
            return Copy(src=node.inputs[0], dst=node.outputs[0], span=node.span) if is_dma else node

        launches = tuple(rewrite(launch, plain) for launch in kernel.launches)
        self._kernel = InterpretedKernel(replace(kernel, launches=launches))
        self._source = source

    def launch(self, pointers, scalars, sizes):
        self._kernel.launch(pointers, scalars, sizes)

    def source(self):
        return self._source.text

    def assembly(self):
        return "acme"


class AcmeRuntime:
    def load(self, binary, kernel, source):
        return AcmeKernel(binary, source)


class AcmeBackend:
    API = API

    def __init__(self, name="acme"):
        self.name = name
        self.log = []
        self.verdict = Compatibility(verdict="ok")
        self.driver = "7"

    @hookimpl
    def manifest(self):
        return Manifest(
            name=self.name, vendor="Acme", version="1", kind="accelerator", targets=(self.name,), ir=(1, 0), framework_devices=("cpu",),
            dialect=(DialectName(name=f"{self.name}_dma", target=self.name),),
        )

    @hookimpl
    def probe(self):
        return ()

    @hookimpl
    def describe(self, target):
        return Capabilities(
            target=str(target),
            spaces=(*(Space(name=name) for name in ("global", "shared", "fragment", "local", "var")), Space(name="acme.l1", role="local")),
            dtypes=("float16", "float32", "int32"),
            compute_dtypes=("float32", "int32"),
            engines=(Engine(name="vec", kind="vector"),),
            matmul=(MatmulUnit(name="cube", engine="vec", a="float16", b="float16", c="float32"),),
            copies=(CopyPath(source="*", destination="*", mechanism="moves", engine="vec"),),
        )

    @hookimpl
    def dialect(self):
        return {f"{self.name}_dma": acme_dma}

    @hookimpl
    def passes(self, stage, ctx):
        if stage == "legalise":
            return (Veto(name="simplify", reason="acme simplifies by itself"), Insert(step=Seen("acme-simplify", self.log)))
        if stage in ("sync", "lower"):
            return (Insert(step=Seen(f"acme-{stage}", self.log)),)
        return (Insert(step=Signed()),) if stage == "post" else ()

    @hookimpl
    def schedules(self):
        return {"acme.deep": Deeper(4)}

    @hookimpl
    def candidates(self, operation, ctx):
        if operation.kind == "fill":
            return (Candidate(name="memset", because="zeroes lines", mechanism="memset"),)
        if operation.kind != "gemm":
            return None
        (unit,) = ctx.capabilities.matmul
        if operation.dtypes[0] == "float16":
            return (
                Candidate(name="cube", because="takes float16", priority=1, unit=unit),
                Candidate(name="half cube", because="takes float16", cost=2.0, unit=unit),
                Rejection(name="old cube", reason="is broken in this revision"),
            )
        if operation.dtypes[0] == "float32":
            loop = Candidate(name="loop", because="no unit takes float32", is_native=False, avoided_by="operands of float16")
            return (Rejection(name="cube", reason="takes float16"), loop)
        return (Rejection(name="cube", reason="takes float16"), Rejection(name="loop", reason=f"no arithmetic on {operation.dtypes[0]}"))

    @hookimpl
    def emit(self, planned, ctx):
        return Emitted(text=ctx.ir_text(planned.kernel), format="tile-ir")

    @hookimpl
    def compile(self, emitted):
        return Binary(data=emitted.text.encode(), format="acme")

    @hookimpl
    def runtime(self):
        return AcmeRuntime()

    @hookimpl
    def cache_key(self):
        return f"driver {self.driver}"

    @hookimpl
    def compat(self, binary, device):
        return self.verdict

    @hookimpl
    def conformance(self):
        return Conformance(profiles=("base",), expected_failures=(Waiver(test="atomics/*", reason="no atomics yet"),))

    @hookimpl
    def diagnose(self, error):
        return Diagnosis(reason="the card fell off the bus", hint="push it back in") if isinstance(error, AcmeError) else None


backend = AcmeBackend()
