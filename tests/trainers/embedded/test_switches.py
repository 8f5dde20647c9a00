"""Every ablation is a switch, and does in a whole training what it says."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import json
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")
pytest.importorskip("rich", reason="the display is made of it")

from spy_env import Stage, read_games
from spy_env.masking import OPERATORS
from tests.trainers import tiny_runs, tiny_world
from trainers.curriculum import Curriculum
from trainers.embedded import policy
from trainers.embedded.loss import AGGREGATIONS, RATIOS
from trainers.embedded.policy import Policy

P, D = Stage.PERFORMING, Stage.DETECTION
REFEREES = {"voters": "referees"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_world.model_folder(tmp_path_factory.mktemp("model"), steps=60)


@pytest.fixture
def run(model, tmp_path):
    """Train with settings; gives the metrics, and the games by iteration."""

    def trained(output: str = "run", iterations: int = 1, **groups):
        groups = {"eval": {"games": 0}, **groups, "train": {"iterations": iterations, **groups.get("train", {})}}
        folder = tiny_runs.run(tiny_runs.config_of(tmp_path, model, output, **groups)).folder
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines], [
            list(read_games(folder / "games" / f"step_{step:06d}.jsonl")) for step in range(1, iterations + 1)
        ]

    return trained


@pytest.fixture
def given(monkeypatch):
    """What the policy is given to learn from: by iteration, advantages by game and seat."""
    seen = []

    class Watched(Policy):
        def update(self, samples, advantages):
            keys = [(sample.stage, sample.game, sample.seat) for sample in samples]
            seen.append(dict(zip(keys, advantages, strict=True)))
            return super().update(samples, advantages)

    monkeypatch.setattr(policy, "Policy", Watched)
    return seen


def by_game(advantages, games):
    return [[value for (_, seed, _), value in advantages.items() if seed == game.seed] for game in games]


def test_without_rae_the_policy_learns_from_the_rewards_as_they_are(run, given):
    _, games = run(iterations=3, game=REFEREES, algo={"schedule": "performing", "rae": False})
    for advantages, played in zip(given, games, strict=True):
        rewards = {one.seed: one.rewards(Curriculum().rewards).performing for one in played}
        assert {(seed, seat): value for (_, seed, seat), value in advantages.items()} == {
            (seed, seat): reward for seed, earned in rewards.items() for seat, reward in earned.items()
        }


def test_with_rae_every_role_learns_from_what_it_earned_beyond_its_baseline(run, given):
    metrics, games = run(iterations=3, game=REFEREES, algo={"schedule": "performing"})
    names = {role: f"game/baseline/{tiny_world.TASK}/4/{role}" for role in ("spy", "civilian")}
    assert metrics[1][names["spy"]]
    for i in (1, 2):
        baselines = {role: metrics[i - 1][name] for role, name in names.items()}
        for one in games[i]:
            earned = one.rewards(Curriculum().rewards).performing
            assert {seat: given[i][P, one.seed, seat] for seat in one.players} == pytest.approx(
                {seat: reward - baselines[one.role(seat)] for seat, reward in earned.items()}
            )


@pytest.mark.parametrize("rae", [True, False])
def test_normalised_performing_gives_every_game_the_same_spread(run, given, rae):
    algo = {"schedule": "performing", "rae": rae, "normalise_performing": True}
    _, games = run(iterations=3, game=REFEREES, algo=algo)
    spreads = [
        (sum(value**2 for value in values) / 4) ** 0.5
        for advantages, played in zip(given, games, strict=True)
        for values in by_game(advantages, played)
    ]
    assert {round(spread, 3) for spread in spreads} <= {0.0, 1.0}
    assert 1.0 in {round(spread, 3) for spread in spreads}


@pytest.mark.parametrize("schedule", ["detection", "performing", "joint"])
def test_shuffled_advantages_are_dealt_out_within_each_stage(run, given, schedule):
    game = {"voters": "referees", "referees": 6}
    run("shuffled", game=game, algo={"schedule": schedule, "shuffle_advantages": True})
    run("right", game=game, algo={"schedule": schedule})
    shuffled, right = given
    assert list(shuffled) == list(right)
    assert shuffled != right
    for stage in (P, D):
        dealt, earned = (
            [value for (own, _, _), value in values.items() if own == stage] for values in (shuffled, right)
        )
        assert sorted(dealt) == sorted(earned)


def test_a_run_with_shuffled_advantages_that_was_stopped_goes_on_to_the_same_bytes(model, tmp_path):
    def start(output, iterations, **ckpt):
        algo = {"shuffle_advantages": True, "schedule": "joint"}
        groups = {"algo": algo, "train": {"iterations": iterations}, "ckpt": ckpt, "eval": {"games": 0}}
        tiny_runs.run(tiny_runs.config_of(tmp_path, model, output, **groups))

    start("whole", 4)
    start("stopped", 2)
    start("stopped", 4, load_enable=True)
    assert tiny_runs.made(tmp_path / "stopped") == tiny_runs.made(tmp_path / "whole")


def test_a_checkpoint_keeps_the_switches_and_the_seed_that_shuffles(model, tmp_path):
    algo = {"shuffle_advantages": True, "normalise_performing": True}
    config = tiny_runs.config_of(tmp_path, model, algo=algo, train={"iterations": 1, "seed": 7}, eval={"games": 0})
    tiny_runs.run(config)
    progress = json.loads((tmp_path / "run" / "checkpoints" / "step_1" / "progress.json").read_text(encoding="utf-8"))
    kept = Curriculum.from_json(json.dumps(progress["curriculum"]))
    assert (kept.shuffle_seed, kept.normalise_performing, kept.iteration) == (7, True, 1)


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_hides_from_the_spy_what_it_says(run, operator):
    _, games = run(game={"operator": operator, "mask_fraction": 0.4})
    for one in games[0]:
        hidden = sum(len(one.document.text[span.start : span.end].split()) for span in one.hidden)
        # of five words two, or the only sentence as a whole, or nothing: the ablation without a spy's handicap
        assert hidden == {"none": 0, "sentences": 5}.get(operator, 2)


@pytest.mark.parametrize(("fraction", "words"), [(0.2, 1), (0.6, 3), (0.8, 4)])
def test_the_mask_fraction_is_the_share_of_words_that_the_spy_misses(run, fraction, words):
    _, games = run(game={"mask_fraction": fraction})
    for one in games[0]:
        assert sum(len(one.document.text[span.start : span.end].split()) for span in one.hidden) == words


@pytest.mark.parametrize("players", range(3, 9))
def test_three_to_eight_play(run, players):
    sizes = {
        "rollout": {"n_samples_per_prompt": players, "batch_size": 2, "max_new_tokens": 4},
        "data": {"max_len": 96},
    }
    metrics, games = run(iterations=2, game={"players": players}, algo={"schedule": "cycle", "cycle": [1, 1]}, **sizes)
    assert [row["num_samples"] for row in metrics] == [2 * (players - 1), 2 * players]
    assert {len(one.votes()) for played in games for one in played} == {players}


def test_hysteresis_goes_by_the_averages_and_a_cycle_by_the_count(run):
    def stages(output, **algo):
        return [row["stage"] for row in run(output, 5, algo=algo)[0]]

    asked = {"schedule": "hysteresis", "k_min": 1, "rho": 0.0}
    # thresholds that every batch meets in both stages, and ones that none does
    assert stages("eager", **asked, accuracy_enough=0.0, abstention_low=1.0, error_high=0.0) == [D, P, D, P, D]
    assert stages("never", **asked, accuracy_enough=1.1) == [D] * 5
    assert stages("patient", **asked, accuracy_enough=1.1, error_high=1.1, abstention_high=1.1, patience=2) == [
        *(D, D),
        *(P, P),
        D,
    ]
    assert stages("cycle", schedule="cycle", cycle=[1, 2]) == [D, P, P, D, P]


@pytest.mark.parametrize("mode", ["ratio", "loss_agg_mode"])
def test_ratio_and_aggregation_change_the_update_and_not_the_games(run, mode):
    # the second of two updates on the same samples: at ratio 1 all ratios have the same gradient
    made = {
        value: run(
            value,
            game=REFEREES,
            algo={"schedule": "performing"},
            actor={"adam": {"lr": 1e-2}, mode: value},
            train={"max_epochs": 2},
        )
        for value in {"ratio": RATIOS, "loss_agg_mode": AGGREGATIONS}[mode]
    }
    assert all(games == first for (_, games), (_, first) in pairwise(made.values()))
    norms = [metrics[0]["grad_norm"] for metrics, _ in made.values()]
    assert len(set(norms)) == len(norms)
