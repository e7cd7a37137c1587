"""What somebody else's backend answered, looked at before core works with it: kinds, fields, limits, methods, items of lists.

In: the handle of a backend and what one of its hooks gave. Out: the answer; E703 where it is none that the contract allows. The answers of
zellige's own backends are held to the same by tests: what is made of lists is checked of them too, fields are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from zellige.plugin.contract import (
    Binary,
    Candidate,
    CompiledKernel,
    Emitted,
    Fitted,
    NativeKernel,
    PackedKernel,
    Rejection,
    Revision,
    StagePass,
    StreamKernel,
)
from zellige.plugin.fields import is_line, is_protocol, items_of, limit_problems, shortened, type_problems
from zellige.plugin.limits import MOST_ITEMS
from zellige.plugin.manifest import MOST_PROBLEMS
from zellige.plugin.origin import OF_ZELLIGE
from zellige.plugin.signatures import call_problems, methods_of

if TYPE_CHECKING:
    from zellige.plugin.handle import BackendHandle


def check_answer(handle: BackendHandle, hook: str, answer: object, kind: type, place: str) -> None:
    """E703 where an answer of the type ``kind`` holds or lacks what others of it must not. ``place`` is what the hook is called."""
    if kind in (str, bytes) and type(answer) is not kind:  # its methods may answer otherwise than it holds
        reason = f"its {place} answered a {type(answer).__name__}, a kind of {kind.__name__}; expected a {kind.__name__} itself"
        raise handle.at_fault(reason)
    if kind in (Emitted, Binary) and type(answer) is not kind and not _is_of_zellige(answer):
        reason = f"its {place} answered a {type(answer).__name__}, a kind of {kind.__name__}; expected {kind.__name__} itself: what it"
        reason += " has beside the fields of that would not be there where the kernel is found in the cache"
        raise handle.at_fault(reason)
    if hook not in ("manifest", "describe"):  # those are checked as a whole
        check_fields(handle, hook, answer)
    if is_protocol(kind):
        _check_methods(handle, hook, answer, kind)


def _is_of_zellige(answer: object) -> bool:
    """Whether an answer is one of core's own kinds, such as the program of a simulated device, which no cache keeps."""
    return type(answer).__module__.partition(".")[0] in OF_ZELLIGE


def _check_methods(handle: BackendHandle, hook: str, answer: object, kind: type) -> None:
    """E703 where a method of what is handed over does not take what core calls it with."""
    kinds = (CompiledKernel, PackedKernel, StreamKernel, NativeKernel) if kind is CompiledKernel else (kind,)
    wrong = call_problems(answer, methods_of(*kinds))
    if wrong:
        reason = f"its hook {hook} answered {type(answer).__name__}: {'; '.join(wrong[:MOST_PROBLEMS])}"
        raise handle.at_fault(reason)


def check_fields(handle: BackendHandle, hook: str, answer: object) -> None:
    """E703 where an answer of somebody else's backend holds something of a wrong type, or what cannot stand in a line."""
    if handle.origin.is_own:
        return
    wrong = faults_of_type(type(answer), answer, type(answer).__name__) if is_dataclass(answer) else ""
    wrong = wrong or _unreadable(answer)
    if wrong:
        raise handle.at_fault(f"its hook {hook} answered what cannot be: {wrong}")


def faults_of_type(kind: Any, value: object, where: str) -> str:
    """What is of a wrong type or beyond a limit; empty where nothing is."""
    wrong = tuple(islice(type_problems(kind, value, where), MOST_PROBLEMS))
    return "; ".join(wrong or islice(limit_problems(value, where), MOST_PROBLEMS))


def _unreadable(answer: object) -> str:
    """What of an answer cannot stand in a line of a report; empty where everything can."""
    texts: list[tuple[str, str]] = []
    if isinstance(answer, (Candidate, Rejection)):
        texts = [(f"{type(answer).__name__}.name", answer.name)]
    elif isinstance(answer, Revision):
        texts = [
            (f"Revision.decisions[{at}].{field}", getattr(decision, field))
            for at, decision in enumerate(answer.decisions)
            for field in ("question", "chosen")
        ]
    return next((f"{where} is {shortened(text)}, expected a line of text" for where, text in texts if not is_line(text)), "")


def several(
    handle: BackendHandle, hook: str, answer: object, kinds: tuple[type, ...], expected: str, *, may_be_none: bool = True
) -> tuple[Any, ...]:
    """The items of an answer, which are of these kinds. E703 where they are not, or too many, or none where not ``may_be_none``."""
    found = tuple(items_of(answer)) if isinstance(answer, (tuple, list)) else ()
    wrong = ", ".join(sorted({kind_of(one, *kinds) for one in found if not isinstance(one, kinds)}))
    if not isinstance(answer, (tuple, list)):
        wrong = f"one {type(answer).__name__}" if isinstance(answer, kinds) else kind_of(answer, *kinds)
    elif not found and not may_be_none:
        wrong = "nothing"
    elif len(found) > MOST_ITEMS:
        wrong = f"{len(found)} items, more than {MOST_ITEMS}"
    if wrong:
        raise handle.at_fault(f"its hook {hook} answered {wrong}{expected}")
    for one in found:
        check_fields(handle, hook, one)
    return found


def revisions(handle: BackendHandle, answer: object) -> tuple[Revision, ...] | Fitted:
    """What the hook ``fit`` answered, checked."""
    if isinstance(answer, Fitted):
        check_fields(handle, "fit", answer)
        return answer
    for one in items_of(answer) if isinstance(answer, (tuple, list)) else ():
        if isinstance(one, Revision) and isinstance(one.decisions, tuple) and len(one.decisions) > MOST_ITEMS:
            reason = f"its hook fit says {len(one.decisions)} decisions of launch {one.launch}, more than {MOST_ITEMS}"
            raise handle.at_fault(reason)
    return several(handle, "fit", answer, (Revision,), ", expected Fitted or a tuple of Revision", may_be_none=False)


def check_strategies(handle: BackendHandle, found: Mapping[str, StagePass]) -> None:
    """E703 where what the hook ``schedules`` of somebody else's backend answered has another name or value than a strategy."""
    for name, strategy in found.items():
        wrong = faults_of_type(str, name, "a name") or faults_of_type(StagePass, strategy, f"strategy {shortened(name)}")
        wrong = wrong or _odd_name_of_strategy(handle, name)
        if wrong:
            raise handle.at_fault(f"its hook schedules answered what cannot be: {wrong}")


def _odd_name_of_strategy(handle: BackendHandle, name: str) -> str:
    """What is wrong with the name of a strategy; empty where nothing is."""
    from zellige.plugin.registry import registry  # strategies are asked for by name, with every backend taken in

    if not is_line(name):
        return f"a strategy is called {shortened(name)}, expected a line of text"
    owner = name.partition(".")[0] if "." in name else handle.manifest.name
    others = {other.manifest.name for other in registry().backends} - {handle.manifest.name}
    return f"the strategy {shortened(name)} has the name of the backend {owner} in front" if owner in others else ""


def kind_of(value: object, *expected: type) -> str:
    """The name of a value's type; with its module where another type of that name was expected, such as one of another version."""
    kind = type(value)
    return f"{kind.__name__} of {kind.__module__}" if any(kind.__name__ == one.__name__ for one in expected) else kind.__name__
