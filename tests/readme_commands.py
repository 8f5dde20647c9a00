"""Run every command of README.md, as CI does: the lines of its ``bash`` blocks and its ``python`` blocks, in order.

``make train`` is shortened through the ARGS that the Makefile passes on; ``make test`` has a stage of its own.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHORT = "--train.iterations 2 --algo.cycle 1 1 --eval.games 3 --rollout.batch_size 1"
ELSEWHERE = ("make test", "git clone", "cd ")


def blocks(text: str) -> list[tuple[str, str]]:
    """(language, content) of each fenced block."""
    return re.findall(r"^```(bash|python)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(block: str) -> list[str]:
    """Its lines without comments, continued ones joined."""
    joined = re.sub(r"\\\n\s*", " ", block)
    return [line for line in (line.split("  #")[0].strip() for line in joined.splitlines()) if line and line[0] != "#"]


def main() -> int:
    """Run them; the first that fails ends it."""
    scripts = Path(sys.executable).parent
    env = {**os.environ, "ARGS": SHORT, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    ran = 0
    for language, block in blocks((ROOT / "README.md").read_text(encoding="utf-8")):
        for command in commands(block) if language == "bash" else [block]:
            if command.startswith(ELSEWHERE):
                continue
            print(f"--- {command.strip()}", flush=True)
            begun = time.monotonic()
            if language == "python":
                with tempfile.NamedTemporaryFile("w", suffix=".py", dir=ROOT) as script:
                    script.write(command)
                    script.flush()
                    subprocess.run(
                        [sys.executable, script.name], cwd=ROOT, env=env, check=True, stdin=subprocess.DEVNULL
                    )
            else:
                subprocess.run(["bash", "-euc", command], cwd=ROOT, env=env, check=True, stdin=subprocess.DEVNULL)
            print(f"--- {time.monotonic() - begun:.0f} s", flush=True)
            ran += 1
    print(f"{ran} commands of README.md ran")
    return 0 if ran else 1


if __name__ == "__main__":
    sys.exit(main())
