"""TRL's ``GRPOTrainer`` whose every step plays a batch of games and trains the stage that the curriculum says.

TRL makes batches, loss, reference, checkpoints and logs; this plays, scores and keeps the curriculum. Needs TRL, in an
environment of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object
from datasets import Dataset
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint
from trl import GRPOConfig, GRPOTrainer

from spy_env import Document
from spy_env.viewer.origin import CONFIGS
from trainers import disk
from trainers.corpus import Corpus
from trainers.engines.encoder import Encoder
from trainers.engines.local import LocalEngine
from trainers.rollout import SeatPolicies, rollout
from trainers.run_folder import LOGS, append_line, cut_after, games_file, write_games_anew
from trainers.samples import samples_of
from trainers.trl.as_played import check_dropout, count_positions
from trainers.trl.config import Games, check_args, check_version
from trainers.trl.playing import Iteration, iteration_of, logged, own_deals
from trainers.trl.progress import Progress, read_progress, write_progress
from trainers.trl.rows import Row, as_rollout, rows_of, trained_rows


class SpyTrainer(GRPOTrainer):
    """Trains one model on all seats. ``seating`` says who plays: the model as it stands."""

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
        self.settings = games
        self._began_with = model if isinstance(model, str) else str(getattr(model.config, "_name_or_path", ""))
        self.progress = Progress(0, games.algo.start(games.game.reward_rules, args.seed))
        data = games.data
        self._corpus = Corpus(games.game.task, data.documents, data.input_key, limit=data.max_samples)
        self._documents: Iterator[Document] = iter(())
        self._rows: list[Row] = []
        self._open: Iteration | None = None
        super().__init__(
            model=model,
            reward_funcs=[votes],
            args=args,
            train_dataset=_placeholder(args),
            processing_class=processing_class,
            callbacks=[*callbacks, _Recorder(self)],
            optimizers=optimizers,
            peft_config=peft_config,
            rollout_func=lambda prompts, trainer: as_rollout(trainer._rows),
        )
        check_dropout(self.model)
        for each in filter(None, (self.model, self.ref_model)):
            count_positions(each)
        encoder = Encoder(self._tokenizer, args.chat_template_kwargs)
        own = self.accelerator.unwrap_model(self.model)
        engine = LocalEngine(own, encoder, games.micro_batch_size, games.max_tokens_per_gpu)
        self.seating = SeatPolicies(engine, games.sampling(args), data.max_len)

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """TRL's training, which goes on from a checkpoint's curriculum and documents too.

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
            self.progress = read_progress(Path(checkpoint), self.settings.fixed(self.args))
        elif not resume_from_checkpoint and any((folder / name).exists() for name in LOGS):
            raise ValueError(
                f"{folder} holds a run already; choose another output_dir, or go on with "
                "trainer.train(resume_from_checkpoint=True)"
            )
        elif self.progress.step:
            raise ValueError(
                f"this trainer has trained {self.progress.step} steps and kept no checkpoint; make a new one"
            )
        self.accelerator.wait_for_everyone()  # who looked, before anyone writes
        if self.is_world_process_zero():
            cut_after(folder, self.progress.step)
            (folder / "games").mkdir(parents=True, exist_ok=True)
            row = self.settings.run_row(self.args, self._began_with)
            disk.write_whole(folder / CONFIGS[1], json.dumps(row, indent=2) + "\n")
        self._documents = self._corpus.training(self.progress.documents)
        return super().train(checkpoint or None, *args, **kwargs)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's seam for a batch: it makes tensors of our rows, and our advantages take the place of its own."""
        self._rows, numbers = self._play()
        if len(self._rows) != len(inputs):
            raise RuntimeError(f"the games made {len(self._rows)} rows, and TRL asked for {len(inputs)}")
        prompts = [{"prompt": self._tokenizer.decode(row.prompt_ids)} for row in self._rows]  # for its logs alone
        counts = {name: len(values) for name, values in self._metrics["train"].items()}
        scored = super()._generate_and_score_completions(prompts)
        for name, value in numbers.items():
            values = self._metrics["train"][name]
            del values[counts.get(name, 0) :]  # what blank rows have changed
            values.append(value)
        advantages = [row.advantage for row in self._rows]
        self._logs["advantages"].extend(gather_object(advantages))  # one batch fits: TRL's own drop out
        return trained_rows(scored, self._rows, self.args.steps_per_generation)

    def _play(self) -> tuple[list[Row], dict[str, float]]:
        """Play this process's share of a batch, and see everybody's; returns its rows, and numbers to log."""
        began, args = time.monotonic(), self.args
        curriculum = self.progress.curriculum
        documents = list(islice(self._documents, args.generation_batch_size // args.num_generations))
        with self.accelerator.autocast():  # as the update computes
            played = rollout(own_deals(documents, self.settings, args, curriculum, self.seating), self.seating)
        own = [sample for stage in curriculum.stages for sample in samples_of(played, stage, curriculum.rewards)]
        games, samples = gather_object([one.game for one in played]), gather_object(own)
        self._open = iteration_of(games, samples, self.progress, len(documents), time.monotonic() - began)
        worth = {stage: curriculum.advantages(games, stage) for stage in curriculum.stages}
        rows = rows_of(own, worth, self.settings.rows_a_game, self._tokenizer.pad_token_id)
        return rows, logged(samples, self._open, curriculum.stages)

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        found = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        if kwargs.get("compute_entropy"):  # the loss asks, not the reference
            self._logprobs_BT = found[0].detach()
        return found

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """TRL's loss; how far sampler and trainer are apart is logged too."""
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        mask_BT = inputs["completion_mask"] * inputs["tool_mask"]
        gap_BT = ((self._logprobs_BT - inputs["old_per_token_logps"]) * mask_BT).abs()
        mean = gap_BT.sum() / mask_BT.sum().clamp(min=1)
        for name, value in (("mean", mean), ("max", gap_BT.max())):
            self._metrics["train"][f"sampling/logp_difference_{name}"].append(value.item())
        return loss

    def close_step(self) -> None:
        """The update is done: the curriculum moves, and games and metrics are written."""
        if self._open is None:
            return
        done, self._open = self._open, None
        self.progress = done.after
        if self.is_world_process_zero():
            folder, step = Path(self.args.output_dir), self.progress.step
            write_games_anew(games_file(folder, step), done.games)
            append_line(folder / "metrics.jsonl", {"step": step, "stage": done.stage, **done.metrics})
            append_line(folder / "timings.jsonl", {"step": step, "play_s": done.play_s})

    def save_progress(self) -> None:
        """Put documents and curriculum into the checkpoint that TRL has just written."""
        if self.is_world_process_zero():
            checkpoint = Path(self.args.output_dir) / f"checkpoint-{self.progress.step}"
            write_progress(checkpoint, self.progress, self.settings.fixed(self.args))


class _Recorder(TrainerCallback):
    """Tells the trainer when a step is over and when a checkpoint stands."""

    def __init__(self, trainer: SpyTrainer) -> None:
        self._trainer = trainer

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._trainer.close_step()

    def on_save(self, *_: Any, **__: Any) -> None:
        self._trainer.save_progress()


def votes(completions: Sequence[Any], earned: list[float], **_: Any) -> list[float]:
    """TRL wants a reward function: what the votes paid each reply. It is logged; advantages are the curriculum's."""
    return earned


def _placeholder(args: Any) -> Any:
    """Rows for one step, since documents come from the corpus; TRL reads them again for every step."""
    return Dataset.from_dict({"prompt": [""] * (args.generation_batch_size // args.num_generations)})
