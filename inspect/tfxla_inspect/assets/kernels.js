"use strict";
// Kernels of a module: the table, and under it facts and texts of the chosen one. Lines that end with a comment
// "%name" were made for that instruction: they lead to it, and have the user's line beside them.
// data = {table: {cols, rows}, texts: [{t, key, language, at: {symbol: [first line, lines]}}], page,
// facts: {symbol: [[title, value], ...]}, of: {instruction: symbol}, lines: {instruction: user's line}}.
function showKernels(box, data, options) {
  const {el} = report, MADE_FOR = /(?:;|#|\/\/) %([\w.-]+)$/;
  const fitting = 110 + 25 * data.table.rows.length;
  const upper = el("div", {class: "upper", style: `max-height:${fitting}px`}), facts = el("div", {class: "facts"}), lower = el("div", {class: "lower"});
  let symbol = "", language = "", wanted = "";
  box.replaceChildren(upper, facts, lower);
  const table = showTable(upper, data.table, {select: cells => choose(report.plain(cells[0]))});
  const rows = data.table.rows, is = name => rows.find(cells => report.plain(cells[0]) === name);
  open(options.item || report.plain(rows[0][0]));

  // A symbol, or an instruction: the kernel that computes it, at the lines made for it.
  function open(item) {
    wanted = is(item) ? "" : item;
    const row = is(item) || is(data.of[item]) || rows.find(cells => cells.some(c => report.plain(c) === item));
    if (row) table.open(report.plain(row[0])); else if (item.startsWith("?")) table.open(item);
  }

  function choose(name) {
    symbol = name;
    facts.replaceChildren(el("dl", {}, (data.facts[name] || []).map(([title, value]) =>
      [el("dt", {}, title), el("dd", {}, Array.isArray(value) ? value.map(v => el(title === "User lines" ? "div" : "span", {class: "item"}, report.link(v))) : report.link(value))])));
    draw();
  }

  async function draw() {
    const having = data.texts.filter(t => t.key && t.at[symbol]);
    if (!having.length) { lower.replaceChildren(el("p", {class: "note"}, "The dump holds no text of this kernel.")); return; }
    const text = having.find(t => t.t === language) || having[0];
    const [first, count] = text.at[symbol];
    const whole = await report.text(text.key);
    const buttons = el("span", {class: "choice"}, having.map(t => el("button", {"aria-pressed": String(t === text),
      onclick: () => { language = t.t; draw(); }}, t.t)));
    const view = showText(lower, whole, {language: text.language, first, count, tail, follow});
    lower.prepend(buttons);
    if (wanted) view.mark(line => (MADE_FOR.exec(line) || [])[1] === wanted);
  }

  // The user's line of a line's instruction, where it is another than that of the line before.
  function tail(line, before) {
    const name = (MADE_FOR.exec(line) || [])[1], place = data.lines[name];
    return place && place !== data.lines[(MADE_FOR.exec(before) || [])[1]] ? el("span", {class: "origin-line"}, "  ← " + place) : null;
  }

  function follow(token) {
    const made = MADE_FOR.exec(token);
    if (made) report.go(data.page, "text", made[1]);
    return Boolean(made);
  }

  return {open, input: table.input};
}
