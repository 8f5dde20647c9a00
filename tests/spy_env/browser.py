"""A real headless Chromium, driven over the WebDriver protocol: a few JSON posts to chromedriver, no library."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager, suppress

MISSING = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "about:blank",  # instead of the page that a new window shows
)
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # WebDriver's name for a reference to one
KEYS = {"Escape": "\ue00c", "Enter": "\ue007", "ArrowDown": "\ue015", "End": "\ue010", "Tab": "\ue004"}


class Browser:
    """One window. What a script returns comes back as plain values."""

    def __init__(self, address, session):
        self._address, self._session = address, f"/session/{session}"

    def _post(self, path, **body):
        return call(self._address + self._session + path, body)

    def open(self, page):
        """Open a file; returns when its load event has fired."""
        self._post("/url", url=page if ":" in str(page) else page.as_uri())

    def run(self, script, *arguments):
        """Run a script's body; a promise that it returns is waited for."""
        return self._post("/execute/sync", script=script, args=list(arguments))

    def until(self, condition, seconds=20):
        """Wait until an expression is true, and return its value."""
        end = time.monotonic() + seconds
        while not (value := self.run(f"return {condition}")):
            assert time.monotonic() < end, (
                f"never true: {condition}; {self.run('return document.body.innerText')[:500]}"
            )
            time.sleep(0.02)
        return value

    def type(self, *keys):
        """Press and release keys, wherever the focus is."""
        pressed = [{"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")]
        self._post("/actions", actions=[{"type": "key", "id": "keyboard", "actions": pressed}])

    def click(self, selector):
        """Click where the middle of an element is on the screen, as a person would."""
        found = self._post("/element", using="css selector", value=selector)
        self._post(f"/element/{found[ELEMENT]}/click")

    def devtools(self, command, **parameters):
        """A command of the DevTools protocol."""
        return self._post("/goog/cdp/execute", cmd=command, params=parameters)

    def look(self, width, height, scheme="light", phone=False):
        """Set the window's size and what the reader prefers."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, file):
        """Write what is seen."""
        file.write_bytes(base64.b64decode(self.devtools("Page.captureScreenshot")["data"]))

    def requested(self):
        """The addresses that were asked for since the last call, without the browser's own pages."""
        lines = [json.loads(entry["message"])["message"] for entry in self._post("/se/log", type="performance")]
        asked = [line["params"]["request"]["url"] for line in lines if line["method"] == "Network.requestWillBeSent"]
        return [address for address in asked if not address.startswith("chrome")]

    def complaints(self):
        """What the console said since the last call."""
        return [entry["message"] for entry in self._post("/se/log", type="browser")]


def call(address, body=None, method=None):
    """One WebDriver command."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise AssertionError(json.load(error)["value"]["message"]) from error


@contextmanager
def started(folder):
    """A browser with an empty profile in ``folder``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    options = {"binary": shutil.which("chromium"), "args": [*FLAGS, f"--user-data-dir={folder / 'profile'}"]}
    wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"performance": "ALL", "browser": "ALL"}}
    try:
        _wait_for(address)
        session = call(f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        yield Browser(address, session)
        call(f"{address}/session/{session}", method="DELETE")
    finally:
        driver.terminate()
        driver.wait(timeout=20)


def _wait_for(address, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(OSError):
            if call(f"{address}/status")["ready"]:
                return
        time.sleep(0.05)
    raise AssertionError("chromedriver didn't start")
