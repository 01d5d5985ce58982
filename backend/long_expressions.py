"""Compile sums, `elif` chains and nested calls of any length.

Triton's front end recurses n calls deep for the first of n terms, and for the last of n branches or
functions, so that it exceeds Python's recursion limit.  The compiled code and the hash of the
function do not change.
"""

from __future__ import annotations

import ast
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any

from triton.runtime.jit import DependenciesFinder

from triton_xe.deep_calls import room_for

if TYPE_CHECKING:
    from triton.compiler.code_generator import CodeGenerator

_SHORT = 20
"""Number of operations below which a chain is left to Triton."""
CALLS_OF_A_BRANCH = 40
"""Depth of the front end's calls for a branch, or for a function."""
MOST_FUNCTIONS = 300
"""Depth of nested functions for which there is room; infinite recursion is refused."""


def install() -> None:
    """Hash long chains of operations from their first operand on, and branches with a higher
    limit.
    """
    if not hasattr(DependenciesFinder._update_hash, "__wrapped__"):
        DependenciesFinder._update_hash = _with_room_to_call(DependenciesFinder._update_hash)
        DependenciesFinder.visit_BinOp = _visit_operands
        DependenciesFinder.visit_If = _with_room(DependenciesFinder.generic_visit)


def install_in_front_end() -> None:
    """Compile long chains likewise; a cached kernel needs no front end."""
    from triton.compiler.code_generator import CodeGenerator

    if not hasattr(CodeGenerator.visit_BinOp, "__wrapped__"):
        CodeGenerator.visit_Visited = lambda generator, node: node.value
        CodeGenerator.visit_BinOp = _from_the_first(CodeGenerator.visit_BinOp)
        CodeGenerator.visit_If = _with_room(CodeGenerator.visit_If)
        CodeGenerator.call_JitFunction = _with_room_to_call(CodeGenerator.call_JitFunction)


def _with_room(original: Any) -> Any:
    @wraps(original)
    def visit(visitor: ast.NodeVisitor, node: ast.If) -> Any:
        branches = _branches(node)
        if hasattr(node, "is_inside") or len(branches) < _SHORT:
            return original(visitor, node)
        for branch in branches[1:]:
            branch.is_inside = True  # type: ignore[attr-defined]
        with room_for(len(branches) * CALLS_OF_A_BRANCH):
            return original(visitor, node)

    return visit


_depth: ContextVar[int] = ContextVar("functions that call each other", default=0)


def _with_room_to_call(original: Any) -> Any:
    @wraps(original)
    def call(*given: Any, **named: Any) -> Any:
        depth = _depth.get()
        token = _depth.set(depth + 1)
        try:
            with room_for(CALLS_OF_A_BRANCH * (depth < MOST_FUNCTIONS)):
                return original(*given, **named)
        finally:
            _depth.reset(token)

    return call


def _branches(node: ast.If) -> list[ast.If]:
    """An `if`, and each `elif` after it."""
    found = [node]
    while len(found[-1].orelse) == 1 and isinstance(found[-1].orelse[0], ast.If):
        found.append(found[-1].orelse[0])
    return found


class Visited(ast.expr):
    """An operand that has been visited, with its value."""

    _fields = ("value",)
    value: Any

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def _chain(node: ast.BinOp) -> list[ast.BinOp]:
    """Operations, each of which is the first operand of the previous one.

    >>> [type(each.op).__name__ for each in _chain(ast.parse("a + b * c - d").body[0].value)]
    ['Sub', 'Add']
    """
    chain = [node]
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    return chain


def _from_the_first(original: Any) -> Any:
    @wraps(original)
    def visit(generator: CodeGenerator, node: ast.BinOp) -> Any:
        chain = _chain(node)[:-1]
        if len(chain) < _SHORT:
            return original(generator, node)
        firsts = [operation.left for operation in chain]
        try:
            for operation in reversed(chain):
                operation.left = Visited(generator.visit(operation.left))
            return original(generator, node)
        finally:  # loops visit their bodies again
            for operation, first in zip(chain, firsts, strict=True):
                operation.left = first

    return visit


def _visit_operands(finder: DependenciesFinder, node: ast.BinOp) -> None:
    chain = _chain(node)
    finder.visit(chain[-1].left)
    for operation in reversed(chain):
        finder.visit(operation.right)
