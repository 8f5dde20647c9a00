"""What reaches OpenRLHF's policy loss are our advantages, whatever the stage, the voters and the samples.

All of OpenRLHF's way there is its own: from the executor's answers to experiences, advantages, replay buffer, micro-batches.
"""
# ruff: noqa: E402 - the imports below need what importorskip asks for, and the bridge

from __future__ import annotations

import math
from random import Random
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="tensors are its")
pytest.importorskip("openrlhf", reason="the samples go its way")

from tests.trainers.openrlhf import openrlhf_without_gpu

openrlhf_without_gpu.install()

import ray
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from openrlhf.trainer.ppo_utils.kl_controller import FixedKLController
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

from spy_env import RewardRules, Stage, read_games
from tests.trainers import tiny_world
from tests.trainers.engines import called_engines
from tests.trainers.openrlhf import openrlhf_scripted
from tests.trainers.openrlhf.openrlhf_parser import Read, told
from tests.trainers.openrlhf.openrlhf_scripted import TAIL, ScriptedRollout
from tests.trainers.openrlhf.openrlhf_updates import trainer_of
from trainers.cluster.prompt_rows import TRAIN, PromptRow
from trainers.curriculum import Curriculum, Schedule
from trainers.engines import Sampling
from trainers.run_folder import games_file

pytestmark = pytest.mark.openrlhf

NEAR = 1e-6
MAX_LEN = 600
ITERATIONS = 4  # detection, performing, detection, performing: baselines are 0 in none but the first
# What the voters of each row of an iteration say: anything, nothing that can be read, all the same.
ROWS = {"mixed": "?", "mute": "x", "agreed": "1", "mixed too": "?"}
REWARDS = RewardRules(right=1.0, wrong=-0.25, abstain=-0.5, unreadable=-1.0)
PLAYERS = {4: 4, 8: 4, 5: 5, 10: 5}  # by samples


def run_settings(folder, samples, voters):
    return called_engines.settings(
        folder,
        game={"players": PLAYERS[samples], "voters": voters, "referees": 3},
        start=Curriculum.start(Schedule("cycle", (1, 1)), REWARDS, alpha=0.5),
        sampling={
            Stage.PERFORMING: Sampling(openrlhf_scripted.PERFORMANCE),
            Stage.DETECTION: Sampling(openrlhf_scripted.VOTE),
        },
        max_len=MAX_LEN,
        batch_size=len(ROWS),
        samples=samples,
    )


def iterations(folder, samples, voters):
    """By iteration: its stage, OpenRLHF's samples in rows that came in any order, and the games that were written."""
    run = run_settings(folder, samples, voters)
    rollout = ScriptedRollout(run)
    documents = iter(tiny_world.documents(ITERATIONS * len(ROWS)))
    for step in range(1, ITERATIONS + 1):
        curriculum = rollout.local.coordinator.curriculum
        rows = [
            rollout.play(PromptRow(next(documents), f"{step}/{name}", TRAIN, run), votes)
            for name, votes in ROWS.items()
        ]
        Random(step).shuffle(rows)
        yield curriculum, rows, list(read_games(games_file(folder, step)))


def expected(curriculum, games):
    """By the end of a reply's text: its advantage as ``Curriculum.advantages`` has it, and 0 for what isn't trained."""
    advantages = curriculum.advantages(games, curriculum.stage)
    return {
        ending(reply.text): advantages.get((game.seed, seat), 0.0) if stage is curriculum.stage else 0.0
        for game in games
        for stage in (Stage.PERFORMING, Stage.DETECTION)
        for seat, reply in game.replies[stage].items()
    }


def ending(text):
    """By which a reply is known."""
    return tuple(text.split()[-TAIL:])


class LocalExperienceMaker(RemoteExperienceMaker):
    """OpenRLHF's own, whose models are functions in this process: what a model says of each of a sample's actions."""

    def _dispatch_forward(self, group, sync_condition, action_mask, **_):
        return [[group * torch.ones_like(mask, dtype=torch.float32)] for mask in action_mask]

    def _flatten_results(self, refs, duplicate_factor):
        return [result for results in refs for result in results]


class Listening(torch.nn.Module):
    """A policy and its loss that note which samples come with which advantages and masks."""

    def __init__(self, loss):
        super().__init__()
        self.loss, self.bias, self.sequences, self.heard = loss, torch.nn.Parameter(torch.zeros(())), None, []

    def forward(self, sequences, action_mask, attention_mask, **_):
        self.sequences = [row[mask.bool()].tolist() for row, mask in zip(sequences, attention_mask, strict=True)]
        return self.bias + torch.zeros(action_mask.shape), SimpleNamespace()

    def hear(self, log_probs, old_log_probs, advantages, action_mask, **named):
        for ids, row, mask in zip(self.sequences, advantages, action_mask, strict=True):
            self.heard.append((ids, row[mask.bool()].tolist()))
        return self.loss(log_probs, old_log_probs, advantages, action_mask=action_mask, **named)


def reached(rows, rollout_micro_batch, train_micro_batch, changed=list):
    """What reaches the policy loss: by the end of a reply's text, the advantages of its tokens that are actions.

    OpenRLHF runs with the arguments that ``spyrl openrlhf`` makes, ``changed``.
    """
    samples, tokenizer = [sample for row in rows for sample in row], tiny_world.tokenizer()
    arguments = told(
        *("--game.players", str(PLAYERS[len(rows[0])]), "--rollout.n_samples_per_prompt", str(len(rows[0]))),
        *("--rollout.batch_size", str(len(rows)), "--rollout.micro_batch_size", str(rollout_micro_batch)),
        *("--train.micro_batch_size", str(train_micro_batch), "--algo.kl.init_coef", "0.1"),
    )
    args = Read(changed(arguments)).args
    strategy = SimpleNamespace(args=args)
    generator = SamplesGenerator(strategy, None, None, tokenizer, [])
    taken = [generator._process_response_into_experience(sample, max_len=MAX_LEN) for sample in samples]
    control = FixedKLController(args.algo.kl.init_coef)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray, "put", lambda value: value)  # for the critic that there isn't
        maker = LocalExperienceMaker(-0.5, None, None, -0.9, control, strategy, tokenizer)
        experiences = maker.make_experience_batch(taken)
    trainer = trainer_of(Listening(None), args, len(samples), train_micro_batch)
    listening = trainer.actor
    listening.loss, trainer.actor_loss_fn = trainer.actor_loss_fn, listening.hear
    for experience in experiences:
        trainer.replay_buffer.append(experience)
    logged = trainer.ppo_train(control.value)
    assert all(map(math.isfinite, logged.values()))
    heard = {ending(tokenizer.decode(ids, skip_special_tokens=True)): values for ids, values in listening.heard}
    assert len(heard) == len(samples)
    return heard


@pytest.mark.parametrize("voters", ["all", "civilians", "referees"])
@pytest.mark.parametrize("samples", PLAYERS)
def test_advantages_reach_the_loss_as_they_are(tmp_path, samples, voters):
    kinds = set()
    for curriculum, rows, games in iterations(tmp_path, samples, voters):
        wanted = expected(curriculum, games)
        for micro_batches in ((1, 1), (2, 4), (len(rows) * samples, 2)):
            for end, values in reached(rows, *micro_batches).items():
                assert values == pytest.approx([wanted[end]] * len(values), abs=NEAR)
        kinds |= {(curriculum.stage, value > NEAR, value < -NEAR) for value in wanted.values()}
        kinds.add(any(map(bool, curriculum.baselines.values())))
    assert len(kinds) == 8  # positive, negative and zero in both stages; with baselines and without


@pytest.mark.parametrize("voters", ["all", "civilians", "referees"])
@pytest.mark.parametrize("samples", PLAYERS)
def test_every_trained_reply_reaches_the_loss_once_with_all_its_tokens_and_others_with_their_last(
    tmp_path, samples, voters
):
    for curriculum, rows, games in iterations(tmp_path, samples, voters):
        trained = {ending(said(games, *key)) for key in curriculum.advantages(games, curriculum.stage)}
        heard = reached(rows, 4, 2)
        tokens = {end: len(values) for end, values in heard.items()}
        assert trained <= tokens.keys()
        assert min(tokens[end] for end in trained) >= TAIL
        assert {tokens[end] for end in tokens.keys() - trained} <= {1}
        spies = len(games) if curriculum.stage is Stage.DETECTION and voters != "referees" else 0
        assert len(tokens.keys() - trained) == spies


def said(games, seed, seat):
    """What a seat of a game said in the stage that is trained."""
    (game,) = (game for game in games if game.seed == seed)
    return game.replies[game.trained][seat].text


@pytest.mark.parametrize("voters", ["all", "civilians", "referees"])
def test_untrained_replies_and_games_without_a_readable_vote_are_handed_back_with_exactly_zero(tmp_path, voters):
    for curriculum, rows, games in iterations(tmp_path, 10, voters):
        trained = {ending(said(games, *key)) for key in curriculum.advantages(games, curriculum.stage)}
        mute = {
            ending(reply.text) for game in games if not game.readable for reply in game.replies[game.trained].values()
        }
        seen = set()
        for sample in (sample for row in rows for sample in row):
            end = ending(tiny_world.tokenizer().decode(sample["observation_tokens"], skip_special_tokens=True))
            if end not in trained or end in mute:
                assert sample["reward"] == 0
                seen.add(end in mute)
        assert seen == {True, False} if curriculum.stage is Stage.DETECTION and voters != "referees" else {True}


@pytest.fixture(scope="module")
def two_iterations(tmp_path_factory):
    """Detection without baselines, performing with."""
    played = iterations(tmp_path_factory.mktemp("run"), 5, "all")
    return [next(played), next(played)]


def kl_in_the_reward(arguments):
    return [word for word in arguments if word != "--algo.kl.use_loss"]


def with_flags(*more):
    """OpenRLHF takes what is said last."""
    return lambda arguments: [*arguments, *more]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(kl_in_the_reward, id="KL in the reward"),
        *(
            pytest.param(with_flags(*more), id=" ".join(more))
            for more in (
                ("--algo.advantage.estimator", "group_norm"),
                ("--algo.advantage.estimator", "rloo"),
                ("--algo.advantage.estimator", "reinforce"),
                ("--algo.advantage.estimator", "reinforce_baseline"),
                ("--reward.clip_range", "-0.01", "0.01"),
                ("--reward.overlong_buffer_len", "30", "--rollout.max_new_tokens", "40"),
                ("--reward.stop_properly_penalty_coef", "0"),
                ("--reward.stop_properly_penalty_coef", "-1"),
            )
        ),
    ],
)
def test_under_other_settings_they_would_not(two_iterations, changed):
    """Within two iterations; group_norm happens to leave the votes of one game a row as they are."""
    assert farthest(two_iterations, changed) > 1000 * NEAR


def test_under_the_settings_that_are_told_they_do(two_iterations):
    assert farthest(two_iterations) < NEAR


def farthest(played, changed=list):
    """The largest distance of an advantage at the loss from ours."""
    return max(
        abs(value - wanted[end])
        for curriculum, rows, games in played
        for wanted in [expected(curriculum, games)]
        for end, values in reached(rows, 4, 2, changed).items()
        for value in values
    )
