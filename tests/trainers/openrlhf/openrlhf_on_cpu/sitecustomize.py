"""Python imports this at the start of every process that has this folder on PYTHONPATH: Ray's and vLLM's too."""

import cpu_bridge

cpu_bridge.install()
