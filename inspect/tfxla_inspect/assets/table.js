"use strict";
// A table of any length: only the rows in view exist. data = {cols: [{t, w, k}], rows: [[cell, ...], ...]},
// k: "n" number, "b" bytes, "" text. Options: select(row) is called for the chosen row, item names it.
function showTable(box, data, options = {}) {
  const {el} = report;
  const height = 25;
  let rows = data.rows.map((cells, index) => ({cells, index}));
  let sorted = null, chosen = null;
  // No header is cut; wide tables scroll.
  const least = data.cols.map(c => Math.max(c.k ? 72 : c.w > 2 ? 150 : 80, 8 * c.t.length + 20));
  const template = data.cols.map((c, n) => `minmax(${least[n]}px, ${c.w || 1}fr)`).join(" ");
  const widest = `min-width:${least.reduce((a, b) => a + b, 0)}px`;
  const input = el("input", {type: "search", class: "search", placeholder: "Filter rows, or /regex/",
    "aria-label": "Filter rows", oninput: refilter});
  const count = el("span", {class: "count"});
  const head = el("div", {class: "vhead", style: `${widest};grid-template-columns:${template}`},
    data.cols.map((col, n) => el("button", {class: col.k ? "num" : "", onclick: () => sort(n), title: "Sort"}, col.t)));
  const body = el("div", {class: "vrows", style: widest});
  const scroller = el("div", {class: "vtable", tabindex: "0", onscroll: draw, onkeydown: key}, head, body);
  const detail = el("div", {class: "detail", hidden: ""});
  box.replaceChildren(el("div", {class: "bar"}, input, count), scroller, detail);

  function refilter() {
    const test = report.matcher(input.value);
    rows = data.rows.map((cells, index) => ({cells, index}))
      .filter(row => !input.value || row.cells.some(c => test(report.plain(c))));
    if (sorted) order();
    scroller.scrollTop = 0;
    draw();
  }

  function sort(column) {
    sorted = sorted && sorted.column === column ? {column, down: !sorted.down}
      : {column, down: Boolean(data.cols[column].k)};
    order();
    draw();
  }

  function order() {
    const {column, down} = sorted;
    const value = row => { const c = row.cells[column]; return typeof c === "number" ? c : report.plain(c); };
    rows.sort((a, b) => {
      const x = value(a), y = value(b);
      const less = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", {numeric: true});
      return (down ? -less : less) || a.index - b.index;
    });
  }

  function cell(value, col) {
    const shown = typeof value === "number" ? (col.k === "b" ? report.bytes(value) : report.format(value)) : report.link(value);
    return el("span", {class: col.k ? "num" : "", title: report.plain(value)}, shown);
  }

  function draw() {
    count.textContent = `${report.format(rows.length)} of ${report.format(data.rows.length)} rows`;
    body.style.height = rows.length * height + "px";
    const first = Math.max(0, Math.floor(scroller.scrollTop / height) - 15);
    const last = Math.min(rows.length, first + Math.ceil(scroller.clientHeight / height) + 30);
    body.replaceChildren(...rows.slice(first, last).map((row, n) => el("div", {
      class: "vrow" + (row === chosen ? " chosen" : ""), "data-row": row.index,
      style: `top:${(first + n) * height}px;grid-template-columns:${template}`,
      onclick: event => { if (event.target.tagName !== "A") choose(row); },
    }, data.cols.map((col, k) => cell(row.cells[k], col)))));
  }

  function choose(row, scroll) {
    chosen = row;
    if (scroll) scroller.scrollTop = Math.max(0, rows.indexOf(row) * height - scroller.clientHeight / 3);
    if (options.select) options.select(row.cells);
    else {
      detail.hidden = false;
      detail.replaceChildren(el("dl", {}, data.cols.map((col, n) =>
        [el("dt", {}, col.t), el("dd", {}, report.link(row.cells[n]))])));
    }
    draw();
  }

  function key(event) {
    const step = {ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20}[event.key];
    if (!step || !rows.length) return;
    event.preventDefault();
    const at = chosen ? rows.indexOf(chosen) : -1;
    choose(rows[Math.min(rows.length - 1, Math.max(0, at + step))], true);
  }

  // Show a query ("?text") or the row whose first cell is `item`.
  function open(item) {
    if (item.startsWith("?")) { input.value = item.slice(1); refilter(); return; }
    const row = rows.find(r => report.plain(r.cells[0]) === item);
    if (row) choose(row, true);
  }

  draw();
  new ResizeObserver(draw).observe(scroller);
  if (options.item) open(options.item);
  return {open, input};
}
