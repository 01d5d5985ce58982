"""XeTile's matrix multiplication.

Source: the RFC for XeTile and XeGPU, section "XeTile Dialect"; see `triton_xe.dialects.xetile`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    AnyFloat,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.text.assembly import (
    parse_operand_list,
    parse_type_list,
    print_type_after,
    resolve,
)
from triton_xe.dialects.text.tile_syntax import (
    parse_arrow,
    parse_attr_dict,
    print_attr_dict,
    print_types,
)
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.errors import LegalityError

Matrix = tuple[int, int, int, int]


def _blocked(vector: VectorType[Attribute], matrix: str) -> Matrix:
    """(outer rows, outer columns, inner rows, inner columns); 1 block if the vector is 2D."""
    shape = vector.get_shape()
    if len(shape) == 2:
        return 1, 1, shape[0], shape[1]
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[3]
    raise VerifyException(
        f"xetile.tile_mma: matrix {matrix} is a 2D vector, or 4D with inner blocks, not {vector}"
    )


@irdl_op_definition
class TileMmaOp(IRDLOperation):
    """D = C + A * B on tiles in registers; without `acc`, C is zero.

    2D: MxK, KxN, MxN.  4D: [M', K', m, k], [K', N', k, n], [M', N', m, n].
    """

    name = "xetile.tile_mma"
    a = operand_def(VectorType)
    b = operand_def(VectorType)
    acc = opt_operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        *,
        a: SSAValue,
        b: SSAValue,
        acc: SSAValue | None = None,
        result_type: Attribute | None = None,
    ) -> None:
        """`result_type` may be left out when `acc` is given."""
        if result_type is None:
            if acc is None:
                raise LegalityError("xetile.tile_mma without acc needs a result type")
            result_type = acc.type
        Operation.__init__(
            self,
            operands=(a, b) if acc is None else (a, b, acc),
            result_types=(result_type,),
        )

    @property
    def vectors(self) -> tuple[VectorType[Attribute], VectorType[Attribute], VectorType[Attribute]]:
        """The types of A, B and the result."""
        a, b, result = self.a.type, self.b.type, self.result.type
        assert isinstance(a, VectorType)
        assert isinstance(b, VectorType)
        assert isinstance(result, VectorType)
        return a, b, result

    def verify_(self) -> None:
        a, b, result = self.vectors
        if self.acc is not None and self.acc.type != result:
            raise VerifyException(
                f"{self.name}: C and the result have the same type, not {self.acc.type} and"
                f" {result}"
            )
        if len({len(vector.get_shape()) for vector in (a, b, result)}) != 1:
            raise VerifyException(
                f"{self.name}: A, B and C are all 2D or all 4D, not {a}, {b} and {result}"
            )
        am, ak, bm, bk = _blocked(a, "A")
        kb, n, kk, bn = _blocked(b, "B")
        if (ak, bk) != (kb, kk) or _blocked(result, "C") != (am, n, bm, bn):
            raise VerifyException(
                f"{self.name}: shapes must be MxK, KxN and MxN, outer and inner alike, not {a},"
                f" {b} and {result}"
            )
        _verify_elements(self.name, a.element_type, b.element_type, result.element_type)

    @classmethod
    def parse(cls, parser: Parser) -> TileMmaOp:
        operands = parse_operand_list(parser)
        _, attributes = parse_attr_dict(parser, cls)
        parser.parse_punctuation(":")
        types = parse_type_list(parser)
        parse_arrow(parser)
        result = parser.parse_type()
        if len(operands) not in (2, 3):
            parser.raise_error(f"{cls.name} takes A, B and optionally C")
        return cls.create(
            operands=resolve(parser, operands, types),
            result_types=(result,),
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        print_attr_dict(printer, self)
        print_types(printer, *(operand.type for operand in self.operands))
        print_type_after(printer, "->", self.result.type)


def _verify_elements(name: str, a: Attribute, b: Attribute, result: Attribute) -> None:
    floats = [isinstance(element, AnyFloat) for element in (a, b, result)]
    if any(floats) != all(floats):
        raise VerifyException(
            f"{name}: A, B and C all hold floats or all integers, not {a}, {b} and {result}"
        )
    if bit_width(result) < max(bit_width(a), bit_width(b)):
        raise VerifyException(
            f"{name}: C's elements are at least as wide as those of A and B, not {result} for"
            f" {a} and {b}"
        )
