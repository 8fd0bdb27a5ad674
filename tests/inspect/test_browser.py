"""The report in headless Chromium, clicked through by a script that is added for the test."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

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
  addEventListener("unhandledrejection", e => out.errors.push(String(e.reason)));
  const wait = ms => new Promise(done => setTimeout(done, ms));
  const opened = () => page.querySelector(".view") && !page.innerText.includes("Opening…");
  const open = async hash => {
    page.replaceChildren();
    location.hash = hash;
    for (let n = 0; n < 200 && !opened(); n++) await wait(50);
    await wait(200);
  };
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
  const button = text => [...page.querySelectorAll("button")].find(b => b.textContent === text);
  button("Assembly").click();
  await wait(200);
  out.assembly = page.querySelector(".lower .vtext").textContent;
  await open("g0/nodes");
  await type(page.querySelector(".search"), "/^AsString$/");
  out.rows = [...page.querySelectorAll(".vrow")].map(r => r.innerText);
  key(document.body, "h");
  await wait(100);
  out.home = !document.getElementById("start").hidden;
  document.body.dataset.result = JSON.stringify(out);
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


def test_text(result):
    assert result["focused"]
    assert result["found"].startswith("1 match,")
    assert "multiply_reduce_fusion" in result["line"]
    assert "%x = " in result["defined"]
    assert result["next"] == "#m0/fusion"


def test_kernel_and_table(result):
    assert "vmulps" in result["assembly"]
    assert len(result["rows"]) == 1
    assert "AsString" in result["rows"][0]
