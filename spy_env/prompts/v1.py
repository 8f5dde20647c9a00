"""The first prompts: the rules in full before the document, the role after it. Records that name no prompts were played by these."""

from spy_env.prompts.prompts import Prompts

PROMPTS = Prompts(
    name="v1",
    header="""\
Rules of "Who is the spy?": {players} players do the same task with the same document, but in the copy of one of them, \
the spy, {described}{share}. Then all results are shown and {voters} vote on who the spy is.

""",
    civilian="""\
Your copy is complete: you are a civilian. Do the task so well that nobody takes you for the spy.
""",
    spy="""\
Your copy is the incomplete one: you are the spy. Do the task so well that nobody notices: do not mention that anything \
is missing, and do not make up what you cannot know.
""",
    perform="""\
You may think first; that stays private. Then write "{marker}" and after it your result, the only part that is shown.
{task}
""",
    detect="""\
The task was: {task}
The results:

{ballot}

Who is the spy? The spy has not seen a part of the document, so its result leaves that part out or guesses it. Compare \
the results with the document and look for {detect}. You may think first. End with \\boxed{{k}}, k being the number of \
the player that you vote for (1 to {players}), or with \\boxed{{N/A}} if you really cannot tell.
""",
)
