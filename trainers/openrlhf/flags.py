"""OpenRLHF's flags beyond the config: what it is always told, what it may not be told, and what passes through.

Read in openrlhf 0.11.2. Its argparse takes abbreviations, so a flag that isn't written out is refused where it could mean one
of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

HANDS_ON = "the games' finished advantages reach the loss only so"
TOLD: dict[str, tuple[tuple[str, ...], str]] = {  # with these values (none: a switch), and why
    "algo.advantage.estimator": (("dr_grpo",), HANDS_ON + " (it subtracts each document's mean, which is 0)"),
    "algo.kl.use_loss": ((), "else KL is subtracted from the rewards, which are the games' advantages"),
    "algo.kl.estimator": (("k3",), "KL is a term of the loss with the estimator that spyrl train uses"),
    "reward.clip_range": (("-1000000", "1000000"), HANDS_ON + ", so nothing is clipped"),
    "ckpt.best_metric_key": (("none",), "a checkpoint's director state is that of its step, not of its score"),
    "data.input_key": (("prompt",), "the prompt data set is spyrl openrlhf's own"),
    "vllm.enable_prefix_caching": ((), "the seats of a game share their document"),
}
UNLESS_SAID: dict[str, tuple[str, ...]] = {  # defaults of ours
    "algo.advantage.is_correction_level": ("token",),  # logs how far engine and trainer are apart, and corrects for it
    "actor.lr_scheduler": ("constant",),  # as published; OpenRLHF's own sinks to a tenth
}
NO_COUNT = "every prompt must be played, once, in batches of --rollout.batch_size"
OUR_ROWS = "a row is an invitation to play, not a text"
OF_GAMES = "rewards come from the games"
REFUSED: dict[str, str] = {  # and why
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
    "ckpt.path": "checkpoints are kept in --ckpt.output_dir, with the games and the director's states",
    "train.agent_func_path": "it is spyrl openrlhf's own executor that plays the games",
    "train.partial_rollout_enable": (
        "weights would change within a game, and the engines' prefix cache, which can't be emptied while they generate, "
        "would go on answering for the old ones; --train.async_enable alone works"
    ),
    "ds.load_in_4bit": "packed weights can't be handed to the engines",
}
EXACTLY: dict[str, tuple[float, str]] = {  # numbers that change nothing at this value alone
    "rollout.top_p": (1.0, "the trainer computes log-probabilities of the whole distribution"),
    "algo.advantage.gamma": (1.0, HANDS_ON),
}
LORA = (
    "OpenRLHF 0.11.2 hands weights to its engines under the names that peft gives them, which vLLM doesn't know, and the run "
    "ends after the first update; train all weights (--ds.zero_stage 3 and --ds.adam_offload save memory), or train adapters "
    "on one GPU with spyrl train --ds.lora.rank N --rollout.engine vllm"
)
OPPONENTS = "one model plays all seats here; train against others with spyrl train"
OF_SPYRL_TRAIN: dict[str, tuple[tuple[object, ...], str]] = {  # not here; values that a config file may hold, way out
    "actor.ratio": (("token",), "for a ratio of whole replies give OpenRLHF's --actor.policy_loss_type gspo"),
    "actor.shared_prompts": (
        ("auto", "cascade", "mask", "off"),
        "OpenRLHF computes every sample by itself; leave it out",
    ),
    "rollout.engine": (("transformers", "vllm"), "vLLM always generates here; leave it out"),
    "train.max_minutes": ((None,), "end the job when you like, and go on with --ckpt.load_enable"),
    "vllm.enable_prefix_caching": ((True,), "it is always on here; leave it out"),
    "eval.opponent": (("",), OPPONENTS),
    "opponents.spy": (("",), OPPONENTS),
    "opponents.civilian": (("",), OPPONENTS),
    "opponents.referee": (("",), OPPONENTS),
    "opponents.pool": ((5,), OPPONENTS),
    "ckpt.games_max_num": ((None,), "games are kept; remove files of games/ yourself"),
    "ds.lora.rank": ((0,), LORA),
    "ds.lora.alpha": ((16,), LORA),
    "ds.lora.target_modules": (("all-linear",), LORA),
    "ds.lora.dropout": ((), LORA),
}
DEFAULTS_OF_SPYRL_TRAIN: dict[str, object] = {  # where ours differ: a file of spyrl train names them all
    "rollout.micro_batch_size": 32,
    "rollout.max_tokens_per_gpu": 32768,
    "vllm.gpu_memory_utilization": 0.4,
}
OURS = ("game.", "opponents.", "ray.", "rollout.performing.", "rollout.detection.")  # OpenRLHF has no such groups


class Passed(NamedTuple):
    """A flag that isn't the config's, without its dashes, and its values."""

    flag: str
    values: tuple[str, ...]


def passed_flags(arguments: Sequence[str]) -> list[Passed]:
    """Arguments by flag; values may be several, and negative numbers.

    Raises:
        ValueError: a value stands before any flag.
    """
    found: list[Passed] = []
    for argument in arguments:
        if argument.startswith("--"):
            flag, equals, value = argument[2:].partition("=")
            found.append(Passed(flag, (value,) if equals else ()))
        elif not found:
            raise ValueError(f"{argument!r} belongs to no flag; OpenRLHF's flags go as --group.flag VALUE")
        else:
            found[-1] = found[-1]._replace(values=(*found[-1].values, argument))
    return found


def check_passed(passed: Iterable[Passed], of_config: Iterable[str]) -> None:
    """Refuse flags that break a run of ours; ``of_config`` names the config's own.

    Raises:
        ValueError: with the flag, why, and what to change.
    """
    known = {*TOLD, *UNLESS_SAID, *REFUSED, *EXACTLY, *OF_SPYRL_TRAIN, *of_config}
    for flag, values in passed:
        said = " ".join([f"--{flag}", *values])
        if flag in TOLD:
            wanted, why = TOLD[flag]
            if not _same(values, wanted):
                raise ValueError(f"{said}: OpenRLHF is told --{' '.join([flag, *wanted])}, since {why}; leave it out")
        elif flag in EXACTLY:
            number, why = EXACTLY[flag]
            if not _same(values, (str(number),)):
                raise ValueError(f"{said}: it must be {number:g}, since {why}; leave it out")
        elif flag in OF_SPYRL_TRAIN:
            raise ValueError(f"{said} is a setting of spyrl train: {OF_SPYRL_TRAIN[flag][1]}")
        elif flag in REFUSED:
            raise ValueError(f"{said} can't be used: {REFUSED[flag]}; leave it out")
        elif flag not in known:
            if meant := sorted(name for name in known if name.startswith(flag)):
                raise ValueError(f"--{flag} could be short for --{' or --'.join(meant)}; write flags out")
            if flag.startswith(OURS):
                raise ValueError(f"no flag --{flag}; spyrl openrlhf --help names them")


def check_beside(passed: Iterable[Passed], colocated: bool, asynchronous: bool) -> None:
    """Refuse flags that OpenRLHF refuses beside what the config says, when it has been started.

    Raises:
        ValueError: with the flags, and what to change.
    """
    if colocated and asynchronous and any(flag == "vllm.enable_sleep" for flag, _ in passed):
        raise ValueError(
            "--train.async_enable can't be used with --vllm.enable_sleep: engines generate while the model is trained, on GPUs "
            "of their own; leave --vllm.enable_sleep out"
        )


def _same(values: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether two lists of values say the same, as texts or as numbers."""
    return len(values) == len(wanted) and all(map(_equal, values, wanted))


def _equal(value: str, wanted: str) -> bool:
    try:
        return value == wanted or float(value) == float(wanted)
    except ValueError:
        return False


def without_settings_of_spyrl_train(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """What a file for ``spyrl train`` says that also means something here.

    Raises:
        ValueError: it says something that this trainer can't do.
    """
    kept = _copy(row)
    for flag, (harmless, way_out) in OF_SPYRL_TRAIN.items():
        group, name = _group_of(kept, flag)
        if group is not None and (value := group.pop(name)) not in harmless:
            raise ValueError(f"{where}: {flag} is {value!r}, a setting of spyrl train: {way_out}")
    for flag, default in DEFAULTS_OF_SPYRL_TRAIN.items():
        group, name = _group_of(kept, flag)
        if group is not None and group[name] == default:
            del group[name]
    if kept.get("opponents") == {}:
        del kept["opponents"]
    if kept.get("ds", {}).get("lora") == {}:
        del kept["ds"]["lora"]
    return kept


def _copy(row: Any) -> Any:
    return {name: _copy(value) for name, value in row.items()} if isinstance(row, Mapping) else row


def _group_of(row: dict[str, Any], flag: str) -> tuple[dict[str, Any] | None, str]:
    """The group that holds a flag's value, where it is there, and the flag's name in it."""
    *groups, name = flag.split(".")
    for group in groups:
        row = row.get(group, {})
        if not isinstance(row, dict):
            return None, name
    return (row if name in row else None), name
