"""Add the line and column of the op to errors in programs that are written by hand."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from traceback import print_exception
from types import TracebackType

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Block, Operation, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from triton_xe.dialects import context
from triton_xe.dialects.text.locations import source_of
from triton_xe.dialects.text.reader import Reader
from triton_xe.errors import SimulatorTrap, UnsupportedError, XeError
from triton_xe.knobs import debug
from triton_xe.lowering.rewriting import below


class LocatedReader(Reader):
    """A reader that gives ops without a location their position in the text."""

    def __init__(self, text: str, name: str) -> None:
        self._file = StringAttr(name)
        self._starts = [0, *(at + 1 for at, char in enumerate(text) if char == "\n")]
        super().__init__(context(), text, name)

    def parse_operation(self) -> Operation:
        start = self.pos
        op = super().parse_operation()
        if isinstance(op.location, UnknownLoc):
            line = bisect_right(self._starts, start)
            column = start - self._starts[line - 1] + 1
            op.location = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        return op

    def read_aliases_alone(self, refusal: str) -> bool:
        """True at the end of a text without operations, which xDSL refuses and MLIR takes."""
        return (refusal == "Could not parse entire input!" and bool(self.attribute_aliases)
                and self._current_token.kind is MLIRTokenKind.EOF)

    def located(self, position: int) -> str:
        """`file:line:column` of a position in the text."""
        return _located(self.lexer.input.content, self._file.data, position)


def _located(text: str, name: str, position: int) -> str:
    """`file:line:column` of a position in a text."""
    line, start = text.count("\n", 0, position) + 1, text.rfind("\n", 0, position)
    return f"{name}:{line}:{position - start}"


def read_by_hand(text: str, name: str) -> ModuleOp:
    """Parse and verify a module; `UnsupportedError` with the location if that fails."""
    reader = None
    try:
        reader = LocatedReader(text, name)
        module = reader.parse_module()
    except ParseError as error:
        if reader is not None and reader.read_aliases_alone(error.msg):
            return ModuleOp([])
        shown = error.span.print_with_context().rstrip().split("\n")[1:]
        at = _located(text, name, error.span.start)
        raise UnsupportedError("\n".join([f"{at}: {error.msg}", *shown])) from error
    except XeError:
        raise
    except Exception as error:
        at = _located(text, name, reader.pos if reader is not None else 0)
        raise UnsupportedError(f"{at}: {_reading_error_text(error)}") from error
    verify(module)
    return module


def verify(module: ModuleOp, step: str = "") -> None:
    """Refuse a module that breaks a rule, at the op that breaks it; `step` names its pass."""
    made = f"{step} left a wrong module: " if step else ""
    try:
        module.verify()
    except Exception as error:
        what = _error_text(error) if step else _reading_error_text(error)
        raise UnsupportedError(f"{_location(_innermost_failing(module))}{made}{what}") from error
    early = next(used_early(module), None)
    if early is not None:
        raise UnsupportedError(
            f"{_location(early)}{made}{early.name} uses a value that is not defined before it"
        )


def used_early(module: ModuleOp) -> Iterator[Operation]:
    """Yield the ops with an operand that does not dominate them."""
    order = {op: number for number, op in enumerate(below(module))}
    for op in order:
        if not all(_dominates(value, op, order) for value in op.operands):
            yield op


def _dominates(value: SSAValue, user: Operation, order: Mapping[Operation, int]) -> bool:
    """True if a value is defined before its user on each path; `order` numbers each block's ops."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    region = block.parent if block is not None else None
    inside: Operation | None = user
    while inside is not None and inside.parent_region() is not region:
        inside = inside.parent_op()
    if inside is None or inside.parent is None or block is None or region is None:
        return False
    if inside.parent is not block:
        return DominanceInfo(region).dominates(block, inside.parent)
    return isinstance(owner, Block) or order[owner] < order[inside]


def _innermost_failing(module: ModuleOp) -> Operation:
    """The innermost op that does not verify."""
    return max(
        (op for op in below(module) if not _verifies(op)), key=_depth, default=module
    )


def _verifies(op: Operation) -> bool:
    """True if the op verifies; verifiers may raise any exception."""
    try:
        op.verify()
    except Exception:
        return False
    return True


def _depth(op: Operation) -> int:
    parent = op.parent_op()
    return 0 if parent is None else 1 + _depth(parent)


@contextmanager
def errors_located(step: str) -> Iterator[None]:
    """Add the location of the op to refusals in this context; other exceptions become refusals."""
    try:
        yield
    except XeError as error:
        if not isinstance(error, SimulatorTrap):
            error.args = (f"{_location(_op_of(error.__traceback__))}{error}",)
        raise
    except VerifyException as error:
        at = _location(_op_of(error.__traceback__))
        raise UnsupportedError(f"{at}{error}") from error
    except Exception as error:
        _show(error)
        at = _location(_op_of(error.__traceback__))
        raise UnsupportedError(
            f"{at}{step} cannot take this: {_error_text(error)} (TRITON_XE_DEBUG=1 shows where)"
        ) from error


def _show(error: Exception) -> None:
    """Print the traceback if `TRITON_XE_DEBUG` is set."""
    if debug():
        print_exception(error)


def _op_of(traceback: TracebackType | None) -> Operation | None:
    """The op that an error is about, found among the local variables of the stack frames.

    It is the most deeply nested op with a location, in the innermost frame that has one.  If no
    frame has one, it is the first op with a location in the module.
    """
    found, whole = None, None
    while traceback is not None:
        things = map(_as_op, traceback.tb_frame.f_locals.values())
        ops = [op for op in things if op is not None]
        found = max((op for op in ops if source_of(op) is not None), key=_depth, default=found)
        whole = next((op for op in ops if isinstance(op, ModuleOp)), whole)
        traceback = traceback.tb_next
    if found is None and whole is not None:
        return next((op for op in whole.walk() if source_of(op) is not None), None)
    return found


def _as_op(thing: object) -> Operation | None:
    """An operation itself, or that of a value; None for other objects.

    None also for an operation whose constructor raised the error: it has no location yet.
    """
    thing = thing.owner if isinstance(thing, SSAValue) else thing
    return thing if isinstance(thing, Operation) and "location" in vars(thing) else None


def _location(thing: Operation | None) -> str:
    """`file:line:column: `, or an empty text if the location is not known."""
    source = source_of(thing) if thing is not None else None
    return f"{source.outermost}: " if source is not None else ""


def _is_plain(error: Exception) -> bool:
    """True if the text of an error can be shown without its type."""
    return isinstance(error, XeError | VerifyException | ValueError)


def _error_text(error: Exception) -> str:
    """The text of an error, with its type if it is not one of ours."""
    return str(error) if _is_plain(error) else f"{type(error).__name__}: {error}"


def _reading_error_text(error: Exception) -> str:
    """Describe the error of a text that its reader could not parse."""
    if _is_plain(error):
        return str(error)
    _show(error)
    return "a type, a number or an attribute here is not of the kind that belongs here"
