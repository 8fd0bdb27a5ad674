"use strict";
// Graphs folded by name scope: a box a scope, opened in place; a fusion opens to its body. Scopes become nodes of their
// own at the end of the columns N (kind "scope"), so that all else of a graph works on them as on nodes.
// scopesOf(N, bodies, scope) -> {view(ids, title), toggle(id), members(id), isOpen(id), spread(ids, most), reveal(ids, id)}; scope(id): 'a/b' of a node.
function scopesOf(N, bodies, scope) {
  const CHUNK = 120, LEAVES = 8, TITLE = 22, PAD = 12, HEIGHT = 34;
  const open = new Set(), made = new Map(), inside = new Map();

  // The node that stands for a group; `members` are node numbers below it, however deep.
  function group(key, label, members) {
    let id = made.get(key);
    if (id === undefined) {
      id = N.name.length;
      made.set(key, id);
      const counts = new Map();
      for (const m of members) counts.set(N.group[m], (counts.get(N.group[m]) || 0) + 1);
      const main = [...counts].sort((a, b) => b[1] - a[1])[0][0];
      for (const [column, value] of Object.entries({name: key, label, kind: "scope",
        detail: `${report.format(members.length)} nodes`, group: main, note: "", where: "", ins: [], body: ""})) N[column].push(value);
      inside.set(id, members);
    }
    return id;
  }

  function tree(ids) {
    const root = {kids: new Map(), nodes: []};
    for (const id of ids) {
      let at = root;
      const path = scope(id);
      for (const part of path ? path.split("/").slice(0, 24) : []) {
        if (!at.kids.has(part)) at.kids.set(part, {kids: new Map(), nodes: []});
        at = at.kids.get(part);
      }
      at.nodes.push(id);
    }
    return root;
  }

  function all(branch) { return [...branch.kids.values()].flatMap(all).concat(branch.nodes); }

  // Items of one level: {id, items or null}. A scope of one item is that item.
  function level(branch, path) {
    const items = [];
    for (const [name, kid] of branch.kids) {
      let at = kid, label = name, key = `${path}${name}`;
      while (at.kids.size === 1 && !at.nodes.length) {
        const [[next, only]] = at.kids;
        at = only; label += "/" + next; key += "/" + next;
      }
      const members = all(at);
      if (members.length === 1) { items.push(leaf(members[0])); continue; }
      const id = group(key, label, members);
      items.push({id, order: Math.min(...members), items: open.has(id) ? level(at, key + "/") : null});
    }
    const leaves = branch.nodes.filter(id => /^(parameter|constant|_?Arg|Const)$/.test(N.kind[id]));
    const plain = leaves.length > LEAVES ? branch.nodes.filter(id => !leaves.includes(id)) : branch.nodes;
    if (leaves.length > LEAVES) items.push(chunk(leaves, `${path}parameters, constants`, "parameters, constants"));
    if (plain.length + items.length <= CHUNK) items.push(...plain.map(leaf));
    else for (let n = 0; n < plain.length; n += CHUNK) {
      const part = plain.slice(n, n + CHUNK);
      items.push(chunk(part, `${path}nodes ${n + 1} to ${n + part.length}`, `nodes ${n + 1} to ${n + part.length}`));
    }
    return items.sort((a, b) => a.order - b.order);
  }

  function chunk(members, key, label) {
    const id = group(key, label, members);
    return {id, order: members[0], items: open.has(id) ? members.map(leaf) : null};
  }

  function leaf(id) {
    const body = N.kind[id] === "fusion" && bodies[N.body[id]];
    return {id, order: id, items: body && open.has(id) ? body.map(b => ({id: b, order: b, items: null})) : null};
  }

  // Every node -> the outermost closed item that holds it; items know the open ones around them.
  function place(items, chain, shown, homes) {
    for (const item of items) {
      item.chain = [...chain, item];
      if (item.items) place(item.items, item.chain, shown, homes); else shown.push(item);
      for (const id of item.items ? [item.id] : inside.get(item.id) || [item.id]) if (!homes.has(id)) homes.set(id, item);
    }
  }

  // Pairs of shown items with a value that goes from one to the other.
  function edgesOf(homes) {
    const found = new Map();
    for (const [b, to] of homes) for (const a of N.ins[b]) {
      if (!homes.has(a)) continue;
      const from = ends(homes.get(a), a, -1), into = ends(to, b, N.ins[b].indexOf(a));
      if (from !== into) found.set(from.id + " " + into.id, [from, into]);
    }
    return [...found.values()];
  }

  // What stands for a node at an end of an edge: of an open fusion its result (operand -1), or that parameter.
  function ends(item, id, operand) {
    if (!item.items) return item;
    const parameters = item.items.filter(i => N.kind[i.id] === "parameter");
    return operand < 0 ? item.items[item.items.length - 1] : parameters[operand] || item.items[0];
  }

  function view(ids, title) {
    const roots = level(tree(ids), ""), shown = [], homes = new Map();
    place(roots, [], shown, homes);
    const edges = edgesOf(homes);
    const lifted = new Map();
    for (const [a, b] of edges) {
      const left = a.chain, right = b.chain;
      let n = 0;
      while (n < left.length - 1 && n < right.length - 1 && left[n] === right[n]) n++;
      const parent = n ? left[n - 1] : null;
      if (!lifted.has(parent)) lifted.set(parent, []);
      lifted.get(parent).push([left[n], right[n]]);
    }
    const whole = sized(null, roots, lifted), result = {t: title, ids: [], x: [], y: [], w: [], folded: true, frames: [], W: whole.W, H: whole.H};
    put(roots, 0, 0, result);
    return {...result, edges: edges.map(([a, b]) => [a.id, b.id])};
  }

  // The place of a level's items, those that are open with all that is in them.
  function sized(parent, items, lifted) {
    for (const item of items) {
      if (item.items) {
        const inner = sized(item, item.items, lifted);
        item.w = Math.max(inner.W + 2 * PAD, 9 * N.label[item.id].length + 40);
        item.h = inner.H + TITLE;
      } else { item.w = graphWidth(N, item.id); item.h = HEIGHT; }
    }
    const at = new Map(items.map((item, n) => [item, n]));
    const pairs = (lifted.get(parent) || []).map(([a, b]) => [at.get(a), at.get(b)]).filter(([a, b]) => a !== undefined && b !== undefined && a !== b);
    const places = layered(items.map(i => i.w), pairs, items.map(i => i.h));
    items.forEach((item, n) => { item.x = places.x[n]; item.y = places.y[n]; });
    return places;
  }

  function put(items, left, top, result) {
    for (const item of items) {
      const x = left + item.x, y = top + item.y;
      if (!item.items) { result.ids.push(item.id); result.x.push(x); result.y.push(y); result.w.push(item.w); continue; }
      const frame = {id: item.id, x: x - item.w / 2, y: y - item.h / 2, w: item.w, h: item.h};
      result.frames.push(frame);
      put(item.items, frame.x + PAD, frame.y + TITLE, result);
    }
  }

  function toggle(id) { if (open.has(id)) open.delete(id); else open.add(id); }

  // Open the largest scopes, as long as no more than `most` boxes stand there.
  function spread(ids, most) {
    const tried = new Set();
    for (;;) {
      const shown = [];
      place(level(tree(ids), ""), [], shown, new Map());
      const size = item => (inside.get(item.id) || []).length;
      const largest = shown.filter(item => size(item) > 1 && !tried.has(item.id) && !/parameters, constants$/.test(N.name[item.id]))
        .sort((a, b) => size(b) - size(a))[0];
      if (!largest || shown.length >= most) return;
      tried.add(largest.id);
      open.add(largest.id);
      const then = [];
      place(level(tree(ids), ""), [], then, new Map());
      if (then.length > most) open.delete(largest.id);
    }
  }

  // Open all scopes around a node of these.
  function reveal(ids, id) {
    for (let n = 0; n < 30; n++) {
      const shown = [];
      place(level(tree(ids), ""), [], shown, new Map());
      const holder = shown.find(item => item.id !== id && (inside.get(item.id) || []).includes(id));
      if (!holder) return;
      open.add(holder.id);
    }
  }

  return {view, toggle, spread, reveal, members: id => inside.get(id) || null, isOpen: id => open.has(id)};
}
