"""Made items for the summarization suite, and contestants whose texts are scripted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.evaluation.contestants import Contestant, EstimatedReader
from benchmarks.evaluation.flags import Run
from trainers.engines import Failed, Reply, Request

# What the suite's sets look like in LongBench's files and on the hub.
MEETING = "A: The budget is too small. B: Then we sell the boat. A: Agreed, the boat goes."
ITEMS: Mapping[str, dict[str, Any]] = {
    "govreport": {"_id": "g1", "input": "", "context": "The agency spent it all.", "answers": ["It spent everything."]},
    "multi_news": {"_id": "n1", "input": "", "context": "Passage 1:\nA flood.", "answers": ["A flood came."]},
    "qmsum": {"_id": "q1", "input": "What was sold?", "context": MEETING, "answers": ["The boat was sold."]},
    "vcsum": {"_id": "v1", "input": "", "context": "今天我们讨论预算。预算太少。", "answers": ["会议讨论了预算问题。"]},
    "samsum": {
        "_id": "s1",
        "input": "Dialogue: Ann: Tea?\nBo: Yes.\nSummary: ",
        "context": "Dialogue: Cy: Hi\nSummary: Cy greets.\n",
        "answers": ["Bo wants tea."],
    },
    "arxiv": {"article": "We prove a lemma.", "abstract": "A lemma is proved."},
    "pubmed": {"article": "Mice were fed.", "abstract": "Feeding mice works."},
    "billsum": {"text": "A bill to name a post office.", "summary": "Names a post office.", "title": "An Act"},
}


def folder_of(place: Path, sets: Mapping[str, Sequence[dict[str, Any]]]) -> Path:
    """A folder for ``--data``."""
    place.mkdir(parents=True, exist_ok=True)
    for name, rows in sets.items():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (place / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return place


def run_on(
    place: Path, rows: Mapping[str, Sequence[dict[str, Any]]], said: list[str] | None = None, **options: Any
) -> Run:
    """A run that reads these rows and writes beside them; ``said`` takes what it says."""
    listening = [] if said is None else said
    return Run(place / "out", folder_of(place / "data", rows), say=listening.append, **options)


class Writer:
    """Writes by a function of the prompt; an exception that it returns is raised. Keeps what it was asked."""

    def __init__(self, write: Callable[[str], Any]) -> None:
        self.write = write
        self.asked: list[Request] = []

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        replies = []
        for request in requests:
            text = self.write(request.prompt)
            if isinstance(text, BaseException):
                raise text
            self.asked.append(request)
            replies.append(text if isinstance(text, Reply | Failed) else Reply(text))
        return replies

    def count_tokens(self, prompt: str, prefill: str) -> int:
        return 0


def contestant(writer: Writer, role: str = "model", max_len: int | None = None) -> Contestant:
    return Contestant(role, f"the {role}", f"weights of the {role}", EstimatedReader(), max_len, lambda: writer)
