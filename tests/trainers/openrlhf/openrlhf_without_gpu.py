"""Lets OpenRLHF run in a test's own process without a GPU, and in the processes that it starts."""

import os
import sys
from pathlib import Path

BRIDGE = Path(__file__).with_name("openrlhf_on_cpu")


def install() -> None:
    """Cross the bridge, before anything of OpenRLHF's is imported; torch and Ray may have been."""
    if "cpu_bridge" in sys.modules:  # this process was started so
        return
    sys.path.insert(0, str(BRIDGE))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(BRIDGE), os.environ.get("PYTHONPATH")]))
    import cpu_bridge

    cpu_bridge.install()
    for name in cpu_bridge.CHANGES.keys() & sys.modules.keys():
        cpu_bridge.CHANGES[name](sys.modules[name])
