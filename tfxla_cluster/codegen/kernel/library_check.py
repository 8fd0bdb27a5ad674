"""What the routine that checks data is told and what it reports: one layout for lowering, machine code and Python.

Its inputs are the values, the limits (if there are any) and a text: the type's name and the Check.
"""

from __future__ import annotations

MAX_RANK = 8  # of operand 0, for words: one of a higher rank counts as flat
PROBES = 3
# Sizes that the routine gets, in order: log2 of the bytes of a value; rows, columns; how many limits there are, the
# largest of them that the type holds; rank; mask, base and limit of the probes; dims.
WIDTH, ROWS, COLUMNS, LIMITS, MOST, RANK = range(6)
PROBES_AT = 6
DIMS_AT = PROBES_AT + 3 * PROBES
SIZES = DIMS_AT + MAX_RANK
# Words of a report: address of the text, the first bad row, what the further probes found (-1: nothing), the sizes;
# then bytes of the row, of the limits and of the first values.
TEXT, ROW, FURTHER, SIZES_AT = 0, 1, 2, 4
ROW_BYTES, LIMIT_BYTES, HEAD_BYTES = 128, 64, 128
ROW_AT = SIZES_AT + SIZES
LIMITS_AT = ROW_AT + ROW_BYTES // 8
HEAD_AT = LIMITS_AT + LIMIT_BYTES // 8
WORDS = HEAD_AT + HEAD_BYTES // 8
