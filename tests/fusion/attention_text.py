"""HLO text of attention as programs have it, for tests of what is found in it and of its kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from string import Template

_COMBINER = """
$name {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] $opcode(a, b)
}
"""
COMBINERS = "".join(
    Template(_COMBINER).substitute(name=name, opcode=opcode)
    for name, opcode in (("max_f32", "maximum"), ("add_f32", "add"))
)
HEAD = "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}"
# Several heads of queries read one of keys and values.
_SHARED = """
  $name = $t[$B,$heads,$M,$columns] parameter($number)
  ${name}_all = $t[$B,$heads,$share,$M,$columns] broadcast($name), dimensions={0,1,3,4}
  $one = $t[$B,$H,$M,$columns] reshape(${name}_all)"""
FORWARD = f"""
  low = f32[] constant(-inf)
  zero = f32[] constant(-0.0)
  dt = $T dot(q, k), {HEAD}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{3}}
  d = $S convert(dt)
  $score
  top = $R reduce(s, low), dimensions={{3}}, to_apply=max_f32
  tops = $S broadcast(top), dimensions={{0,1,2}}
  c = $S subtract(s, tops)
  e = $S exponential(c)
  total = $R reduce(e, zero), dimensions={{3}}, to_apply=add_f32
  totals = $S broadcast(total), dimensions={{0,1,2}}
  p = $S divide(e, totals)
  $weight
  wt = $T convert(w)
  o = $O dot(wt, v), {HEAD}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{2}}
"""
BACKWARD = f"""
  dv = $V dot(wt, do), {HEAD}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  dwt = $T dot(do, v), {HEAD}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{3}}
  dw = $S convert(dwt)
  $weight
  dpp = $S multiply(dp, p)
  delta = $R reduce(dpp, zero), dimensions={{3}}, to_apply=add_f32
  deltas = $S broadcast(delta), dimensions={{0,1,2}}
  df = $S subtract(dp, deltas)
  ds = $S multiply(df, p)
  $score
  ddt = $T convert(dd)
  dq = $Q dot(ddt, k), {HEAD}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{2}}
  dk = $K dot(ddt, q), {HEAD}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  ROOT r = ($O, $Q, $K, $V) tuple(o, dq, dk, dv)"""


def backward(score: str = "dd = $S copy(ds)", weight: str = "dp = $S copy(dw)") -> str:
    """The gradients as `after`, of `do`, which is a parameter: `score` makes dd, the gradient of d, of ds; `weight`
    makes dp of dw."""
    return Template(BACKWARD).safe_substitute(score=score, weight=weight)


@dataclass(frozen=True)
class Attention:
    """[batch, heads, queries, depth] x [batch, heads, keys, depth] -> softmax -> x [batch, heads, keys, width].

    `score`: lines that make s of d, the scores' product; `weight`: lines that make w of p, the probabilities; `after`:
    lines that make the root of o, the result. They may read `extra`, parameters by name and type from number 3 on. In
    all `$S` is the type of scores, `$P` of predicates on them, `$R` of a value a row, `$O` of the result, and so on.
    `share`: so many heads of queries read one of keys and values.
    """

    batch: int = 2
    heads: int = 3
    queries: int = 10
    keys: int = 12
    depth: int = 8
    width: int = 8
    dtype: str = "f32"
    score: str = "s = $S copy(d)"
    weight: str = "w = $S copy(p)"
    after: str = "ROOT r = $O copy(o)"
    extra: dict[str, str] = field(default_factory=dict)
    share: int = 1

    @property
    def text(self) -> str:
        outer, t = f"{self.batch},{self.heads}", self.dtype
        scores = f"[{outer},{self.queries},{self.keys}]"
        types = {
            "Q": f"{t}[{outer},{self.queries},{self.depth}]",
            "K": f"{t}[{outer},{self.keys},{self.depth}]",
            "V": f"{t}[{outer},{self.keys},{self.width}]",
            "O": f"{t}[{outer},{self.queries},{self.width}]",
            "S": f"f32{scores}",
            "T": f"{t}{scores}",
            "P": f"pred{scores}",
            "U": f"u32{scores}",
            "I": f"s32{scores}",
            "R": f"f32[{outer},{self.queries}]",
            "B": f"{self.batch}",
            "H": f"{self.heads}",
            "N": f"{self.queries}",
            "M": f"{self.keys}",
            "W": f"{self.width}",
            "t": t,
        }
        parameters = {"q": "$Q", "k": "$K", "v": "$V", **self.extra}
        lines = "\n".join(f"  {name} = {kind} parameter({n})" for n, (name, kind) in enumerate(parameters.items()))
        if self.share > 1:
            lines = lines.replace("  k = $K parameter(1)", self._shared("k", 1, self.depth))
            lines = lines.replace("  v = $V parameter(2)", self._shared("v", 2, self.width))
        body = Template(FORWARD).safe_substitute(score=self.score, weight=self.weight)
        entry = Template(f"ENTRY main {{\n{lines}{body}  {self.after}\n}}\n").substitute(types)
        return f"HloModule m\n{COMBINERS}\n{entry}"

    def _shared(self, one: str, number: int, columns: int) -> str:
        heads = self.heads // self.share
        names = {"name": f"{one}_read", "one": one, "number": number, "heads": heads, "columns": columns}
        return Template(_SHARED).safe_substitute(names, share=self.share)
