"""Opens a page of `relibra report` in headless Chromium and holds what it shows against the documents.

report_page.py PAGE.html INSPECT.json [--shots FOLDER] [--no-dump] [--timeline] [--compared COMPARE.json]
"""
import argparse
import base64
import json
import pathlib
import sys
import zlib

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait


def unpack(packed):
    """The integers of pack_integers."""
    raw, count = zlib.decompress(base64.b64decode(packed["data"])), packed["count"]
    return [sum(raw[place * count + i] << 8 * place for place in range(packed["width"])) for i in range(count)]


def number(text):
    return float(text.replace("\u202f", ""))


class Page:
    def __init__(self, path, width, dark=False):
        options = Options()
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.address = path.resolve().as_uri()
        self.driver.get(self.address)
        self.wait(lambda: self.script("return document.documentElement.dataset.ready") == "yes")
        self.data = json.loads(self.script("return document.getElementById('data').textContent"))

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def wait(self, condition):
        WebDriverWait(self.driver, 60).until(lambda _: condition())

    def find(self, css):
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def shown(self, key):
        return self.script("return document.querySelector(`[data-key='${arguments[0]}']`).textContent", key)

    def wait_for_cell(self, layer, micro_batch):
        """Until this cell is open and drawn."""
        wanted = [layer, micro_batch]
        self.wait(lambda: [int(word) for word in self.script("return cellKey(current)").split()][2:] == wanted and
                  self.script("return document.getElementById('cell').dataset.shown === cellKey(current)"))

    def faults(self):
        """Errors of the console, and requests for anything but the page itself."""
        said = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if not url.startswith((self.address, "data:", "blob:")):
                    said.append("request for " + url)
        return said


def check_figures(page, inspected):
    """What is shown is the page's document, and that is what `inspect` says."""
    plan = page.data["plans"][0]
    for side in ("before", "after"):
        for name in ("skew", "node_skew", "over_mean_bound", "over_node_bound"):
            for figure in ("mean", "p50", "p99", "max"):
                value = plan["overall"][side][name][figure]
                assert abs(value - inspected["summary"][side][name][figure]) < 1e-12, (side, name, figure)
                assert page.shown(f"{side}.{name}.{figure}") == f"{value:.4f}", (side, name, figure)
    h = plan["plan"]
    assert number(page.shown("cells")) == h["num_layers"] * h["num_micro_batches"]
    assert number(page.shown("ranks")) == h["ep_size"] * h["num_ep_groups"]
    for layer, summary in enumerate(plan["by_layer"]):
        assert page.shown(f"layer.{layer}.after.p99") == f"{summary['after']['skew']['p99']:.4f}", layer
    bins = page.script("return [...document.querySelectorAll('[data-key^=\"distribution.after\"]')].map(e => e.textContent)")
    loaded = sum(1 for value in unpack(plan["skew"]["after"]) if value)
    assert sum(number(text) for text in bins) == loaded, "the histogram loses cells"


def check_cell(page, layer, micro_batch):
    """The open cell shows its skew and the loads of its ranks."""
    page.wait_for_cell(layer, micro_batch)
    plan = page.data["plans"][0]
    h = plan["plan"]
    world, cell = h["ep_size"] * h["num_ep_groups"], micro_batch * h["num_layers"] + layer
    group = page.script("return current.group")
    for side in ("before", "after"):
        skew = unpack(plan["skew"][side])[cell * h["num_ep_groups"] + group] / 1e4
        assert page.shown(f"cell.{side}") == f"{skew:.4f}", (side, page.shown(f"cell.{side}"), skew)
        loads = unpack(plan["loads"][side])[cell * world:(cell + 1) * world]
        for place in range(h["ep_size"]):
            rank = group * h["ep_size"] + place
            assert number(page.shown(f"rank.{rank}.{side}")) == loads[rank], (side, rank)
            stacked = page.script("return cellBars[arguments[0]].bars[arguments[1]].parts.reduce((sum, part) => sum + part.tokens, 0)", side, place)
            assert stacked == loads[rank], f"{side}, rank {rank}: bars stack to {stacked}, not {loads[rank]}"
    assert f"micro-batch {micro_batch}" in page.find("#cell-title").text


def click_cell(page, grid, layer, micro_batch):
    """A click of the mouse at the middle of a cell of a heat map."""
    canvas = page.find(f"#{grid} canvas")
    page.script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    at = page.script(f"const a = heats['{grid.split('-')[1]}'].at; return [a.left, a.cellWidth, a.cellHeight, a.top]")
    size = canvas.size
    x, y = at[0] + (micro_batch + 0.5) * at[1], at[3] + (layer + 0.5) * at[2]
    ActionChains(page.driver).move_to_element_with_offset(canvas, x - size["width"] / 2, y - size["height"] / 2).click().perform()


def check_opening(page):
    h = page.data["plans"][0]["plan"]
    last_layer, last_batch = h["num_layers"] - 1, h["num_micro_batches"] - 1
    click_cell(page, "heat-before", last_layer, 0)
    check_cell(page, last_layer, 0)
    click_cell(page, "heat-after", 0, last_batch)
    check_cell(page, 0, last_batch)
    # The keyboard: one to the left, one down, Enter.
    canvas = page.find("#heat-after canvas")
    page.script("arguments[0].focus()", canvas)
    canvas.send_keys(Keys.ARROW_LEFT, Keys.ARROW_DOWN, Keys.ENTER)
    check_cell(page, 1, last_batch - 1)
    Select(page.find("#layer")).select_by_index(0)
    check_cell(page, 0, last_batch - 1)


def check_compared(page, compared):
    """Every policy of `compare --json` has its row."""
    for i, comparison in enumerate(compared["comparisons"]):
        for policy in comparison["policies"]:
            key = f"compare.{i}.{policy['policy']}"
            assert page.shown(key) == policy["policy"]
            if "refusal" not in policy:
                assert page.shown(f"{key}.skew.mean") == f"{policy['skew']['mean']:.4f}", policy["policy"]


def check_paper(page):
    """Paper is light, whatever the screen is; the button goes round."""
    theme = "return document.documentElement.dataset.theme"
    before = page.script(theme)
    page.script("window.dispatchEvent(new Event('beforeprint'))")
    assert page.script(theme) == "light"
    page.script("window.dispatchEvent(new Event('afterprint'))")
    assert page.script(theme) == before
    button = page.find("#theme")
    seen = []
    for _ in range(3):
        button.send_keys(Keys.ENTER)
        seen.append(page.script(theme))
    assert seen == ["light", "dark", before], seen


def check_names(page):
    """Names from files are text, whatever they hold."""
    assert page.script("return document.querySelectorAll('main img, main script').length") == 0
    assert page.data["plans"][0]["name"] in page.find("#subtitle").text


def check_detail(page, dump):
    legend = page.find("#cell-legend").text
    assert ("other experts" in legend) == dump, legend
    rows = page.script("return document.querySelectorAll('#hot tbody tr').length")
    assert rows == min(20, page.data["plans"][0]["plan"]["num_experts"]), rows


def shoot(page, folder, name):
    height = page.script("return document.documentElement.scrollHeight")
    width = page.script("return innerWidth")
    assert page.script("return document.documentElement.scrollWidth") <= width, f"{name}: wider than the window"
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
    picture = page.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    (folder / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("inspected", type=pathlib.Path)
    parser.add_argument("--shots", type=pathlib.Path)
    parser.add_argument("--no-dump", action="store_true")
    parser.add_argument("--timeline", action="store_true")
    parser.add_argument("--compared", type=pathlib.Path)
    arguments = parser.parse_args()
    inspected = json.loads(arguments.inspected.read_text())
    for width, dark in ((1440, False), (480, True)):
        page = Page(arguments.page, width, dark)
        try:
            check_figures(page, inspected)
            check_names(page)
            check_opening(page)
            check_detail(page, not arguments.no_dump)
            check_paper(page)
            if arguments.compared:
                check_compared(page, json.loads(arguments.compared.read_text()))
            assert page.find("#timeline").is_displayed() == arguments.timeline
            assert page.script("return document.documentElement.scrollWidth <= innerWidth"), f"wider than {width}"
            theme = page.script("return document.documentElement.dataset.theme")
            assert theme == ("dark" if dark else "light"), theme
            if arguments.shots:
                shoot(page, arguments.shots, f"{arguments.page.stem}-{width}-{theme}")
            assert not page.faults(), page.faults()
        finally:
            page.driver.quit()
    print("as the documents say")


if __name__ == "__main__":
    sys.exit(main())
