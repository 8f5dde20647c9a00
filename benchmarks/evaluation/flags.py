"""The flags of ``spyrl eval``, the settings they make, and the ones that every suite reads."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from benchmarks.evaluation.contestants import Loading, url_and_model
from benchmarks.evaluation.judge import JudgeSettings
from trainers.corpus import Say

SUITES = ("reasoning", "summarization", "creative_writing", "alignment")
SAMPLES = Path(__file__).with_name("samples")  # two invented items of each data set


class HasCounts(Protocol):
    """The items of a data set: how many the set has, and how many were left out for which reason."""

    @property
    def total(self) -> int: ...

    @property
    def excluded(self) -> Mapping[str, int]: ...


ReadSet = TypeVar("ReadSet", bound=HasCounts)


@dataclass(frozen=True, slots=True)
class Run:
    """One call of ``spyrl eval``. ``None`` and empty mean the suite's own default."""

    TASKS: ClassVar = ("summarization", "creative_writing")
    output: Path
    data: Path | None = None  # a folder of JSONL files instead of the hub
    limit: int | None = None  # items of each data set, or games of each task
    sets: tuple[str, ...] = ()  # only these data sets
    seed: int = 0
    samples: int = 16  # of each AIME problem (k)
    tasks: tuple[str, ...] = TASKS  # of the alignment study
    games: tuple[Path, ...] = ()  # saved games for the alignment study, instead of new ones
    say: Say = field(default=print, compare=False)

    def chosen(self, sets: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of a suite's data sets that are to be evaluated."""
        return tuple(name for name in sets if not self.sets or name in self.sets)

    def read_sets(self, suite: str, sets: tuple[str, ...], read: Callable[[str], ReadSet | None]) -> dict[str, ReadSet]:
        """Read a suite's chosen data sets by name, without those that the folder lacks; say what is left out, and why.

        Raises:
            ValueError: none is left, or ``read`` raises it.
        """
        by_set: dict[str, ReadSet] = {}
        for name in self.chosen(sets):
            data = read(name)
            if data is None:
                self.say(f"{suite}: {name} is left out: {self.data} has no {name}.jsonl")
                continue
            by_set[name] = data
            for reason, count in data.excluded.items():
                self.say(f"{suite}: {count} of {data.total} items of {name} are left out: {reason}")
        if not by_set:
            raise ValueError(
                f"{suite} has no data set to evaluate ({', '.join(self.sets) or 'all wanted'}, from {self.data or 'the hub'}); "
                f"its sets are {list(sets)}, and a folder of --data has one JSONL file for each"
            )
        return by_set


class Calls(NamedTuple):
    """How much a suite would ask for: texts of each contestant, and questions to the judge."""

    texts: int
    questions: int


DESCRIPTION = """Evaluate a model on the published tasks, by named protocols.

  reasoning         GSM8K, MATH-500, AIME 24 and 25, Minerva, MMLU-Pro, GPQA-Diamond, through lm-evaluation-harness
  summarization     GovReport, Multi-News, QMSum, VCSum, SAMSum, arXiv, PubMed, BillSum: ROUGE-L, and A/B by a judge
  creative_writing  WritingPrompts and WritingBench, by a judge
  alignment         do the votes of games mean quality? Plays games, or reads saved ones
  all               all of these, and one page of tables and plots

Every text and verdict is kept in the output folder, and the same command goes on where it was stopped."""
NAMED = "transformers folder, hub id, smollm2-135m, or URL:model of an OpenAI-compatible endpoint (key: OPENAI_API_KEY)"
FLAGS: dict[str, dict[str, dict[str, Any]]] = {
    "who is evaluated": {
        "--model": {"help": NAMED},
        "--base": {"help": "the model to compare with, named likewise; usually the one before training"},
        "--engine": {"choices": ("transformers", "vllm"), "default": "transformers", "help": "of local models"},
        "--max_len": {"type": int, "help": "prompt + reply in tokens; default: the model's, at most 16384"},
        "--max_new_tokens": {
            "type": int,
            "help": "cut every answer here, for a quick try; not the protocols' length",
        },
        "--batch_size": {"type": int, "default": 32, "help": "replies that a local model generates at a time"},
        "--chat_template_kwargs": {"default": "{}", "help": 'JSON, such as {"enable_thinking": false}'},
        "--gpu_memory_utilization": {"type": float, "default": 0.9, "help": "of vLLM"},
        "--concurrency": {"type": int, "default": 16, "help": "requests to a model's endpoint at a time"},
        "--timeout": {"type": float, "default": 600.0, "help": "seconds for one of them"},
    },
    "on what": {
        "--data": {
            "help": "folder of JSONL files, one per data set, instead of the hub; 'samples': two invented items each"
        },
        "--sets": {"nargs": "+", "default": (), "metavar": "SET", "help": "only these data sets of the suite"},
        "--limit": {
            "type": int,
            "help": "items of each data set, drawn by the seed; games of each task, of saved ones the first",
        },
        "--seed": {"type": int, "default": 0},
        "--aime_samples": {
            "type": int,
            "default": 16,
            "metavar": "K",
            "help": "answers to each AIME problem; the score is their mean",
        },
        "--tasks": {"nargs": "+", "default": Run.TASKS, "metavar": "TASK", "help": "of the alignment study"},
        "--games": {
            "nargs": "+",
            "default": (),
            "metavar": "FILE",
            "help": "saved games for the alignment study; needs no --model",
        },
    },
    "judge": {
        "--judge": {
            "metavar": "URL:model",
            "help": "OpenAI-compatible endpoint (key: JUDGE_API_KEY, else OPENAI_API_KEY)",
        },
        "--judge_price": {
            "nargs": 2,
            "type": float,
            "metavar": ("IN", "OUT"),
            "help": "dollars per million prompt and reply tokens",
        },
        "--judge_max_cost": {
            "type": float,
            "metavar": "DOLLARS",
            "help": "never spend more than this in the output folder",
        },
        "--judge_max_new_tokens": {"type": int, "default": 1024},
        "--judge_concurrency": {"type": int, "default": 16, "help": "questions at a time"},
        "--judge_timeout": {"type": float, "default": 120.0, "help": "seconds for one question"},
        "--judge_retries": {"type": int, "default": 10, "help": "after 429, 5xx, time-outs and cut connections"},
    },
    "output": {
        "--output": {
            "required": True,
            "help": "folder of results, generations and verdicts; one model and base per folder",
        },
        "--dry-run": {
            "action": "store_true",
            "help": "read the data and show how much would be asked for; load and ask nothing",
        },
    },
}
AT_LEAST_ONE = ("limit", "aime_samples", "batch_size", "max_len", "max_new_tokens", "concurrency")


def parser() -> argparse.ArgumentParser:
    """Return the parser of all flags."""
    made = argparse.ArgumentParser(
        "spyrl eval", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("suite", choices=(*SUITES, "all"))
    for title, flags in FLAGS.items():
        group = made.add_argument_group(title)
        for flag, options in flags.items():
            group.add_argument(flag, **options)
    return made


def run_of(args: argparse.Namespace, known: Sequence[str]) -> Run:
    """Return the settings that suites read; ``known`` are the data sets of the chosen suites.

    Raises:
        ValueError: a value out of its range, or a flag without another that it needs.
    """
    if unknown := [name for name in args.sets if name not in known]:
        raise ValueError(f"no data set {unknown[0]!r} here; choose of {known}")
    for flag in AT_LEAST_ONE:
        if (value := getattr(args, flag)) is not None and value < 1:
            raise ValueError(f"--{flag} is {value}; it must be at least 1")
    if args.timeout <= 0:
        raise ValueError(f"--timeout is {args.timeout}; give more than 0 seconds")
    if not 0 < args.gpu_memory_utilization <= 1:
        raise ValueError(f"--gpu_memory_utilization is {args.gpu_memory_utilization}; give a share of at most 1")
    if args.games and args.suite not in ("alignment", "all"):
        raise ValueError(f"--games are for the alignment study; {args.suite} doesn't read them")
    if not args.model and not (args.suite == "alignment" and args.games):
        raise ValueError("--model is missing; only `spyrl eval alignment --games FILE...` needs none")
    data = SAMPLES if args.data == "samples" else Path(args.data) if args.data else None
    return Run(
        output=Path(args.output),
        data=data,
        limit=args.limit,
        sets=tuple(args.sets),
        seed=args.seed,
        samples=args.aime_samples,
        tasks=tuple(args.tasks),
        games=tuple(map(Path, args.games)),
    )


def judge_settings_of(args: argparse.Namespace) -> JudgeSettings | None:
    """Return the judge's settings; None without a judge.

    Raises:
        ValueError: it is no endpoint, or a setting is out of its range.
    """
    if not args.judge:
        for flag in ("judge_price", "judge_max_cost"):
            if getattr(args, flag) is not None:
                raise ValueError(f"--{flag} is given and no --judge; name the judge, or leave it out")
        return None
    endpoint = url_and_model(args.judge)
    if endpoint is None:
        raise ValueError(f"--judge is {args.judge!r}; give URL:model, such as https://api.openai.com/v1:gpt-4o")
    return JudgeSettings(
        *endpoint,
        max_new_tokens=args.judge_max_new_tokens,
        concurrency=args.judge_concurrency,
        timeout=args.judge_timeout,
        retries=args.judge_retries,
        price=tuple(args.judge_price) if args.judge_price else None,
        max_cost=args.judge_max_cost,
    )


def loading_of(args: argparse.Namespace) -> Loading:
    """Return how local models are loaded and endpoints asked.

    Raises:
        ValueError: the chat template's options aren't a JSON object.
    """
    try:
        options = json.loads(args.chat_template_kwargs)
    except json.JSONDecodeError as error:
        raise ValueError(f"--chat_template_kwargs is {args.chat_template_kwargs!r}, not JSON ({error})") from error
    if not isinstance(options, dict):
        raise ValueError(f"--chat_template_kwargs is {args.chat_template_kwargs!r}; give a JSON object")
    return Loading(
        engine=args.engine,
        max_len=args.max_len,
        rows=args.batch_size,
        concurrency=args.concurrency,
        timeout=args.timeout,
        template_options=options,
        gpu_memory_utilization=args.gpu_memory_utilization,
        max_new_tokens=args.max_new_tokens,
    )
