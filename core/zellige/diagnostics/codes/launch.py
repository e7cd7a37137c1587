"""E601 to E699: calls: arguments, memory, launches, assertions on the device.

In: nothing. Out: a constant a code.
"""

from __future__ import annotations

from zellige.diagnostics.codes.declaration import code

E601 = code(
    "E601",
    "wrong number of arguments",
    "{kernel} takes {expected}, got {given}",
    hint="it is called as {call}",
    also=TypeError,
)
E602 = code(
    "E602",
    "keyword argument does not fit",
    "{kernel} {reason}",
    hint="it is called as {call}",
    also=TypeError,
)
E603 = code(
    "E603",
    "argument is no tensor",
    "argument {name}: expected a tensor {expected}, got {given}",
    hint="pass a NumPy array, a torch tensor or an array with __dlpack__",
)
E604 = code(
    "E604",
    "wrong number of dimensions",
    "argument {name}: expected {expected} with {dimensions}, got {given} with {given_rank}",
    hint="reshape it, for example with reshape or [None], or declare the parameter with the dimensions that it has",
)
E605 = code(
    "E605",
    "wrong size",
    "argument {name}: expected {expected}, got {given}: dimension {axis} is {actual}, not {wanted}",
    hint="pass a tensor of the declared size, or declare the size with T.dynamic to take any",
)
E606 = code(
    "E606",
    "sizes disagree",
    "{size} is {first} by {first_place}, but {second} by {second_place}",
    hint="one name stands for one size in all arguments of a call",
)
E607 = code(
    "E607",
    "wrong element type",
    "argument {name}: expected {expected}, got {given}",
    hint="convert it, for example with astype or to, or declare the parameter with the type that it has",
)
E608 = code(
    "E608",
    "tensor on the wrong device",
    "argument {name}: expected a tensor on {expected} for the target {target}, got one on {given}",
    hint="move the tensor, or compile for the target of its device",
)
E609 = code(
    "E609",
    "wrong strides",
    "argument {name}: expected {expected} with strides {wanted} in elements, got strides {actual}",
    hint="pass a contiguous copy, or declare a T.StridedTensor",
)
E610 = code(
    "E610",
    "tensor is not aligned",
    "argument {name}: expected an address that is a multiple of {alignment} bytes, the size of {dtype}, got {address:#x}",
    hint="pass a copy",
)
E611 = code(
    "E611",
    "output is read-only",
    "argument {name}: {kernel} writes it, but the memory given is read-only",
    hint="pass a writable copy",
)
E612 = code(
    "E612",
    "argument is no such number",
    "argument {name}: expected a number of type {dtype}, got {given}",
    hint="pass a Python number; a bool counts as 0 or 1, a float with a fraction is no integer",
)
E613 = code(
    "E613",
    "number does not fit",
    "{name}: expected a value that {dtype} holds ({least} to {greatest}), got {value}",
    hint="pass a smaller number, or declare the parameter with a wider type",
)
E614 = code(
    "E614",
    "size follows from no argument",
    "the size {size} of {name} follows from no argument of {kernel}",
    hint="a size is solved where it stands alone as a dimension of a tensor that the caller passes, or is a scalar parameter",
)
E615 = code(
    "E615",
    "size is negative",
    "dimension {axis} of {name}, {expression}, is {value}",
    hint="check the sizes of the call, or write the shape so that it cannot be negative, as in T.max(n - 8, 0)",
)
E616 = code(
    "E616",
    "memory cannot be handed to a kernel",
    "argument {name}: {reason}",
    hint="pass an ordinary dense array, for example a copy with np.array(x) or x.contiguous()",
)
E617 = code(
    "E617",
    "result cannot be made",
    "the result {name} ({expected}) cannot be made: {reason}",
    hint="give it as an argument instead",
)
E618 = code(
    "E618",
    "tensor that the kernel uses is missing",
    "argument {name}: expected {expected}, got None, and {kernel} uses it",
    hint="None stands only for a tensor that the kernel neither reads nor writes",
)
E619 = code(
    "E619",
    "not enough memory",
    "{name} ({expected}) needs {needed:,} bytes, and they cannot be had",
    hint="{advice}",
)
E620 = code(
    "E620", "assertion failed", "assertion failed{message}",
    hint="the condition is the kernel's own: see the place above, and the values that the call was given",
)
E621 = code(
    "E621",
    "loop goes on too far",
    "a loop goes on until the offset {offset} in {name}, which {dtype} does not hold",
    hint="look at the number of iterations that the call was given, or count in int64: T.int64(k) * 8",
)
E630 = code(
    "E630",
    "unknown way to time",
    "there is no timer {name!r} for the target {target}{suggestion}",
    hint="{known}",
)
E631 = code(
    "E631",
    "size has no value to benchmark with",
    "the size {size} of {name} has no value; sizes given: {given}",
    hint="pass dynamic_symbolic_constraints={{{size!r}: ...}} or input_tensors=[...]",
)
E632 = code(
    "E632",
    "tuning needs the value of a number",
    "{kernel} takes the number {name}, and tuning cannot make one up",
    hint="give the arguments: `with set_autotune_inputs(...):` around the call, in the kernel's order",
)
E633 = code(
    "E633",
    "nothing to tune",
    "there is no configuration of {function} to try{reason}",
    hint="give configs=[{{'name': value}}, ...] with names of its arguments",
)
E634 = code(
    "E634",
    "no configuration works",
    "none of the {count} configurations of {function} gives a time",
    hint="run one configuration by itself to see its error in full",
)
E635 = code(
    "E635",
    "configuration sets what is no argument",
    "unused keys in the configuration {config}: {function} has no argument {keys}{suggestion}",
    hint="its arguments are {known}; 'pass_configs' is the one key beside them",
)
E636 = code(
    "E636", "timer that cannot measure here", "the timer {name} cannot measure: {reason}",
    hint="the timers event and wall need nothing beside the target",
)
E637 = code(
    "E637", "measurement asked for wrongly", "{what} is {given}, expected {expected}{suggestion}",
    hint="help(zl.do_bench) explains the arguments of a measurement",
)
E640 = code(
    "E640", "regions do not match", "the regions of a tile operation are {left} and {right} at run time",
    hint="extents other than 1 must agree",
)
E641 = code(
    "E641", "value differs between lanes", "{what} differs between the lanes or points that share it",
    hint="give every lane or point the same value, or make the tile local",
)
E642 = code(
    "E642", "the device refused", "the device's driver answers: {what}",
    hint="the launch before may have failed: its error can show up here; `zellige doctor` says what works",
)
E643 = code(
    "E643", "launch that cannot be recorded", "the launch of {kernel} cannot be recorded in a graph: {reason}",
    hint="call it outside of the recording, or take the assertions and prints out of it",
)
E644 = code(
    "E644", "tensors of the device cannot be made", "tensors on {device} are made through torch, {reason}",
    hint="install torch, or pass tensors of your own",
)
E645 = code("E645", "more than a launch takes", "{what}, and a launch of the target {target} takes {most}", hint="{advice}")
E650 = code(
    "E650", "element outside its buffer", "{lanes}: element {index} of {buffer}, which has {extent}",
    hint="a kernel in bounds under the target `interp` shows a fault of the compiler's lowering: please report it",
)
E651 = code(
    "E651", "shared memory read before it is written", "{lanes}: byte {byte} of {buffer} is read, which nobody wrote",
    hint="fill or copy the whole tile before its first use",
)
E658 = code(
    "E658", "register read before it is written", "{lanes}: register {number} of {buffer} is read, which the lane has not written",
    hint="give the whole tile values before its first use, with T.clear, T.fill or T.copy",
)
E652 = code(
    "E652", "race between lanes", "{lanes}: byte {byte} of {buffer}: {what} {other} ({place}), with nothing between that orders them",
    hint="give each iteration of a T.Parallel elements of its own; put a barrier between two accesses of lanes, or make them atomic",
)
E653 = code(
    "E653", "misaligned access", "{lanes}: an access of {size} bytes to {buffer} at address {address}",
    hint="give a tensor that begins at a multiple of 16 bytes",
)
E654 = code(
    "E654", "lanes wait for ever", "no lane can go on: {reasons}",
    hint="every lane of its scope must reach a barrier, and every phase that is waited for must end",
)
E655 = code(
    "E655", "lanes part at a statement of all of them", "{lanes} do not take part in {what}",
    hint="move the statement out of the condition or loop that the lanes leave at different times",
)
E656 = code(
    "E656", "memory touched while a copy to it is under way",
    "{lanes}: byte {byte} of {buffer} is touched before the copy ({place}) was waited for",
    hint="wait for the copy, and put a barrier between the wait and other lanes' use",
)
E657 = code(
    "E657", "barrier used against its meaning", "{what}",
    hint="a barrier is made before its use, and joins as many lanes as it was made for",
)
