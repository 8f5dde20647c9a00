"""The data sets of the summarization suite, and the prompt of each. The prompts are ours: scores of others differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.evaluation.data_sets import DataSet, Hub

DOCUMENT = ("document", "context", "article", "report", "text", "source", "transcript")
REFERENCES = ("references", "answers", "summary", "abstract", "highlights", "target")
SUBSET = 200  # items drawn by seed from a set that LongBench doesn't have: as many as LongBench has of each of its own
LONGBENCH = "hf://datasets/THUDM/LongBench/data.zip"


class Task(NamedTuple):
    """The prompt around a document, with ``{query}`` for the item's, the longest answer and the baseline's lead.

    ``lead`` is in units (words, or single Chinese characters), about as many as references have.
    """

    before: str
    after: str
    lead: int
    new_tokens: int = 512  # LongBench's; it has 128 for SAMSum
    first_line: bool = False  # only the first line of an answer is scored


TASKS: Mapping[str, Task] = {
    "govreport": Task(
        "What follows is a report of a United States government agency.",
        "That was the report. Summarize it on one page: why it was written, what it finds and what it concludes. "
        "Reply with the summary alone.",
        lead=500,
    ),
    "multi_news": Task(
        "What follows are news articles about one event.",
        "Those were the articles. Summarize what they report, all of them together, on one page. "
        "Reply with the summary alone.",
        lead=250,
    ),
    "qmsum": Task(
        "What follows is the transcript of a meeting, and after it a request about the meeting.",
        "That was the transcript. The request: {query}\n\nFulfil it from what was said, in one or a few sentences. "
        "Reply with them alone.",
        lead=70,
    ),
    "vcsum": Task(
        "以下是一场会议的文字记录。",
        "会议记录到此为止。请用中文写一段话，概括这场会议讨论的主要内容。只输出这段总结。",
        lead=250,
    ),
    "samsum": Task(
        "What follows is a chat between friends.",
        "That was the chat. Say in one to three short sentences, on one line, what it is about. Reply with them alone.",
        lead=20,
        new_tokens=128,
        first_line=True,
    ),
    "arxiv": Task(
        "What follows is the text of a scientific paper without its abstract.",
        "That was the paper. Write its abstract, in one paragraph. Reply with the abstract alone.",
        lead=200,
    ),
    "pubmed": Task(
        "What follows is the text of a biomedical paper without its abstract.",
        "That was the paper. Write its abstract, in one paragraph. Reply with the abstract alone.",
        lead=200,
    ),
    "billsum": Task(
        "What follows is a bill of the United States Congress.",
        "That was the bill. Summarize what it would change, in one or two paragraphs. Reply with the summary alone.",
        lead=180,
    ),
}
EXAMPLES_BEFORE = "Chats, each with a summary in a few short sentences on one line, show how to summarize the last one."
EXAMPLES_AFTER = "Now the last chat. Reply with its summary alone, on one line."


_FIELDS = {"document": DOCUMENT, "references": REFERENCES}


def _longbench(name: str, title: str, fields: Mapping[str, tuple[str, ...]] = _FIELDS, **more: Any) -> DataSet:
    file = "gov_report" if name == "govreport" else name
    # "train" is all of a JSON file.
    hub = Hub("json", split="train", data_files=f"zip://data/{file}.jsonl::{LONGBENCH}")
    return DataSet(name, f"{title} (LongBench)", hub, fields, **more)


_CHAT = {"document": ("document", "dialogue", "input"), "references": REFERENCES}
DATA_SETS = {
    data_set.name: data_set
    for data_set in (
        _longbench("govreport", "GovReport"),
        _longbench("multi_news", "Multi-News"),
        _longbench("qmsum", "QMSum", {**_FIELDS, "query": ("query", "input")}),
        _longbench("vcsum", "VCSum"),
        _longbench("samsum", "SAMSum", _CHAT, optional={"examples": ("examples", "context")}),
        DataSet("arxiv", "arXiv", Hub("ccdv/arxiv-summarization", "document"), _FIELDS, items=SUBSET),
        DataSet("pubmed", "PubMed", Hub("ccdv/pubmed-summarization", "document"), _FIELDS, items=SUBSET),
        DataSet("billsum", "BillSum", Hub("FiscalNote/billsum"), _FIELDS, items=SUBSET),
    )
}


class Framed(NamedTuple):
    """A prompt in three parts, of which the middle may be shortened."""

    before: str
    middle: str
    after: str

    def around(self, middle: str) -> str:
        """Return the prompt with another middle."""
        return f"{self.before}\n\n{middle}\n\n{self.after}"


def framed(name: str, row: Mapping[str, Any]) -> Framed:
    """Return an item's prompt: around its document, or around its examples, which may then be shortened instead."""
    task = TASKS[name]
    if row.get("examples"):
        return Framed(EXAMPLES_BEFORE, row["examples"], f"{EXAMPLES_AFTER}\n\n{row['document']}")
    return Framed(task.before, row["document"], task.after.replace("{query}", str(row.get("query", ""))))
