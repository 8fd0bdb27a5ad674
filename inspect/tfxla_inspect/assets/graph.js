"use strict";
// A graph of any size: only what is in view is drawn; from far, boxes only, one path a colour.
// data = {nodes: {name, label, kind, detail, group, note, where, ins, body: columns}, groups: [{t, hue, n}],
// views: [{t, ids, x, y, w, W, H, edges: [[a, b, x, y, ...]]}], bodies: {computation: [ids]}, tabs: {...}}.
function showGraph(box, data, options) {
  const {el, svg} = report, N = data.nodes, BAND = 400, HEIGHT = 34, NEAR = 900;
  const number = new Map(N.name.map((name, id) => [name, id]));
  let users = null, view = null, selected = -1, lit = -1, hits = null, hitAt = -1, drawn = null, pending = false;
  let x0 = 0, y0 = 0, scale = 1;

  const layer = svg("g", {});
  const picture = svg("svg", {class: "drawing", tabindex: "0", role: "img", "aria-label": "Graph",
    onpointerdown: drag, onwheel: wheel, onkeydown: key, ondblclick: () => selected >= 0 && neighbourhood(selected)},
    svg("defs", {}, svg("marker", {id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7,
      orient: "auto"}, svg("path", {d: "M0 0L8 4L0 8z", class: "arrow"}))), layer);
  const map = svg("svg", {class: "map", preserveAspectRatio: "none", onpointerdown: jump});
  const panel = el("aside", {class: "panel"});
  const input = el("input", {type: "search", class: "search", placeholder: "Find a node, or /regex/",
    "aria-label": "Find a node", oninput: () => find(true),
    onkeydown: e => { if (e.key === "Enter") { e.preventDefault(); nextHit(e.shiftKey ? -1 : 1); } }});
  const count = el("span", {class: "count"});
  const hops = el("select", {"aria-label": "Hops", onchange: () => selected >= 0 && neighbourhood(selected)},
    [1, 2, 3, 4].map(n => el("option", {value: n, ...(n === 2 ? {selected: ""} : {})}, `${n} hop${n > 1 ? "s" : ""}`)));
  const back = el("button", {hidden: "", onclick: () => { const id = selected; setView(data.views[0]); if (id >= 0) show(id); }}, "← whole graph");
  const chooser = data.views.length > 1 ? el("select", {"aria-label": "Computation",
    onchange: e => setView(data.views[Number(e.target.value)])}, data.views.map((v, n) => el("option", {value: n}, v.t))) : null;
  box.replaceChildren(el("div", {class: "bar"}, chooser, back, input,
    el("button", {onclick: () => zoom(1.3), title: "Zoom in (+)"}, "+"), el("button", {onclick: () => zoom(1 / 1.3), title: "Zoom out (-)"}, "−"),
    el("button", {onclick: fit, title: "Whole graph (0)"}, "fit"), el("button", {onclick: () => selected >= 0 && neighbourhood(selected), title: "Only what is near the selected node (Enter, double click)"}, "neighbourhood"),
    hops, count), el("div", {class: "canvas"}, map, picture, panel));

  function usersOf(id) {
    if (!users) {
      users = N.name.map(() => []);
      N.ins.forEach((list, b) => { for (const a of new Set(list)) users[a].push(b); });
    }
    return users[id];
  }

  function setView(next) {
    view = next;
    if (!view.bands) index(view);
    back.hidden = data.views.includes(view);
    if (chooser && !back.hidden === false) chooser.value = data.views.indexOf(view);
    map.style.visibility = view.H > 1200 ? "visible" : "hidden";
    map.setAttribute("viewBox", `0 0 ${view.W} ${view.H}`);
    map.replaceChildren(...boxes(view.ids.map((_, i) => i), 2), svg("rect", {class: "window"}));
    start();
    legend();
  }

  function index(v) {
    v.at = new Map(v.ids.map((id, i) => [id, i]));
    v.bands = []; v.edgeBands = []; v.drawnIns = v.ids.map(() => 0); v.drawnOuts = v.ids.map(() => 0);
    v.ids.forEach((_, i) => (v.bands[Math.floor(v.y[i] / BAND)] ||= []).push(i));
    v.edges.forEach((edge, e) => {
      const a = v.at.get(edge[0]), b = v.at.get(edge[1]);
      v.drawnOuts[a]++; v.drawnIns[b]++;
      const low = Math.min(v.y[a], v.y[b]), high = Math.max(v.y[a], v.y[b]);
      for (let band = Math.floor(low / BAND); band <= Math.floor(high / BAND); band++) (v.edgeBands[band] ||= []).push(e);
    });
  }

  function start() {
    const wide = picture.clientWidth || 900, high = picture.clientHeight || 600;
    const whole = Math.min(wide / view.W, high / view.H, 1.2);
    scale = whole > 0.45 ? whole : Math.min(1, Math.max(0.7, wide / view.W));
    x0 = view.W / 2 - wide / scale / 2;
    y0 = whole > 0.45 ? view.H / 2 - high / scale / 2 : 0;
    if (whole <= 0.45 && view.ids.length) x0 = view.x[0] - wide / scale / 2;
    drawn = null;
    update();
  }

  function fit() {
    const wide = picture.clientWidth, high = picture.clientHeight;
    scale = Math.min(wide / view.W, high / view.H, 1.2);
    x0 = view.W / 2 - wide / scale / 2;
    y0 = view.H / 2 - high / scale / 2;
    drawn = null;
    update();
  }

  function zoom(factor, px, py) {
    const cx = px ?? picture.clientWidth / 2, cy = py ?? picture.clientHeight / 2;
    const before = scale;
    scale = Math.min(3, Math.max(0.002, scale * factor));
    x0 += cx / before - cx / scale;
    y0 += cy / before - cy / scale;
    drawn = null;
    update();
  }

  function update() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; paint(); });
  }

  function paint() {
    const w = picture.clientWidth / scale, h = picture.clientHeight / scale;
    picture.setAttribute("viewBox", `${x0} ${y0} ${w || 1} ${h || 1}`);
    const mark = map.querySelector(".window");
    if (mark) for (const [k, v] of Object.entries({x: 0, y: y0, width: view.W, height: Math.max(h, view.H / 200)})) mark.setAttribute(k, v);
    if (drawn && x0 >= drawn[0] && y0 >= drawn[1] && x0 + w <= drawn[2] && y0 + h <= drawn[3]) return;
    drawn = [x0 - w / 2, y0 - h / 2, x0 + 1.5 * w, y0 + 1.5 * h];
    const nodes = inside(view.bands, i => visible(view.x[i] - view.w[i] / 2, view.x[i] + view.w[i] / 2));
    const edges = inside(view.edgeBands, e => passes(view.edges[e]));
    const near = nodes.length <= NEAR && edges.length <= 4 * NEAR && scale > 0.28;
    layer.replaceChildren(...(near ? nearBy(nodes, edges) : farAway(nodes, edges)));
    count.textContent = `${report.format(view.ids.length)} nodes` + (hits ? ` · ${report.format(hits.length)} found` : "");
  }

  function inside(bands, keep) {
    const found = new Set();
    const first = Math.max(0, Math.floor(drawn[1] / BAND) - 1), last = Math.min(bands.length - 1, Math.floor(drawn[3] / BAND) + 1);
    for (let band = first; band <= last; band++) for (const i of bands[band] || []) if (keep(i)) found.add(i);
    return [...found];
  }

  function passes(edge) {
    const a = view.at.get(edge[0]), b = view.at.get(edge[1]);
    return visible(Math.min(view.x[a], view.x[b]), Math.max(view.x[a], view.x[b]))
      && Math.max(view.y[a], view.y[b]) >= drawn[1] && Math.min(view.y[a], view.y[b]) <= drawn[3];
  }

  function visible(left, right) { return right >= drawn[0] && left <= drawn[2]; }

  function fill(group) {
    const hue = data.groups[group].hue;
    return hue < 0 ? "fill:var(--node)" : `fill:hsl(${hue} var(--node-s) var(--node-l))`;
  }

  // From afar boxes are a few pixels: stronger colours.
  function strong(group) {
    const hue = data.groups[group].hue;
    return hue < 0 ? "fill:var(--edge)" : `fill:hsl(${hue} 60% 55%)`;
  }

  // One path a group: thousands of boxes cost no more than a few elements.
  function boxes(nodes, grow) {
    const paths = new Map();
    for (const i of nodes) {
      const id = view.ids[i], faint = dimmed(id), mark = hits && hits.set.has(id) ? "h" : "";
      const keyed = mark || `${N.group[id]}${faint ? "f" : ""}`;
      const part = `M${view.x[i] - view.w[i] / 2} ${view.y[i] - HEIGHT / 2}h${view.w[i]}v${HEIGHT * grow}h${-view.w[i]}z`;
      if (!paths.has(keyed)) paths.set(keyed, {group: N.group[id], faint, mark, parts: []});
      paths.get(keyed).parts.push(part);
    }
    return [...paths.values()].map(p => svg("path", {d: p.parts.join(""), class: (p.mark ? "hit" : "far") + (p.faint ? " faint" : ""),
      style: p.mark ? null : strong(p.group)}));
  }

  function farAway(nodes, edges) {
    const lines = edges.length < 12000 ? svg("path", {class: "edge", d: edges.map(e => line(view.edges[e])).join(""), "stroke-width": Math.max(1, 0.4 / scale)}) : null;
    const chosen = selected >= 0 && view.at.has(selected) ? svg("rect", {class: "ring", ...rectangle(view.at.get(selected), 12)}) : null;
    return [lines, ...boxes(nodes, 1), chosen].filter(Boolean);
  }

  function rectangle(i, grow = 0) {
    return {x: view.x[i] - view.w[i] / 2 - grow, y: view.y[i] - HEIGHT / 2 - grow, width: view.w[i] + 2 * grow, height: HEIGHT + 2 * grow, rx: 5};
  }

  function line(edge) {
    const a = view.at.get(edge[0]), b = view.at.get(edge[1]);
    let x = view.x[a], y = view.y[a] + HEIGHT / 2, path = `M${x} ${y}`;
    for (let k = 2; k <= edge.length; k += 2) {
      const last = k >= edge.length;
      const tx = last ? view.x[b] : edge[k], ty = last ? view.y[b] - HEIGHT / 2 : edge[k + 1];
      const bend = (ty - y) / 2;
      path += `C${x} ${y + bend} ${tx} ${ty - bend} ${tx} ${ty}`;
      x = tx; y = ty;
    }
    return path;
  }

  function dimmed(id) { return lit >= 0 && N.group[id] !== lit; }

  function nearBy(nodes, edges) {
    const parts = edges.map(e => view.edges[e]).map(edge => svg("path", {d: line(edge), "marker-end": "url(#arrow)",
      class: "edge" + (edge[0] === selected ? " out" : edge[1] === selected ? " in" : dimmed(edge[0]) && dimmed(edge[1]) ? " faint" : "")}));
    if (selected >= 0 && view.at.has(selected)) parts.push(...longEdges());
    for (const i of nodes) parts.push(nodeBox(i));
    return parts;
  }

  // Edges that the layout left out, of the selected node only.
  function longEdges() {
    const seen = new Set(view.edges.filter(e => e[0] === selected || e[1] === selected).map(e => e[0] + " " + e[1]));
    const pairs = [...new Set(N.ins[selected])].map(a => [a, selected]).concat(usersOf(selected).map(b => [selected, b]));
    return pairs.filter(([a, b]) => view.at.has(a) && view.at.has(b) && !seen.has(a + " " + b)).slice(0, 40)
      .map(([a, b]) => svg("path", {d: line([a, b]), class: "edge long " + (a === selected ? "out" : "in")}));
  }

  function nodeBox(i) {
    const id = view.ids[i], x = view.x[i], y = view.y[i];
    const inputs = new Set(N.ins[id]).size - view.drawnIns[i], outputs = usersOf(id).length - view.drawnOuts[i];
    const wide = Math.max(4, Math.floor((view.w[i] - 6) / 5.9));
    return svg("g", {class: "node" + (id === selected ? " chosen" : "") + (hits && hits.set.has(id) ? " found" : "") + (dimmed(id) ? " faint" : ""),
      onclick: () => select(id)},
      svg("title", {}, `${N.name[id]}\n${N.kind[id]} ${N.detail[id]}${N.note[id] ? "\n" + N.note[id] : ""}`),
      svg("rect", {...rectangle(i), style: fill(N.group[id])}),
      svg("text", {x, y: y - 3, class: "name"}, report.middle(N.label[id], Math.floor((view.w[i] - 8) / 6.6))),
      svg("text", {x, y: y + 11, class: "kind"}, report.middle(`${N.kind[id]} ${N.detail[id]}`, wide)),
      inputs > 0 ? svg("text", {x: x - view.w[i] / 2, y: y - HEIGHT / 2 - 3, class: "stub"}, `▾${inputs}`) : null,
      outputs > 0 ? svg("text", {x: x + view.w[i] / 2 - 16, y: y + HEIGHT / 2 + 11, class: "stub"}, `▾${outputs}`) : null);
  }

  function select(id) {
    selected = id;
    drawn = null;
    details(id);
    update();
  }

  // Select a node and bring it into view, wherever it lies.
  function show(id) {
    if (!view.at.has(id)) {
      const home = data.views.find(v => { if (!v.bands) index(v); return v.at.has(id); });
      if (home) setView(home); else openAround(id);
    }
    const i = view.at.get(id);
    if (i === undefined) return;
    scale = Math.max(scale, 0.7);
    x0 = view.x[i] - picture.clientWidth / scale / 2;
    y0 = view.y[i] - picture.clientHeight / scale / 2;
    select(id);
  }

  function small(ids, title) {
    const widths = ids.map(id => width(id)), at = new Map(ids.map((id, i) => [id, i]));
    const pairs = ids.flatMap((id, i) => [...new Set(N.ins[id])].filter(a => at.has(a)).map(a => [at.get(a), i]));
    const place = layered(widths, pairs);
    return {t: title, ids, w: widths, ...place, edges: pairs.map(([a, b]) => [ids[a], ids[b]])};
  }

  function width(id) { return Math.min(260, Math.max(90, 10 + Math.max(7 * N.label[id].length, 6 * (N.kind[id].length + 1 + N.detail[id].length)))); }

  function neighbourhood(id) {
    let edge = [id];
    const found = new Set(edge);
    for (let hop = 0; hop < Number(hops.value); hop++) {
      const grown = [];
      for (const n of edge) {
        for (const list of [[...new Set(N.ins[n])], usersOf(n)]) {
          for (const m of list.slice(0, 12)) if (!found.has(m) && found.size < 200) { found.add(m); grown.push(m); }
        }
      }
      edge = grown;
    }
    lit = -1;
    setView(small([...found].sort((a, b) => a - b), "neighbourhood"));
    if (scale > 0.45) select(id); else show(id);
  }

  // A node of no view: its computation if that is small, else its neighbourhood.
  function openAround(id) {
    const name = Object.keys(data.bodies).find(c => data.bodies[c].includes(id));
    if (name && data.bodies[name].length <= 600) openBody(name);
    else { selected = id; neighbourhood(id); }
  }

  function openBody(name) {
    const ids = data.bodies[name];
    if (!ids) return;
    setView(small(ids.slice(0, 600), name));
  }

  function node(id) {
    return el("button", {class: "go", title: N.name[id], onclick: () => show(id)},
      el("i", {style: fill(N.group[id]).replace("fill", "background")}), report.middle(N.label[id], 34), el("small", {}, " " + N.kind[id]));
  }

  function list(title, ids) {
    return ids.length ? [el("h3", {}, `${title} (${ids.length})`), el("div", {class: "list"}, ids.slice(0, 60).map(node),
      ids.length > 60 ? el("p", {}, `and ${ids.length - 60} more`) : null)] : [];
  }

  function details(id) {
    const facts = [["Kind", N.kind[id]], [data.words.detail, N.detail[id]], [data.words.group, data.groups[N.group[id]].t]].filter(([, v]) => v);
    const links = (data.tabs || []).map(([title, tab]) => el("a", {href: `#${options.page}/${tab}/${encodeURIComponent(tab === "kernels" || tab === "text" ? N.name[id] : "?" + N.name[id])}`}, title));
    report.put(panel, el("button", {class: "close", title: "Close (Escape)", onclick: () => { selected = -1; drawn = null; legend(); update(); }}, "×"),
      el("h2", {}, N.name[id]), el("dl", {}, facts.map(([t, v]) => [el("dt", {}, t), el("dd", {}, v)])),
      N.where[id] ? el("p", {class: "source", title: "The user's line"}, N.where[id]) : null,
      el("p", {class: "links"}, links, N.body[id] && data.bodies[N.body[id]] ? el("button", {onclick: () => openBody(N.body[id])}, "open its body") : null,
        el("button", {onclick: () => neighbourhood(id)}, "neighbourhood")),
      ...(N.note[id] ? [el("h3", {}, data.words.note), el("p", {class: "origin"}, N.note[id])] : []),
      ...list("Inputs", [...new Set(N.ins[id])]), ...list("Used by", usersOf(id)));
  }

  function legend() {
    const rows = data.groups.map((g, n) => [g, n]).filter(([g]) => g.n).sort((a, b) => b[0].n - a[0].n);
    report.put(panel, el("h2", {}, data.words.group), el("p", {class: "hint"}, data.words.hint), only(), el("div", {class: "list"}, rows.slice(0, 300).map(([g, n]) =>
      el("button", {class: "go" + (n === lit ? " on" : ""), onclick: () => { lit = lit === n ? -1 : n; drawn = null; legend(); if (lit >= 0) first(n); update(); }},
        el("i", {style: fill(n).replace("fill", "background")}), g.t, el("small", {}, " " + report.format(g.n))))));
  }

  // With a group lit: a button that draws its nodes alone.
  function only() {
    const ids = lit < 0 ? [] : N.group.flatMap((g, id) => g === lit ? [id] : []);
    if (!ids.length || ids.length > 1500) return null;
    return el("p", {}, el("button", {onclick: () => setView(small(ids, data.groups[lit].t))}, `only ${data.groups[lit].t}`));
  }

  function first(group) {
    const i = view.ids.findIndex(id => N.group[id] === group);
    if (i >= 0) { x0 = view.x[i] - picture.clientWidth / scale / 2; y0 = view.y[i] - picture.clientHeight / scale / 3; }
  }

  function find(goes) {
    const test = report.matcher(input.value);
    hits = null; hitAt = -1;
    if (input.value) {
      hits = [];
      N.name.forEach((name, id) => { if (test(name) || test(N.kind[id]) || test(N.note[id]) || test(N.where[id])) hits.push(id); });
      hits.set = new Set(hits);
    }
    drawn = null;
    update();
    if (goes && hits && hits.length && hits.length < 50) nextHit(1);
  }

  function nextHit(step) {
    if (!hits || !hits.length) return;
    hitAt = (hitAt + step + hits.length) % hits.length;
    show(hits[hitAt]);
  }

  function drag(event) {
    if (event.button !== 0) return;
    let px = event.clientX, py = event.clientY;
    const move = e => { x0 -= (e.clientX - px) / scale; y0 -= (e.clientY - py) / scale; px = e.clientX; py = e.clientY; update(); };
    const end = () => { removeEventListener("pointermove", move); removeEventListener("pointerup", end); };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  }

  function wheel(event) {
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(-event.deltaY / 300), event.offsetX, event.offsetY);
    else { x0 += event.deltaX / scale; y0 += event.deltaY / scale; update(); }
  }

  function jump(event) {
    const area = map.getBoundingClientRect();
    y0 = (event.clientY - area.top) / area.height * view.H - picture.clientHeight / scale / 2;
    update();
  }

  function key(event) {
    const step = 80 / scale;
    const act = {ArrowLeft: () => { x0 -= step; }, ArrowRight: () => { x0 += step; }, ArrowUp: () => { y0 -= step; }, ArrowDown: () => { y0 += step; },
      "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), 0: fit, n: () => nextHit(1), N: () => nextHit(-1),
      Enter: () => selected >= 0 && neighbourhood(selected), Escape: () => { selected = -1; drawn = null; legend(); }}[event.key];
    if (!act) return;
    event.preventDefault();
    act();
    update();
  }

  function open(item) {
    if (item.startsWith("?")) { input.value = item.slice(1); find(true); }
    else if (number.has(item)) show(number.get(item));
  }

  if (!data.views.length && N.name.length) {
    // Too large to lay out as a whole: begin with some nodes, search and neighbourhoods reach the others.
    data.views.push(small(N.name.map((_, id) => id).slice(-200), "the last 200 nodes"));
  }
  if (!data.views.length) { box.replaceChildren(el("p", {class: "note"}, "No node could be read.")); return {open: () => {}, input}; }
  setView(data.views[0]);
  new ResizeObserver(() => { drawn = null; update(); }).observe(picture);
  if (options.item) open(options.item);
  return {open, input};
}
