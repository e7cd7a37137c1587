"""Ctrl-C while a kernel runs: code that looks for pending signals now and then, and stops the launch when one raised an exception.

In: calls from the places of a kernel that ask (:func:`zellige_cpu.effects.watch`) and from the pool's waiting side. Out: the launch's
status word is :data:`zellige_cpu.program.INTERRUPTED` and the word behind it the address of the exception; all blocks stop where they ask
next.

Python notes a signal and runs its handler between two of the main thread's instructions of Python, of which there are none while machine
code runs. So that code asks: it counts the cells and the iterations of outer loops that it runs, and at some of them reads the clock, at
most every 64th where they are short. After :data:`PERIOD` a thread that Python knows takes the interpreter's lock and lets pending handlers
run (``PyErr_CheckSignals``, which does nothing outside the main thread); a thread of the pool looks at the status word alone.
"""

from __future__ import annotations

from typing import Final

from zellige_cpu.host import Host
from zellige_cpu.program import INTERRUPTED

PERIOD: Final = 20_000_000
"""Nanoseconds between two looks for signals."""

ATTEND: Final = "attend"
STATE_WORDS: Final = 4
ASKED: Final = 3
"""Of one call's state: how many times not to look at the clock, how many that were the last time, the time of the last look at the clock
and (word ``ASKED``) of the last look for signals, both 0 at first."""

SYMBOLS: Final = (
    "clock_gettime", "PyGILState_GetThisThreadState", "PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Fetch",
    "PyErr_NormalizeException", "PyException_SetTraceback", "Py_DecRef",
)  # fmt: skip

_SHORT, _LONG = 2_000_000, 20_000_000  # nanoseconds: between looks at the clock there should be between so many
_MOST_SKIPPED: Final = 64


_DECLARATIONS: Final = """declare i32 @clock_gettime(i32, ptr) nounwind
declare ptr @PyGILState_GetThisThreadState() nounwind
declare i32 @PyGILState_Ensure() nounwind
declare void @PyGILState_Release(i32) nounwind
declare i32 @PyErr_CheckSignals() nounwind
declare void @PyErr_Fetch(ptr, ptr, ptr) nounwind
declare void @PyErr_NormalizeException(ptr, ptr, ptr) nounwind
declare i32 @PyException_SetTraceback(ptr, ptr) nounwind
declare void @Py_DecRef(ptr) nounwind"""


def attend_text(host: Host) -> str:
    """LLVM IR of ``i64 attend(ptr status, ptr state)``: what a place that asks calls when its count is used up; the status word."""
    clock = 1 if "linux" in host.triple else 6  # CLOCK_MONOTONIC
    return f"""
{_DECLARATIONS}
{_hear_text()}

define internal i64 @{ATTEND}(ptr %status, ptr %state) cold noinline nounwind {{
entry:
  %time = alloca [2 x i64], align 16
  %was = load atomic i64, ptr %status monotonic, align 8
  %is_well = icmp eq i64 %was, 0
  br i1 %is_well, label %look, label %told
told:
  ret i64 %was
look:
  %got = call i32 @clock_gettime(i32 {clock}, ptr %time)
  %seconds = load i64, ptr %time, align 16
  %rest_at = getelementptr i8, ptr %time, i64 8
  %rest = load i64, ptr %rest_at, align 8
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  %skips_at = getelementptr i8, ptr %state, i64 8
  %last_at = getelementptr i8, ptr %state, i64 16
  %asked_at = getelementptr i8, ptr %state, i64 {8 * ASKED}
  %skips = load i64, ptr %skips_at, align 8
  %last = load i64, ptr %last_at, align 8
  %asked = load i64, ptr %asked_at, align 8
  store i64 %now, ptr %last_at, align 8
  %is_first = icmp eq i64 %asked, 0
  %since = sub i64 %now, %last
  %is_short = icmp slt i64 %since, {_SHORT}
  %is_long = icmp sgt i64 %since, {_LONG}
  %double = shl i64 %skips, 1
  %more = add i64 %double, 1
  %can_grow = icmp slt i64 %more, {_MOST_SKIPPED}
  %grown = select i1 %can_grow, i64 %more, i64 {_MOST_SKIPPED}
  %kept = select i1 %is_short, i64 %grown, i64 %skips
  %apt = select i1 %is_long, i64 0, i64 %kept
  %next = select i1 %is_first, i64 0, i64 %apt
  store i64 %next, ptr %state, align 8
  store i64 %next, ptr %skips_at, align 8
  br i1 %is_first, label %begin, label %patience
begin:
  store i64 %now, ptr %asked_at, align 8
  ret i64 0
patience:
  %waited = sub i64 %now, %asked
  %is_time = icmp sgt i64 %waited, {PERIOD}
  br i1 %is_time, label %who, label %fine
who:
  store i64 %now, ptr %asked_at, align 8
  %known = call ptr @PyGILState_GetThisThreadState()
  %is_known = icmp ne ptr %known, null
  br i1 %is_known, label %ask, label %fine
ask:
  call void @hear(ptr %status)
  br label %fine
fine:
  %is = load atomic i64, ptr %status monotonic, align 8
  ret i64 %is
}}
"""


def _hear_text() -> str:
    """``void hear(ptr status)``: lets pending handlers run in a thread that Python knows; what one raised is noted at ``status``."""
    return f"""define internal void @hear(ptr %status) cold noinline nounwind {{
entry:
  %error = alloca [3 x ptr], align 16
  %lock = call i32 @PyGILState_Ensure()
  %found = call i32 @PyErr_CheckSignals()
  %is_raised = icmp ne i32 %found, 0
  br i1 %is_raised, label %raised, label %unlock
raised:
  %value_at = getelementptr i8, ptr %error, i64 8
  %trace_at = getelementptr i8, ptr %error, i64 16
  call void @PyErr_Fetch(ptr %error, ptr %value_at, ptr %trace_at)
  call void @PyErr_NormalizeException(ptr %error, ptr %value_at, ptr %trace_at)
  %type = load ptr, ptr %error, align 8
  %value = load ptr, ptr %value_at, align 8
  %trace = load ptr, ptr %trace_at, align 8
  %has_trace = icmp ne ptr %trace, null
  br i1 %has_trace, label %traced, label %keep
traced:
  %set = call i32 @PyException_SetTraceback(ptr %value, ptr %trace)
  br label %keep
keep:
  call void @Py_DecRef(ptr %type)
  call void @Py_DecRef(ptr %trace)
  %address = ptrtoint ptr %value to i64
  %exception_at = getelementptr i8, ptr %status, i64 8
  store i64 %address, ptr %exception_at, align 8
  store atomic i64 {INTERRUPTED}, ptr %status seq_cst, align 8
  br label %unlock
unlock:
  call void @PyGILState_Release(i32 %lock)
  ret void
}}"""
