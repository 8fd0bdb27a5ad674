"use strict";
// Layered layout of a small graph (a neighbourhood, a fusion's body): layout.py in little, without
// dummies. nodes: count; widths: pixels; edges: [[a, b], ...] of node numbers in schedule order.
function layered(widths, edges) {
  const count = widths.length, HEIGHT = 34, GAP = 46, SPACE = 18;
  const above = Array.from({length: count}, () => []), below = Array.from({length: count}, () => []);
  for (const [a, b] of edges) { below[a].push(b); above[b].push(a); }
  const rank = ranks();
  const layers = [];
  for (let n = 0; n < count; n++) (layers[rank[n]] ||= []).push(n);
  const place = new Array(count).fill(0);
  for (const layer of layers) spread(layer);
  for (let sweep = 0; sweep < 6; sweep++) {
    const near = sweep % 2 ? below : above;
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      const key = new Map(layer.map(n => [n, near[n].length ? mean(near[n].map(m => place[m])) : place[n]]));
      layer.sort((a, b) => key.get(a) - key.get(b));
      spread(layer);
    }
  }
  return coordinates();

  function ranks() {
    const waiting = above.map(list => list.length), result = new Array(count).fill(0);
    const ready = [...waiting.keys()].filter(n => !waiting[n]), done = new Array(count).fill(false);
    for (let left = count; left > 0; left--) {
      let n = ready.pop();
      if (n === undefined) n = done.indexOf(false);
      done[n] = true;
      for (const user of below[n]) {
        if (done[user]) continue;
        result[user] = Math.max(result[user], result[n] + 1);
        if (--waiting[user] === 0) ready.push(user);
      }
    }
    for (let n = 0; n < count; n++) {
      if (!above[n].length && below[n].length) result[n] = Math.max(0, Math.min(...below[n].map(u => result[u])) - 1);
    }
    const used = [...new Set(result)].sort((a, b) => a - b);
    return result.map(r => used.indexOf(r));
  }

  function mean(values) { return values.reduce((a, b) => a + b, 0) / values.length; }

  function spread(layer) { layer.forEach((n, i) => { place[n] = (i + 0.5) / layer.length; }); }

  // Rows of at most 16, packed; then each row is drawn to the mean of its neighbours above.
  function coordinates() {
    const x = new Array(count), y = new Array(count);
    let top = GAP, right = 0;
    for (const layer of layers) {
      const rows = Math.ceil(layer.length / 16);
      layer.forEach((n, i) => { y[n] = top + (i % rows) * (HEIGHT + 8); });
      let cursor = 0;
      for (const n of layer) { x[n] = cursor + widths[n] / 2; cursor += (widths[n] + SPACE) / rows; }
      const wanted = layer.map(n => above[n].length ? mean(above[n].filter(m => x[m] !== undefined).map(m => x[m])) - x[n] : null)
        .filter(v => v !== null && !Number.isNaN(v));
      const shift = wanted.length ? mean(wanted) : -cursor / 2;
      for (const n of layer) x[n] += shift;
      top += (rows - 1) * (HEIGHT + 8) + HEIGHT + GAP;
    }
    const left = Math.min(...x.map((v, n) => v - widths[n] / 2)) - SPACE;
    for (let n = 0; n < count; n++) { x[n] -= left; right = Math.max(right, x[n] + widths[n] / 2); }
    return {x, y, W: right + SPACE, H: top};
  }
}
