"""A task outside the package."""

from spy_env.tasks import Task

TASK = Task(
    name="headline",
    perform="Write a headline of at most {words} words for the document.",
    detect="a headline that misses what the document is about",
    marker="Headline:",
    words=12,
    document_words=200,
    mask_fraction=0.3,
)
