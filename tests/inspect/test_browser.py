"""The report in headless Chromium, clicked through by a script that is added for the test."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.inspect import sample
from tfxla_inspect import pack, report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.chromium,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH (Debian: apt-get install chromium)"),
]

DRIVER = """
;(async () => {
  const out = {violations: [], errors: [], pages: {}}, page = document.getElementById("page");
  addEventListener("securitypolicyviolation", e => out.violations.push(e.violatedDirective));
  addEventListener("error", e => out.errors.push(e.message));
  const done = () => { document.body.dataset.result = JSON.stringify(out); };
  addEventListener("unhandledrejection", e => { out.errors.push(String(e.reason.stack || e.reason)); done(); });
  const wait = ms => new Promise(done => setTimeout(done, ms));
  const opened = () => page.querySelector(".view") && !page.innerText.includes("Opening…");
  const open = async hash => {
    if (location.hash === "#" + hash) { location.hash = "start"; await wait(50); }
    page.replaceChildren();
    location.hash = hash;
    for (let n = 0; n < 200 && !opened(); n++) await wait(50);
    await wait(200);
  };
  const until = async test => { for (let n = 0; n < 100 && !test(); n++) await wait(50); };
  const key = (node, name) => node.dispatchEvent(
    new KeyboardEvent("keydown", {key: name, bubbles: true, cancelable: true}));
  const type = async (node, text) => {
    node.value = text; node.dispatchEvent(new Event("input")); await wait(100); };
  while (!document.body.classList.contains("ready")) await wait(20);
  out.start = !document.getElementById("start").hidden;
  for (const hash of PAGES) { await open(hash); out.pages[hash] = page.innerText; }

  await open("m0/graph");
  out.boxes = page.querySelectorAll(".drawing .node").length;
  page.querySelector(".drawing .node:last-of-type").dispatchEvent(new MouseEvent("click"));
  await wait(100);
  out.panel = page.querySelector(".panel").innerText;
  const names = () => [...page.querySelectorAll(".drawing .node .name")].map(n => n.textContent);
  const outer = names().join();
  [...page.querySelectorAll(".panel button")].find(b => b.textContent === "open its body").click();
  for (let n = 0; n < 600 && names().join() === outer; n++) await wait(50);
  out.body = names();
  page.querySelector(".panel .go").click();
  key(page.querySelector(".drawing"), "Enter");
  await wait(100);
  out.near = page.querySelectorAll(".drawing .node").length;

  await open("m0/graph");
  const button = text => [...page.querySelectorAll("button")].find(b => b.textContent === text);
  const pick = async (label, text) => {
    const box = [...page.querySelectorAll("select")].find(s => s.getAttribute("aria-label") === label);
    box.value = [...box.options].find(o => o.textContent.includes(text)).value;
    box.dispatchEvent(new Event("change"));
    await wait(200);
  };
  button("fold scopes").click();
  await wait(300);
  out.folded = names();
  const opens = name => [...page.querySelectorAll(".drawing .node")].find(n => n.textContent.includes(name));
  opens("multiply_reduce_fusion").dispatchEvent(new MouseEvent("click"));
  await wait(100);
  button("open it here").click();
  await until(() => page.querySelector(".frame"));
  out.opened = names();
  out.frames = [...page.querySelectorAll(".frame text")].map(t => t.textContent);
  out.lines = page.querySelectorAll(".drawing .edge").length;
  page.querySelector(".frame").dispatchEvent(new MouseEvent("click"));
  await until(() => !page.querySelector(".frame"));
  out.closed = names();
  await pick("Colour by", "time");
  out.timed = page.querySelector(".panel").innerText;
  out.kinds = [...page.querySelectorAll(".drawing .kind")].map(n => n.textContent);
  const saved = [], kept = URL.createObjectURL;
  URL.createObjectURL = file => { saved.push(file); return kept(file); };
  button("SVG").click();
  out.picture = await saved[0].text();
  await pick("Another graph beside it", "Graph before");
  const halves = [...page.querySelectorAll(".half")];
  halves[0].querySelector(".drawing .node:last-of-type").dispatchEvent(new MouseEvent("click"));
  await wait(200);
  out.beside = halves.map(h => h.querySelector(".panel h2").textContent);
  const scales = () => [...page.querySelectorAll(".drawing text")].map(t => t.getCTM().a);
  await until(() => Math.min(...scales()) > 0.97);
  out.sizes = [...page.querySelectorAll(".drawing text")].map(t =>
    parseFloat(getComputedStyle(t).fontSize) * t.getCTM().a);

  await open("m0/text");
  key(document.body, "/");
  out.focused = document.activeElement === page.querySelector(".search");
  await type(page.querySelector(".search"), "fusion(");
  out.found = page.querySelector(".count").textContent;
  out.line = page.querySelector(".vline.chosen").textContent;
  page.querySelectorAll(".vline.chosen .ti")[1].click();
  await wait(100);
  out.defined = page.querySelector(".vline.chosen").textContent;
  document.activeElement.blur();
  key(document.body, "]");
  await wait(300);
  out.next = location.hash;

  await open("m0/kernels");
  button("Assembly").click();
  await wait(200);
  out.assembly = page.querySelector(".lower .vtext").textContent;
  await open("g0/nodes");
  await type(page.querySelector(".search"), "/^AsString$/");
  out.rows = [...page.querySelectorAll(".vrow:not(.head)")].map(r => r.innerText);
  document.activeElement.blur();
  key(document.body, "s");
  await type(document.getElementById("filter"), "multiply");
  await until(() => document.querySelectorAll("#found section").length > 1);
  out.everywhere = document.getElementById("found").innerText;
  out.routes = [...document.querySelectorAll("#found a")].map(a => a.getAttribute("href"));
  await type(document.getElementById("filter"), "no such thing");
  await until(() => document.getElementById("found").innerText.includes("No instruction"));
  out.nowhere = document.getElementById("found").innerText;
  document.activeElement.blur();
  key(document.body, "h");
  await wait(100);
  out.home = !document.getElementById("start").hidden;
  done();
})();
"""
PAGES = [
    *(f"m0/{tab}" for tab in ("summary", "fusion", "plan", "buffers", "lines", "before", "passes", "changes", "files")),
    "g0/clusters",
    "g0/graph",
    "g0/left",
    "recompiles/functions",
    "recompiles/similar",
    "recompiles/stacks",
    "recompiles/compilations",
    "trace",
]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """What the driver saw, in a dump whose left-out node has a hostile name."""
    directory = tmp_path_factory.mktemp("report")
    evil = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    asset = pack.asset
    patch = pytest.MonkeyPatch()
    patch.setattr(pack, "asset", lambda name: asset(name) + (_driver() if name == "app.js" else ""))
    path = directory / "report.html"
    path.write_text(report.build(sample.write(directory / "dump", left=evil)))
    patch.undo()
    return json.loads(_run(path))


def _driver() -> str:
    return DRIVER.replace("PAGES", json.dumps(PAGES))


def _run(path: Path) -> str:
    """The driver's result. Virtual time runs on while a loaded machine stands still: up to three tries."""
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,900",
        "--virtual-time-budget=120000", "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if found := re.search(r'data-result="([^"]*)"', done.stdout):
            return html.unescape(found[1])
    raise AssertionError(done.stderr[-2000:])


def test_no_errors_and_nothing_blocked(result):
    assert result["errors"] == []
    assert result["violations"] == []
    assert result["start"]
    assert result["home"]


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens(result, page):
    text = result["pages"][page]
    assert "could not be shown" not in text
    assert "Opening" not in text
    assert len(text) > (100 if page == "recompiles/stacks" else 150)


def test_hostile_name_is_shown_as_text(result):
    assert "<img src=x onerror=alert(1)>" in result["pages"]["g0/left"]


def test_graph(result):
    assert result["boxes"] == 3
    assert "sample.py:2" in result["panel"]
    assert "model/mul" in result["panel"]
    assert "f32[8]" in result["panel"]
    assert set(result["body"]) == {"p0", "p1", "wide", "mul", "zero", "reduce"}
    assert result["near"] > 0


def test_scopes_and_fusions_open_where_they_stand(result):
    assert sorted(result["folded"]) == ["multiply_reduce_fusion", "x", "y"]
    assert sorted(result["opened"]) == sorted(["x", "y", "p0", "p1", "wide", "mul", "zero", "reduce"])
    assert result["frames"] == ["\N{MINUS SIGN} multiply_reduce_fusion"]
    assert result["lines"] == 7  # x and y to their parameters, and the five of the body
    assert result["closed"] == result["folded"]


def test_colours_by_time(result):
    assert "250.0 us" in " ".join(result["kinds"]).replace("0.25 ms", "250.0 us")
    assert "By time" in result["timed"]
    assert "mean of 12" in result["timed"]


def test_a_picture_has_its_own_colours(result):
    root = ElementTree.fromstring(result["picture"])
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "multiply_reduce_fusion" in texts
    assert "var(" not in result["picture"]
    assert "fill:rgb(" in result["picture"].replace("fill: rgb(", "fill:rgb(")


def test_what_is_chosen_is_found_in_the_graph_beside(result):
    assert result["beside"] == ["multiply_reduce_fusion", "reduce"]


def test_labels_can_be_read(result):
    assert min(result["sizes"]) >= 10.7  # 11 and 11.5, beside scroll bars


def test_text(result):
    assert result["focused"]
    assert result["found"].startswith("1 match,")
    assert "multiply_reduce_fusion" in result["line"]
    assert "%x = " in result["defined"]
    assert result["next"] == "#m0/fusion"


def test_one_search_over_all_pages(result):
    assert "cluster_0: Graph" in result["everywhere"].replace("CLUSTER_0: GRAPH", "cluster_0: Graph")
    assert "#m0/graph/mul" in result["routes"]
    assert "#m0/kernels/multiply_reduce_fusion_k0" in result["routes"]
    assert "no such thing" in result["nowhere"]


def test_kernel_and_table(result):
    assert "vmulps" in result["assembly"]
    assert len(result["rows"]) == 1
    assert "AsString" in result["rows"][0]
