"use strict";
// A text of any length: only the lines in view exist, and only they are coloured.
const LANGUAGES = (() => {
  const string = /"(?:[^"\\]|\\.)*"?/, number = /\b(?:0x[\da-fA-F]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)\b/;
  const make = (comment, name, keyword, type) => new RegExp(
    [`(?<c>${comment.source})`, `(?<s>${string.source})`, `(?<i>${name.source})`,
      `(?<k>${keyword.source})`, `(?<t>${type.source})`, `(?<n>${number.source})`].join("|"), "g");
  return {
    hlo: make(/\/\/.*|\/\*.*?\*\//, /%[\w.-]+/, /\b(?:ROOT|ENTRY|HloModule)\b|(?<== (?:\([^=]*\)|\S+) )[a-z][\w-]*(?=\()|\b[a-z_]+(?==)/,
      /\b(?:pred|token|[sufbc]+\d+\w*)(?=\[)/),
    llvm: make(/;.*/, /[%@][\w.$-]+|[%@]"[^"]*"/,
      /\b(?:define|declare|ret|br|call|load|store|phi|select|getelementptr|inbounds|alloca|to|label|fast|nsw|nuw|switch|icmp|fcmp|[sz]ext|trunc|bitcast|f?(?:add|sub|mul|div|rem|neg)|[us]div|shl|[al]shr|and|or|xor|align|insertelement|extractelement|shufflevector|atomicrmw|unreachable|attributes|target|source_filename|private|internal|unnamed_addr|constant|global|noalias|readonly)\b/,
      /\b(?:i\d+|float|double|half|bfloat|ptr|void)\b|<\d+ x \w+>/),
    asm: make(/#.*|;.*/, /%\w+|^[\w.$"]+:/, /^\s*[a-z][\w.]*/, /\b(?:[xyz]mm\d+|r\w+|e\w\w)\b|^\s*\.\w+/),
    kernel: make(/\/\/.*|#.*/, /%[\w.]+/, /\b(?:kernel|for|vector|serial|reduce|load|store|if|else|while|yield|combine|tasks|in|out|scratch)\b/,
      /\b(?:pred|[sufbc]+\d+)\b/),
    python: make(/#.*/, /\bv\d+\b|(?<=def )\w+/, /\b(?:def|for|in|if|else|while|return|import|from|as|and|or|not|is|None|True|False)\b|@[\w.]+/, /\btl\.\w+/),
    mlir: make(/\/\/.*|loc\(.*\)$/, /[%#@][\w.$:]+/, /(?<== )"?[a-z]\w*\.[\w.]+"?|\b(?:module|attributes|func|scf|arith|tt|return|yield)\b/, /\b[suifb]+\d+\b|\btensor<[^>]*>+/),
    diff: make(/^@.*/, /^\+.*/, /^-.*/, /(?!)/),
    none: null,
  };
})();

function colour(line, language) {
  const {el} = report, pattern = LANGUAGES[language];
  const shown = line.length > 3000 ? line.slice(0, 3000) + " …" : line;
  if (!pattern) return [shown];
  const parts = [];
  let end = 0;
  for (const found of shown.matchAll(pattern)) {
    if (!found[0]) continue;
    if (found.index > end) parts.push(shown.slice(end, found.index));
    const kind = Object.keys(found.groups).find(k => found.groups[k] !== undefined);
    parts.push(el("span", {class: "t" + kind}, found[0]));
    end = found.index + found[0].length;
  }
  parts.push(shown.slice(end));
  return parts;
}

// Options: language; first, count: only these lines; item: "?query", "L12" or a name to go to; tail(line, line before,
// chosen): what stands behind a line; follow(text of a comment): whether it led somewhere.
function showText(box, text, options = {}) {
  const {el} = report, height = 18;
  const all = text.split("\n");
  const from = options.first || 0;
  const lines = options.count === undefined ? all : all.slice(from, from + options.count);
  let view = null, hits = [], at = -1, current = -1, definitions = null, marked = new Set();
  const input = el("input", {type: "search", class: "search", placeholder: "Search, or /regex/",
    "aria-label": "Search text", oninput: search,
    onkeydown: e => { if (e.key === "Enter") { e.preventDefault(); next(e.shiftKey ? -1 : 1); } }});
  const count = el("span", {class: "count"});
  const only = el("input", {type: "checkbox", onchange: () => { refresh(); }});
  const body = el("div", {class: "vlines", onclick: follow});
  const scroller = el("div", {class: "vtext", tabindex: "0", onscroll: draw}, body);
  box.replaceChildren(el("div", {class: "bar"}, input,
    el("button", {onclick: () => next(-1), title: "Previous (Shift+Enter)"}, "↑"),
    el("button", {onclick: () => next(1), title: "Next (Enter)"}, "↓"),
    el("label", {}, only, " only matching lines"), count), scroller);
  const widest = Math.min(lines.reduce((m, l) => Math.max(m, l.length), 0), 3002);
  body.style.minWidth = `calc(${widest}ch + 5em)`;

  function search() {
    const test = report.matcher(input.value);
    hits = [];
    if (input.value) for (let n = 0; n < lines.length; n++) if (test(lines[n])) hits.push(n);
    at = -1;
    if (hits.length && !only.checked) next(1); else refresh();
  }

  function refresh() {
    view = only.checked && input.value ? hits : null;
    if (view) scroller.scrollTop = 0;
    draw();
  }

  function next(step) {
    if (!hits.length) { refresh(); return; }
    at = (at + step + hits.length) % hits.length;
    goLine(hits[at]);
  }

  function goLine(n) {
    current = n;
    const row = view ? view.indexOf(n) : n;
    const top = row * height;
    if (top < scroller.scrollTop + 40 || top > scroller.scrollTop + scroller.clientHeight - 60) {
      scroller.scrollTop = Math.max(0, top - scroller.clientHeight / 3);
    }
    draw();
  }

  function draw() {
    const total = view ? view.length : lines.length;
    const found = input.value ? `${report.format(hits.length)} match${hits.length === 1 ? "" : "es"}${at >= 0 ? `, at ${at + 1}` : ""} · ` : "";
    count.textContent = `${found}${report.format(lines.length)} lines`;
    body.style.height = total * height + "px";
    const first = Math.max(0, Math.floor(scroller.scrollTop / height) - 20);
    const last = Math.min(total, first + Math.ceil(scroller.clientHeight / height) + 40);
    const drawn = [];
    for (let row = first; row < last; row++) {
      const n = view ? view[row] : row;
      drawn.push(el("div", {class: "vline" + (n === current ? " chosen" : marked.has(n) ? " marked" : ""), style: `top:${row * height}px`, "data-line": n},
        el("span", {class: "ln"}, String(n + 1)), el("code", {}, colour(lines[n], options.language || "none")),
        options.tail ? options.tail(lines[n], lines[n - 1] || "", n === current) : null));
    }
    body.replaceChildren(...drawn);
  }

  // Clicking a name goes to where it is defined.
  function follow(event) {
    if (event.target.className === "tc" && options.follow && options.follow(event.target.textContent)) return;
    const row = event.target.closest(".vline");
    if (event.target.className !== "ti") {
      if (row && options.tail) { current = Number(row.dataset.line); draw(); }
      return;
    }
    const line = define(event.target.textContent.replace(/:$/, ""));
    if (line !== undefined) goLine(line);
  }

  function define(name) {
    if (!definitions) {
      definitions = new Map();
      lines.forEach((line, n) => {
        const found = /^\s*(?:ROOT )?([%@]?[\w.$-]+) = /.exec(line) || /^(?:ENTRY )?(%?[\w.-]+) .*\{$/.exec(line)
          || /^define .*?(@[\w.$-]+)\(/.exec(line);
        if (found && !definitions.has(found[1])) definitions.set(found[1], n);
      });
    }
    return definitions.get(name) ?? definitions.get("%" + name);
  }

  // Marks the lines that pass a test, and goes to the first.
  function mark(test) {
    marked = new Set(lines.flatMap((line, n) => test(line) ? [n] : []));
    if (marked.size) goLine([...marked][0]);
  }

  function open(item) {
    if (item.startsWith("?")) { input.value = item.slice(1); search(); return; }
    const line = /^L(\d+)$/.exec(item);
    const target = line ? Number(line[1]) - 1 : define(item);
    if (target !== undefined) goLine(target);
  }

  draw();
  new ResizeObserver(draw).observe(scroller);
  if (options.item) open(options.item);
  return {open, mark, input};
}
