"""The page that `forebay bench --report` writes, in a real browser: its content, in light and dark mode and
on a phone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import PATIENCE

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next((path for path in map(shutil.which, BROWSERS) if path), None)

pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"no browser: none of {', '.join(BROWSERS)} is installed")

# Runs in the page, and reports what a reader would notice as a fault.
PROBE = """
<script>
window.addEventListener("load", () => {
  const found = [];
  const see = (what, element) => found.push(what + ": " + element.textContent.trim().slice(0, 60));
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) found.push("the page is wider than its window");
  const figures = [...document.querySelectorAll("data")];
  for (const figure of figures) {
    const box = figure.getBoundingClientRect();
    if (box.width === 0 || box.right > root.clientWidth) see("a figure is not to be seen", figure);
  }
  for (const plot of document.querySelectorAll("svg")) {
    const frame = plot.getBoundingClientRect();
    if (frame.height < 100) found.push(plot.id + " is flat");
    const texts = [...plot.querySelectorAll("text")].filter((text) => text.textContent.trim());
    const boxes = texts.map((text) => text.getBoundingClientRect());
    boxes.forEach((box, i) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 ||
          box.bottom > frame.bottom + 1) see(plot.id + ": a label is cut off", texts[i]);
      boxes.slice(i + 1).forEach((other, j) => {
        const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        if (wide > 2 && high > box.height / 3)
          found.push(`${plot.id}: labels overlap: ${texts[i].textContent} | ${texts[i + 1 + j].textContent}`);
      });
    });
  }
  const colours = [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color];
  const seen = Object.fromEntries(figures.map((figure) => [figure.dataset.field, figure.innerText]));
  const result = document.createElement("script");
  result.type = "application/json";
  result.id = "probe";
  result.textContent = JSON.stringify({ found, colours, seen, plots: document.querySelectorAll("svg").length });
  document.body.append(result);
});
</script>
"""


class Script(HTMLParser):
    """The text of the script element with a given id."""

    def __init__(self, page: str, wanted: str) -> None:
        super().__init__()
        self.wanted, self.inside, self.text = wanted, False, ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag == "script" and dict(attrs).get("id") == self.wanted

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        self.text += data if self.inside else ""


def forebay(*arguments: str) -> None:
    program = "import sys, forebay; sys.exit(forebay.main())"
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True, timeout=PATIENCE)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    data, file = folder / "photos", folder / "report.html"
    forebay("synth", str(data), "--rows", "240", "--image", "96x72", "--rows-per-group", "40")
    forebay(
        *("bench", str(data), "--image", "image=rrc32", "--batch-size", "16", "--step-ms", "40", "--jitter", "0.3"),
        *("--epochs", "6", "--seconds", "4", "--thread-sweep", "1,2", "--check-order", "--classes-of", "label"),
        *("--report", str(file)),
    )
    return file


def shown(page: Path, width: int, *flags: str) -> dict:
    """Opens the page in a browser window that is `width` wide, and returns what the probe found."""
    probed = page.with_name(f"probed-{width}.html")
    probed.write_text(page.read_text().replace("</body>", PROBE + "</body>"))
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"--window-size={width},900"]
    output = subprocess.run([*command, *flags, probed.as_uri()], capture_output=True, text=True, timeout=PATIENCE)
    assert output.returncode == 0, output.stderr
    return json.loads(Script(output.stdout, "probe").text)


@pytest.mark.parametrize("width", [1280, 820, 500])
def test_nothing_is_cut_off_and_no_labels_overlap(page: Path, width: int) -> None:
    seen = shown(page, width)
    assert seen["found"] == []
    assert seen["plots"] == 5


def test_light_and_dark_have_their_own_colours(page: Path) -> None:
    light = shown(page, 1280)["colours"]
    dark = shown(page, 1280, "--blink-settings=preferredColorScheme=0")["colours"]

    def brightness(colour: str) -> int:
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    assert brightness(light[0]) > brightness(light[1]) + 400, light
    assert brightness(dark[1]) > brightness(dark[0]) + 400, dark


def test_the_figures_that_are_seen_are_those_of_the_json(page: Path) -> None:
    report = json.loads(Script(page.read_text(), "report").text)
    seen = shown(page, 1280)["seen"]
    assert len(seen) > 40
    assert seen["/rows"] == f"{report['rows']:,}"
    assert seen["/steps"] == f"{report['steps']:,}"
    assert seen["/accelerator/utilisation_min"] == f"{100 * report['accelerator']['utilisation_min']:.1f} %"
    assert seen["/order_check/rows/once"] == "240"
    assert seen["/read_amplification"] == f"{report['read_amplification']:.2f}"
