"""What figures were taken on."""

import os
import pathlib
import platform
import re


def describe():
    """The processor, its cores, and the kernel."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    found = re.search(r"model name\s*: (.*)", text)
    return {"processor": found.group(1) if found else platform.machine(),
            "cores": os.cpu_count(), "kernel": platform.release()}
