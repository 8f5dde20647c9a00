"""List the facts of a short text. The easiest task to begin with: short documents, half of the text hidden."""

from pathlib import Path

from spy_env.tasks.task import Task

TASK = Task(
    name="key_points",
    perform=(
        "List the key terms and facts of the document in one line of at most {words} words, from beginning to end; add "
        "nothing that it does not say."
    ),
    brief="List the key terms and facts of the text above in one line of at most {words} words.",
    detect="a list that leaves out or makes up facts of a part of the document",
    marker="Facts:",
    words=25,
    document_words=60,
    mask_fraction=0.5,
    documents=Path(__file__).with_name("summarization.jsonl"),
)
