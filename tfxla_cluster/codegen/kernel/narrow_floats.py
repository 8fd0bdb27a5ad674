"""Floats narrower than 32 bits: one table of their formats."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """Bits of exponent and mantissa, and what is taken from an exponent. `finite`: no infinity; `fnuz`: no infinity, no
    -0, NaN is 0x80. Codes are those of the numbers without their sign."""

    exponent: int
    mantissa: int
    bias: int
    finite: bool = False
    fnuz: bool = False

    @property
    def bits(self) -> int:
        """With the sign."""
        return 1 + self.exponent + self.mantissa

    @property
    def infinite(self) -> int:
        """The code with all bits of the exponent, which is infinity where there is one."""
        return (1 << self.exponent) - 1 << self.mantissa

    @property
    def nan(self) -> int:
        """The code of the NaN that is made."""
        if self.fnuz:
            return 0x80
        return 0x7F if self.finite else self.infinite | 1 << self.mantissa - 1

    @property
    def largest(self) -> int:
        """The code of the largest finite number."""
        top = (1 << self.exponent + self.mantissa) - 1
        if self.fnuz:
            return top
        return top - 1 if self.finite else self.infinite - 1


FORMATS = {
    "f16": FloatFormat(5, 10, 15),
    "bf16": FloatFormat(8, 7, 127),
    "f8e5m2": FloatFormat(5, 2, 15),
    "f8e4m3": FloatFormat(4, 3, 7),
    "f8e4m3fn": FloatFormat(4, 3, 7, finite=True),
    "f8e4m3b11fnuz": FloatFormat(4, 3, 11, finite=True, fnuz=True),
    "f8e5m2fnuz": FloatFormat(5, 2, 16, finite=True, fnuz=True),
    "f8e4m3fnuz": FloatFormat(4, 3, 8, finite=True, fnuz=True),
    "f8e3m4": FloatFormat(3, 4, 3),
}
F8 = tuple(name for name, form in FORMATS.items() if form.bits == 8)
