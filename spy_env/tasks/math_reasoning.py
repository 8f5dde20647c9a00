"""Pose and solve a problem from a mathematical text. Detectors look for wrong, unsupported or trivial mathematics."""

from pathlib import Path

from spy_env.tasks.task import Task

TASK = Task(
    name="math_reasoning",
    perform=(
        "Make one challenging mathematical problem from the document's central idea, and solve it. Whoever reads it "
        "does not have the document, so state all that is needed. Give the problem, then a line 'Solution:' with the "
        "steps, then a line 'Answer:' with the result. Use at most {words} words."
    ),
    brief="Make one challenging mathematical problem from the text above, and solve it step by step in at most {words} words.",
    detect=(
        "a problem whose solution is wrong or incomplete, that uses definitions or results other than the document's, "
        "or that hardly needs them: off the document's subject, or trivial"
    ),
    marker="Problem:",
    words=300,
    document_words=1000,
    mask_fraction=0.4,
    documents=Path(__file__).with_suffix(".jsonl"),
)
