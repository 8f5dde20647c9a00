"""Games in a browser: one self-contained page that needs no network and runs nothing that a model wrote.

``facts.py`` says what is shown of a game, ``document.py`` makes the page of it; the page itself is ``page.html``,
``page.css`` and the scripts, files that a browser's tools can read.
"""

from spy_env.page.document import page_of

__all__ = ["page_of"]
