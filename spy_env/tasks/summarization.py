"""Summarize a report in one paragraph. Detectors look for facts that are missing, contradicted or invented."""

from pathlib import Path

from spy_env.tasks.task import Task

TASK = Task(
    name="summarization",
    perform=(
        "Summarize the document in one paragraph of at most {words} words. Cover its subject, its main findings, and the "
        "names and figures that matter, from beginning to end; add nothing that it does not say."
    ),
    brief="Summarize the text above in one sentence of at most {words} words.",
    detect="a summary that leaves out, contradicts or makes up something that the document states",
    marker="Summary:",
    words=150,
    document_words=6000,  # what fits about 12,000 prompt tokens, as in the published runs, with room for the ballot
    mask_fraction=0.2,
    documents=Path(__file__).with_suffix(".jsonl"),
)
