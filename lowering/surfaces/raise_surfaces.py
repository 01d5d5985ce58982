"""Rule raise-surfaces: loads for a dot, and stores of its result, become 2D surface accesses.

    scf.for ... { tt.load %ptrs, %mask ; tt.dot }
 -> %ok = <guards: pitch, alignment, no wrap-around, at least one iteration>
    scf.if %ok { %s = xe.cursor ... ; scf.for ... { xe.block_load %s ; tt.dot ; xe.advance } ... }
    else       { the original }

Each load limits a position that does not move by a constant step to the edges of the surface, so
that it needs no guard.  Inductor's flattened persistent product has such positions.
Guards that only the kernel can test are tested once, before the loop.  The rest of the block is
copied into both versions, so that no phis of accumulators are needed.  Refusals become remarks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import NamedTuple, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import TensorType, i32, i64
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import xe
from triton_xe.dialects.arith_ext import (
    ExtFOp,
    ExtSIOp,
    SIToFPOp,
    TruncFOp,
    TruncIOp,
    UIToFPOp,
)
from triton_xe.dialects.tt.memory import LoadOp, StoreOp
from triton_xe.dialects.tt.ops import BitcastOp, DotOp, FpToFpOp, TransOp
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.hardware.block_2d import Guard
from triton_xe.hardware.target import Target
from triton_xe.lowering.facts.affine import (
    Affine,
    Iteration,
    LastIteration,
    Misalignment,
    Remainder,
    invariant_in,
    is_computed_in,
)
from triton_xe.lowering.facts.poly import Poly, at_least
from triton_xe.lowering.facts.values import Unknown, pointee_bits, shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.block_layouts import block_plan, is_worth_a_block
from triton_xe.lowering.layouts.dpas_choice import instruction_of
from triton_xe.lowering.layouts.propagate_layouts import is_block, messages_of
from triton_xe.lowering.module_facts import options_of, remark
from triton_xe.lowering.rewriting import (
    Scalars,
    all_of,
    below,
    detach,
    erase_dead,
    extend_for,
    hoist,
    if_else,
    last_of,
    locate,
    overflow_guards,
    yield_more,
)
from triton_xe.lowering.specialize.launch_guards import assume, tested_in_kernel
from triton_xe.lowering.surfaces.copies import copied_loads, stores_blocks
from triton_xe.lowering.surfaces.surfaces import Surface, surface_access
from triton_xe.lowering.surfaces.weights_by_blocks import scales_by_blocks, weights_by_blocks
from triton_xe.plan import Refusal

_PASS_THROUGH = (
    ConvertLayoutOp, TransOp, TruncFOp, ExtFOp, FpToFpOp, BitcastOp, SIToFPOp, UIToFPOp, ExtSIOp,
    TruncIOp, arith.BitcastOp,
)

_ZERO = Poly({})


class Motion(NamedTuple):
    """A coordinate in a loop: start + step * iteration; not used for a position that jumps."""

    start: Poly
    step: Poly


class Access(NamedTuple):
    """The surface of a load that becomes 2D messages, and how its y and x move in a loop."""

    surface: Surface
    y: Motion
    x: Motion


def raise_surfaces(function: FuncOp, scope: Scope) -> None:
    """Loads and stores of matrices -> accesses to surfaces."""
    refusal = _refusal(scope)
    if not refusal:
        _raise(function, scope)
    elif function.is_kernel:
        remark(scope.module, refusal)
    for prefetched in all_of(function, xe.PrefetchedOp):
        if not isinstance(prefetched.value.owner, xe.BlockLoadOp):
            Rewriter.erase_op(prefetched)


def _refusal(scope: Scope) -> str:
    """Reason why no access can be a 2D message; empty if there is none."""
    device = scope.target
    if scope.native is None:
        return (f"no DPAS and no 2D messages with {scope.lanes} lanes: both need "
                f"{device.subgroup_size} on {device.name}")
    return "" if device.has_block_2d else (
        f"{device.name} has no 2D block messages: loads stay gathers")


def _raise(function: FuncOp, scope: Scope) -> None:
    """Raise the loads of a function, then its stores."""
    target, affine, tested = scope.target, scope.affine, set[Operation]()
    choice = _Choice(scope, affine)
    for sites in _grouped_by_test(_sites(_roles(function, choice), choice)):
        if _stays_inside(sites[0].anchor):
            _version(sites, scope, tested)
        else:
            remark(sites[0].anchor, "stays as it is: later blocks use what it computes")
    erase_dead(function)
    if all_of(function, scf.ForOp):
        affine = Affine(affine.facts, affine.needed)  # a loop that was written anew is another loop
    for store in all_of(function, StoreOp):
        if in_slow_version(store):
            continue
        if store.block is not None or (not scope.keeps_layouts and (
            stores_dot(store.value, target) or stores_blocks(store.value)
        )):
            _raise_store(store, affine, store in tested)


def _stores_after(anchor: Operation, scope: Scope) -> dict[StoreOp, tuple[Guard, ...]]:
    """Stores of dots after an operation, with guards that the kernel can test before it.

    A launch tests all of its guards at once, and so does the kernel those that are left.
    """
    if scope.keeps_layouts or options_of(scope.module).guards != "launch":
        return {}
    found = {}
    for store in _rest(anchor):
        if not isinstance(store, StoreOp) or not stores_dot(store.value, scope.target):
            continue
        surface = surface_access(store, scope.affine, None)
        if isinstance(surface, Refusal):
            continue
        tested = tested_in_kernel(surface.guards, anchor)
        if tested and hoist(values_of_guards(tested), anchor):
            found[store] = surface.guards
    return found


def _is_on_dpas(op: Operation | Block, target: Target) -> bool:
    return isinstance(op, DotOp | xe.ScaledDotOp) and not isinstance(
        instruction_of(op, target), str)


class Role(Enum):
    """Why a load may become 2D messages."""

    SPECIFIED = auto()
    """The program asks for a block, in a layout."""
    OPERAND = auto()
    """It is an operand of a dot."""
    JOINED = auto()
    """It is combined with a dot's result."""
    UNPACKED = auto()
    """It is unpacked for a dot, in a layout that messages bring."""
    COPIED = auto()
    """It is stored, element by element."""


def _roles(function: FuncOp, choice: _Choice) -> dict[LoadOp, Role]:
    """The loads that may become 2D messages."""
    scope = choice.scope
    if scope.keeps_layouts:
        return {load: Role.SPECIFIED for load in all_of(function, LoadOp) if load.block is not None}
    sources, joined = _dot_loads(function, scope.target)
    weights = [*weights_by_blocks(function, scope.target, scope.warps),
               *scales_by_blocks(function, scope.target, scope.warps)]
    roles = {**dict.fromkeys(sources, Role.OPERAND), **dict.fromkeys(joined, Role.JOINED),
             **dict.fromkeys(weights, Role.UNPACKED)}
    for store in all_of(function, StoreOp):
        if not stores_dot(store.value, scope.target):
            for load in choice.copied(store):
                roles.setdefault(load, Role.COPIED)
    return roles


def _dot_loads(function: Operation, target: Target) -> tuple[list[LoadOp], list[LoadOp]]:
    """Loads of operands of dots for the matrix unit, and loads joined with a dot's result.

    The latter are stored with it, or become an operand of another dot, element by element.
    """
    found: list[DotOp | xe.ScaledDotOp] = all_of(function, DotOp, xe.ScaledDotOp)
    dots = [op for op in found if _is_on_dpas(op, target)]
    operands = [value for dot in dots for value in (dot.a, dot.b)]
    sources = [op for op, _ in map(_source, operands) if isinstance(op, LoadOp)]
    joined = []
    for value in (*operands, *(store.value for store in all_of(function, StoreOp))):
        if stores_dot(value, target):
            joined += [op for op in _combined(value) if isinstance(op, LoadOp)
                       and len(shape_of(op.result)) == 2 and op not in sources]
    return list(dict.fromkeys(sources)), list(dict.fromkeys(joined))


def _source(value: SSAValue) -> tuple[Operation | Block, bool]:
    """The operation that a value comes from, through conversions; True if they transpose it."""
    op, swapped = value.owner, False
    while isinstance(op, _PASS_THROUGH):
        swapped ^= isinstance(op, TransOp)
        op = op.operands[0].owner
    return op, swapped


@dataclass
class Site:
    """Accesses that are raised together or not at all: those of a loop, or of straight code."""

    anchor: Operation
    loop: scf.ForOp | None
    accesses: dict[LoadOp, Access]

    @property
    def guards(self) -> list[Guard]:
        return [guard for surface, _, _ in self.accesses.values() for guard in surface.guards]

    @cached_property
    def values(self) -> set[SSAValue]:
        """The values that must be known before the site."""
        polys = []
        for surface, y, x in self.accesses.values():
            polys += [surface.height, surface.width, surface.pitch]
            polys += [y.start, y.step, x.start, x.step]
        found: set[SSAValue] = {surface.base for surface, _, _ in self.accesses.values()}
        if self.loop is not None:
            found |= set(self.loop.operands[:3])
        tested = tested_in_kernel(self.guards, self.anchor)
        return found.union(values_of_guards(tested), *map(values_of, polys))


def values_of_guards(guards: Iterable[Guard]) -> set[SSAValue]:
    """The SSA values that a test of guards needs."""
    amounts = [amount for guard in guards for amount in (guard.amount, guard.bound)]
    return set[SSAValue]().union(*map(values_of, amounts))


def values_of(amount: object) -> set[SSAValue]:
    """The SSA values that a polynomial, a symbol of one or the amount of a guard comes from."""
    match amount:
        case SSAValue():
            return {amount}
        case Misalignment(base):
            return {base}
        case Remainder(value, modulus):
            return values_of(value) | values_of(modulus)
        case LastIteration(loop):
            return set(loop.operands[:3])
        case Poly():
            return set().union(*map(values_of, amount.symbols))
    return set()


def _sites(roles: dict[LoadOp, Role], choice: _Choice) -> list[Site]:
    """Loads that can be raised, by the block that contains them."""
    groups: dict[Block, list[LoadOp]] = {}
    for load in roles:
        assert load.parent is not None
        groups.setdefault(load.parent, []).append(load)
    sites = []
    for block, members in groups.items():
        parent = block.parent_op()
        loop = parent if isinstance(parent, scf.ForOp) else None
        found = {}
        for load in members:
            access = choice.access(load, roles[load], loop)
            if isinstance(access, Refusal):
                remark(load, f"stays a gather: {access}")
            else:
                found[load] = access
        if found:
            sites.append(Site(loop or _first_in_block(list(found)), loop, found))
    return sites


class _Choice(NamedTuple):
    """Decides which loads become 2D messages."""

    scope: Scope
    affine: Affine

    def copied(self, store: StoreOp) -> list[LoadOp]:
        """Loads whose elements a store copies, if blocks can do the whole copy."""
        found = copied_loads(store)
        scanned = any(one.scanned for one in found)
        every = [(store, False), *((one.op, one.transposed) for one in found)]
        return [one.op for one in found if isinstance(one.op, LoadOp)] if found and all(
            self._pays(op, transposed, scanned) for op, transposed in every) else []

    def _pays(self, op: Operation, transposed: bool, scanned: bool) -> bool:
        """True if 2D messages are possible, and fewer than gathers, for an access of a copy."""
        if not isinstance(op, LoadOp | StoreOp):
            return False
        loop, stores = op.parent_op(), isinstance(op, StoreOp)
        surface = surface_access(
            op, self.affine, loop if isinstance(loop, scf.ForOp) and not stores else None)
        if isinstance(surface, Refusal):
            return False
        strides, along = self.affine.index(op.ptr).strides, surface.transposed != transposed
        if all(stride.as_constant != 1 for stride in strides) or (stores and along):
            return False
        shape = shape_of(op.ptr)[::-1] if transposed else shape_of(op.ptr)
        return is_worth_a_block(shape, pointee_bits(op.ptr), self.scope.target, self.scope.warps,
                                stores=stores, transposed=along, whole_columns=scanned)

    def access(self, load: LoadOp, role: Role, loop: scf.ForOp | None) -> Access | Refusal:
        """How 2D messages access what a load does, or why it stays a gather."""
        surface = surface_access(load, self.affine, loop)
        if isinstance(surface, Refusal):
            return surface
        y, x = (Motion(_ZERO, _ZERO) if surface.jumps else _motion(at, loop)
                for at in (surface.y, surface.x))
        if y is None or x is None:
            return Refusal("a coordinate does not advance by a constant step")
        refused = None
        match role:
            case Role.SPECIFIED:
                refused = self._as_specified(load, surface.transposed)
            case Role.UNPACKED:
                refused = _kernel_test(load, surface)
            case Role.OPERAND | Role.JOINED:
                refused = self._layout(load, surface)
        return refused or Access(surface, y, x)

    def _layout(self, load: LoadOp, surface: Surface) -> Refusal | None:
        """Refuse a load for a dot that no message brings as a block."""
        plan = block_plan(shape_of(load.ptr), pointee_bits(load.ptr), self.scope.target,
                          self.scope.warps, transposed=surface.transposed)
        return plan if isinstance(plan, Refusal) else None

    def _as_specified(self, load: LoadOp, transposed: bool) -> Refusal | None:
        """Refuse a block that no message brings; prefetches have any layout."""
        kind, target = load.result.type, self.scope.target
        if any(isinstance(use.operation, xe.PrefetchedOp) for use in load.result.uses):
            return None
        plan = messages_of(target, kind, transposed) if is_block(kind) else block_plan(
            shape_of(load.ptr), pointee_bits(load.ptr), target, self.scope.warps,
            transposed=transposed)
        return plan if isinstance(plan, Refusal) else None


def _kernel_test(load: LoadOp, surface: Surface) -> Refusal | None:
    """Refuse a load if the kernel itself would have to test whether it can be 2D messages."""
    tested = tested_in_kernel(surface.guards, load)
    return Refusal(f"the launch cannot test that {tested[0].what}") if tested else None


def _grouped_by_test(sites: list[Site]) -> list[list[Site]]:
    """Groups of sites that share one test: of a block whose facts are known before the first."""
    blocks: dict[Block, list[Site]] = {}
    for site in sites:
        assert site.anchor.parent is not None
        blocks.setdefault(site.anchor.parent, []).append(site)
    joint = []
    for block, members in blocks.items():
        place = {op: i for i, op in enumerate(block.ops)}
        groups: list[list[Site]] = []
        for site in sorted(members, key=lambda s: place[s.anchor]):
            if groups and hoist(site.values, groups[-1][0].anchor):
                groups[-1].append(site)
            elif hoist(site.values, site.anchor):
                groups.append([site])
            else:
                groups += [[part] for part in _split_site(site)]
        joint += groups
    return joint[::-1]


def _split_site(site: Site) -> list[Site]:
    """Single accesses of straight code whose facts are known before them; others stay gathers."""
    found = []
    for op, access in site.accesses.items():
        part = Site(op, None, {op: access})
        if site.loop is None and hoist(part.values, op):
            found.append(part)
        else:
            remark(op, "stays a gather: what its surface depends on is computed too late")
    return found


def _motion(at: Poly, loop: Operation | None) -> Motion | None:
    """Split a coordinate into start and step per iteration; None if the step varies."""
    if loop is None:
        return Motion(at, Poly({}))
    moving, still = at.split(lambda s: is_computed_in(s, loop))
    step, rest = moving.divide(Poly.symbol(Iteration(loop)))
    return None if rest.terms or not invariant_in(step, loop) else Motion(still, step)


def _first_in_block(ops: Sequence[Operation]) -> Operation:
    """The first of some operations in the order of their block."""
    block = ops[0].parent
    assert block is not None
    return next(op for op in block.ops if op in ops)


def _version(sites: list[Site], scope: Scope, whole: set[Operation]) -> None:
    """Guard the code from the first site on: with surfaces if the guards hold, else as before.

    If the kernel tests guards of loads, it tests those of stores with them, and `whole` gets
    these stores.
    """
    anchor = sites[0].anchor
    guards: list[Guard] = list(dict.fromkeys(guard for site in sites for guard in site.guards))
    loops = [site.loop for site in sites if site.loop is not None]
    jumping = {op: _limited_position(op, access.surface) for site in sites
               for op, access in site.accesses.items() if access.surface.jumps}
    affine = Affine()
    runs = {loop for loop in loops
            if xe.RUNS.of(loop) or _surely_runs(loop, affine)}
    if len(loops) == 1 and not runs and not jumping:
        low, high = (affine.scalar(v) for v in (loops[0].lb, loops[0].ub))
        once = at_least(high - low, Poly.constant(1), "the loop runs at least once")
        with suppress(Unknown):
            list(overflow_guards([once]))  # raises `Unknown` if there are none
            guards.append(once)
            runs = set(loops)
    for site in sites:
        for op, (surface, _, _) in site.accesses.items():
            remark(op, "2D block load" + only_if(surface.guards))
    tested = assume(guards, anchor)
    stores = _stores_after(anchor, scope) if tested else {}
    tested += assume([g for each in stores.values() for g in each if g not in guards], anchor)
    condition = Scalars(InsertPoint.before(anchor)).all_hold(tested)
    everything: list[Operation] = [
        op for site in sites for op in (site.loop, *site.accesses) if op is not None
    ]
    everything += stores
    everything += whole.intersection(_rest(anchor))
    everything += [at for position in jumping.values() for at in position]
    copies = dict(zip(everything, everything, strict=True))
    if condition is not None:
        copies = split_rest(anchor, condition, everything)
    for site in sites:
        loop = None if site.loop is None else copies[site.loop]
        assert loop is None or isinstance(loop, scf.ForOp)
        if loop is not None and site.loop in runs:
            xe.RUNS.put(loop)
        accesses = {cast(LoadOp, copies[op]): access for op, access in site.accesses.items()}
        first = loop if loop is not None else _first_in_block(list(accesses))
        positions: dict[LoadOp, list[SSAValue]] = {
            cast(LoadOp, copies[op]): [copies[at].results[0] for at in jumping[op]]
            for op in site.accesses if op in jumping}
        _place_cursors(first, loop, accesses, positions)
    whole.update(copy for op, copy in copies.items() if op in stores or op in whole)


def _surely_runs(loop: scf.ForOp, affine: Affine) -> bool:
    """True if a loop certainly runs at least once."""
    low, high = (affine.scalar(v) for v in (loop.lb, loop.ub))
    return affine.nonnegative(high - low - 1)


def _stays_inside(anchor: Operation) -> bool:
    """True if all uses of values computed from `anchor` on are in the rest of its block."""
    block = anchor.parent
    assert block is not None
    owner = block.parent_op()
    assert owner is not None
    if len(owner.regions[0].blocks) == 1:
        return True
    return not any(
        block.find_ancestor_op_in_block(use.operation) is None
        for op in _rest(anchor) for result in op.results for use in result.uses
    )


def _rest(anchor: Operation) -> list[Operation]:
    """The operations of a block from one on."""
    found: list[Operation] = [anchor]
    while (following := found[-1].next_op) is not None:
        found.append(following)
    return found


def split_rest(
    anchor: Operation, condition: SSAValue, ops: list[Operation]
) -> dict[Operation, Operation]:
    """Move the rest of the block into both sides of an scf.if; return original -> fast copy."""
    block = anchor.parent
    assert block is not None
    last = block.last_op
    assert last is not None
    carried = list(last.operands) if last.name != "tt.return" or last.operands else []
    rest = _rest(anchor)[:-1]
    inside = {result for op in rest for result in op.results}
    escaping = [v for v in dict.fromkeys(carried) if v in inside]
    choice = two_versions(condition, InsertPoint.before(anchor), [v.type for v in escaping])
    fast, slow = (region.block for region in choice.regions)
    mapping: dict[SSAValue, SSAValue] = {}
    copies: dict[Operation, Operation] = {}
    for op in rest:
        copy = op.clone(mapping)
        fast.add_op(copy)
        for mine, theirs in zip(below(op), below(copy), strict=True):
            copies[mine] = theirs
    fast.add_op(scf.YieldOp(*(mapping[v] for v in escaping)))
    for op in rest:
        detach(op)
        slow.add_op(op)
    slow.add_op(scf.YieldOp(*escaping))
    outside = dict(zip(escaping, choice.results, strict=True))
    last.operands = [outside.get(v, v) for v in last.operands]
    return {op: copies[op] for op in ops}


def _place_cursors(
    first: Operation,
    loop: scf.ForOp | None,
    accesses: dict[LoadOp, Access],
    positions: dict[LoadOp, list[SSAValue]],
) -> None:
    """Replace loads by block loads at cursors, which a loop carries and advances.

    A load at one of `positions` has a cursor in the loop.
    """
    scalars = Scalars(InsertPoint.before(first))
    moving = {op: access for op, access in accesses.items() if op not in positions}
    cursors = []
    for op, (surface, y, x) in moving.items():
        cursors.append(scalars.insert(_cursor(scalars, surface, y.start, x.start, op.result)))
    steps = [
        (scalars.poly32(y.step), scalars.poly32(x.step)) for _, y, x in moving.values()
    ]
    jumping = {op: _cursor(scalars, accesses[op].surface, row, column, op.result)
               for op, (row, column) in positions.items()}
    at: list[SSAValue] = list(cursors)
    if loop is not None:
        loop, added = extend_for(loop, cursors)
        at = list(added)
    held = dict(zip(moving, at, strict=True))
    for op, cursor in jumping.items():
        Rewriter.insert_op(cursor, InsertPoint.before(op))
        held[op] = cursor.cursor
    for op, cursor_value in held.items():
        surface = accesses[op].surface
        load = xe.BlockLoadOp(cursor=cursor_value, value_type=op.result.type,
                              transposed=surface.transposed, unpacked=op.unpacked)
        locate(op, load)
        Rewriter.replace_op(op, load)
    if loop is not None:
        end = loop.body.block.last_op
        assert end is not None
        moved = [xe.AdvanceOp(cursor=c, rows=dy, columns=dx, moved_type=c.type)
                 for c, (dy, dx) in zip(at, steps, strict=True)]
        for advance in moved:
            Rewriter.insert_op(advance, InsertPoint.before(end))
        yield_more(loop, [advance.moved for advance in moved])


def _limited_position(load: LoadOp, surface: Surface) -> list[Operation]:
    """Compute y and x before a load, at most as far outside as all elements are masked."""
    rows, columns = shape_of(load.ptr)[::-1] if surface.transposed else shape_of(load.ptr)
    return [_limited(load, surface.y, -rows, surface.height),
            _limited(load, surface.x, -columns, surface.width)]


def _limited(load: LoadOp, at: Poly, low: int, high: Poly) -> Operation:
    """Compute a coordinate before a load, between two bounds that fit 32 bits."""
    scalars = Scalars(InsertPoint.before(load))
    (symbol,) = at.symbols if len(at.symbols) == 1 else (None,)
    is_word = isinstance(symbol, SSAValue) and symbol.type == i32 and at == Poly.symbol(symbol)
    read, kind = (scalars.poly32, i32) if is_word else (scalars.poly, i64)
    least = scalars.insert(arith.MaxSIOp(read(at), scalars.constant(low, kind)))
    limited: Operation = arith.MinSIOp(least, read(high))
    scalars.insert(limited)
    if not is_word:
        limited = TruncIOp(limited.results[0], i32)
        scalars.insert(limited)
    return limited


def _cursor(
    scalars: Scalars, surface: Surface, y: Poly | SSAValue, x: Poly | SSAValue, tile: SSAValue
) -> xe.CursorOp:
    """A cursor at (y, x) of a surface that has the elements of a tile; it is to be inserted."""
    kind = tile.type
    assert isinstance(kind, TensorType)
    return xe.CursorOp(
        base=surface.base, height=scalars.poly32(surface.height),
        width=scalars.poly32(surface.width), pitch=scalars.poly32(surface.pitch),
        y=y if isinstance(y, SSAValue) else scalars.poly32(y),
        x=x if isinstance(x, SSAValue) else scalars.poly32(x),
        base_alignment=surface.base_alignment, cursor_type=xe.CursorType(kind.element_type),
    )


def stores_dot(stored: SSAValue, target: Target) -> bool:
    """True if a stored value comes from a dot, through element-wise operations."""
    return any(_is_on_dpas(op, target) for op in _combined(stored))


def _combined(stored: SSAValue) -> Iterator[Operation]:
    """Yield the operations that a value is computed from element by element.

    A dot continues at its accumulator; loads end the walk.
    """
    work, seen = [stored], set[SSAValue]()
    while work:
        value = work.pop()
        if type(value) is not OpResult or value in seen or len(seen) > 200:
            continue
        op = value.op
        seen.add(value)
        yield op
        if type(op) is scf.ForOp:
            index = op.results.index(value)
            work += [last_of(op.body.block).operands[index], op.iter_args[index]]
        elif isinstance(op, DotOp | xe.ScaledDotOp):
            work.append(op.c)
        elif type(op) in (FpToFpOp, ConvertLayoutOp) or op.dialect_name() in ("arith", "math"):
            work += op.operands


def in_slow_version(op: Operation) -> bool:
    """True if `op` is in the unguarded side of a versioned region."""
    block = op.parent
    while block is not None:
        parent = block.parent_op()
        if parent is None:
            return False
        if xe.VERSIONS.of(parent) and parent.regions[1].block is block:
            return True
        block = parent.parent
    return False


def _raise_store(store: StoreOp, affine: Affine, is_tested: bool) -> None:
    """Replace a store by a 2D block store, whose guards may be tested, or remark why not."""
    surface = surface_access(store, affine, None)
    if isinstance(surface, Surface) and surface.transposed:
        surface = Refusal("2D block stores do not transpose")
    if isinstance(surface, Refusal):
        remark(store, f"stays a scatter: {surface}")
        return
    remark(store, "2D block store" + only_if(surface.guards))
    store_block([store], store.value, surface, () if is_tested else surface.guards)


def only_if(guards: Iterable[Guard]) -> str:
    """Format guards as the end of a remark."""
    what = ", ".join(dict.fromkeys(guard.what for guard in guards))
    return f", if {what}" if what else ""


def two_versions(
    condition: SSAValue, at: InsertPoint, results: Sequence[Attribute] = ()
) -> scf.IfOp:
    """Create an scf.if for a fast version and a general one."""
    choice = if_else(condition, results)
    xe.VERSIONS.put(choice)
    Rewriter.insert_op(choice, at)
    return choice


def store_block(
    stores: Sequence[Operation], value: SSAValue, surface: Surface, guards: Iterable[Guard]
) -> scf.IfOp | None:
    """Store a tile as a block instead of `stores`; return the scf.if, if one is needed."""
    at, guards = InsertPoint.before(stores[-1]), list(guards)
    condition = Scalars(at).all_hold(assume(guards, stores[-1]))
    if condition is None:
        _block_store(stores[-1], value, surface, at)
        for store in stores:
            Rewriter.erase_op(store)
        return None
    choice = two_versions(condition, at)
    fast, slow = (region.block for region in choice.regions)
    _block_store(stores[-1], value, surface, InsertPoint.at_end(fast))
    for store in stores:
        detach(store)
        slow.add_op(store)
    for block in (fast, slow):
        block.add_op(scf.YieldOp())
    return choice


def _block_store(store: Operation, value: SSAValue, surface: Surface, at: InsertPoint) -> None:
    """Store a tile to a surface, in place of `store`."""
    scalars = Scalars(at)
    made = xe.BlockStoreOp(
        value=value,
        cursor=scalars.insert(_cursor(scalars, surface, surface.y, surface.x, value)))
    locate(store, made)
    Rewriter.insert_op(made, at)
