"""Draw each page of the console into `docs/console`: `make console-screenshots`."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import Any

from tests.serve.browser.browser import begin_browser
from tests.serve.browser.console_shop import fill, filled, orders, put
from tests.serve.serving import RunningServer

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "console"
PAGES = {
    "overview": "/",
    "graph": "/graph",
    "view": "/views/revenue",
    "rollup": "/views/by_day?level=1",
    "why": "/views/revenue/why?group=PL",
    "document": "/tables/orders?key=601",
    "table": "/tables/customers",
    "quarantine": "/quarantine",
    "repair": "/repair",
    "partitions": "/partitions",
    "sources": "/sources",
    "feed": "/feed",
    "metrics": "/metrics-page",
    "drop": "/actions/Drop?kind=record",
    "operations": "/operations",
}


def main() -> None:
    """Draw all pages, some of them dark or on a phone."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, filled(Path(folder)) as server:
        fill(server)
        browser = begin_browser()
        try:
            browser.get(f"http://127.0.0.1:{server.port}/?token={server.token}")
            _load(browser, server)
            for name, path in PAGES.items():
                _draw(browser, server, name, path, 1280)
            for name in ("overview", "view"):
                _draw(browser, server, f"{name}-dark", PAGES[name], 1280, dark=True)
                _draw(browser, server, f"{name}-phone", PAGES[name], 390)
        finally:
            browser.quit()


def _load(browser: Any, server: RunningServer) -> None:
    """Put orders for some seconds, so that the plots have a form."""
    from selenium.webdriver.support.ui import WebDriverWait

    first = 1_000

    def points(_: Any) -> bool:
        nonlocal first
        number = 20 + first % 97
        put(server, "orders", orders(number, first))
        first += number
        chart = browser.find_element("css selector", "svg[data-chart=records]")
        return len((chart.get_attribute("data-values") or "").split()) >= 12

    WebDriverWait(browser, 120, poll_frequency=0.1).until(points)


def _draw(browser: Any, server: RunningServer, name: str, path: str, width: int, dark: bool = False) -> None:
    """Draw a page to its end, or as far as a screen and a half."""
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    phone = {"width": width, "height": 844 if width < 600 else 800, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    browser.get(f"http://127.0.0.1:{server.port}{path}")
    if name == "view":
        put(server, "orders", orders(40, 100_000))
        browser.execute_async_script("setTimeout(arguments[0], 1800)")
    height = min(browser.execute_script("return document.documentElement.scrollHeight"), 1_100)
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    drawn = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    (FOLDER / f"{name}.png").write_bytes(base64.b64decode(drawn["data"]))


if __name__ == "__main__":
    main()
