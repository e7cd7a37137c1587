"""The thread pool's machine code: what a worker does between launches and in one, as LLVM IR.

In: the host. Out: the text of a module with two functions.

``ptr pool_worker(ptr own)`` is a thread's whole life; ``own`` holds the address of the pool's control block and the worker's number.
``void pool_launch(ptr control, ptr args, ptr job)`` runs one grid: it copies the job into the control block, moves the generation on, takes
part as worker 0 and returns when every worker has said that it is done. Cells are handed out in chunks by an atomic counter, and none are
once the launch's status word is not 0. Where each worker has a stretch of cells and a counter of its own, it goes on with those of the
others when its own has come to an end. Between its chunks and while it waits for the others the launch lets signals be handled, see
:mod:`zellige_cpu.interruption`.

Nobody is lost between looking and sleeping: a worker counts itself among the sleepers before it sleeps *on the generation it has seen*, and
the launch looks at that count after it moved the generation on, all in one order (seq_cst). The same holds for the launch that waits for
the last worker. A futex is the kernel's wait on a 32-bit word, futex(2).
"""

from __future__ import annotations

from typing import Final

from zellige_cpu.host import Host
from zellige_cpu.interruption import ATTEND, PERIOD, STATE_WORDS, attend_text
from zellige_cpu.pool import (
    FUTEX_CALL,
    IS_WAITING,
    JOB,
    JOB_FIELDS,
    QUITS,
    REMAINING,
    SLEEPERS,
    SPINS,
    TICKET_BYTES,
    TICKETS,
    WORKERS,
    processor,
)

_PAUSE: Final = {"x86_64": ("llvm.x86.sse2.pause", "", ""), "aarch64": ("llvm.aarch64.hint", "i32", "i32 1")}
_WAIT, _WAKE = 128, 129  # FUTEX_WAIT and FUTEX_WAKE, each with FUTEX_PRIVATE_FLAG


def pause_of(host: Host) -> tuple[str, str, str] | None:
    """The intrinsic by which a waiting thread leaves the core to others: name, type and text of its operand (empty: none)."""
    return _PAUSE.get(processor(host))


def pool_text(host: Host) -> str:
    """The module's text."""
    pause, kind, _ = _PAUSE[processor(host)]
    return f"""target triple = "{host.triple}"
declare i64 @syscall(i64, ...)
declare void @{pause}({kind})
@period = private constant [2 x i64] [ i64 0, i64 {PERIOD} ], align 16
{attend_text(host)}
{_drain_text()}

{_worker_text(host)}

{_launch_text(host)}
"""


def _place(name: str, offset: int) -> str:
    """The address of a word of the control block."""
    return f"%{name} = getelementptr i8, ptr %control, i64 {offset}"


def _wait(host: Host, word: str, value: str, most: str = "null") -> str:
    """Sleep while ``word`` holds ``value``, at most for the time at ``most``."""
    number = FUTEX_CALL[processor(host)]
    return f"call i64 (i64, ...) @syscall(i64 {number}, ptr {word}, i64 {_WAIT}, i32 {value}, ptr {most}, ptr null, i64 0)"


def _wake(host: Host, word: str, count: int) -> str:
    """Wake at most ``count`` threads that sleep on ``word``."""
    number = FUTEX_CALL[processor(host)]
    return f"call i64 (i64, ...) @syscall(i64 {number}, ptr {word}, i64 {_WAKE}, i32 {count}, ptr null, ptr null, i64 0)"


def _drain_text() -> str:
    """``void drain(control, args, worker, state)``: one worker takes chunks of cells and runs them until none are left."""
    fields = "\n".join(
        f"  {_place(f'{name}_at', JOB + 8 * i)}\n  %{name} = load {'ptr' if name == 'function' else 'i64'}, ptr %{name}_at, align 8"
        for i, name in enumerate(JOB_FIELDS)
    )
    return f"""define internal void @drain(ptr %control, ptr %args, i64 %worker, ptr %state) {{
entry:
{fields}
  {_place("counters", TICKETS)}
  %status_slot = getelementptr i8, ptr %args, i64 %status
  %status_words = load ptr, ptr %status_slot, align 8
  %is_apart = icmp sgt i64 %stretches, 1
  %home = select i1 %is_apart, i64 %worker, i64 0
  %distance = mul i64 %worker, %stride
  %base = inttoptr i64 %scratch to ptr
  %states_place = inttoptr i64 %states to ptr
  %shared_place = inttoptr i64 %shared to ptr
  %own = getelementptr i8, ptr %base, i64 %distance
  %own_leaf = getelementptr i8, ptr %own, i64 %leaf
  br label %next
next:
  %is_first = phi i64 [ 1, %entry ], [ 0, %work ], [ 0, %count ], [ 0, %ask ], [ %is_first, %leave ]
  %stretch = phi i64 [ %home, %entry ], [ %stretch, %work ], [ %stretch, %count ], [ %stretch, %ask ], [ %following, %leave ]
  %unended = phi i64 [ %stretches, %entry ], [ %unended, %work ], [ %unended, %count ], [ %unended, %ask ], [ %fewer_stretches, %leave ]
  %word = load atomic i64, ptr %status_words monotonic, align 8
  %has_failed = icmp ne i64 %word, 0
  br i1 %has_failed, label %done, label %take
take:
  %counter_place = mul i64 %stretch, {TICKET_BYTES}
  %counter = getelementptr i8, ptr %counters, i64 %counter_place
  %ticket = atomicrmw add ptr %counter, i64 1 monotonic
  %is_whole = icmp slt i64 %ticket, %whole
  %size = select i1 %is_whole, i64 %chunk, i64 %part
  %wholes = select i1 %is_whole, i64 %ticket, i64 %whole
  %parts = sub i64 %ticket, %wholes
  %behind_wholes = mul i64 %wholes, %chunk
  %behind_parts = mul i64 %parts, %part
  %within = add i64 %behind_wholes, %behind_parts
  %first = mul i64 %stretch, %span
  %begin = add i64 %first, %within
  %behind = add i64 %first, %span
  %is_short = icmp slt i64 %cells, %behind
  %stop = select i1 %is_short, i64 %cells, i64 %behind
  %is_left = icmp slt i64 %begin, %stop
  br i1 %is_left, label %work, label %leave
leave:
  %fewer_stretches = sub i64 %unended, 1
  %next_stretch = add i64 %stretch, 1
  %is_last = icmp eq i64 %next_stretch, %stretches
  %following = select i1 %is_last, i64 0, i64 %next_stretch
  %has_others = icmp sgt i64 %fewer_stretches, 0
  br i1 %has_others, label %next, label %done
work:
  %reach = add i64 %begin, %size
  %is_inside = icmp slt i64 %reach, %stop
  %end = select i1 %is_inside, i64 %reach, i64 %stop
  call void %function(ptr %args, i64 %begin, i64 %end, ptr %own, ptr %own_leaf, ptr %states_place, ptr %shared_place, i64 %is_first)
  %hears = icmp ne ptr %state, null
  br i1 %hears, label %count, label %next
count:
  %left = load i64, ptr %state, align 8
  %fewer = sub i64 %left, 1
  store i64 %fewer, ptr %state, align 8
  %is_early = icmp sgt i64 %left, 0
  br i1 %is_early, label %next, label %ask
ask:
  %heard = call i64 @{ATTEND}(ptr %status_words, ptr %state)
  br label %next
done:
  ret void
}}"""


def _worker_text(host: Host) -> str:
    """``ptr pool_worker(own)``: waits for generations and takes part in their launches, until the pool ends."""
    pause, _, operand = _PAUSE[processor(host)]
    return f"""define ptr @pool_worker(ptr %mine) {{
entry:
  %control = load ptr, ptr %mine, align 8
  %number_at = getelementptr i8, ptr %mine, i64 8
  %number = load i64, ptr %number_at, align 8
  {_place("sleepers", SLEEPERS)}
  {_place("active_at", JOB + 8 * JOB_FIELDS.index("active"))}
  {_place("args_at", JOB + 8 * len(JOB_FIELDS))}
  {_place("remaining", REMAINING)}
  {_place("is_waiting", IS_WAITING)}
  {_place("quits", QUITS)}
  {_place("spins_at", SPINS)}
  %spins = load i64, ptr %spins_at, align 8
  br label %idle
idle:
  %seen = phi i32 [ 0, %entry ], [ %now, %acknowledge ], [ %now, %wake ]
  br label %look
look:
  %count = phi i64 [ 0, %idle ], [ %count_next, %spin ], [ %spins, %sleep ]
  %now = load atomic i32, ptr %control seq_cst, align 4
  %is_new = icmp ne i32 %now, %seen
  br i1 %is_new, label %go, label %patience
patience:
  %may_spin = icmp slt i64 %count, %spins
  br i1 %may_spin, label %spin, label %sleep
spin:
  call void @{pause}({operand})
  %count_next = add i64 %count, 1
  br label %look
sleep:
  %before = atomicrmw add ptr %sleepers, i32 1 seq_cst
  %slept = {_wait(host, "%control", "%seen")}
  %after = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %look
go:
  %end = load atomic i32, ptr %quits seq_cst, align 4
  %is_over = icmp ne i32 %end, 0
  br i1 %is_over, label %over, label %choose
choose:
  %active = load i64, ptr %active_at, align 8
  %takes_part = icmp slt i64 %number, %active
  br i1 %takes_part, label %work, label %acknowledge
work:
  %args = load ptr, ptr %args_at, align 8
  call void @drain(ptr %control, ptr %args, i64 %number, ptr null)
  br label %acknowledge
acknowledge:
  %were = atomicrmw sub ptr %remaining, i32 1 seq_cst
  %was_last = icmp eq i32 %were, 1
  %waiting = load atomic i32, ptr %is_waiting seq_cst, align 4
  %someone_waits = icmp ne i32 %waiting, 0
  %must_wake = and i1 %was_last, %someone_waits
  br i1 %must_wake, label %wake, label %idle
wake:
  %woken = {_wake(host, "%remaining", 1)}
  br label %idle
over:
  ret ptr null
}}"""


def _launch_text(host: Host) -> str:
    """``void pool_launch(control, args, job)``: begins a generation, takes part in it and waits for its workers."""
    pause, _, operand = _PAUSE[processor(host)]
    return f"""define void @pool_launch(ptr %control, ptr %args, ptr %job) {{
entry:
  {_place("sleepers", SLEEPERS)}
  {_place("job_at", JOB)}
  {_place("args_at", JOB + 8 * len(JOB_FIELDS))}
  {_place("counters", TICKETS)}
  {_place("remaining", REMAINING)}
  {_place("is_waiting", IS_WAITING)}
  {_place("workers_at", WORKERS)}
  {_place("spins_at", SPINS)}
  %spins = load i64, ptr %spins_at, align 8
  %state = alloca [{STATE_WORDS} x i64], align 64
  store [{STATE_WORDS} x i64] zeroinitializer, ptr %state, align 64
  %words = load <{len(JOB_FIELDS)} x i64>, ptr %job, align 1
  store <{len(JOB_FIELDS)} x i64> %words, ptr %job_at, align 64
  store ptr %args, ptr %args_at, align 8
  %stretches_at = getelementptr i8, ptr %job, i64 {8 * JOB_FIELDS.index("stretches")}
  %stretches = load i64, ptr %stretches_at, align 8
  br label %clear
clear:
  %stretch = phi i64 [ 0, %entry ], [ %next_stretch, %clear ]
  %counter_place = mul i64 %stretch, {TICKET_BYTES}
  %counter = getelementptr i8, ptr %counters, i64 %counter_place
  store atomic i64 0, ptr %counter monotonic, align 8
  %next_stretch = add i64 %stretch, 1
  %has_more = icmp slt i64 %next_stretch, %stretches
  br i1 %has_more, label %clear, label %begin
begin:
  %workers = load i32, ptr %workers_at, align 4
  store i32 %workers, ptr %remaining, align 4
  store i32 0, ptr %is_waiting, align 4
  %generation = atomicrmw add ptr %control, i32 1 seq_cst
  %asleep = load atomic i32, ptr %sleepers seq_cst, align 4
  %must_wake = icmp ne i32 %asleep, 0
  br i1 %must_wake, label %wake, label %work
wake:
  %woken = {_wake(host, "%control", 0x7FFFFFFF)}
  br label %work
work:
  call void @drain(ptr %control, ptr %args, i64 0, ptr %state)
  br label %look
look:
  %count = phi i64 [ 0, %work ], [ %count_next, %spin ]
  %left = load atomic i32, ptr %remaining seq_cst, align 4
  %is_done = icmp eq i32 %left, 0
  br i1 %is_done, label %done, label %patience
patience:
  %may_spin = icmp slt i64 %count, %spins
  br i1 %may_spin, label %spin, label %announce
spin:
  call void @{pause}({operand})
  %count_next = add i64 %count, 1
  br label %look
announce:
  store atomic i32 1, ptr %is_waiting seq_cst, align 4
  br label %again
again:
  %still = load atomic i32, ptr %remaining seq_cst, align 4
  %is_finished = icmp eq i32 %still, 0
  br i1 %is_finished, label %done, label %sleep
sleep:
  %slept = {_wait(host, "%remaining", "%still", "@period")}
  %status_at = getelementptr i8, ptr %job, i64 {8 * JOB_FIELDS.index("status")}
  %status = load i64, ptr %status_at, align 8
  %status_slot = getelementptr i8, ptr %args, i64 %status
  %status_words = load ptr, ptr %status_slot, align 8
  %heard = call i64 @{ATTEND}(ptr %status_words, ptr %state)
  br label %again
done:
  ret void
}}"""
