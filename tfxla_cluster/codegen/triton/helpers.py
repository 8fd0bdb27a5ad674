"""Triton functions that generated kernels call: those that a text names are put before it."""

from __future__ import annotations

import re

HEAD = """import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice
"""

# Arguments are blocks or scalars of one type unless the text says otherwise.
HELPERS = {
    "_divide": '''@triton.jit
def _divide(x, y, lowest: tl.constexpr):
    """Signed, toward zero: x / 0 = -1, lowest / -1 = lowest."""
    unsafe = (y == 0) | ((x == lowest) & (y == -1))
    quotient = x // tl.where(unsafe, 1, y).to(y.dtype)
    return tl.where(y == 0, -1, quotient).to(x.dtype)
''',
    "_divide_unsigned": '''@triton.jit
def _divide_unsigned(x, y, ones: tl.constexpr):
    """x / 0 has all bits set."""
    quotient = x // tl.where(y == 0, 1, y).to(y.dtype)
    return tl.where(y == 0, tl.full([], ones, x.dtype), quotient)
''',
    "_remainder": '''@triton.jit
def _remainder(x, y):
    """Signed, with the sign of x: x % 0 = x; by -1 it is 0, which no machine is asked."""
    rest = x % tl.where((y == 0) | (y == -1), 1, y).to(y.dtype)
    return tl.where(y == 0, x, rest)
''',
    "_remainder_unsigned": '''@triton.jit
def _remainder_unsigned(x, y):
    """x % 0 = x."""
    return tl.where(y == 0, x, x % tl.where(y == 0, 1, y).to(y.dtype))
''',
    "_power": '''@triton.jit
def _power(x, y, unsigned: tl.constexpr, bits: tl.constexpr):
    """By squaring, wrapping; `y` read as `unsigned`."""
    result = tl.full([], 1, x.dtype) + x * 0
    factor, rest = x, y.to(unsigned, bitcast=True)
    for _ in tl.static_range(bits):
        result = tl.where((rest & 1) != 0, result * factor, result)
        factor = factor * factor
        rest = rest >> 1
    return result
''',
    "_power_signed": '''@triton.jit
def _power_signed(x, y, unsigned: tl.constexpr, bits: tl.constexpr):
    """A negative exponent gives 0 but for the bases 1 and -1."""
    odd = tl.where((y & 1) != 0, -1, 1).to(x.dtype)
    inverse = tl.where(x == 1, 1, tl.where(x == -1, odd, 0)).to(x.dtype)
    return tl.where(y < 0, inverse, _power(x, y, unsigned, bits))
''',
    "_saturate": '''@triton.jit
def _saturate(x, low: tl.constexpr, high: tl.constexpr, beyond: tl.constexpr, to: tl.constexpr):
    """A float toward zero as an integer of low .. high (`beyond` is high + 1), the nearest outside; NaN is 0."""
    inside = (x > low) & (x < beyond)
    whole = tl.where(inside, x, 0.0).to(to)
    whole = tl.where(x >= beyond, tl.full([], high, to), whole)
    return tl.where(x <= low, tl.full([], low, to), whole)
''',
    "_tanh_near": '''@triton.jit
def _tanh_near(x):
    """The machine's own, of f32."""
    return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
''',
    "_update_float": '''@triton.jit
def _update_float(place, x, mask, signed: tl.constexpr, unsigned: tl.constexpr, largest: tl.constexpr):
    """The larger, or smaller, of the float at a place and x; NaN if there is one. Floats that are not negative are in
    the order of their bits, the others in the reverse, and the NaN that is written is beyond all of them."""
    nan: tl.constexpr = 2 ** (signed.primitive_bitwidth - 1) - 1 if largest else -1
    bits = tl.where(x == x, x.to(signed, bitcast=True), nan)
    whole = place.to(tl.pointer_type(signed), bitcast=True)
    natural = place.to(tl.pointer_type(unsigned), bitcast=True)
    plus, other = mask & (bits >= 0), mask & (bits < 0)
    if largest:
        one = tl.atomic_max(whole, bits, mask=plus, sem="relaxed")
        two = tl.atomic_min(natural, bits.to(unsigned, bitcast=True), mask=other, sem="relaxed")
    else:
        one = tl.atomic_min(whole, bits, mask=plus, sem="relaxed")
        two = tl.atomic_max(natural, bits.to(unsigned, bitcast=True), mask=other, sem="relaxed")
    before = tl.where(bits >= 0, one, two.to(signed, bitcast=True)).to(x.dtype, bitcast=True)
    # A NaN of other bits that stood there may have given way.
    gone, lost = mask & (before != before), tl.full(bits.shape, nan, signed)
    if largest:
        tl.atomic_max(whole, lost, mask=gone, sem="relaxed")
    else:
        tl.atomic_max(natural, lost.to(unsigned, bitcast=True), mask=gone, sem="relaxed")
''',
    "_round_half_away": """@triton.jit
def _round_half_away(x):
    whole = libdevice.trunc(x)
    away = libdevice.copysign(tl.full([], 1.0, x.dtype), x)
    return tl.where(tl.abs(x - whole) >= 0.5, whole + away, whole)
""",
    "_widen_f8": '''@triton.jit
def _widen_f8(code, mantissa: tl.constexpr, bias: tl.constexpr, nan: tl.constexpr, infinite: tl.constexpr,
              finite: tl.constexpr, fnuz: tl.constexpr):
    """The f32 of a code of 8 bits: `finite` formats have no infinity, `fnuz` ones no -0 either."""
    bits = code.to(tl.uint32)
    magnitude = bits & 0x7F
    sign = (bits & 0x80) << 24
    small = magnitude.to(tl.float32) * (2.0 ** (1 - bias - mantissa))
    normal = ((magnitude << (23 - mantissa)) + ((127 - bias) << 23)).to(tl.float32, bitcast=True)
    value = tl.where(magnitude < (1 << mantissa), small, normal)
    if fnuz:
        value = tl.where(bits == nan, float("nan"), value)
    elif finite:
        value = tl.where(magnitude == nan, float("nan"), value)
    else:
        value = tl.where(magnitude == infinite, float("inf"), value)
        value = tl.where(magnitude > infinite, float("nan"), value)
    return (value.to(tl.uint32, bitcast=True) | sign).to(tl.float32, bitcast=True)
''',
    "_narrow_f8": '''@triton.jit
def _narrow_f8(x, mantissa: tl.constexpr, bias: tl.constexpr, largest: tl.constexpr, over: tl.constexpr,
               nan: tl.constexpr, fnuz: tl.constexpr):
    """The code of 8 bits of an f32, to nearest even; `over` is that of what is larger than `largest`."""
    bits = x.to(tl.uint32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    sign = (bits >> 24) & 0x80
    absolute = magnitude.to(tl.float32, bitcast=True)
    odd = (magnitude >> (23 - mantissa)) & 1
    normal = ((magnitude + odd + ((1 << (22 - mantissa)) - 1)) >> (23 - mantissa)) - ((127 - bias) << mantissa)
    # A sum of which the last bit is one step of the least numbers: its low bits are the code.
    anchor = tl.full([], 2.0 ** (24 - bias - mantissa), tl.float32)
    small = (absolute + anchor).to(tl.uint32, bitcast=True) - anchor.to(tl.uint32, bitcast=True)
    code = tl.where(absolute < 2.0 ** (1 - bias), small, normal)
    code = tl.where((code > largest) | (absolute == float("inf")), over, code)
    code = tl.where(x == x, code, nan)
    signed = code | sign
    if fnuz:
        signed = tl.where(code == 0, 0, signed)
    return signed.to(tl.uint8)
''',
    "_round_to_odd": '''@triton.jit
def _round_to_odd(x):
    """The f32 beside an f64 whose last bit is 1 unless exact: rounding it again then rounds only once."""
    near = x.to(tl.float32)
    back = near.to(tl.float64)
    bits = near.to(tl.uint32, bitcast=True)
    inexact = (back != x) & (tl.abs(near) < float("inf"))
    truncated = tl.where(tl.abs(back) > tl.abs(x), bits - 1, bits)
    return tl.where(inexact, truncated | 1, bits).to(tl.float32, bitcast=True)
''',
    "_total_order": '''@triton.jit
def _total_order(bits, most: tl.constexpr):
    """Integers that order as the floats of these bits do in IEEE totalOrder."""
    return tl.where(bits < 0, bits ^ most, bits)
''',
    "_reduce_precision": '''@triton.jit
def _reduce_precision(bits, drop: tl.constexpr, mantissas: tl.constexpr, exponent_mask: tl.constexpr,
                      top: tl.constexpr, bottom: tl.constexpr, sign_mask: tl.constexpr):
    """Unsigned bits of a float with `drop` bits less of mantissa, to nearest even; exponents above `top` give
    infinity, those up to `bottom` zero (0: none does). NaN stays."""
    one = tl.full([], 1, bits.dtype)
    rounded = bits
    if drop > 0:
        last = (bits >> drop) & one
        rounded = ((bits + last + ((1 << (drop - 1)) - 1)) >> drop) << drop
    sign = bits & tl.full([], sign_mask, bits.dtype)
    infinity = tl.full([], exponent_mask, bits.dtype)
    exponent = (rounded & infinity) >> mantissas
    result = tl.where(exponent > top, sign | infinity, rounded)
    if bottom >= 0:
        result = tl.where(exponent <= bottom, sign, result)
    nan = (bits & (infinity | ((1 << mantissas) - 1))) > infinity
    return tl.where(nan, bits, result)
''',
    "_thirds": '''@triton.jit
def _thirds(x):
    """f32 as the sum of three bf16, each the leading bits of what is left; infinities and NaN are the first alone."""
    first = (x.to(tl.uint32, bitcast=True) & 0xFFFF0000).to(tl.float32, bitcast=True)
    rest = tl.where(tl.abs(x) < float("inf"), x - first, 0.0)
    second = (rest.to(tl.uint32, bitcast=True) & 0xFFFF0000).to(tl.float32, bitcast=True)
    third = rest - second
    return tl.where(x == x, first, x).to(tl.bfloat16), second.to(tl.bfloat16), third.to(tl.bfloat16)
''',
    "_dot_thirds": '''@triton.jit
def _dot_thirds(x1, x2, x3, y1, y2, y3, total, small):
    """Products of f32 by their thirds, but for those below the last bit: the leading ones are taken from `total`, the
    others come to `small`; small - total is the sum.

    The matrix units drop the last bits of long sums, so those of one block of depth are added outside of them:
    subtracted, for a sum Triton would make one with those of all blocks again. An infinity times a zero third is no
    number, in `small` only: `total` then has what the product is.
    """
    small = tl.dot(x2, y2, small)
    small = tl.dot(x1, y3, small)
    small = tl.dot(x3, y1, small)
    small = tl.dot(x1, y2, small)
    small = tl.dot(x2, y1, small)
    return total - tl.dot(x1, y1), small
''',
}
_NAME = re.compile(r"\b_[a-z_0-9]+\b")


def with_helpers(text: str) -> str:
    """`text` after the head and the helpers that it calls, directly or not."""
    needed: dict[str, None] = {}
    todo = [text]
    while todo:
        for name in _NAME.findall(todo.pop()):
            if name in HELPERS and name not in needed:
                needed[name] = None
                todo.append(HELPERS[name].partition("\n")[2].partition("\n")[2])
    return "\n\n".join([HEAD, *(HELPERS[name] for name in HELPERS if name in needed), text])
