"""Prompts that a very small model can follow: no word of the game before a performance, the task last."""

from spy_env.prompts.prompts import Prompts

PROMPTS = Prompts(
    name="lean",
    header="",
    civilian="",
    spy="In your copy {described}. Do not mention that.\n",
    perform="{brief}\n",
    detect="""\
{players} people were asked: {brief} One of them, the spy, had not seen a part of the text. The results:

{ballot}

Which result leaves out or makes up a part of the text? End with the number of its player, such as \\boxed{{2}}.
""",
)
