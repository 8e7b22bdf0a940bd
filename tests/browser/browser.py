"""A browser that nothing is asked of but the page: Chromium and its driver, without a network of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
MISSING = "Chromium and its driver are not installed (Debian: apt-get install chromium chromium-driver)"

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--use-gl=angle",
    "--use-angle=swiftshader",  # WebGL in software
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
    "--force-prefers-reduced-motion",
    "--hide-scrollbars",
)


@contextmanager
def chromium(profile: Path, width: int = 1440, height: int = 900, flags: tuple[str, ...] = ()) -> Iterator[Any]:
    """Start a browser with a new, empty profile, and flags beside the usual ones; it is gone at the end."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in (*_FLAGS, *flags, f"--window-size={width},{height}", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    try:
        driver.set_window_size(width, height)
        yield driver
    finally:
        driver.quit()
