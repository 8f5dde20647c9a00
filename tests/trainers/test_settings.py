"""Every setting has a home and a range, whatever trainer reads it; those that moved are refused with their new name."""

import dataclasses
import typing

import pytest

from spy_env import RewardRules, Rules
from spy_env.ranges import check_ranges, choice, ranged
from trainers.config import Config
from trainers.curriculum import Schedule
from trainers.engines import Sampling
from trainers.settings import MOVED, from_dict, parse, refuse, settings_of


def fields_of(record, prefix=""):
    types = typing.get_type_hints(record)
    for field in dataclasses.fields(record):
        if dataclasses.is_dataclass(types[field.name]):
            yield from fields_of(types[field.name], f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}", types[field.name], field


def holds_numbers(kind):
    kinds = {kind, *typing.get_args(kind)}
    return bool(kinds & {int, float})


@pytest.mark.parametrize("record", [Config, Rules, Schedule, Sampling])
def test_every_number_has_a_range_at_its_field(record):
    numbers = [(name, field) for name, kind, field in fields_of(record) if holds_numbers(kind)]
    assert len(numbers) > 3
    assert [name for name, field in numbers if "bounds" not in field.metadata] == []


def test_a_rule_of_the_game_is_a_setting_of_every_trainer_by_being_a_field():
    assert {f"game.{field.name}" for field in dataclasses.fields(Rules)} < set(dict(settings_of(Config())))
    assert {field.name for field in dataclasses.fields(RewardRules)} < {
        name.removeprefix("game.") for name, _ in settings_of(Config())
    }
    assert {f"algo.{field.name}" for field in dataclasses.fields(Schedule)} < set(dict(settings_of(Config())))


@dataclasses.dataclass
class Record:
    count: int = ranged(3, least=1, most=9, hint="a few")
    share: float | None = ranged(None, above=0, below=1)
    kind: str = choice("this", "that")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"count": 0}, r"--count is 0; it must be at least 1 and at most 9 \(a few\)"),
        ({"count": 10}, "--count is 10"),
        ({"count": None}, "--count is None"),
        ({"share": 0.0}, "--share is 0.0; it must be above 0 and below 1"),
        ({"share": float("nan")}, "--share is nan"),
        ({"share": 1}, "--share is 1"),
        ({"kind": "other"}, r"--kind is 'other'; choose one of \['this', 'that'\]"),
    ],
)
def test_what_is_out_of_range_is_refused_with_name_value_and_way_out(wrong, message):
    with pytest.raises(ValueError, match=message):
        check_ranges(Record(**wrong), "--")


def test_the_ends_of_a_range_and_a_default_of_none_are_within():
    for record in (Record(), Record(count=1), Record(count=9), Record(share=0.5), Record(kind="that")):
        check_ranges(record)


@pytest.mark.parametrize("name", MOVED)
def test_a_setting_that_moved_is_refused_with_its_new_name(name):
    with pytest.raises(ValueError, match=f"--{name} is --{MOVED[name]} now"):
        parse([f"--{name}", "1"], "spyrl train", "")
    group, key = name.split(".")
    with pytest.raises(ValueError, match=f"old.json: unknown {name}; it is {MOVED[name]} now"):
        from_dict(Config, {group: {key: 1}}, "old.json")


def test_a_launcher_refuses_settings_and_groups_that_are_not_at_their_defaults():
    refused = {"ds.lora": "no adapters here", "train.seed": "chance is the trainer's"}
    refuse(Config(), refused)
    refuse(from_dict(Config, {"ds": {"param_dtype": "bf16"}}, "test"), refused)
    for row, message in (
        ({"ds": {"lora": {"rank": 4}}}, "--ds.lora.rank is 4: no adapters here"),
        ({"train": {"seed": 1}}, "--train.seed is 1: chance is the trainer's"),
    ):
        with pytest.raises(ValueError, match=message):
            refuse(from_dict(Config, row, "test"), refused)
