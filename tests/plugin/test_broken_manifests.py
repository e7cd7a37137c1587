"""Objects that are no backends, hooks in odd forms, and manifests whose names would be wrong where they are used: each is said, and neither
a backend of another package nor one of zellige's own is disturbed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from broken_sources import HEAD, answering, backend, manifest, works

from zellige.diagnostics import ZelligeError
from zellige.plugin.registry import Registry

Install = Callable[..., Registry]

NO_API = "expected an object with API = (major, minor) and hooks"
AT_LOADING: dict[str, tuple[str, str, str]] = {
    "nothing": ("backend = None", "E703", NO_API),
    "number": ("backend = 7", "E703", NO_API),
    "text": ("backend = 'acme'", "E703", NO_API),
    "table": ("backend = {'manifest': 1}", "E703", NO_API),
    "function": ("def backend(): ...", "E703", f"its entry point names the function backend, {NO_API}; it is not called"),
    "module": ("import acme_machine as backend", "E703", f"its entry point names the module acme_machine, {NO_API}"),
    "module_of_one": (
        "import sys\nfrom acme_machine import AcmeBackend\nmine, backend = AcmeBackend('x'), sys.modules[__name__]",
        "E703",
        f"its entry point names the module plug_module_of_one, {NO_API}, such as plug_module_of_one:mine",
    ),
    "small_api": ("class B:\n    api = (1, 0)\nbackend = B()", "E703", f"its entry point names a B without API, {NO_API} (it has api)"),
    "two_contracts": (
        backend("@hookimpl\ndef manifest(self): return replace(AcmeBackend.manifest(self), api=(2, 0))"),
        "E703",
        "its API is 1.0, and its manifest says that it was written for contract 2.0",
    ),
    "takes_words": (
        backend("@hookimpl\ndef describe(self, **words): ..."), "E703", "its hook describe(**words) takes any arguments (**words)",
    ),
    "huge_version": (backend("API = (1,) * 100_000"), "E703", "its API is (1, 1, 1, 1, 1, 1, ...), expected (major, minor)"),
    "no_names": (HEAD + "    def __dir__(self): raise OSError('dir')\nbackend = Broken('x')", "E701", "OSError: dir"),
    "another_class": (HEAD + "    __class__ = int\nbackend = Broken('x')", "E703", "is not marked with @hookimpl"),
    "empty_class": ("class B:\n    __slots__ = ()\n    API = (1, 0)\nbackend = B()", "E703", "it lacks the hook manifest"),
    "optional_hook": (backend("@hookimpl(optionalhook=True)\ndef teleport(self): ..."), "E703", "the contract has no hook teleport"),
    "other_name": (
        backend("@hookimpl(specname='describe')\ndef tell(self, target): ..."),
        "E703",
        "the contract has no hook tell (it has manifest,",
    ),
    "by_keyword": (
        backend("@hookimpl\ndef describe(self, *, target): ..."),
        "E703",
        "its hook describe(*, target) takes target by keyword only; hooks are called in order",
    ),
    "never_called": (
        backend("import functools\n_c = lambda self, one, operation, ctx: ()\ncandidates = hookimpl(functools.partialmethod(_c, 1))"),
        "E703",
        "its hook candidates is a partialmethod, which is never called",
    ),
    "marked_above": (
        backend("@hookimpl\n@classmethod\ndef candidates(cls, operation, ctx): ..."),
        "E703",
        "its hook candidates is marked above @classmethod; @hookimpl stands below it",
    ),
    "computed_once": (
        backend("import functools\n@functools.cached_property\n@hookimpl\ndef cache_key(self): return 'key'"),
        "E703",
        "its hook cache_key is a cached_property, which is never called",
    ),
    "computed": (
        backend("@property\n@hookimpl\ndef describe(self): return 3"), "E703", "its hook describe is a property, which is never called",
    ),
    "wraps_emit": (
        backend("@hookimpl(hookwrapper=True)\ndef emit(self): yield"), "E703", "its hook emit is a wrapper (@hookimpl(hookwrapper=True))",
    ),
    "answers_for_another": (
        backend("@hookimpl(specname='emit')\ndef describe(self, target): ..."),
        "E703",
        "its hook describe answers for the hook emit (@hookimpl(specname=...)); it must have that name itself",
    ),
    "class_method_alone": (
        backend("@classmethod\ndef candidates(cls, operation, ctx): ..."), "E703", "its method candidates has the name of a hook",
    ),
    "property_alone": (backend("@property\ndef tools(self): ..."), "E703", "its property tools has the name of a hook, which is a method"),
    "manifest_later": (backend("@hookimpl\ndef manifest(self): yield 1"), "E703", "manifest answered generator, expected Manifest"),
    "alias_of_itself": (manifest("aliases=((self.name, self.name),)"), "E703", "the alias 'alias_of_itself' is one of its targets"),
    "alias_of_nobody": (manifest("aliases=(('mine', 'nobody'),)"), "E703", "the alias 'mine' stands for 'nobody', which is none of its"),
    "alias_in_circles": (manifest("aliases=(('a1', 'a2'), ('a2', 'a1'))"), "E703", "the alias 'a1' stands for 'a2', which is none of its"),
    "alias_of_nothing": (manifest("aliases=(('mine', ''),)"), "E703", "the alias 'mine' stands for '', which is none of its targets"),
    "takes_a_name": (manifest("targets=(self.name, 'fine')"), "E703", "it claims the target fine, which is named by plug_fine"),
    "a_takes_a_name": (manifest("aliases=(('fine', self.name),)"), "E703", "it claims the target fine, which is named by plug_fine"),
    "needs_nothing": (manifest("requirements=('',)"), "E703", "requirements names '', which is no distribution"),
    "needs_a_range": (manifest("requirements=('acme>=2',)"), "E703", "requirements names 'acme>=2', which is no distribution"),
    "code_above": (manifest("code_packages=('..',)"), "E703", "code_packages names '..', which is no package"),
    "two_words": (manifest("options=('a b',)"), "E703", "options names 'a b', which is no option"),
    "no_hint": (manifest("hints=('',)"), "E703", "hints names '', which is no keyword"),
    "hints_in_python": (manifest("hints=('lambda', 'acme_deep')"), "E703", "hints names 'lambda', which is no keyword argument"),
    "a_method_in_python": (manifest("inspections=('class',)"), "E703", "inspections names 'class', which is no method"),
    "a_method_of_all": (manifest("inspections=('get_asm', 'n_regs')"), "E703", "inspections names 'get_asm', which every compiled kernel"),
    "small_key": (
        manifest("config_keys=(contract.ConfigKey(name='acme_deep', key='acme.deep'),)"),
        "E703",
        "config_keys has 'acme_deep' for 'acme.deep', expected a name in capitals",
    ),
    "key_of_all": (
        manifest("config_keys=(contract.ConfigKey(name='ACME_FAST', key='tl.enable_fast_math'),)"),
        "E703",
        "config_keys has 'tl.enable_fast_math', an option of every compilation: acts_on names it 'fast_math'",
    ),
    "initialises": (manifest("inspections=('__init__',)"), "E703", "inspections names '__init__', which is no method"),
    "acts_on_all": (manifest("acts_on=('everything',)"), "E703", "acts_on names 'everything', which is no option"),
    "keyless": (manifest("config_keys=(contract.ConfigKey(name='a b', key=''),)"), "E703", "config_keys has 'a b' for ''"),
    "red": (manifest("vendor='\\x1b[31mAcme'"), "E703", "vendor is '\\x1b[31mAcme', expected a line of text"),
    **{
        f"unwritten_{at}": (
            manifest(f"dialect=(DialectName(name={word!r}, target=self.name),)"), "E703", f"{word!r} is no name of the language"
        )
        for at, word in enumerate(("for", "None", "class", "__getattr__", "__name__", "\ufb01", "a b", ""))
    },
    "below_ir": (manifest("ir=(1, -1)"), "E703", "ir is (1, -1): this zellige writes tile IR of the versions 1.0 to 1."),
    "beyond_ir": (manifest("ir=(1, 99)"), "E703", "ir is (1, 99): this zellige writes tile IR of the versions 1.0 to 1."),
    "below_version": (backend("API = (1, -1)"), "E703", "its API is (1, -1), expected (major, minor)"),
    "twice_named": (
        manifest("dialect=(DialectName(name='dd', target=self.name),) * 2"),
        "E703",
        "dialect names 'dd' 2 times",
    ),
    "of_another": (
        manifest("dialect=(DialectName(name='dd', target='cpu'),)"),
        "E703",
        "dialect says that 'cpu' has 'dd', which is none of its targets",
    ),
}
"""Name to source, code and words of the error that asking for its target gives."""

AT_COMPILING: dict[str, tuple[str, str, str]] = {
    "emits_later": (backend("@hookimpl\ndef emit(self, planned): yield 1"), "E703", "its hook emit answered generator, expected Emitted"),
    "compiles_later": (backend("@hookimpl\ndef compile(self, emitted): yield 1"), "E703", "its hook compile answered generator, expected"),
    "runs_later": (backend("@hookimpl\ndef runtime(self): yield 1"), "E703", "its hook runtime answered generator, which has no method"),
    "keys_later": (backend("@hookimpl\ndef describe_key(self, target): yield 1"), "E703", "describe_key answered generator, expected str"),
    "key_raises": (backend("@hookimpl\ndef cache_key(self): raise OSError('key')"), "E709", "raised in its hook cache_key: OSError: key"),
    "key_exits": (backend("@hookimpl\ndef describe_key(self, target): raise SystemExit(2)"), "E709", "in its hook describe_key: System"),
    "explains_badly": (
        backend("@hookimpl\ndef emit(self, planned): raise AcmeError(1)\n@hookimpl\ndef diagnose(self, error): raise OSError('diagnose')"),
        "E709",
        "its hook diagnose, asked what that means, raised OSError: diagnose",
    ),
    "internal_to_it": (
        "from zellige.diagnostics import InternalError\n"
        + backend("@hookimpl\ndef emit(self, planned): raise InternalError('no such instruction')"),
        "E709",
        "raised in its hook emit: InternalError: internal error: no such instruction\n",
    ),
    "compiler_fails": (
        "from subprocess import CalledProcessError\n"
        + backend("@hookimpl\ndef compile(self, emitted): raise CalledProcessError(3, ['acc', '-O3'] * 5000, None, b'no \\xff\\n')"),
        "E709",
        " ...\nno \ufffd",
    ),
    "explains_nothing": (
        backend("@hookimpl\ndef emit(self, planned): raise AcmeError(1)\n@hookimpl\ndef diagnose(self, error): return error"),
        "E709",
        "its hook diagnose, asked what that means, answered AcmeError, expected Diagnosis or None",
    ),
    "explains_in_bytes": (
        backend("@hookimpl\ndef emit(self, planned): raise OSError\n@hookimpl\ndef diagnose(self, error): return Diagnosis(reason=b'r')"),
        "E709",
        "its hook diagnose, asked what that means, answered what cannot be: Diagnosis.reason is b'r', expected str",
    ),
    "explains_without_words": (
        backend("@hookimpl\ndef emit(self, planned): raise OSError\n@hookimpl\ndef diagnose(self, error): return Diagnosis(reason=' ')"),
        "E709",
        "raised in its hook emit: OSError\n",
    ),
    "explains_at_length": (
        backend("@hookimpl\ndef emit(self, planned): raise AcmeError(1)\n@hookimpl\ndef diagnose(self, error):\n"
                "    return Diagnosis(reason='r' * 10_000_000, hint='h' * 10_000_000)"),
        "E710",
        "rrr ...",
    ),
    "before_nobody": (
        answering("passes", ", stage, ctx", "(Insert(step=Seen('x', []), before=('nobody',)),)"),
        "E712",
        "cannot order the pass 'x' at the stage 'legalise': the stage has no pass 'nobody'",
    ),
}  # fmt: skip

UNHARMED: dict[str, str] = {
    "static": backend("@staticmethod\n@hookimpl\ndef cache_key(): return 'x'"),
    "of_the_class": backend("@classmethod\n@hookimpl\ndef cache_key(cls): return 'x'"),
    "with_a_default": backend("@hookimpl\ndef describe(self, target, mine=()): return AcmeBackend.describe(self, target)"),
    "attributes_raise": HEAD + "    def __getattr__(self, name): raise OSError(name)\nbackend = Broken('attributes_raise')",
    "alias_with_options": manifest("aliases=(('short', f'{self.name}:v2,fast'),)"),
}


def told(target: str) -> tuple[str, str]:
    """The code and the text of the error."""
    try:
        return "", f"no error; the result is {'right' if works(target) else 'wrong'}"
    except ZelligeError as error:
        return error.code, str(error)


def test_every_odd_object_and_name_is_said_and_disturbs_no_other(install: Install) -> None:
    cases = {**AT_LOADING, **AT_COMPILING}
    assert len(cases) >= 35
    found = install({"fine": backend(""), **{name: source for name, (source, _, _) in cases.items()}, **UNHARMED})
    wrong = []
    for name, (_, code, words) in cases.items():
        got, said = told(name)
        if got != code or words not in said or len(said) > 5000:
            wrong.append(f"{name}: expected {code} with {words!r}, got {said[:3000]}")
    assert not wrong, "\n\n".join(wrong)
    assert {entry.origin.name for entry in found.quarantined} == set(AT_LOADING)
    assert [name for name in ("cpu", "fine", "short", *UNHARMED) if not works(name)] == []
    assert found.resolve("auto").name == "cpu"


def test_backends_of_two_packages_may_need_each_other(install: Install) -> None:
    """Each imports the other: the first that is loaded loads both."""
    both = {name: f"import plug_{other}\n{backend('')}" for name, other in (("hen", "egg"), ("egg", "hen"))}
    found = install(both)
    assert {"hen", "egg"} <= set(found.target_names())
    assert works("hen") and works("egg") and works("cpu")


@pytest.mark.parametrize("first, second", [("aa", "bb"), ("bb", "aa")])
def test_who_claims_the_name_of_another_is_set_aside_whichever_is_first(first: str, second: str, install: Install) -> None:
    found = install({first: backend(""), second: manifest(f"targets=(self.name, {first!r})")})
    assert [entry.origin.name for entry in found.quarantined] == [second]
    assert works(first)
    assert told(second)[0] == "E703"
