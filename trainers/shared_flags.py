"""Groups of flags that mean the same to every trainer: the optimizer, KL, the corpus. ``game_config`` has the game's."""

from __future__ import annotations

from dataclasses import dataclass, field

LOWEST_IN_VLLM = 0.01  # vLLM's own bound of temperatures


@dataclass(frozen=True)
class Adam:
    """AdamW. A long second moment would starve the performing stage, whose advantages are a tenth of detection's."""

    lr: float = 1e-6
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.0


@dataclass(frozen=True)
class Kl:
    """KL to the model as it was before training, as a loss term (k3)."""

    init_coef: float = 0.001


@dataclass(frozen=True)
class Algo:
    """The algorithm."""

    kl: Kl = field(default_factory=Kl)


@dataclass(frozen=True)
class Data:
    """The corpus."""

    documents: str | None = (
        None  # .jsonl, folder of text files, id:config:split:column, or "aclsum"; default the task's own
    )
    input_key: str = "text"  # the field of a JSONL row that holds the text
    max_len: int = 4096  # prompt + reply in tokens; documents are shortened to fit
    max_samples: int | None = None  # use only the first documents


def check_memory_share(share: float) -> None:
    """``--vllm.gpu_memory_utilization`` is of a GPU's memory.

    Raises:
        ValueError: no share.
    """
    if not 0 < share <= 1:
        raise ValueError(f"--vllm.gpu_memory_utilization is {share}; it is a share between 0 and 1")
