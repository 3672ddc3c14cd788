"""The console in Chromium: live rows, no errors under the policy, no foreign address, keyboard, dark, actions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.browser.browser import begin_browser, missing
from tests.serve.browser.console_shop import SCRIPT, fill, filled, orders, put
from tests.serve.serving import RunningServer
from tests.waiting import PATIENCE

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=f"a browser needs {', '.join(missing())}"),
    pytest.mark.xdist_group("browser"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # the pipes of the driver
]
PAGES = ["/", "/graph", "/graph?node=bought", "/views/revenue", "/views/by_day?level=1"]
PAGES += ["/views/revenue/why?group=NO&documents=1", "/tables/customers", "/tables/orders?key=601", "/quarantine"]
PAGES += ["/repair", "/partitions", "/sources", "/feed", "/metrics-page", "/operations", "/audit", "/actions/Check"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with filled(Path(tmp_path_factory.mktemp("shop"))) as own:
        fill(own)
        yield own


@pytest.fixture(scope="module")
def signed(server: RunningServer) -> Iterator[Any]:
    browser = begin_browser()
    try:
        browser.get(address(server, f"/?token={server.token}"))
        yield browser
    finally:
        browser.quit()


@pytest.fixture
def browser(signed: Any) -> Iterator[Any]:
    signed.get_log("browser")
    signed.get_log("performance")
    yield signed
    signed.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def address(server: RunningServer, path: str) -> str:
    return f"http://127.0.0.1:{server.port}{path}"


def until(browser: Any, condition: Any) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, PATIENCE, poll_frequency=0.02).until(condition)


def press(browser: Any, *place: str) -> None:
    """Click an element that leads to another page, and wait for that page."""
    from selenium.webdriver.support.expected_conditions import staleness_of

    element = browser.find_element(*place)
    element.click()
    until(browser, staleness_of(element))
    until(browser, lambda b: b.execute_script("return document.readyState") == "complete")


def asked(browser: Any) -> set[str]:
    """Return the hosts that the browser asked since the last call."""
    from urllib.parse import urlsplit

    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    return {urlsplit(url).netloc for url in sent if url.startswith("http")}


@pytest.mark.parametrize("scripts", [True, False])
def test_each_page_is_whole(server: RunningServer, browser: Any, scripts: bool) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
    for path in PAGES:
        browser.get(address(server, path))
        assert browser.find_element("css selector", "h1").text, path
        assert browser.find_element("css selector", "main").text.count("\n") > 0, path
        assert browser.title.endswith("shop"), path
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    assert asked(browser) == {f"127.0.0.1:{server.port}"}


def test_the_token_leaves_the_address_and_scripts_cannot_read_it(server: RunningServer, browser: Any) -> None:
    browser.get(address(server, f"/feed?token={server.token}"))
    assert browser.current_url == address(server, "/feed")
    assert browser.execute_script("return document.cookie") == ""


def test_rows_move_while_documents_are_put(server: RunningServer, browser: Any) -> None:
    browser.get(address(server, "/views/revenue"))
    until(browser, lambda b: not b.find_element("css selector", ".live").get_attribute("hidden"))

    def row(key: str) -> list[str]:
        script = (
            "const row = [...document.querySelectorAll('tbody tr')].find(r => r.cells[0].textContent === arguments[0]);"
            "return row ? [...row.cells].map(c => c.textContent) : [];"
        )
        return list(browser.execute_script(script, key))

    assert row("AA") == []
    put(server, "orders", [order | {"country": "AA", "amount": 5} for order in orders(3, 5_000)])
    until(browser, lambda _: row("AA")[1:3] == ["3", "15"])
    assert browser.execute_script("return document.querySelector('tbody tr').cells[0].textContent") == "AA"
    put(server, "orders", [orders(1, 5_000)[0] | {"ts": 2, "country": "AA", "amount": 1_000}])
    until(browser, lambda _: row("AA")[1:4] == ["3", "1,010", "total +995"])
    for order in orders(3, 5_000):
        server.ask("DELETE", f"/v1/tables/orders?key={order['id']}&ts=9")
    until(browser, lambda _: row("AA") == [])


def test_a_paused_page_continues_where_it_was(server: RunningServer, browser: Any) -> None:
    browser.get(address(server, "/views/articles"))
    until(browser, lambda b: "live" in b.find_element("id", "live-rate").text)
    button = browser.find_element("id", "live-pause")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    item = {"items": [{"article": "zinc", "pieces": 4}]}
    put(server, "orders", [orders(1, 6_000)[0] | item])
    assert "zinc" not in browser.find_element("css selector", "tbody").text
    button.click()
    until(browser, lambda b: "zinc" in b.find_element("css selector", "tbody").text)


def test_numbers_of_the_overview_move(server: RunningServer, browser: Any) -> None:
    browser.get(address(server, "/"))
    before = browser.find_element("css selector", "[data-live='documents:orders']").text
    put(server, "orders", orders(2, 7_000))
    after = f"{int(before.replace(',', '')) + 2:,}"
    until(browser, lambda b: b.find_element("css selector", "[data-live='documents:orders']").text == after)
    until(browser, lambda b: len(b.find_element("css selector", "[data-chart=records]").get_attribute("data-values")))


def test_a_document_named_as_a_script_is_text(server: RunningServer, browser: Any) -> None:
    browser.get(address(server, "/tables/customers"))
    assert SCRIPT in browser.find_element("css selector", "main").text
    assert browser.title == "customers · shop"


def test_all_pages_are_reached_by_keyboard(server: RunningServer, browser: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.get(address(server, "/"))
    body = browser.find_element("css selector", "body")
    body.send_keys(Keys.TAB)
    assert browser.switch_to.active_element.text == "Skip to the content"
    reached = set()
    for _ in range(40):
        active = browser.switch_to.active_element
        reached.add(active.get_attribute("href") or active.text)
        active.send_keys(Keys.TAB)
    assert {address(server, path) for path in ("/graph", "/views/revenue", "/quarantine?table=orders")} <= reached
    browser.get(address(server, "/graph"))
    link = browser.find_element("css selector", ".picture a")
    browser.execute_script("arguments[0].focus()", link)
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    until(browser, lambda b: "node=customers" in b.current_url)


def test_pages_fit_a_phone_and_follow_the_dark_mode(server: RunningServer, browser: Any) -> None:
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    try:
        for path in PAGES:
            browser.get(address(server, path))
            wide = browser.execute_script("return document.documentElement.scrollWidth")
            assert wide <= 390, path
        assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(15, 20, 27)"
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("scripts", [True, False])
def test_a_check_goes_through_its_page_to_its_result(server: RunningServer, browser: Any, scripts: bool) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
    browser.get(address(server, "/repair"))
    press(browser, "link text", "Check all views")
    assert "changes nothing" in browser.find_element("css selector", "main").text
    press(browser, "css selector", ".confirm button")
    until(browser, lambda b: b.find_elements("css selector", "h1 + .badge.good"))
    assert "/operations/" in browser.current_url
    assert "documents" in browser.find_element("css selector", "dl").text


def test_entries_are_retried_and_dropped_after_a_confirmation(server: RunningServer, browser: Any) -> None:
    put(server, "orders", [b'{"no": "key"}'])
    browser.get(address(server, "/quarantine?kind=record"))
    before = len(browser.find_elements("css selector", ".entry"))
    browser.find_elements("css selector", ".entry input[name=ids]")[-1].click()
    press(browser, "css selector", "button[formaction='/actions/Retry']")
    press(browser, "css selector", ".confirm button")
    until(browser, lambda b: b.find_elements("css selector", "h1 + .badge.good"))
    browser.get(address(server, "/quarantine?kind=record"))
    assert len(browser.find_elements("css selector", ".entry")) == before, "it fails again, so it stays"
    browser.find_elements("css selector", ".entry input[name=ids]")[-1].click()
    press(browser, "css selector", "button[formaction='/actions/Drop']")
    name = browser.find_element("css selector", ".confirm code").text
    browser.find_element("css selector", ".confirm input[name=typed]").send_keys("other")
    press(browser, "css selector", ".confirm button")
    assert "nothing was done" in browser.find_element("css selector", "main").text
    browser.back()
    field = browser.find_element("css selector", ".confirm input[name=typed]")
    field.clear()
    field.send_keys(name)
    press(browser, "css selector", ".confirm button")
    until(browser, lambda b: b.find_elements("css selector", "h1 + .badge.good"))
    browser.get(address(server, "/quarantine?kind=record"))
    assert len(browser.find_elements("css selector", ".entry")) == before - 1


def test_a_group_is_restated_from_its_page(server: RunningServer, browser: Any) -> None:
    browser.get(address(server, "/views/revenue/why?group=NO"))
    press(browser, "link text", "Restate this group")
    assert "now {" in browser.find_element("css selector", "main").text
    press(browser, "css selector", ".confirm button")
    until(browser, lambda b: b.find_elements("css selector", "h1 + .badge.good"))
    assert "total" in browser.find_element("css selector", "dl").text


def test_signing_out_ends_the_session(server: RunningServer, browser: Any) -> None:
    browser.get(address(server, "/"))
    press(browser, "css selector", ".user button")
    until(browser, lambda b: b.current_url == address(server, "/sign-in"))
    browser.get(address(server, "/graph"))
    assert browser.find_element("css selector", "h1").text == "Sign in"
    browser.find_element("css selector", "input[name=token]").send_keys(server.token)
    press(browser, "css selector", ".stack button")
    until(browser, lambda b: b.current_url == address(server, "/graph"))
