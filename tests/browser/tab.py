"""A tab: opens a page, keeps what it complains of and asks for, sizes it, presses keys, clicks, and looks at what came out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from devtools import Browser, BrowserError, Event

LOOK = Path(__file__).with_name("look.js").read_text("utf-8")
KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " "), "Escape": (27, ""), "ArrowDown": (40, "")}
NAMED_ROLES = ("button", "link", "combobox", "textbox", "searchbox", "checkbox", "radio", "image")
PHONE = 600  # pixels below which a page is shown as on a phone


class Tab:
    """``complaints``: errors and warnings of console, scripts and policy. ``requests``: all addresses asked for. ``dialogs``: words."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self._loaded = False
        self.target = browser.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session = browser.send("Target.attachToTarget", {"targetId": self.target, "flatten": True})["sessionId"]
        browser.listeners[self.session] = self._hear
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)

    def send(self, method: str, **params: Any) -> Event:
        return self.browser.send(method, params, self.session)

    def open(
        self, page: Path, *, width: int = 1200, scheme: str = "light", policy: bool = True, script: bool = True
    ) -> Tab:
        """Load a file. Without ``policy``: as if it had none for its content, so that only its escapes protect it."""
        self.size(width)
        self.scheme(scheme)
        self.send("Emulation.setScriptExecutionDisabled", value=not script)
        self.send("Page.setBypassCSP", enabled=not policy)
        self._loaded = False
        failed = self.send("Page.navigate", url=page.as_uri()).get("errorText")
        if failed:
            raise BrowserError(f"{page}: {failed}")
        self.browser.until(lambda: self._loaded, f"loading {page.name}")
        self.send(
            "Emulation.setScriptExecutionDisabled", value=False
        )  # without scripts nothing settles, nor can anything be asked
        self.run(f"window.look = {LOOK}; 0")
        self.settle()
        return self

    def size(self, width: int, height: int = 900) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < PHONE
        )

    def scheme(self, name: str) -> None:
        self.send("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": name}])

    def run(self, code: str) -> Any:
        """The value of an expression, awaited, as JSON brings it."""
        result = self.send("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if wrong := result.get("exceptionDetails"):
            raise BrowserError(f"{code[:200]}: {(wrong.get('exception') or {}).get('description') or wrong['text']}")
        return result["result"].get("value")

    def look(self, what: str, *given: Any) -> Any:
        """A question of look.js."""
        return self.run(f"look.{what}({', '.join(map(json.dumps, given))})")

    def nameless(self) -> list[str]:
        """Controls and pictures of which a screen reader would say the kind alone; from the browser's own reckoning."""
        found = self.send("Accessibility.getFullAXTree")["nodes"]
        asked = [node for node in found if not node.get("ignored") and node.get("role", {}).get("value") in NAMED_ROLES]
        return [node["role"]["value"] for node in asked if not str(node.get("name", {}).get("value", "")).strip()]

    def settle(self) -> None:
        """Until what was changed is laid out and drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def press(self, key: str, times: int = 1) -> None:
        """All presses are sent before their answers are waited for: a page has hundreds of stops."""
        code, text = KEYS[key]
        common = {
            "key": key,
            "code": "Space" if key == " " else key,
            "windowsVirtualKeyCode": code,
        }
        down = {"type": "keyDown" if text else "rawKeyDown", "text": text, **common}
        events = [down, {"type": "keyUp", **common}] * times
        method = "Input.dispatchKeyEvent"
        for number in [self.browser.post(method, event, self.session) for event in events]:
            self.browser.answer(number, method)

    def click(self, selector: str) -> None:
        """With the mouse, in the middle of the first that fits, once it lies still: scrolling lays out what was put off."""
        before, place = None, self.look("middle", selector)
        for _ in range(20):
            if place == before and place["met"]:
                break
            self.settle()
            before, place = place, self.look("middle", selector)
        else:
            raise BrowserError(f"{selector} cannot be clicked: it lies at {place}")
        x, y = place["x"], place["y"]
        for kind, count in (("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 1)):
            self.send(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left" if count else "none", clickCount=count
            )
        self.settle()

    def write(self, words: str) -> None:
        """Into whatever has the focus."""
        self.send("Input.insertText", text=words)

    def close(self) -> None:
        self.browser.send("Target.closeTarget", {"targetId": self.target})
        self.browser.listeners.pop(self.session, None)

    def _hear(self, event: Event) -> None:
        method, given = event["method"], event["params"]
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif method in ("Network.webSocketCreated", "Network.webTransportCreated"):
            self.requests.append(given["url"])
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(one.get("value", one.get("description"))) for one in given["args"]))
        elif method == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            self.complaints.append((details.get("exception") or {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.complaints.append(given["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(given["message"])
            self.browser.post("Page.handleJavaScriptDialog", {"accept": False}, self.session)
