"""A task outside the package: say one word. Its documents are five words, the first of which the game is about."""

from spy_env.tasks import Task

TASK = Task(
    name="one_word",
    perform="Say one word.",
    detect="the odd one",
    marker="Word:",
    words=5,
    document_words=5,
    mask_fraction=0.2,
)
