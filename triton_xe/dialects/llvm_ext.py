"""The ops and attributes of dialect `llvm` that Triton's front end creates.

    llvm.intr.assume %condition : i1                                        # tl.assume
    #llvm.loop_annotation<licm = #llvm.loop_licm<disable = true>>           # disable_licm=True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, i1
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, irdl_op_definition, operand_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer

LOOP_ANNOTATION = "llvm.loop_annotation"
"""Name of the attribute on a loop."""


@irdl_op_definition
class AssumeOp(IRDLOperation):
    """Assume that a condition is true, as the kernel's author states; ignoring it is correct."""

    name = "llvm.intr.assume"
    condition = operand_def(i1)
    assembly_format = "$condition attr-dict `:` type($condition)"


class _Entries(ParametrizedAttribute):
    """An attribute `<key = value, ...>`."""

    entries: DictionaryAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def entry() -> tuple[str, Attribute]:
            key = parser.parse_identifier()
            parser.parse_punctuation("=")
            return key, parser.parse_attribute()

        found = parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry)
        return [DictionaryAttr(dict(found))]

    def print_parameters(self, printer: Printer) -> None:
        def entry(item: tuple[str, Attribute]) -> None:
            printer.print_string(f"{item[0]} = ")
            printer.print_attribute(item[1])

        with printer.in_angle_brackets():
            printer.print_list(self.entries.data.items(), entry)


@irdl_attr_definition
class LoopLicmAttr(_Entries):
    """Options of LLVM's loop-invariant code motion for one loop.

    >>> LoopLicmAttr.disabled().is_disabled
    True
    """

    name = "llvm.loop_licm"

    @classmethod
    def disabled(cls) -> Self:
        return cls(DictionaryAttr({"disable": IntegerAttr(1, i1)}))

    @property
    def is_disabled(self) -> bool:
        value = self.entries.data.get("disable")
        return isinstance(value, IntegerAttr) and value.value.data != 0


@irdl_attr_definition
class LoopAnnotationAttr(_Entries):
    """Annotations of a loop for LLVM."""

    name = "llvm.loop_annotation"


def keeps_invariants(loop: Operation) -> bool:
    """True if the author disabled loop-invariant code motion for the loop."""
    annotation = loop.attributes.get(LOOP_ANNOTATION)
    if not isinstance(annotation, LoopAnnotationAttr):
        return False
    licm = annotation.entries.data.get("licm")
    return isinstance(licm, LoopLicmAttr) and licm.is_disabled


LLVM = Dialect("llvm", [AssumeOp], [LoopLicmAttr, LoopAnnotationAttr])
