"use strict";
// Layered layout of a small graph (a neighbourhood, a fusion's body): graph_layout.py in little, without
// dummies. widths, heights: pixels; edges: [[a, b], ...] of node numbers in schedule order.
function layered(widths, edges, heights) {
  const count = widths.length, GAP = 46, SPACE = 18, tall = n => heights ? heights[n] : 34;
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
    let top = GAP / 2, right = 0;
    for (const layer of layers) {
      const rows = layer.some(n => tall(n) > 34) ? 1 : Math.ceil(layer.length / 16), high = Math.max(...layer.map(tall));
      layer.forEach((n, i) => { y[n] = top + high / 2 + (i % rows) * (high + 8); });
      let cursor = 0;
      for (const n of layer) { x[n] = cursor + widths[n] / 2; cursor += (widths[n] + SPACE) / rows; }
      const wanted = layer.map(n => above[n].length ? mean(above[n].filter(m => x[m] !== undefined).map(m => x[m])) - x[n] : null)
        .filter(v => v !== null && !Number.isNaN(v));
      const shift = wanted.length ? mean(wanted) : -cursor / 2;
      for (const n of layer) x[n] += shift;
      top += rows * (high + 8) - 8 + GAP;
    }
    const left = Math.min(...x.map((v, n) => v - widths[n] / 2)) - SPACE;
    for (let n = 0; n < count; n++) { x[n] -= left; right = Math.max(right, x[n] + widths[n] / 2); }
    return {x, y, W: right + SPACE, H: top - GAP / 2};
  }
}

// A view (graph.js) of a few nodes of the columns N.
function smallView(N, ids, title) {
  const widths = ids.map(id => graphWidth(N, id)), at = new Map(ids.map((id, i) => [id, i]));
  const pairs = ids.flatMap((id, i) => [...new Set(N.ins[id])].filter(a => at.has(a)).map(a => [at.get(a), i]));
  return {t: title, ids, w: widths, ...layered(widths, pairs), edges: pairs.map(([a, b]) => [ids[a], ids[b]])};
}

// The nodes within some hops of one, in schedule order: at most 12 a node and direction, and 200 in all.
function around(N, usersOf, id, hops) {
  let edge = [id];
  const found = new Set(edge);
  for (let hop = 0; hop < hops; hop++) {
    const grown = [];
    for (const n of edge) {
      for (const list of [[...new Set(N.ins[n])], usersOf(n)]) {
        for (const m of list.slice(0, 12)) if (!found.has(m) && found.size < 200) { found.add(m); grown.push(m); }
      }
    }
    edge = grown;
  }
  return [...found].sort((a, b) => a - b);
}

// Pixels of a node's box: as graphs.py's width.
function graphWidth(N, id) {
  return Math.min(260, Math.max(90, 10 + Math.max(7 * N.label[id].length, 6.6 * (N.kind[id].length + 1 + N.detail[id].length))));
}
