"""A small training with TRL, on two CPU cores in minutes: ``python -m trainers.trl.example``.

SmolLM2-135M-Instruct plays on paper abstracts, as in ``make train``, with LoRA. On a GPU leave out ``use_cpu`` and
``bf16=False``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from peft import LoraConfig
from trl import GRPOConfig

from trainers.config import Algo, Data, GameConfig, StageSampling
from trainers.first_run.downloads import small_model
from trainers.trl.config import Games
from trainers.trl.trainer import SpyTrainer


def trainer_for(model: str, documents: str, output: str, steps: int) -> SpyTrainer:
    """Two games a step, four players each; detection and performing take turns."""
    games = Games(
        game=GameConfig(
            task="summarization",
            players=4,
            document_words=40,
            words=20,
            unreadable=-1.0,
            abstain=-0.5,
        ),
        algo=Algo(schedule="cycle", cycle=(1, 1)),
        data=Data(documents=documents, max_len=1024),
        performing=StageSampling(max_new_tokens=20, prefill="Summary: This paper"),
        detection=StageSampling(max_new_tokens=6, prefill="\\boxed{", stop="}"),
    )
    args = GRPOConfig(
        output,
        num_generations=4,  # a group is the seats of one game
        per_device_train_batch_size=4,  # rows computed at a time ...
        gradient_accumulation_steps=2,  # ... and how often: 4 x 2 rows are 2 games, one optimizer step
        max_steps=steps,
        learning_rate=1.5e-4,
        lr_scheduler_type="constant",
        adam_beta2=0.95,
        beta=0.001,
        use_bias_correction_kl=False,
        temperature=0.7,
        disable_dropout=True,
        logging_steps=1,
        save_steps=2,
        save_total_limit=1,
        report_to="none",
        gradient_checkpointing=False,
        use_cpu=True,
        bf16=False,
    )
    adapter = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    return SpyTrainer(model, args, games, peft_config=adapter)


def main(argv: Sequence[str]) -> int:
    """Train, or go on with what an earlier call began, and save the adapter."""
    parser = argparse.ArgumentParser("python -m trainers.trl.example", description=main.__doc__)
    parser.add_argument("--model", help="a folder or a hub id; default: the small model of the first run")
    parser.add_argument("--documents", default="aclsum", help=".jsonl, folder of text files, or id:config:split:column")
    parser.add_argument("--output", default="outputs/trl_example")
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args(argv)
    trainer = trainer_for(args.model or str(small_model()), args.documents, args.output, args.steps)
    trainer.train(resume_from_checkpoint=True)
    trainer.save_model(f"{args.output}/final")
    print(f"games, metrics.jsonl and the adapter are in {args.output}; see a game: spyrl replay --reveal {args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
