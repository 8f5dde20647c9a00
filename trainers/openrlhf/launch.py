"""What OpenRLHF is handed: our settings under its names, flags that are always given, and flags that pass through. Pure.

Read in openrlhf 0.11.2. Settings and flags that would break a run stand here with the reason; ``checks`` refuses them.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trainers.config import Config, Logger
from trainers.settings import settings_of

MODULE = "openrlhf.cli.train_ppo_ray"
KEY = "logger.wandb.key"
HANDED_ON = (  # settings that OpenRLHF has under the same name
    *("actor.num_nodes", "actor.num_gpus_per_node", "actor.adam.lr", "actor.adam.betas", "actor.adam.eps"),
    *("actor.adam.weight_decay", "actor.max_norm", "actor.eps_clip", "actor.loss_agg_mode"),
    *("actor.gradient_checkpointing_enable", "algo.kl.init_coef"),
    *("rollout.batch_size", "rollout.n_samples_per_prompt", "rollout.max_new_tokens", "rollout.temperature"),
    *("rollout.micro_batch_size", "rollout.max_tokens_per_gpu"),
    *("vllm.num_engines", "vllm.tensor_parallel_size", "vllm.gpu_memory_utilization", "vllm.enforce_eager"),
    *("train.num_episodes", "train.batch_size", "train.micro_batch_size", "train.max_tokens_per_gpu"),
    *("train.max_epochs", "train.seed", "train.colocate_all", "train.async_enable", "data.max_len"),
    *("eval.steps", "eval.n_samples_per_prompt", "eval.temperature"),
    *("ckpt.save_steps", "ckpt.max_num", "ckpt.load_enable"),
    *("ds.param_dtype", "ds.ring_attn_size", "ds.tensor_parallel_size"),
)
LORA = (
    "OpenRLHF 0.11.2 hands weights to its engines under the names that peft gives them, which vLLM doesn't know, and the run "
    "ends after the first update; train all weights (--ds.zero_stage 3 and --ds.adam_offload save memory), or train adapters "
    "on one GPU with spyrl train --ds.lora.rank N --rollout.engine vllm"
)
REFUSED_SETTINGS = {  # settings and groups that stay at their defaults here, and why
    "ds.lora": LORA,
    "actor.ratio": "for a ratio of whole replies give OpenRLHF's --actor.policy_loss_type gspo",
    "algo.warm_start": (
        "OpenRLHF fits nothing before it trains; warm up with spyrl train and name its final/ with --actor.model_name_or_path"
    ),
    "algo.shuffle_advantages": (
        "it deals advantages out over a whole iteration, and OpenRLHF subtracts the mean of each document's samples, which is "
        "then no longer 0; run this control with spyrl train"
    ),
    "train.max_minutes": "end the job when you like, and go on with --ckpt.load_enable",
    "vllm.enable_prefix_caching": "the seats of a game share their document, so it is always on; leave it out",
    "ckpt.games_max_num": "games are kept; remove files of games/ yourself",
}
OF_THE_REFERENCE = ("ref.num_nodes", "ref.num_gpus_per_node")  # OpenRLHF's; by default the actor's

HANDS_ON = "the games' finished advantages reach the loss only so"
TOLD: dict[str, tuple[tuple[str, ...], str]] = {  # OpenRLHF always gets these values (none: a switch), and why
    "algo.advantage.estimator": (("dr_grpo",), HANDS_ON + " (it subtracts each document's mean, which is 0)"),
    "algo.kl.use_loss": ((), "else KL is subtracted from the rewards, which are the games' advantages"),
    "algo.kl.estimator": (("k3",), "KL is a term of the loss with the estimator that spyrl train uses"),
    "reward.clip_range": (("-1000000", "1000000"), HANDS_ON + ", so nothing is clipped"),
    "ckpt.best_metric_key": (("none",), "a checkpoint's coordinator state is that of its step, not of its score"),
    "data.input_key": (("prompt",), "the prompt data set is spyrl openrlhf's own"),
    "vllm.enable_prefix_caching": ((), "the seats of a game share their document"),
}
UNLESS_SAID: dict[str, tuple[str, ...]] = {  # our defaults
    "algo.advantage.is_correction_level": ("token",),  # logs how far engine and trainer are apart, and corrects for it
    "actor.lr_scheduler": ("constant",),  # as published; OpenRLHF's own sinks to a tenth
}
NO_COUNT = "every prompt must be played, once, in batches of --rollout.batch_size"
OUR_ROWS = "a row is a document to play on, not a prompt"
OF_GAMES = "rewards come from the games"
REFUSED: dict[str, str] = {  # flags that break a run, and why
    "algo.dynamic_filtering_enable": f"{NO_COUNT}; and it would drop the games, whose advantages sum to 0",
    "algo.dynamic_filtering_range": f"{NO_COUNT}; and it would drop the games, whose advantages sum to 0",
    "rollout.vllm_generate_batch_size": NO_COUNT,
    "algo.kl.target": "it changes the KL coefficient in the course of training, by a mean that OpenRLHF takes elsewhere",
    "reward.normalize_enable": HANDS_ON,
    "reward.overlong_buffer_len": f"{HANDS_ON}; a reply that is cut short is scored by the rules of the game",
    "reward.overlong_penalty_factor": f"{HANDS_ON}; a reply that is cut short is scored by the rules of the game",
    "reward.stop_properly_penalty_coef": f"{HANDS_ON}; a reply that is cut short is scored by the rules of the game",
    "reward.remote_url": OF_GAMES,
    "reward.model_name_or_path": OF_GAMES,
    "critic.model_name_or_path": "there is no critic: advantages come from the games",
    "critic.freezing_steps": "there is no critic to warm up, and the model would not be trained in these steps",
    "data.apply_chat_template": f"{OUR_ROWS}; seats' prompts get the chat template (--rollout.chat_template_kwargs)",
    "data.input_template": OUR_ROWS,
    "data.label_key": OUR_ROWS,
    "data.prompt_probs": f"there is one data set; {NO_COUNT}",
    "data.prompt_split": "the data set is spyrl openrlhf's own; name yours with --data.documents",
    "data.prompt_dataset": "the data set is spyrl openrlhf's own; name yours with --data.documents",
    "eval.dataset": "the data set is spyrl openrlhf's own; hold documents out with --eval.games",
    "eval.split": "the data set is spyrl openrlhf's own; hold documents out with --eval.games",
    "data.image_key": "players read texts",
    "data.max_images_per_prompt": "players read texts",
    "ckpt.path": "checkpoints are kept in --ckpt.output_dir, with the games and the coordinator's states",
    "train.agent_func_path": "it is spyrl openrlhf's own executor that plays the games",
    "train.partial_rollout_enable": (
        "weights would change within a game, and the engines' prefix cache, which can't be emptied while they generate, "
        "would go on answering for the old ones; --train.async_enable alone works"
    ),
    "ds.lora.dropout": LORA,
    "ds.load_in_4bit": "packed weights can't be handed to the engines",
}
EXACTLY: dict[str, tuple[float, str]] = {  # numbers that change nothing at this value alone
    "rollout.top_p": (1.0, "the trainer computes log-probabilities of the whole distribution"),
    "algo.advantage.gamma": (1.0, HANDS_ON),
}


class Passed(NamedTuple):
    """A flag that is no setting, without its dashes, and its values."""

    flag: str
    values: tuple[str, ...]


class Paths(NamedTuple):
    """Where the trainer finds things, as the machines that train see them."""

    model: str
    train: str
    evaluation: str | None
    agent: str
    checkpoints: str
    final: str


def passed_flags(arguments: Sequence[str]) -> list[Passed]:
    """Return arguments by flag; values may be several, and negative numbers.

    Raises:
        ValueError: a value comes before any flag.
    """
    flags: list[Passed] = []
    for argument in arguments:
        if argument.startswith("--"):
            flag, equals, value = argument[2:].partition("=")
            flags.append(Passed(flag, (value,) if equals else ()))
        elif not flags:
            raise ValueError(f"{argument!r} belongs to no flag; OpenRLHF's flags go as --group.flag VALUE")
        else:
            flags[-1] = flags[-1]._replace(values=(*flags[-1].values, argument))
    return flags


def handed_on(config: Config) -> dict[str, Any]:
    """Return the settings that OpenRLHF gets, with a value for each None that follows from others."""
    actor, train, vllm = config.actor, config.train, config.vllm
    settings = dict(settings_of(config))
    values = {name: settings[name] for name in HANDED_ON if config.eval.games or not name.startswith("eval.")}
    micro = train.micro_batch_size or 1
    fit = actor.num_nodes * actor.num_gpus_per_node // vllm.tensor_parallel_size
    defaults = {
        "train.micro_batch_size": 1,
        "rollout.micro_batch_size": micro,
        "train.batch_size": config.samples_per_iteration,
        "vllm.num_engines": fit if train.colocate_all and not train.async_enable else 1,
        "eval.steps": train.iterations,
        "eval.n_samples_per_prompt": config.game.players,
        "eval.temperature": config.rollout.temperature,
    }
    values |= {name: value for name, value in defaults.items() if name in values and values[name] is None}
    if values["ds.param_dtype"] == "auto":
        values["ds.param_dtype"] = "bf16"
    return values


def openrlhf_arguments(config: Config, paths: Paths, passed: Iterable[Passed], wandb_key: str | None) -> list[str]:
    """Return all arguments of OpenRLHF's command."""
    passed = [flag for flag in passed if flag.flag not in TOLD]  # where a user repeats them, they say the same
    given = {flag.flag for flag in passed}
    gpus = (config.actor.num_nodes, config.actor.num_gpus_per_node)
    unless_said = UNLESS_SAID | dict(zip(OF_THE_REFERENCE, gpus, strict=True))
    flags: list[tuple[str, Any]] = [
        ("actor.model_name_or_path", paths.model),
        ("data.prompt_dataset", paths.train),
        ("eval.dataset", paths.evaluation),
        ("train.agent_func_path", paths.agent),
        ("ckpt.path", paths.checkpoints),
        ("ckpt.output_dir", paths.final),
        *handed_on(config).items(),
        *_logging(config.logger, wandb_key),
        *((flag, values or True) for flag, (values, _) in TOLD.items()),
        *((flag, values) for flag, values in unless_said.items() if flag not in given),
        *((flag, values or True) for flag, values in passed),
    ]
    return [word for flag, value in flags for word in _words(flag, value)]


def _logging(logger: Logger, wandb_key: str | None) -> Iterator[tuple[str, Any]]:
    folder, wandb = logger.tensorboard_dir, logger.wandb
    yield "logger.tensorboard_dir", folder and str(Path(folder).resolve())
    yield "logger.wandb.run_name", wandb.run_name  # also the folder within TensorBoard's
    if wandb.project:
        yield KEY, wandb_key
        yield from ((f"logger.wandb.{name}", getattr(wandb, name)) for name in ("project", "org", "group"))


def _words(flag: str, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{flag}"]
    values = value if isinstance(value, tuple) else (value,)
    return [f"--{flag}", *map(str, values)]


def command_here(arguments: Sequence[str]) -> list[str]:
    """Return OpenRLHF's command on this machine, or in the Ray cluster that this machine is part of."""
    return [sys.executable, "-m", MODULE, *arguments]


def command_of_job(arguments: Sequence[str], address: str, folder: Path) -> list[str]:
    """Return the same as a job of the cluster at ``address``; ``folder`` travels with it, and it runs there.

    Raises:
        ValueError: an argument that Ray wouldn't hand on as it is (it quotes for Windows, and a shell reads it).
    """
    for word in arguments:
        if shlex.quote(word) != word:
            raise ValueError(
                f"{word!r} can't travel with a Ray job: choose a name without spaces and special characters"
            )
    submit = ["ray", "job", "submit", "--address", address, "--working-dir", str(folder)]
    return [*submit, "--", "python3", "-m", MODULE, *arguments]


def shown(command: Sequence[str]) -> str:
    """Return a command for a shell, one flag per line; a secret is named and not shown."""
    lines: list[list[str]] = [[]]
    for word in command:
        if word.startswith("--") and len(word) > 2:
            lines.append([])
        elif lines[-1][:1] == [f"--{KEY}"]:
            lines[-1].append('"$WANDB_API_KEY"')
            continue
        lines[-1].append(shlex.quote(word))
    return " \\\n  ".join(" ".join(line) for line in lines)
