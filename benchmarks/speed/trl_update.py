"""TRL's update of given samples, by its own ``GRPOTrainer``, which generates nothing here.

Its loss is made ours by settings alone: ``dapo`` is the mean over all tokens, and there is no KL term. On a CPU it
computes logits at every position and on a GPU at those of replies. TRL needs an environment of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from tempfile import TemporaryDirectory
from typing import Any

from trainers.embedded.logprobs import Pair
from trainers.embedded.loss import LossRules
from trainers.trl.checks import check_version

PAD, END = 0, 1


def training_step(model: Any, pairs: Sequence[Pair], rules: LossRules, checkpointing: bool) -> Callable[[], float]:
    """Return a function that computes loss and gradient as a step of TRL's training does, and returns the loss."""
    trainer = trainer_of(model, pairs, rules, checkpointing)
    batch = batch_of(pairs)

    def step() -> float:
        model.zero_grad(set_to_none=True)
        loss: float = trainer.training_step(model, batch, None).item()
        return loss

    return step


def trainer_of(model: Any, pairs: Sequence[Pair], rules: LossRules, checkpointing: bool) -> Any:
    """Make a trainer with ``rules`` that takes a batch of ``batch_of`` as it is.

    Raises:
        ValueError: TRL has no such rules.
    """
    if (rules.kl_coef, rules.aggregation, rules.ratio) != (0, "token-mean", "token"):
        raise ValueError(f"TRL is compared by the mean over tokens, their ratios and no KL, not {rules}")
    check_version()
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    with TemporaryDirectory() as folder:  # TRL wants a folder and writes nothing
        settings = GRPOConfig(
            folder,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=checkpointing,
            per_device_train_batch_size=len(pairs),
            num_generations=len(pairs),
            max_completion_length=max(len(sample.ids) for sample, _ in pairs),
            temperature=1.0,
            loss_type="dapo",
            epsilon=rules.clip,
            beta=0.0,
            report_to="none",
        )
        trainer: Any = GRPOTrainer(
            model,
            reward_funcs=_no_reward,
            args=settings,
            train_dataset=Dataset.from_dict({"prompt": [""] * len(pairs)}),
            processing_class=_tokenizer(),
        )
    trainer._generate_and_score_completions = lambda batch: batch
    trainer.current_gradient_accumulation_steps = 1  # set by TRL's loop over steps otherwise
    return trainer


def batch_of(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Make TRL's batch of generated samples: prompts padded on the left, replies on the right."""
    import torch

    samples = [sample for sample, _ in pairs]
    prompts = [list(sample.prompt_ids) for sample in samples]
    replies = [list(sample.ids) for sample in samples]
    return {
        "prompt_ids": _padded(prompts, PAD, "left"),
        "prompt_mask": _padded([[1] * len(ids) for ids in prompts], 0, "left"),
        "completion_ids": _padded(replies, PAD, "right"),
        "completion_mask": _padded([[1] * len(ids) for ids in replies], 0, "right"),
        "advantages": torch.tensor([advantage for _, advantage in pairs]),
        "old_per_token_logps": _padded([list(sample.logprobs) for sample in samples], 0.0, "right"),
        "num_items_in_batch": torch.tensor(float(sum(map(len, replies)))),
    }


def _padded(rows: Sequence[Sequence[float]], value: float, side: str) -> Any:
    import torch

    return torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=value, padding_side=side
    )


def _no_reward(completions: Sequence[Any], **unused: Any) -> list[float]:
    """Stand in for the reward function, which isn't called for given advantages."""
    return [0.0] * len(completions)


def _tokenizer() -> Any:
    """Make a tokenizer, of which TRL reads only the padding."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.WordLevel({"<pad>": PAD, "<end>": END}, unk_token="<end>"))
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<end>")
