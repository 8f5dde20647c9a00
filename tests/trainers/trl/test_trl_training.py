"""TRL's trainer plays our games and trains what the curriculum says: against the real package, with a two-layer model."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("peft", reason="adapters are its")

from dataclasses import replace
from random import Random

from spy_env import RewardRules, Stage, from_json, to_json
from spy_env.viewer.origin import origin_of
from tests.trainers import tiny_models, tiny_runs, tiny_world
from tests.trainers.embedded import policies
from tests.trainers.trl import trl_runs
from tests.trainers.trl.trl_runs import (
    GAMES,
    PLAYERS,
    Remembering,
    batches_at_the_loss,
    games_in,
    games_of,
    lines_of,
    trainer_of,
)
from trainers.curriculum import Curriculum
from trainers.embedded.loss import Whole
from trainers.inspection.revoting import frozen_detector
from trainers.inspection.runs import read_runs
from trainers.metrics import game_metrics

pytestmark = [pytest.mark.trl, pytest.mark.usefixtures("real_trl")]
ADAPTATIONS = {False: {}, True: {"ds": {"lora": {"rank": 2}}}}


def started(settings, seed):
    return settings.algo.start(settings.game.reward_rules, seed)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model that knows the form of both replies, and documents."""
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("trl")
    tiny_world.model_folder(place / "model", steps=100)
    return place


@pytest.fixture(scope="module")
def run(place):
    """A whole training of six steps, and what came to its losses."""
    trainer = trainer_of(place, "run")
    trainer.seating = replace(trainer.seating, engine=Remembering(trainer.seating.engine))
    trainer.batches = batches_at_the_loss(trainer)
    trainer.train()
    return trainer


def expected_rows(curriculum: Curriculum, folder, step, replies):
    """What must come to the loss: our advantages of the games that were written, and tokens as they were sampled."""
    games, rows = games_in(folder, step), []
    for stage in curriculum.stages:
        for (game, seat), advantage in curriculum.advantages(games, stage).items():
            reply = replies[f"{game}/{stage}/{seat}"]
            rows.append(
                (reply.prompt_ids, reply.ids, tuple(round(one, 5) for one in reply.logprobs), round(advantage, 3))
            )
    return sorted(rows)


def test_stages_alternate_and_the_curriculum_moves_once_a_step(place, run):
    assert [row["stage"] for row in lines_of(place / "run")] == ["detection", "detection", "performing"] * 2
    assert [row["step"] for row in lines_of(place / "run")] == [1, 2, 3, 4, 5, 6]
    curriculum = started(run.settings, 42)
    for step in range(1, 7):
        games = games_in(place / "run", step)
        assert {game.trained for game in games} == {curriculum.stage}
        curriculum = curriculum.after(games)
    assert run.progress.curriculum == curriculum
    assert run.progress.documents == 6 * GAMES


def test_what_comes_to_the_loss_is_each_trained_reply_once_with_our_advantage(place, run):
    curriculum = started(run.settings, 42)
    advantages = set()
    for step in range(1, 7):
        expected = expected_rows(curriculum, place / "run", step, run.seating.engine.replies)
        assert trl_runs.rows_at_the_loss(run.batches[step - 1 : step]) == expected
        assert len(expected) == GAMES * (PLAYERS - 1 if curriculum.stage is Stage.DETECTION else PLAYERS)
        advantages |= {(curriculum.stage, row[3]) for row in expected}
        curriculum = curriculum.after(games_in(place / "run", step))
    assert min(len({value for stage, value in advantages if stage is one}) for one in curriculum.stages) > 2


@pytest.mark.parametrize(
    ("game", "rows"),
    [
        ({"schedule": "joint"}, 7),
        ({"schedule": "detection"}, 3),
        ({"voters": "referees", "referees": 5, "cycle": (1, 1)}, 5),
        ({"voters": "civilians", "cycle": (1, 1), "shuffle_advantages": True}, 4),
    ],
)
def test_no_reply_is_lost_or_trained_twice_whatever_an_iteration_trains(place, tmp_path, game, rows):
    (tmp_path / "model").symlink_to(place / "model")
    sizes = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": 4, "max_steps": 2}
    trainer = trainer_of(tmp_path, "out", games=games_of(tmp_path, **game), num_generations=2 * rows, **sizes)
    engine = Remembering(trainer.seating.engine)
    trainer.seating = replace(trainer.seating, engine=engine)
    batches = batches_at_the_loss(trainer)
    trainer.train()
    curriculum = started(trainer.settings, 42)
    for step in (1, 2):
        games = games_in(tmp_path / "out", step)
        assert len(games) == 4
        assert len({game.document.id for game in games}) == 2  # two games a document
        parts = batches[4 * (step - 1) : 4 * step]
        assert trl_runs.rows_at_the_loss(parts) == expected_rows(curriculum, tmp_path / "out", step, engine.replies)
        assert max(len(part["advantages"]) for part in parts) <= rows
        curriculum = curriculum.after(games)


def test_the_first_games_are_those_of_the_embedded_trainer(place, run):
    embedded = tiny_runs.config_of(place, place / "model", "embedded", train={"iterations": 1}, eval={"games": 0})
    tiny_runs.run(embedded)
    names = [place / folder / "games" / "step_000001.jsonl" for folder in ("run", "embedded")]
    assert names[0].read_bytes() == names[1].read_bytes()


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("architecture", ["gpt2", "qwen3"])
def test_loss_and_gradients_are_those_of_the_embedded_trainer(tmp_path, architecture, parts, lora):
    torch.set_num_threads(1)
    tiny_models.save(architecture, tmp_path / "model")
    sizes = {"per_device_train_batch_size": 21 // parts, "num_generations": 7, "gradient_accumulation_steps": parts}
    game = games_of(tmp_path, schedule="joint")
    trainer = trainer_of(
        tmp_path, "out", lora, game, max_steps=2, beta=0.5, max_grad_norm=1e9, use_bias_correction_kl=False, **sizes
    )
    trainer.seating = replace(trainer.seating, engine=Drifting(trainer.seating.engine))
    found = gradients_of(trainer, at_step=2)
    trainer.train()
    assert found["rows"]

    policy = policies.policy_of(
        str(tmp_path / "model"), algo={"kl": {"init_coef": 0.5}}, actor={"shared_prompts": "off"}, **ADAPTATIONS[lora]
    )
    with torch.no_grad():
        for (_, own), weight in zip(named(policy.model), found["weights"], strict=True):
            own.copy_(weight)
    pairs = [
        (policies.sample(i, ids=row.ids, prompt_ids=row.prompt_ids, logprobs=row.logprobs), row.advantage)
        for i, row in enumerate(found["rows"])
        if not row.blank
    ]
    policy._prepare()
    loss = policy._accumulate(pairs, Whole(sum(len(sample.ids) for sample, _ in pairs), len(pairs)))
    assert loss["kl"] > 1e-6
    assert loss["clip_ratio"] > 0
    assert trainer.state.log_history[1]["loss"] == pytest.approx(loss["loss"], rel=1e-4, abs=1e-6)
    assert trainer.state.log_history[1]["sampling/logp_difference_mean"] > 0.01
    for (name, own), theirs in zip(named(policy.model), found["gradients"], strict=True):
        assert (own.grad - theirs).norm() <= 1e-4 * own.grad.norm() + 1e-6, name


class Drifting(Remembering):
    """Says other log-probabilities than it sampled from, so that some ratios are clipped, and votes by chance."""

    def generate(self, requests):
        return [
            replace(
                reply,
                text=rf"\boxed{{{Random(request.seed).randint(1, PLAYERS)}}}",
                logprobs=tuple(value - 0.3 * (i % 3) for i, value in enumerate(reply.logprobs)),
            )
            for request, reply in zip(requests, super().generate(requests), strict=True)
        ]


def named(model):
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]


def gradients_of(trainer, at_step):
    """Weights, rows and gradients of a step, before the optimizer takes them."""
    from transformers import TrainerCallback

    found = {}

    class Taking(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, **_):
            if state.global_step == at_step - 1:
                found["rows"] = trainer._rows
                found["weights"] = [parameter.detach().clone() for _, parameter in named(trainer.model)]
                found["gradients"] = [parameter.grad.clone() for _, parameter in named(trainer.model)]

    trainer.add_callback(Taking())
    return found


def test_trls_log_has_our_numbers_by_our_names(place, run):
    logs, lines = run.state.log_history, lines_of(place / "run")
    for step, line in enumerate(lines, 1):
        games = games_in(place / "run", step)
        for name, value in game_metrics(games, run.progress.curriculum.rewards).items():
            assert line[name] == logs[step - 1][name] == value, name
        for name in (
            "reward",
            "reward_std",
            "completions/mean_length",
            "frac_reward_zero_std",
            "game/accuracy_average",
        ):
            assert logs[step - 1][name] == line[name], name
        assert logs[step - 1]["rewards/votes/mean"] == line["reward"]
        assert logs[step - 1][f"game/trained/{line['stage']}"] == 1
        assert logs[step - 1]["sampling/logp_difference_max"] < 1e-4
        assert logs[step - 1]["completions/min_length"] >= 1
    assert any(log["kl"] > 0 for log in logs[:-1])


def test_games_replay_and_are_scored_again(place, run):
    for step in range(1, 7):
        for game in games_in(place / "run", step):
            assert not game.waiting
            assert from_json(to_json(game)) == game
            assert sum(game.rewards(run.progress.curriculum.rewards).performing.values()) == pytest.approx(0, abs=1e-12)


def test_a_model_that_would_train_with_dropout_is_refused(tmp_path):
    tiny_models.save("gpt2", tmp_path / "model")
    with pytest.raises(ValueError, match=r"dropout.*set disable_dropout=True"):
        trainer_of(tmp_path, "out", disable_dropout=False)


def test_trls_own_settings_are_read_where_they_are_refused(place):
    with pytest.raises(ValueError, match="num_iterations is 2"):
        trainer_of(place, "refused", num_iterations=2)
    with pytest.raises(ValueError, match="steps_per_generation is 2 and gradient_accumulation_steps 1"):
        trainer_of(place, "refused", steps_per_generation=2)


def test_the_example_trains_an_adapter_and_goes_on_where_it_was(place):
    from trainers.trl import example

    given = ["--model", str(place / "model"), "--documents", str(place / "documents.jsonl")]
    given += ["--output", str(place / "example")]
    assert example.main([*given, "--steps", "2"]) == 0
    assert example.main([*given, "--steps", "4"]) == 0
    assert [row["stage"] for row in lines_of(place / "example")] == ["detection", "performing"] * 2
    assert (place / "example" / "final" / "adapter_model.safetensors").exists()


def test_tensorboard_and_the_table_of_completions_tell_what_was_trained(place):
    from pandas import read_parquet
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logs = {"report_to": "tensorboard", "log_completions": True, "num_completions_to_print": 1}
    trainer = trainer_of(place, "logged", max_steps=2, **logs)
    trainer.train()
    (events,) = {file.parent for file in (place / "logged").rglob("events.out.tfevents.*")}
    told = EventAccumulator(str(events)).Reload()
    for name in ("reward", "game/accuracy", "game/trained/detection", "sampling/logp_difference_mean"):
        shown = [event.value for event in told.Scalars(f"train/{name}")]
        assert shown == pytest.approx([log[name] for log in trainer.state.log_history[:2]]), name
    table = read_parquet(place / "logged" / "completions" / "completions_00002.parquet")
    assert table["advantage"].tolist() == [row.advantage for row in trainer._rows]
    assert table["votes"].tolist() == pytest.approx([row.reward for row in trainer._rows])
    assert all(table["prompt"].str.contains("<user>"))


def test_the_runs_folder_says_by_which_rules_its_games_were_paid(place, run):
    run.save_model()  # TRL puts the model's own config.json into the same folder
    origin = origin_of(place / "run" / "games" / "step_000003.jsonl")
    assert origin.rewards == started(games_of(place), 0).rewards != RewardRules()
    assert origin.baselines == {
        name.removeprefix("game/baseline/"): value
        for name, value in lines_of(place / "run")[1].items()
        if name.startswith("game/baseline/")
    }
    (seen,) = read_runs([place / "run"])
    assert frozen_detector("initial", seen).sampling.max_new_tokens == trl_runs.SETTINGS["max_completion_length"]
