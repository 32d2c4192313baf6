"""A real headless Chromium for the report: pages are opened from disk; without a browser these tests are skipped."""

from __future__ import annotations

import json
import os
import runpy
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from selfattn.report.write import write_report
from selfattn.results.reading import record_from_dict

RECORDS = runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "report_rich.py"))
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Browser:
    """A driver with what the tests ask of it.

    Attributes:
        driver: Selenium's driver.
        folder: where the reports lie.
    """

    def __init__(self, driver: Any, folder: Path) -> None:
        self.driver = driver
        self.folder = folder

    def open(self, name: str = "dates", lang: str = "en", width: int = 1280, *, dark: bool = False) -> dict[str, Any]:
        """Write the report of a made-up record, open it from disk, and give the record."""
        data: dict[str, Any] = RECORDS[name]()
        page = self.folder / f"{name}-{lang}" / "report.html"
        if not page.exists():
            write_report(record_from_dict(data), page.parent, lang)  # type: ignore[arg-type]  # a str of parametrize
        self.show(page, width, dark=dark)
        return data

    def show(self, page: Path, width: int = 1280, *, dark: bool = False) -> None:
        """Open a page from disk."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        self.command("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.driver.get("about:blank")
        self.logs("performance")
        self.logs("browser")
        self.driver.get(page.as_uri())

    def command(self, name: str, **parameters: Any) -> Any:
        """Send a command of the Chrome DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, parameters)

    def logs(self, kind: str) -> list[dict[str, Any]]:
        """Read, and empty, the log of the console (`browser`) or of the network (`performance`)."""
        return list(self.driver.get_log(kind))

    def requests(self) -> list[str]:
        """Addresses asked for since the page was opened."""
        messages = [json.loads(entry["message"])["message"] for entry in self.logs("performance")]
        sent = [message for message in messages if message["method"] == "Network.requestWillBeSent"]
        return [message["params"]["request"]["url"] for message in sent]

    def run(self, script: str, *arguments: Any) -> Any:
        """Run JavaScript in the page."""
        return self.driver.execute_script(script, *arguments)

    def all(self, selector: str) -> list[Any]:
        """All elements for a CSS selector."""
        return list(self.driver.find_elements("css selector", selector))

    def one(self, selector: str) -> Any:
        """The first element for a CSS selector."""
        return self.driver.find_element("css selector", selector)

    def choose(self, selector: str) -> None:
        """Click on the visible part of a hidden radio button or checkbox."""
        self.run("arguments[0].click()", self.one(selector))

    def text(self, selector: str) -> str:
        """Visible text of the first element, white space made plain."""
        return " ".join(self.one(selector).text.split())


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install '.[test]'")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if not chromium or not chromedriver:
        pytest.skip("needs a browser: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    driver.set_script_timeout(180)  # axe-core on a large page on a busy machine
    try:
        yield Browser(driver, tmp_path_factory.mktemp("reports"))
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, the accessibility checker."""
    beside = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
    path = Path(os.environ.get("SELFATTN_AXE", beside))
    if not path.exists():
        pytest.skip("needs axe-core: npm install --no-package-lock --prefix tests/browser")
    return path.read_text(encoding="utf-8")


@pytest.fixture
def violations(browser: Browser, axe: str) -> Callable[[], list[str]]:
    """Ask axe-core what is wrong with the page as it is now."""

    def ask() -> list[str]:
        browser.run(axe)
        found = browser.driver.execute_async_script(
            "const done = arguments[0];"
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})"
            ".then(result => done(result.violations));"
        )
        return [f"{one['id']}: {one['nodes'][0]['html'][:120]} ({len(one['nodes'])})" for one in found]

    return ask
