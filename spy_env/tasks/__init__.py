"""What the players do with a document. A task is one file, in this folder or anywhere else, that defines ``TASK``."""

from spy_env.tasks.task import Task, load_task, shipped_documents, task_names

__all__ = ["Task", "load_task", "shipped_documents", "task_names"]
