"""The words of the game around document, task and ballot. A set is one file, here or anywhere else, that defines ``PROMPTS``."""

from spy_env.prompts.prompts import Prompts, load_prompts, prompts_names

__all__ = ["Prompts", "load_prompts", "prompts_names"]
