"""The steps of a launch as LLVM IR, called by the generated launch functions of `launcher`.

A step takes the frame of the launch and answers a status: 0 to go on, else what ends the launch.
Everything outside is called by its address, so that nothing is left for a linker to find.
"""

from __future__ import annotations

import ctypes

from triton_xe.runtime.level_zero import known_memory
from triton_xe.runtime.level_zero.raw import (
    DEVICE_MEMORY,
    UNKNOWN_MEMORY,
    api,
    ze_memory_allocation_properties_t,
)

LIST, CONTEXT, DEVICE, DATA_PTR, STREAM, STREAM_LIST = range(6)
TENSOR_TYPE, PARAMETER_TYPE, TENSOR_PLACE, TENSOR_READER, TYPE_READER, INDEX_READER = range(6, 12)
XPU_TYPE, XPU_INDEX, TABLE = range(12, 15)
"""Slots of the device state: 64-bit words.  STREAM_LIST is the command list that launches on the
queue STREAM are appended to.  The readers are C functions that read the address, the type of device
and its index of a tensor of the two types, given the place of a handle inside the object.  Tensors
on a device of the type XPU_TYPE (0: none) and the index XPU_INDEX are in this device's memory.  The
table is that of `known_memory`."""
STATE_WORDS = TABLE + known_memory.WORDS
KERNEL, DEVICE_STATE, SIGNATURE, VALID, LAST = range(5)
"""Words of a kernel's state: its handle, the device state's address, the digest of its parameter
types, whether the values that follow, one per argument, are those that the driver has."""
FRAME_WORDS = 5
RAISED = -(1 << 62)
"""The status of a step in which Python raised."""
SLOW = -(1 << 61)
"""The status of a direct launch that the general launch function must do."""
MOST_PROGRAMS = (1 << 31) - 1
"""Along one dimension of a grid: the number of a program is a signed 32-bit integer."""
BAD_COUNT, PLAIN_MEMORY, OTHER_DEVICE, BAD_RANGE, BAD_GRID, CLOSED = range(1, 7)
KIND_SHIFT = 16
FIRST = 4
"""Where the kernel's arguments start among those of a launch function."""
DIRECT_FIRST = 9
"""The same for a direct launch, which is called as Triton calls a launcher."""
_FRAME_LIST, _FRAME_GRID_XY, _FRAME_GRID_Z, _FRAME_KERNEL, _FRAME_DEVICE = range(5)


_STATE = f"""
  %device.at = getelementptr i64, ptr %state, i64 {DEVICE_STATE}
  %device = load ptr, ptr %device.at
  %own = load i64, ptr %device
  %no.list = icmp eq i64 %own, 0
  %no.kernel = icmp eq i64 %kernel, 0
  %dead = or i1 %no.list, %no.kernel"""
"""From %state and %kernel: the device, its own list, and whether one of them was closed."""
_NOTE_STATE = f"""
  %kernel.to = getelementptr i64, ptr %frame, i64 {_FRAME_KERNEL}
  store ptr %state, ptr %kernel.to
  %device.to = getelementptr i64, ptr %frame, i64 {_FRAME_DEVICE}
  store ptr %device, ptr %device.to"""
"""Write both into the launch's frame."""


def _callee(name: str) -> str:
    """A called function as a constant address: nothing is left for the linker to find."""
    if name.startswith("ze"):
        return f"inttoptr (i64 {api().address(name)} to ptr)"
    if name.startswith("xe"):
        return f"inttoptr (i64 {known_memory.address_of(name)} to ptr)"
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
    return f"inttoptr (i64 {address} to ptr)"


def shared_text() -> str:
    """The steps that every launch function calls."""
    return _frame_text() + _direct_text() + _number_text() + _pointer_text() + _driver_text()


def _frame_text() -> str:
    count, closed, grid = (-(kind << KIND_SHIFT) for kind in (BAD_COUNT, CLOSED, BAD_GRID))
    dimensions = "".join(
        f"""
  %s{n} = call i64 @grid_size(ptr %args, i64 {n + 1}, ptr %v)
  %z{n} = icmp eq i64 %s{n}, 0
  br i1 %z{n}, label %take{n}, label %bad{n}
bad{n}:
  %r{n} = icmp eq i64 %s{n}, {RAISED}
  %k{n} = select i1 %r{n}, i64 {RAISED}, i64 {grid - n}
  ret i64 %k{n}
take{n}:
  %w{n} = load i64, ptr %v
  %t{n} = trunc i64 %w{n} to i32
  %to{n} = getelementptr i32, ptr %sizes, i64 {n}
  store i32 %t{n}, ptr %to{n}"""
        for n in range(3)
    )
    return f"""
define i64 @xe_begin(ptr %self, ptr %args, i64 %nargs, i64 %expected, ptr %frame) {{
  %v = alloca i64
  %right = icmp eq i64 %nargs, %expected
  br i1 %right, label %counted, label %miscounted
miscounted:
  ret i64 {count}
counted:
  %state = call ptr {_callee("PyByteArray_AsString")}(ptr %self)
  %kernel = load i64, ptr %state
{_STATE}
  br i1 %dead, label %closed, label %open
closed:
  ret i64 {closed}
open:
{_NOTE_STATE}
  %s = call i64 @xe_i64(ptr %args, i64 0, ptr %v, ptr %frame)
  %z = icmp eq i64 %s, 0
  br i1 %z, label %listed, label %raised
raised:
  ret i64 {RAISED}
listed:
  %given = load i64, ptr %v
  %is.own = icmp eq i64 %given, 0
  %list = select i1 %is.own, i64 %own, i64 %given
  store i64 %list, ptr %frame
  %sizes = getelementptr i64, ptr %frame, i64 {_FRAME_GRID_XY}{dimensions}
  ret i64 0
}}
define internal i64 @grid_size(ptr %args, i64 %place, ptr %to) {{
  %s = call i64 @xe_i64(ptr %args, i64 %place, ptr %to, ptr null)
  %z = icmp eq i64 %s, 0
  br i1 %z, label %read, label %raised
read:
  %v = load i64, ptr %to
  %ok = icmp ule i64 %v, {MOST_PROGRAMS}
  %k = select i1 %ok, i64 0, i64 1
  ret i64 %k
raised:
  ret i64 {RAISED}
}}
define ptr @xe_answer(i64 %status) {{
  %raised = icmp eq i64 %status, {RAISED}
  br i1 %raised, label %nothing, label %number
nothing:
  ret ptr null
number:
  %o = call ptr {_callee("PyLong_FromLongLong")}(i64 %status)
  ret ptr %o
}}
"""


def _direct_text() -> str:
    """The first and last step of a direct launch: what is unusual is left to the general one."""
    grid = "".join(
        f"""
  %s{n} = call i64 @grid_size(ptr %args, i64 {n}, ptr %v)
  %z{n} = icmp eq i64 %s{n}, 0
  br i1 %z{n}, label %take{n}, label %slow
take{n}:
  %w{n} = load i64, ptr %v
  %t{n} = trunc i64 %w{n} to i32
  %to{n} = getelementptr i32, ptr %sizes, i64 {n}
  store i32 %t{n}, ptr %to{n}"""
        for n in range(3)
    )
    type_offset = object.__basicsize__ - 8
    return f"""
define i64 @xe_direct(ptr %args, i64 %nargs, i64 %expected, i64 %type, i64 %signature, ptr %calls, \
ptr %frame) {{
  %v = alloca i64
  %right = icmp eq i64 %nargs, %expected
  br i1 %right, label %counted, label %slow
counted:
  %function.at = getelementptr ptr, ptr %args, i64 4
  %function = load ptr, ptr %function.at
  %type.at = getelementptr i8, ptr %function, i64 {type_offset}
  %its.type = load i64, ptr %type.at
  %is.ours = icmp eq i64 %its.type, %type
  br i1 %is.ours, label %ours, label %slow
ours:
  %number = call i64 {_callee("PyLong_AsUnsignedLongLong")}(ptr %function)
  %has.state = icmp ugt i64 %number, 1
  br i1 %has.state, label %stated, label %slow
stated:
  %state = inttoptr i64 %number to ptr
  %kernel = load i64, ptr %state
{_STATE}
  %signature.at = getelementptr i64, ptr %state, i64 {SIGNATURE}
  %its.signature = load i64, ptr %signature.at
  %no.match = icmp ne i64 %its.signature, %signature
  %unfit = or i1 %dead, %no.match
  br i1 %unfit, label %slow, label %open
open:
{_NOTE_STATE}
  %sv = call i64 @xe_i64(ptr %args, i64 3, ptr %v, ptr %frame)
  %zv = icmp eq i64 %sv, 0
  br i1 %zv, label %streamed, label %slow
streamed:
  %stream = load i64, ptr %v
  %known.at = getelementptr i64, ptr %device, i64 {STREAM}
  %known = load i64, ptr %known.at
  %list.at = getelementptr i64, ptr %device, i64 {STREAM_LIST}
  %its.list = load i64, ptr %list.at
  %is.own = icmp eq i64 %stream, 0
  %list = select i1 %is.own, i64 %own, i64 %its.list
  %is.known = icmp eq i64 %stream, %known
  %is.either = or i1 %is.own, %is.known
  store i64 %list, ptr %frame
  br i1 %is.either, label %queued, label %slow
queued:
  %h1 = call i64 @has_hooks(ptr %args, i64 7, ptr %calls)
  %h2 = call i64 @has_hooks(ptr %args, i64 8, ptr %calls)
  %hooks = or i64 %h1, %h2
  %none = icmp eq i64 %hooks, 0
  br i1 %none, label %grid, label %slow
grid:
  %sizes = getelementptr i64, ptr %frame, i64 {_FRAME_GRID_XY}{grid}
  ret i64 0
slow:
  ret i64 {SLOW}
}}
define internal i64 @has_hooks(ptr %args, i64 %place, ptr %calls) {{
  %chain.at = getelementptr ptr, ptr %args, i64 %place
  %chain = load ptr, ptr %chain.at
  %none = icmp eq ptr %chain, inttoptr (i64 {id(None)} to ptr)
  br i1 %none, label %no, label %ask
ask:
  %list = call ptr {_callee("PyObject_GetAttr")}(ptr %chain, ptr %calls)
  %missing = icmp eq ptr %list, null
  br i1 %missing, label %yes, label %count
count:
  %truth = call i32 {_callee("PyObject_IsTrue")}(ptr %list)
  call void {_callee("Py_DecRef")}(ptr %list)
  %answer = sext i32 %truth to i64
  ret i64 %answer
yes:
  ret i64 1
no:
  ret i64 0
}}
define ptr @xe_finish(ptr %slow, ptr %args, i64 %nargs, i64 %status) {{
  %done = icmp eq i64 %status, 0
  br i1 %done, label %none, label %general
none:
  %nothing = inttoptr i64 {id(None)} to ptr
  call void {_callee("Py_IncRef")}(ptr %nothing)
  ret ptr %nothing
general:
  call void {_callee("PyErr_Clear")}()
  %answer = call ptr {_callee("PyObject_Vectorcall")}(ptr %slow, ptr %args, i64 %nargs, ptr null)
  ret ptr %answer
}}
"""


def _number_text() -> str:
    wrong = BAD_RANGE << KIND_SHIFT
    raised = f"""
  %e = call ptr {_callee("PyErr_Occurred")}()
  %r = icmp ne ptr %e, null
  br i1 %r, label %raised, label %good"""
    item = """
  %item.at = getelementptr ptr, ptr %args, i64 %place
  %o = load ptr, ptr %item.at"""
    parameters = "ptr %args, i64 %place, ptr %to, ptr %frame"
    integers = "".join(
        f"""
define i64 @xe_i{bits}({parameters}) {{
  %s = call i64 @narrow(ptr %args, i64 %place, ptr %to, i64 {1 << bits}, i64 {low})
  ret i64 %s
}}"""
        for bits, low in ((1, 0), (8, -(1 << 7)), (16, -(1 << 15)), (32, -(1 << 31)))
    )
    return f"""{integers}
define internal i64 @narrow(ptr %args, i64 %place, ptr %to, i64 %end, i64 %low) {{{item}
  %v = call i64 {_callee("PyLong_AsLongLong")}(ptr %o)
  store i64 %v, ptr %to
  %m = icmp eq i64 %v, -1
  br i1 %m, label %maybe, label %good
maybe:{raised}
good:
  %f = icmp slt i64 %v, %end
  %g = icmp sge i64 %v, %low
  %ok = and i1 %f, %g
  %code = sub i64 {-wrong + FIRST}, %place
  %k = select i1 %ok, i64 0, i64 %code
  ret i64 %k
raised:
  ret i64 {RAISED}
}}
define i64 @xe_i64({parameters}) {{{item}
  %s = call i64 @wide(ptr %o, ptr %to)
  ret i64 %s
}}
define i64 @xe_slm({parameters}) {{{item}
  %s = call i64 @wide(ptr %o, ptr %to)
  ret i64 %s
}}
define internal i64 @wide(ptr %o, ptr %to) {{
  %v = call i64 {_callee("PyLong_AsLongLong")}(ptr %o)
  store i64 %v, ptr %to
  %m = icmp eq i64 %v, -1
  br i1 %m, label %maybe, label %good
maybe:{raised}
raised:
  call void {_callee("PyErr_Clear")}()
  %u = call i64 {_callee("PyLong_AsUnsignedLongLong")}(ptr %o)
  store i64 %u, ptr %to
  %e2 = call ptr {_callee("PyErr_Occurred")}()
  %r2 = icmp ne ptr %e2, null
  %s = select i1 %r2, i64 {RAISED}, i64 0
  ret i64 %s
good:
  ret i64 0
}}
define internal i64 @address(ptr %o, ptr %to) {{
  %v = call i64 {_callee("PyLong_AsUnsignedLongLong")}(ptr %o)
  store i64 %v, ptr %to
  %m = icmp eq i64 %v, -1
  br i1 %m, label %maybe, label %good
maybe:{raised}
raised:
  call void {_callee("PyErr_Clear")}()
  %s = call i64 @wide(ptr %o, ptr %to)
  ret i64 %s
good:
  ret i64 0
}}
define i64 @xe_f64({parameters}) {{{item}
  %v = call double {_callee("PyFloat_AsDouble")}(ptr %o)
  store double %v, ptr %to
  %m = fcmp oeq double %v, -1.0
  br i1 %m, label %maybe, label %good
maybe:{raised}
good:
  ret i64 0
raised:
  ret i64 {RAISED}
}}
define i64 @xe_f32({parameters}) {{
  %s = call i64 @xe_f64({parameters})
  %v = load double, ptr %to
  %f = fptrunc double %v to float
  store float %f, ptr %to
  ret i64 %s
}}
define i64 @xe_bf16({parameters}) {{
  %s = call i64 @xe_f32({parameters})
  %f = load float, ptr %to
  %nan = fcmp uno float %f, 0.0
  %b = load i32, ptr %to
  %h = lshr i32 %b, 16
  %odd = and i32 %h, 1
  %bias = add i32 %odd, 32767
  %sum = add i32 %b, %bias
  %near = lshr i32 %sum, 16
  %v = select i1 %nan, i32 32704, i32 %near
  %t = trunc i32 %v to i16
  store i16 %t, ptr %to
  ret i64 %s
}}
define i64 @xe_f16({parameters}) {{
  %s = call i64 @xe_f64({parameters})
  %z = icmp eq i64 %s, 0
  br i1 %z, label %pack, label %raised
pack:
  %v = load double, ptr %to
  %rc = call i32 {_callee("PyFloat_Pack2")}(double %v, ptr %to, i32 1)
  %bad = icmp ne i32 %rc, 0
  %k = select i1 %bad, i64 {RAISED}, i64 0
  ret i64 %k
raised:
  ret i64 {RAISED}
}}
"""


def _pointer_text() -> str:
    plain, other = (kind << KIND_SHIFT for kind in (PLAIN_MEMORY, OTHER_DEVICE))
    type_offset = object.__basicsize__ - 8
    properties = ze_memory_allocation_properties_t
    words = ctypes.sizeof(properties) // 8
    return f"""
define i64 @xe_ptr(ptr %args, i64 %place, ptr %to, ptr %frame) {{
entry:
  %properties = alloca [{words} x i64]
  %owner = alloca ptr
  %self = alloca ptr
  %fact = alloca i32
  %base = alloca i64
  %size = alloca i64
  %item.at = getelementptr ptr, ptr %args, i64 %place
  %o = load ptr, ptr %item.at
  %device.at = getelementptr i64, ptr %frame, i64 {_FRAME_DEVICE}
  %device = load ptr, ptr %device.at
  %none = icmp eq ptr %o, inttoptr (i64 {id(None)} to ptr)
  br i1 %none, label %null, label %typed
null:
  store i64 0, ptr %to
  ret i64 0
typed:
  %type.at = getelementptr i8, ptr %o, i64 {type_offset}
  %type = load ptr, ptr %type.at
  %is.int = icmp eq ptr %type, inttoptr (i64 {id(int)} to ptr)
  br i1 %is.int, label %number, label %object
number:
  %sn = call i64 @address(ptr %o, ptr %to)
  br label %have
object:
  %tensor.at = getelementptr ptr, ptr %device, i64 {TENSOR_TYPE}
  %tensor = load ptr, ptr %tensor.at
  %parameter.at = getelementptr ptr, ptr %device, i64 {PARAMETER_TYPE}
  %parameter = load ptr, ptr %parameter.at
  %is.tensor = icmp eq ptr %type, %tensor
  %is.parameter = icmp eq ptr %type, %parameter
  %is.plain = or i1 %is.tensor, %is.parameter
  br i1 %is.plain, label %read, label %call
read:
  %place.at = getelementptr i64, ptr %device, i64 {TENSOR_PLACE}
  %in.object = load i64, ptr %place.at
  %handle = getelementptr i8, ptr %o, i64 %in.object
  %reader.at = getelementptr ptr, ptr %device, i64 {TENSOR_READER}
  %reader = load ptr, ptr %reader.at
  %sr = call i32 %reader(ptr %handle, ptr %to)
  %was.read = icmp eq i32 %sr, 0
  br i1 %was.read, label %placed, label %call
placed:
  %xpu.at = getelementptr i64, ptr %device, i64 {XPU_TYPE}
  %xpu64 = load i64, ptr %xpu.at
  %no.xpu = icmp eq i64 %xpu64, 0
  br i1 %no.xpu, label %look, label %whose
whose:
  store i32 0, ptr %fact
  %type.reader.at = getelementptr ptr, ptr %device, i64 {TYPE_READER}
  %type.reader = load ptr, ptr %type.reader.at
  %st = call i32 %type.reader(ptr %handle, ptr %fact)
  %its.type = load i32, ptr %fact
  %xpu = trunc i64 %xpu64 to i32
  %is.xpu = icmp eq i32 %its.type, %xpu
  br i1 %is.xpu, label %numbered, label %look
numbered:
  store i32 -1, ptr %fact
  %index.reader.at = getelementptr ptr, ptr %device, i64 {INDEX_READER}
  %index.reader = load ptr, ptr %index.reader.at
  %si = call i32 %index.reader(ptr %handle, ptr %fact)
  %its.index = load i32, ptr %fact
  %index.at = getelementptr i64, ptr %device, i64 {XPU_INDEX}
  %index = load i32, ptr %index.at
  %is.here = icmp eq i32 %its.index, %index
  br i1 %is.here, label %good, label %foreign
call:
  store ptr %o, ptr %self
  %name.at = getelementptr ptr, ptr %device, i64 {DATA_PTR}
  %name = load ptr, ptr %name.at
  %answer = call ptr {_callee("PyObject_VectorcallMethod")}(ptr %name, ptr %self, i64 1, ptr null)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %raised, label %answered
answered:
  %sa = call i64 @address(ptr %answer, ptr %to)
  call void {_callee("Py_DecRef")}(ptr %answer)
  br label %have
have:
  %s = phi i64 [%sn, %number], [%sa, %answered]
  %z = icmp eq i64 %s, 0
  br i1 %z, label %look, label %raised
look:
  %v = load i64, ptr %to
  %zero = icmp eq i64 %v, 0
  br i1 %zero, label %good, label %known
known:
  %table = getelementptr i64, ptr %device, i64 {TABLE}
  %seen = call i64 {_callee("xe_is_known")}(ptr %table, i64 %v)
  %hit = icmp ne i64 %seen, 0
  br i1 %hit, label %good, label %ask
ask:
  store [{words} x i64] zeroinitializer, ptr %properties
  store i32 {properties.STYPE}, ptr %properties
  store ptr null, ptr %owner
  %context.at = getelementptr ptr, ptr %device, i64 {CONTEXT}
  %context = load ptr, ptr %context.at
  %address = inttoptr i64 %v to ptr
  %rc = call i32 {_callee("zeMemGetAllocProperties")}(ptr %context, ptr %address, \
ptr %properties, ptr %owner)
  %refused = icmp ne i32 %rc, 0
  br i1 %refused, label %driver, label %kinds
driver:
  %rc64 = zext i32 %rc to i64
  ret i64 %rc64
kinds:
  %kind.at = getelementptr i8, ptr %properties, i64 {properties.type.offset}
  %kind = load i32, ptr %kind.at
  %plain = icmp eq i32 %kind, {UNKNOWN_MEMORY}
  br i1 %plain, label %host, label %owned
host:
  %plain.code = sub i64 {-plain + FIRST}, %place
  ret i64 %plain.code
owned:
  %on.device = icmp eq i32 %kind, {DEVICE_MEMORY}
  %mine.at = getelementptr ptr, ptr %device, i64 {DEVICE}
  %mine = load ptr, ptr %mine.at
  %its = load ptr, ptr %owner
  %different = icmp ne ptr %mine, %its
  %elsewhere = and i1 %on.device, %different
  br i1 %elsewhere, label %foreign, label %may.use
foreign:
  %foreign.code = sub i64 {-other + FIRST}, %place
  ret i64 %foreign.code
may.use:
  %is.high = icmp uge i64 %v, {known_memory.HOST_END}
  %for.good = and i1 %on.device, %is.high
  br i1 %for.good, label %measure, label %good
measure:
  %measured = call i32 {_callee("zeMemGetAddressRange")}(ptr %context, ptr %address, ptr %base, \
ptr %size)
  %has.range = icmp eq i32 %measured, 0
  br i1 %has.range, label %remember, label %good
remember:
  %begin = load i64, ptr %base
  %bytes = load i64, ptr %size
  %end = add i64 %begin, %bytes
  call void {_callee("xe_remember")}(ptr %table, i64 %begin, i64 %end)
  ret i64 0
good:
  ret i64 0
raised:
  ret i64 {RAISED}
}}
"""


def _driver_text() -> str:
    state = f"""
  %state.at = getelementptr i64, ptr %frame, i64 {_FRAME_KERNEL}
  %state = load ptr, ptr %state.at
  %kernel = load ptr, ptr %state
  %valid.at = getelementptr i64, ptr %state, i64 {VALID}"""
    parameters = "ptr %frame, i64 %index, i64 %size, ptr %value"
    return f"""
define i64 @xe_set_always({parameters}) {{{state}
  %i = trunc i64 %index to i32
  %rc = call i32 {_callee("zeKernelSetArgumentValue")}(ptr %kernel, i32 %i, i64 %size, ptr %value)
  %z = icmp eq i32 %rc, 0
  br i1 %z, label %done, label %failed
done:
  ret i64 0
failed:
  store i64 0, ptr %valid.at
  %rc64 = zext i32 %rc to i64
  ret i64 %rc64
}}
define i64 @xe_set({parameters}) {{{state}
  %place = add i64 %index, {LAST}
  %last.at = getelementptr i64, ptr %state, i64 %place
  %last = load i64, ptr %last.at
  %new = load i64, ptr %value
  %valid = load i64, ptr %valid.at
  %same = icmp eq i64 %last, %new
  %is.valid = icmp eq i64 %valid, 1
  %skip = and i1 %same, %is.valid
  br i1 %skip, label %done, label %change
change:
  store i64 %new, ptr %last.at
  %s = call i64 @xe_set_always({parameters})
  ret i64 %s
done:
  ret i64 0
}}
define i64 @xe_set_slm({parameters}) {{
  %bytes = load i64, ptr %value
  %s = call i64 @xe_set_always(ptr %frame, i64 %index, i64 %bytes, ptr null)
  ret i64 %s
}}
define i64 @xe_enqueue(ptr %frame) {{{state}
  store i64 1, ptr %valid.at
  %sizes = getelementptr i64, ptr %frame, i64 {_FRAME_GRID_XY}
  %xy = load <2 x i32>, ptr %sizes, align 4
  %x = extractelement <2 x i32> %xy, i32 0
  %y = extractelement <2 x i32> %xy, i32 1
  %z.at = getelementptr i64, ptr %frame, i64 {_FRAME_GRID_Z}
  %z = load i32, ptr %z.at
  %zx = icmp eq i32 %x, 0
  %zy = icmp eq i32 %y, 0
  %zz = icmp eq i32 %z, 0
  %zxy = or i1 %zx, %zy
  %empty = or i1 %zxy, %zz
  br i1 %empty, label %done, label %append
append:
  %list = load ptr, ptr %frame
  %rc = call i32 {_callee("zeCommandListAppendLaunchKernel")}(ptr %list, ptr %kernel, \
ptr %sizes, ptr null, i32 0, ptr null)
  %rc64 = zext i32 %rc to i64
  ret i64 %rc64
done:
  ret i64 0
}}
"""
