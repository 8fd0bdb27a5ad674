"use strict";
// Colours of a graph's nodes: by what they do (data.groups), or by a measure of data.measures:
// [{t, unit, how: "sum" or "max", v: [value or null of each node]}], from green (least) to red (most), grey where unknown.
function colouring(data, members) {
  const LEVELS = 8;
  let measure = null, least = 0, most = 0;

  function choose(n) {
    measure = n < 0 ? null : data.measures[n];
    const values = measure ? measure.v.filter(v => v > 0) : [];
    least = values.reduce((a, b) => Math.min(a, b), Infinity);
    most = values.reduce((a, b) => Math.max(a, b), 0);
  }

  // Of a scope: of all its nodes together.
  function value(id) {
    const below = members(id);
    if (!below) return measure.v[id] ?? null;
    const known = below.map(m => measure.v[m]).filter(v => v !== null && v !== undefined);
    if (!known.length) return null;
    return measure.how === "max" ? known.reduce((a, b) => Math.max(a, b)) : known.reduce((a, b) => a + b, 0);
  }

  // -1 where unknown.
  function level(id) {
    const found = value(id);
    if (found === null || !(found >= 0)) return -1;
    if (found <= least || most <= least) return found >= most && most > 0 ? LEVELS - 1 : 0;
    return Math.min(LEVELS - 1, Math.round(Math.log(found / least) / Math.log(most / least) * (LEVELS - 1)));
  }

  function hue(id) {
    if (!measure) return data.groups[data.nodes.group[id]].hue;
    const at = level(id);
    return at < 0 ? -1 : 140 - 140 * at / (LEVELS - 1);
  }

  function soft(h) { return h < 0 ? "var(--node)" : `hsl(${h} var(--node-s) var(--node-l))`; }

  return {
    choose,
    key: id => measure ? `m${level(id)}` : String(data.nodes.group[id]),
    fill: id => soft(hue(id)),
    // From afar boxes are a few pixels: stronger colours.
    strong: id => hue(id) < 0 ? "var(--edge)" : `hsl(${hue(id)} 60% 55%)`,
    ofGroup: n => soft(data.groups[n].hue),
    measure: () => measure,
    text: id => { const found = measure ? value(id) : null; return found === null ? "" : report.measure(found, measure.unit); },
    scale: () => Array.from({length: LEVELS}, (_, n) => soft(140 - 140 * n / (LEVELS - 1))),
    range: () => most > 0 ? [report.measure(least, measure.unit), report.measure(most, measure.unit)] : null,
    first: count => measure.v.map((v, id) => [v, id]).filter(([v]) => v > 0).sort((a, b) => b[0] - a[0]).slice(0, count).map(([, id]) => id),
  };
}
