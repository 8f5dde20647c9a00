"""TRL's ``GRPOTrainer`` whose every step plays a batch of games and trains the stage that the curriculum chose.

TRL makes batches, loss, reference, checkpoints and logs; this plays, scores and keeps the curriculum. Needs TRL, in an
environment of its own.
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint
from trl import GRPOConfig, GRPOTrainer

from spy_env.viewer.origin import CONFIGS
from trainers import disk
from trainers.corpus import Corpus
from trainers.engines.encoder import Encoder
from trainers.engines.local import LocalEngine, positions
from trainers.engines.tree_attention import unwrapped
from trainers.rollout import SeatPolicies, rollout
from trainers.run_folder import LOGS, append_line, cut_after, games_file, write_games_anew
from trainers.samples import samples_of
from trainers.trl.checks import check_args, check_version
from trainers.trl.games import (
    Games,
    as_rollout,
    deal_share,
    filled_up,
    metrics_of,
    read_curriculum,
    trained_rows,
    write_curriculum,
)


class SpyTrainer(GRPOTrainer, TrainerCallback):
    """Trains one model on all seats. It is its own callback: ``on_step_end`` and ``on_save`` follow TRL's steps."""

    def __init__(
        self,
        model: Any,
        args: GRPOConfig,
        games: Games,
        processing_class: Any = None,
        callbacks: Sequence[TrainerCallback] = (),
        optimizers: tuple[Any, Any] = (None, None),
        peft_config: Any = None,
    ) -> None:
        """``model`` is a folder, a hub id or a model; all but ``games`` is TRL's own.

        Raises:
            ValueError: a setting with which a batch of games isn't one step, or replies aren't trained as sampled.
        """
        check_version()
        check_args(args, games)
        self.settings, data = games, games.data
        self.curriculum = games.algo.start(games.game.reward_rules, args.seed)
        self._corpus = Corpus(games.game.task, data.documents, data.input_key, limit=data.max_samples)
        self._documents_per_step = args.generation_batch_size // args.num_generations
        super().__init__(
            model=model,
            reward_funcs=[votes],
            args=args,
            train_dataset=Dataset.from_dict({"prompt": [""] * self._documents_per_step}),  # read again for every step
            processing_class=processing_class,
            callbacks=[*callbacks, self],
            optimizers=optimizers,
            peft_config=peft_config,
            rollout_func=lambda prompts, trainer: as_rollout(trainer._rows, len(trainer._advantages)),
        )
        if any(isinstance(module, torch.nn.Dropout) and module.p > 0 for module in self.model.modules()):
            raise ValueError(
                "the model has dropout, with which it trains another distribution than it plays; set disable_dropout=True"
            )
        for each in filter(None, (self.model, self.ref_model)):
            if "position_ids" in inspect.signature(unwrapped(each).forward).parameters:
                each.register_forward_pre_hook(_with_positions, with_kwargs=True)
        encoder = Encoder(self._tokenizer, args.chat_template_kwargs)
        module = self.accelerator.unwrap_model(self.model)
        engine = LocalEngine(module, encoder, games.micro_batch_size, games.max_tokens_per_gpu)
        self.seats = SeatPolicies(engine, games.sampling(args), data.max_len)

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Train as TRL does, and go on from a checkpoint's curriculum and documents too.

        With True and no checkpoint yet the run begins again, and what it had written is cut.

        Raises:
            ValueError: the output folder holds a run that isn't resumed, the checkpoint is another run's, or the model
                was trained already and there is no checkpoint to go on from.
        """
        folder = Path(self.args.output_dir)
        checkpoint = resume_from_checkpoint
        if checkpoint is True:
            checkpoint = get_last_checkpoint(str(folder)) if folder.exists() else None
        if checkpoint:
            self.curriculum = read_curriculum(Path(checkpoint), self.settings.fixed(self.args))
        elif not resume_from_checkpoint and any((folder / name).exists() for name in LOGS):
            raise ValueError(
                f"{folder} holds a run already; choose another output_dir, or go on with "
                "trainer.train(resume_from_checkpoint=True)"
            )
        elif step := self.curriculum.iteration:
            raise ValueError(f"this trainer has trained {step} steps and kept no checkpoint; make a new one")
        self.accelerator.wait_for_everyone()  # all have looked before one writes
        if self.is_world_process_zero():
            cut_after(folder, self.curriculum.iteration)
            (folder / "games").mkdir(parents=True, exist_ok=True)
            record = self.settings.record(self.args, self.model.config._name_or_path)
            disk.write_whole(folder / CONFIGS[1], json.dumps(record, indent=2) + "\n")
        self._documents = self._corpus.training(self.curriculum.iteration * self._documents_per_step)
        return super().train(checkpoint or None, *args, **kwargs)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Play a batch, let TRL make tensors of its rows, and put our advantages in place of TRL's."""
        metrics = self._play(len(inputs))
        prompts = [{"prompt": self._tokenizer.decode(row.prompt_ids)} for row in self._rows]  # for TRL's logs alone
        logged = {name: list(values) for name, values in self._metrics["train"].items()}  # since TRL's last log
        scored = super()._generate_and_score_completions(prompts)
        for name, value in metrics.items():  # in place of TRL's own values, in which blank rows count
            self._metrics["train"][name] = [*logged.get(name, ()), value]
        advantages = [*self._advantages, *[0.0] * (len(inputs) - len(self._advantages))]
        self._logs["advantages"].extend(gather_object(advantages))  # it holds one batch: TRL's own drop out
        return trained_rows(scored, self._advantages, self.args.steps_per_generation)

    def _play(self, rows: int) -> dict[str, float]:
        """Play this process's share of a batch, gather the games of all, and make ``rows`` rows of the share."""
        began, before = time.monotonic(), self.curriculum
        documents = list(islice(self._documents, self._documents_per_step))
        deals = deal_share(documents, self.settings, self.args, before, self.seats.budget)
        with self.accelerator.autocast():  # as the update computes
            played = rollout(deals, self.seats)
        # rewards and advantages: over the games of all processes; rows are of this one
        share = [sample for stage in before.stages for sample in samples_of(played, stage, before.rewards)]
        self._games, samples = gather_object([one.game for one in played]), gather_object(share)
        advantages = {stage: before.advantages(self._games, stage) for stage in before.stages}
        self._advantages = [advantages[sample.stage][sample.game, sample.seat] for sample in share]
        self._rows = filled_up(share, rows, self._tokenizer.pad_token_id)
        # lines of the logs, which are written once the update is done
        step, stage = before.iteration + 1, str(before.trained or "joint")
        metrics = metrics_of(self._games, samples, before, before.after(self._games))
        self._lines: dict[str, dict[str, Any]] = {
            "metrics.jsonl": {"step": step, "stage": stage, **metrics},
            "timings.jsonl": {"step": step, "play_s": time.monotonic() - began},
        }
        return metrics

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        results = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        if kwargs.get("compute_entropy"):  # only the loss asks for it, the reference doesn't
            self._logprobs_BT = results[0].detach()
        return results

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Compute TRL's loss, and log how far sampler and trainer are apart."""
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        mask_BT = inputs["completion_mask"] * inputs["tool_mask"]
        gap_BT = ((self._logprobs_BT - inputs["old_per_token_logps"]) * mask_BT).abs()
        mean = gap_BT.sum() / mask_BT.sum().clamp(min=1)
        for name, value in (("mean", mean), ("max", gap_BT.max())):
            self._metrics["train"][f"sampling/logp_difference_{name}"].append(value.item())
        return loss

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Move the curriculum, and write games and metrics, now that the update is done."""
        self.curriculum = self.curriculum.after(self._games)
        if self.is_world_process_zero():
            folder = Path(self.args.output_dir)
            write_games_anew(games_file(folder, self.curriculum.iteration), self._games)
            for name, line in self._lines.items():
                append_line(folder / name, line)

    def on_save(self, *_: Any, **__: Any) -> None:
        """Put the curriculum into the checkpoint that TRL has just written."""
        if self.is_world_process_zero():
            checkpoint = Path(self.args.output_dir) / f"checkpoint-{self.curriculum.iteration}"
            write_curriculum(checkpoint, self.curriculum, self.settings.fixed(self.args))


def votes(completions: Sequence[Any], earned: list[float], **_: Any) -> list[float]:
    """Return each reply's pay as TRL's reward function, for its logs alone; advantages are the curriculum's."""
    return earned


def _with_positions(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Let each row's positions begin at its first token.

    TRL pads prompts on the left and gives no positions; a model with learned positions would count the padding.
    """
    mask_BT = kwargs.get("attention_mask")
    if kwargs.get("fused_lm_head") and mask_BT is not None:  # TRL's calls, none of an engine's
        kwargs.setdefault("position_ids", positions(mask_BT))
    return args, kwargs
