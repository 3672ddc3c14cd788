"""A headless Chromium, driven by selenium, as one browser for all tests."""

from __future__ import annotations

import shutil
from typing import Any

__all__ = ["begin_browser", "missing"]

_PROGRAMS = ("chromium", "chromedriver")


def missing() -> list[str]:
    """Return the programs and packages without which no browser begins."""
    from importlib.util import find_spec

    return [name for name in _PROGRAMS if shutil.which(name) is None] + (
        [] if find_spec("selenium") else ["the package selenium"]
    )


def begin_browser(width: int = 1280, height: int = 900, dark: bool = False, scripts: bool = True) -> Any:
    """Begin a browser with a profile of its own. It may reach loopback addresses only."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
        f"--window-size={width},{height}",
    ):
        options.add_argument(argument)
    if dark:
        options.add_argument("--force-dark-mode")
    if not scripts:
        options.add_experimental_option("prefs", {"webkit.webprefs.javascript_enabled": False})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options, Service(shutil.which("chromedriver")))
