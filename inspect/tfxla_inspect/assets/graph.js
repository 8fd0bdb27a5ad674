"use strict";
// A graph of any size: only what is in view is drawn; from far, boxes only, one path a colour.
// data = {nodes: {name, label, kind, detail, group, note, where, ins, body: columns}, groups: [{t, hue, n}],
// views: [{t, ids, x, y, w, W, H, edges: [[a, b, x, y, ...]]}], bodies: {computation: [ids]}, tabs: {...}, measures (colours.js)}.
function showGraph(box, data, options) {
  const {el, svg} = report, N = data.nodes, BAND = 400, HEIGHT = 34, NEAR = 900, FOLD = 80;
  const scopes = scopesOf(N, data.bodies, scopeOf), colours = colouring(data, scopes.members);
  const number = new Map(N.name.map((name, id) => [name, id]));
  let users = null, view = null, selected = -1, lit = -1, hits = null, hitAt = -1, drawn = null, pending = false;
  let x0 = 0, y0 = 0, scale = 1, unfolded = data.views[0] || null, quiet = false;

  const layer = svg("g", {});
  const picture = svg("svg", {class: "drawing", tabindex: "0", role: "img", "aria-label": "Graph",
    onpointerdown: drag, onwheel: wheel, onkeydown: key, ondblclick: () => selected >= 0 && (opens(selected) ? unfold(selected) : neighbourhood(selected))},
    svg("defs", {}, svg("marker", {id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7,
      orient: "auto"}, svg("path", {d: "M0 0L8 4L0 8z", class: "arrow"}))), layer);
  const map = svg("svg", {class: "map", preserveAspectRatio: "none", onpointerdown: jump});
  const panel = el("aside", {class: "panel"});
  const side = graphPanel(panel, data, options.page, {colours, scopes, usersOf, opens, show, unfold, neighbourhood, openBody, close, light, lit: () => lit,
    draw: (ids, title) => setView(smallView(N, ids, title))});
  const input = el("input", {type: "search", class: "search", placeholder: "Find a node, or /regex/",
    "aria-label": "Find a node", oninput: () => find(true),
    onkeydown: e => { if (e.key === "Enter") { e.preventDefault(); nextHit(e.shiftKey ? -1 : 1); } }});
  const count = el("span", {class: "count"});
  const hops = el("select", {"aria-label": "Hops", onchange: () => selected >= 0 && neighbourhood(selected)},
    [1, 2, 3, 4].map(n => el("option", {value: n, ...(n === 2 ? {selected: ""} : {})}, `${n} hop${n > 1 ? "s" : ""}`)));
  const back = el("button", {hidden: "", onclick: () => { const id = selected; whole(unfolded); if (id >= 0) show(id); }}, "← whole graph");
  const chooser = data.views.length > 1 ? el("select", {"aria-label": "Computation",
    onchange: e => whole(data.views[Number(e.target.value)])}, data.views.map((v, n) => el("option", {value: n}, v.t))) : null;
  const fold = el("button", {"aria-pressed": "false", title: "A box a name scope, or each node (f)", onclick: () => whole(unfolded, view.folded ? "each" : "scopes")}, "fold scopes");
  const painter = data.measures && data.measures.length ? el("select", {"aria-label": "Colour by", onchange: e => { colours.choose(Number(e.target.value)); lit = -1; drawn = null; paintMap(); side.legend(); update(); }},
    el("option", {value: -1}, `colour: ${data.words.group.toLowerCase()}`), data.measures.map((m, n) => el("option", {value: n}, `colour: ${m.t}`))) : null;
  box.replaceChildren(el("div", {class: "bar"}, options.title ? el("b", {}, options.title) : null, chooser, back, input, fold, painter,
    el("button", {onclick: () => zoom(1.3), title: "Zoom in (+)"}, "+"), el("button", {onclick: () => zoom(1 / 1.3), title: "Zoom out (-)"}, "−"),
    el("button", {onclick: fit, title: "Whole graph (0)"}, "fit"), el("button", {onclick: () => selected >= 0 && neighbourhood(selected), title: "Only what is near the selected node (Enter, double click)"}, "neighbourhood"),
    hops, el("button", {onclick: save, title: "This drawing as an SVG file"}, "SVG"), options.extra, count), el("div", {class: "canvas"}, map, picture, panel));

  function usersOf(id) {
    if (!users) {
      users = N.name.map(() => []);
      N.ins.forEach((list, b) => { for (const a of new Set(list)) users[a].push(b); });
    }
    return users[id] || [];
  }

  function setView(next) {
    view = next;
    if (!view.bands) index(view);
    back.hidden = view.folded || data.views.includes(view);
    fold.setAttribute("aria-pressed", String(Boolean(view.folded)));
    if (chooser) chooser.value = data.views.indexOf(unfolded);
    map.style.visibility = view.H > 1200 ? "visible" : "hidden";
    map.setAttribute("viewBox", `0 0 ${view.W} ${view.H}`);
    paintMap();
    start();
    side.legend();
  }

  function paintMap() { map.replaceChildren(...boxes(view.ids.map((_, i) => i), 2), svg("rect", {class: "window"})); }

  // A whole view: of each node, or folded by scopes; left to itself, folded where it is large.
  function whole(next, how) {
    unfolded = next;
    const folded = how ? how === "scopes" : next.ids.length > FOLD;
    if (folded && !next.spread) { next.spread = true; scopes.spread(next.ids, 40); }
    setView(folded ? scopes.view(next.ids, next.t) : next);
  }

  // 'a/b' of the TensorFlow node 'a/b/c'; an instruction's is that of the first node it came from.
  function scopeOf(id) {
    const name = data.words.scope === "name" ? N.name[id] : N.note[id].split(", ")[0];
    return name.includes("/") ? name.slice(0, name.lastIndexOf("/")) : "";
  }

  function opens(id) { return scopes.members(id) || scopes.isOpen(id) || view.folded && N.kind[id] === "fusion" && data.bodies[N.body[id]]; }

  // Open or close a scope or a fusion where it stands.
  function unfold(id) {
    const before = view.at.get(id), sx = before === undefined ? null : [(view.x[before] - x0) * scale, (view.y[before] - y0) * scale];
    scopes.toggle(id);
    const kept = scale;
    setView(scopes.view(unfolded.ids, unfolded.t));
    const frame = view.frames.find(f => f.id === id), i = view.at.get(id);
    const at = frame ? [frame.x + frame.w / 2, frame.y + 17] : i === undefined ? null : [view.x[i], view.y[i]];
    if (at) {
      scale = kept;
      x0 = at[0] - (sx ? sx[0] : picture.clientWidth / 2) / scale;
      y0 = at[1] - (sx ? sx[1] : 60) / scale;
    }
    drawn = null;
    if (N.kind[id] === "scope" || i !== undefined) select(id); else update();
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
    const fits = Math.min(wide / view.W, high / view.H, 1.2);
    scale = Math.max(fits, 1);  // labels can be read
    x0 = view.W / 2 - wide / scale / 2;
    y0 = fits >= 1 ? view.H / 2 - high / scale / 2 : 0;
    if (view.W > wide / scale && view.ids.length) {
      const top = view.y.reduce((a, b) => Math.min(a, b));
      x0 = view.x[view.y.indexOf(top)] - wide / scale / 2;
    }
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
    const once = () => { if (pending) { pending = false; paint(); } };
    requestAnimationFrame(once);
    setTimeout(once, 80);  // a page that is not shown gets no frames
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

  // One path a group: thousands of boxes cost no more than a few elements.
  function boxes(nodes, grow) {
    const paths = new Map();
    for (const i of nodes) {
      const id = view.ids[i], faint = dimmed(id), mark = hits && hits.set.has(id) ? "h" : "";
      const keyed = mark || colours.key(id) + (faint ? "f" : "");
      const part = `M${view.x[i] - view.w[i] / 2} ${view.y[i] - HEIGHT / 2}h${view.w[i]}v${HEIGHT * grow}h${-view.w[i]}z`;
      if (!paths.has(keyed)) paths.set(keyed, {id, faint, mark, parts: []});
      paths.get(keyed).parts.push(part);
    }
    return [...paths.values()].map(p => svg("path", {d: p.parts.join(""), class: (p.mark ? "hit" : "far") + (p.faint ? " faint" : ""),
      style: p.mark ? null : "fill:" + colours.strong(p.id)}));
  }

  function farAway(nodes, edges) {
    const lines = edges.length < 12000 ? svg("path", {class: "edge", d: edges.map(e => line(view.edges[e])).join(""), "stroke-width": Math.max(1, 0.4 / scale)}) : null;
    const chosen = selected >= 0 && view.at.has(selected) ? svg("rect", {class: "ring", ...rectangle(view.at.get(selected), 12)}) : null;
    return [...frames(), lines, ...boxes(nodes, 1), chosen].filter(Boolean);
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

  // Open scopes and fusions, each around what is in it; a click on its title closes it.
  function frames() {
    return (view.frames || []).map(f => svg("g", {class: "frame", onclick: () => unfold(f.id)},
      svg("title", {}, `${N.name[f.id]}: click to close`),
      svg("rect", {x: f.x, y: f.y, width: f.w, height: f.h, rx: 6}),
      svg("text", {x: f.x + 8, y: f.y + 15}, "− " + report.middle(N.label[f.id], Math.max(8, Math.floor(f.w / 7) - 2)))));
  }

  function dimmed(id) { return lit >= 0 && N.group[id] !== lit; }

  function nearBy(nodes, edges) {
    const parts = frames();
    parts.push(...edges.map(e => view.edges[e]).map(edge => svg("path", {d: line(edge), "marker-end": "url(#arrow)",
      class: "edge" + (edge[0] === selected ? " out" : edge[1] === selected ? " in" : dimmed(edge[0]) && dimmed(edge[1]) || far(edge) ? " faint" : "")})));
    if (selected >= 0 && view.at.has(selected) && !view.folded) parts.push(...longEdges());
    for (const i of nodes) parts.push(nodeBox(i));
    return parts;
  }

  // Between folded scopes: lines over many rows would hide the others.
  function far(edge) { return view.folded && Math.abs(view.y[view.at.get(edge[0])] - view.y[view.at.get(edge[1])]) > 5 * 80; }

  // Edges that the layout left out, of the selected node only.
  function longEdges() {
    const seen = new Set(view.edges.filter(e => e[0] === selected || e[1] === selected).map(e => e[0] + " " + e[1]));
    const pairs = [...new Set(N.ins[selected])].map(a => [a, selected]).concat(usersOf(selected).map(b => [selected, b]));
    return pairs.filter(([a, b]) => view.at.has(a) && view.at.has(b) && !seen.has(a + " " + b)).slice(0, 40)
      .map(([a, b]) => svg("path", {d: line([a, b]), class: "edge long " + (a === selected ? "out" : "in")}));
  }

  function nodeBox(i) {
    const id = view.ids[i], x = view.x[i], y = view.y[i];
    const inputs = view.folded ? 0 : new Set(N.ins[id]).size - view.drawnIns[i], outputs = view.folded ? 0 : usersOf(id).length - view.drawnOuts[i];
    const wide = Math.max(4, Math.floor((view.w[i] - 6) / 6.2)), taken = colours.text(id);
    return svg("g", {class: "node" + (id === selected ? " chosen" : "") + (hits && hits.set.has(id) ? " found" : "") + (dimmed(id) ? " faint" : ""),
      onclick: () => select(id)},
      svg("title", {}, [N.name[id], `${N.kind[id]} ${N.detail[id]}`, N.note[id], N.where[id], taken && `${colours.measure().t}: ${taken}`].filter(Boolean).join("\n")),
      scopes.members(id) ? svg("rect", {...rectangle(i), x: view.x[i] - view.w[i] / 2 + 4, y: y - HEIGHT / 2 - 4, class: "behind"}) : null,
      svg("rect", {...rectangle(i), style: "fill:" + colours.fill(id)}),
      svg("text", {x, y: y - 3, class: "name"}, report.middle((scopes.members(id) ? "+ " : "") + N.label[id], Math.floor((view.w[i] - 8) / 6.6))),
      svg("text", {x, y: y + 11, class: "kind"}, report.middle(taken ? `${taken} · ${N.kind[id]}` : `${N.kind[id]} ${N.detail[id]}`, wide)),
      inputs > 0 ? svg("text", {x: x - view.w[i] / 2, y: y - HEIGHT / 2 - 3, class: "stub"}, `▾${inputs}`) : null,
      outputs > 0 ? svg("text", {x: x + view.w[i] / 2 - 16, y: y + HEIGHT / 2 + 11, class: "stub"}, `▾${outputs}`) : null);
  }

  function select(id) {
    selected = id;
    drawn = null;
    side.details(id);
    update();
    if (!quiet && options.chosen && !scopes.members(id)) options.chosen(id);
  }

  // What another graph beside this one has chosen: a name, and the TensorFlow nodes it came from.
  function match(name, nodes) {
    const from = node => N.note.findLastIndex(note => note && note.split(", ")[0] === node);
    const id = number.get(name) ?? nodes.map(from).find(found => found >= 0) ?? -1;
    quiet = true;
    if (id >= 0) show(id);
    quiet = false;
  }

  function save() {
    const all = view.ids.map((_, i) => i), near = all.length <= 6000;
    const parts = near ? nearBy(all, view.edges.map((_, e) => e)) : farAway(all, []);
    savePicture(parts, {x: 0, y: 0, w: view.W, h: view.H}, `${options.page || "graph"}-${view.t}`);
  }

  // Select a node and bring it into view, wherever it lies.
  function show(id) {
    if (!view.at.has(id)) {
      const home = data.views.find(v => { if (!v.bands) index(v); return v.at.has(id); });
      if (home && view.folded) { unfolded = home; scopes.reveal(home.ids, id); setView(scopes.view(home.ids, home.t)); }
      else if (home) whole(home, "each");
      else openAround(id);
    }
    const i = view.at.get(id);
    if (i === undefined) return;
    scale = Math.max(scale, 1);
    x0 = view.x[i] - picture.clientWidth / scale / 2;
    y0 = view.y[i] - picture.clientHeight / scale / 2;
    select(id);
  }

  function neighbourhood(id) {
    lit = -1;
    setView(smallView(N, around(N, usersOf, id, Number(hops.value)), "neighbourhood"));
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
    setView(smallView(N, ids.slice(0, 600), name));
  }

  function close() { selected = -1; drawn = null; side.legend(); update(); }

  function light(group) {
    lit = lit === group ? -1 : group;
    drawn = null;
    side.legend();
    if (lit >= 0) first(group);
    update();
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
      N.name.forEach((name, id) => { if (!scopes.members(id) && (test(name) || test(N.kind[id]) || test(N.note[id]) || test(N.where[id]))) hits.push(id); });
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
      f: () => whole(unfolded, view.folded ? "each" : "scopes"), "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), 0: fit, n: () => nextHit(1), N: () => nextHit(-1),
      Enter: () => selected >= 0 && neighbourhood(selected), Escape: close}[event.key];
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
    data.views.push(smallView(N, N.name.map((_, id) => id).slice(-200), "the last 200 nodes"));
  }
  if (!data.views.length) { box.replaceChildren(el("p", {class: "note"}, "No node could be read.")); return {open: () => {}, match: () => {}, input}; }
  unfolded = data.views[0];
  whole(unfolded);
  new ResizeObserver(() => { drawn = null; update(); }).observe(picture);
  if (options.item) open(options.item);
  return {open, match, input};
}
