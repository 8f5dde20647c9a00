"""Two doors, one game: AEC, parallel and batched rollout give the same record and the same pay for the same deal."""

from dataclasses import replace

import pytest

from spy_env import PRESETS, RawReply, RewardRules, Stage, deal, spy_v0, task_names, to_json
from spy_env.records import read_games, write_games
from spy_env.spy_v0 import MAX_REPLY, Reply
from tests.spy_env.doors import (
    ECHOES,
    SEATS,
    TABLES,
    VOTERS,
    dealt,
    document,
    play_aec,
    play_batch,
    play_parallel,
    rules,
    started,
)

every_rule = pytest.mark.parametrize("voters", TABLES)
every_task = pytest.mark.parametrize("task", task_names())
BOXED_1 = dict.fromkeys(SEATS, lambda prompt: "\\boxed{1}")


@every_rule
@every_task
@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_every_door_gives_the_same_game_and_the_same_pay(voters, task, preset):
    pay = PRESETS[preset]
    games = [dealt(voters, seed, task) for seed in ("1", "2", "3")]
    for game, batched in zip(games, play_batch(games, ECHOES), strict=True):
        by_raw = play_aec(started(spy_v0.raw_env, game, rewards=pay), ECHOES)
        by_aec = play_aec(started(spy_v0.env, game, rewards=pay), ECHOES)
        by_parallel = play_parallel(started(spy_v0.parallel_env, game, rewards=pay), ECHOES)
        for played, _, _ in (by_raw, by_aec, by_parallel):
            assert to_json(played).encode() == to_json(batched).encode()
        assert by_raw[1:] == by_aec[1:] == by_parallel[1:]
        earned = batched.rewards(pay)
        for seat, reward in by_aec[1].items():
            assert reward == earned.performing.get(seat, 0.0) + earned.detection.get(seat, 0.0)


@every_rule
def test_pay_after_the_last_vote_is_performing_plus_detection_with_the_parts_in_infos(voters):
    game, rewards, infos = play_aec(started(spy_v0.env, dealt(voters)), ECHOES)
    earned = game.rewards(RewardRules())
    assert any(rewards.values())
    for seat, info in infos.items():
        assert info["stage"] == "over"
        assert info["role"] == game.role(seat)
        assert info["vote"] == game.votes().get(seat)
        assert info["performing_reward"] == earned.performing.get(seat, 0.0)
        assert info["detection_reward"] == earned.detection.get(seat, 0.0)
        assert rewards[seat] == info["performing_reward"] + info["detection_reward"]
    assert sum(info["performing_reward"] for info in infos.values()) == pytest.approx(0, abs=1e-12)


def test_a_game_worked_by_hand_pays_what_equation_6_says():
    game = replace(dealt("all"), spy="player_2")
    votes = {"player_1": "2", "player_2": "1", "player_3": "2", "player_4": "N/A"}
    players = {seat: lambda prompt, vote=vote: f"\\boxed{{{vote}}}" for seat, vote in votes.items()}
    _, rewards, _ = play_aec(started(spy_v0.env, game), players)
    # Received: 1, 2, 0, 0; civilians' mean 1/3, margin 5/3. Spy -1/6; civilians 1/18 - 0.1 (m - 1/3), and 1 if right.
    by_hand = {"player_1": 1 / 18 - 1 / 15 + 1, "player_2": -1 / 6, "player_3": 1 / 18 + 1 / 30 + 1}
    assert rewards == pytest.approx({**by_hand, "player_4": 1 / 18 + 1 / 30})


def test_a_reward_of_nothing_is_not_minus_nothing():
    players = {seat: lambda prompt: "no vote" for seat in SEATS}
    for voters in VOTERS:
        env = started(spy_v0.env, dealt(voters), render_mode="ansi")
        _, rewards, infos = play_aec(env, players)
        parts = [part for info in infos.values() for part in (info["performing_reward"], info["detection_reward"])]
        assert {f"{reward:+.3f}" for reward in (*rewards.values(), *parts)} == {"+0.000"}
        assert "-0.000" not in env.render()


def test_the_last_rendering_counts_by_the_environments_own_reward_rules():
    env = started(spy_v0.raw_env, dealt("all"), rewards=RewardRules(unreadable=-7.0), render_mode="ansi")
    play_aec(env, {seat: lambda prompt: "no vote" for seat in SEATS})
    assert env.render().count("-7.000") == 4


@every_rule
@pytest.mark.parametrize("said", ["\\boxed{1}", "", None, 7])
def test_what_an_idle_seat_does_is_ignored_and_not_recorded(voters, said):
    game = dealt(voters)
    (expected,) = play_batch([game], ECHOES)
    idle_seats = set()
    env = started(spy_v0.env, game)
    while not any(env.terminations.values()):
        agent = env.agent_selection
        if env.infos[agent]["idle"]:
            idle_seats.add((env.infos[agent]["stage"], agent))
            assert env.observe(agent) == {"prompt": ""}
            env.step(said)
        else:
            env.step(ECHOES[agent](env.observe(agent)["prompt"]))
    assert to_json(env.unwrapped.game) == to_json(expected)
    seats = env.possible_agents
    performing, detection = ({(str(stage), seat) for seat in seats} for stage in (Stage.PERFORMING, Stage.DETECTION))
    acted = {("performing", seat) for seat in game.players} | {("detection", seat) for seat in game.voters}
    assert idle_seats == (performing | detection) - acted


def test_an_over_long_reply_is_cut_and_infos_say_so_until_the_next_reply():
    env = spy_v0.parallel_env(rules=rules("all"), documents=[document()])
    env.reset(seed=0)
    replies = dict.fromkeys(env.agents, "a" * MAX_REPLY)
    first, second = env.agents[0], env.agents[-1]
    _, _, _, _, infos = env.step({**replies, first: "a" * MAX_REPLY + "b", second: "é" * (2 * MAX_REPLY)})
    assert {agent for agent, info in infos.items() if info["cut"]} == {first, second}
    said = env.unwrapped.game.replies[Stage.PERFORMING]
    assert said[first] == RawReply("a" * MAX_REPLY, truncated=True)
    assert said[second] == RawReply("é" * MAX_REPLY, truncated=True)
    assert said[env.agents[1]] == RawReply("a" * MAX_REPLY)
    _, _, _, _, infos = env.step({**replies, first: "\\boxed{1}" + " " * MAX_REPLY})
    assert {agent for agent, info in infos.items() if info["cut"]} == {first}
    env.reset()
    assert not any(info["cut"] for info in env.aec_env.infos.values())


def test_a_reply_may_bring_its_prefix_and_whether_it_was_cut_short():
    env = started(spy_v0.env, dealt("all"))
    first, second, *_ = env.agents
    env.step(Reply("1}", prefix="\\boxed{", truncated=True))
    env.step("plain")
    for _ in env.agents[2:]:
        env.step(Reply("also plain"))
    said = env.unwrapped.game.replies[Stage.PERFORMING]
    assert said[first] == RawReply("1}", "\\boxed{", True)
    assert said[second] == RawReply("plain")
    assert {type(reply.text) for reply in said.values()} == {str}


def test_infos_handed_out_earlier_do_not_change():
    env = started(spy_v0.env, dealt("all"))
    _, _, _, _, before = env.last()
    env.step("a" * (MAX_REPLY + 1))
    assert before == {"stage": "performing", "idle": False, "cut": False}
    assert env.infos["player_1"]["cut"]


def test_lone_surrogates_are_survived_and_recorded_alike_by_every_door(tmp_path):
    game = dealt("all")
    players = {seat: lambda prompt: "Summary: half \ud83d an emoji \\boxed{2}" for seat in SEATS}
    (batched,) = play_batch([game], players)
    env = started(spy_v0.env, game)
    played, _, _ = play_aec(env, players)
    assert to_json(played).encode() == to_json(batched).encode()
    assert set(played.votes().values()) == {"player_2"}
    assert "half ? an emoji" in to_json(played)
    write_games(tmp_path / "games.jsonl", [played])
    assert list(read_games(tmp_path / "games.jsonl")) == [played]


@pytest.mark.parametrize("action", [None, 3, b"bytes", ["text"]])
def test_an_action_that_is_not_text_is_an_error_that_names_the_agent_and_changes_nothing(action):
    env = started(spy_v0.env, dealt("all"))
    with pytest.raises(ValueError, match=r"player_1 .*an action is text"):
        env.step(action)
    assert env.agent_selection == "player_1"
    game, _, _ = play_aec(env, ECHOES)
    assert game.stage is Stage.OVER


DOCUMENTS = [document(name=name) for name in ("a", "b", "c")]


def deals(env, count):
    for _ in range(count):
        env.reset()
        yield to_json(env.unwrapped.game)


@pytest.mark.parametrize("door", [spy_v0.raw_env, spy_v0.env, spy_v0.parallel_env])
def test_a_seed_chooses_the_deal_and_resetting_without_one_goes_on_in_the_stream(door):
    env, twin = (door(documents=DOCUMENTS, rules=rules("all")) for _ in range(2))
    env.reset(seed=7)
    first = [to_json(env.unwrapped.game), *deals(env, 40)]
    assert len({*first}) == 41
    assert len({name for name in "abc" if any(f'"id": "{name}"' in game for game in first)}) == 3
    twin.reset(seed=8)
    assert to_json(twin.unwrapped.game) != first[0]
    twin.reset(seed=7)
    assert [to_json(twin.unwrapped.game), *deals(twin, 40)] == first


def test_environments_without_a_seed_deal_different_games():
    env, other = (spy_v0.env(documents=DOCUMENTS) for _ in range(2))
    assert next(deals(env, 1)) != next(deals(other, 1))


@pytest.mark.parametrize("options", [None, {}, {"options": 1}, {"document": None}, 1])
def test_unknown_options_are_tolerated(options):
    env = spy_v0.env(documents=DOCUMENTS)
    env.reset(seed=3, options=options)
    expected = env.unwrapped.game
    env.reset(seed=3)
    assert env.unwrapped.game == expected


def test_a_document_in_the_options_is_played_on_and_anything_else_there_is_an_error():
    own = document(name="own")
    env = spy_v0.env(documents=DOCUMENTS)
    env.reset(seed=3, options={"document": own})
    assert env.unwrapped.game.document == own
    env.reset(seed=3, options={"document": own})
    with pytest.raises(ValueError, match=r"options\['document'\] is str"):
        env.reset(options={"document": "just text"})


def test_a_game_saved_in_the_middle_of_a_stage_goes_on_through_the_aec_door():
    game = dealt("all")
    (expected,) = play_batch([game], ECHOES)
    performing = dict(list(expected.replies[Stage.PERFORMING].items())[:3])
    played, _, _ = play_aec(started(spy_v0.env, game.with_replies(performing)), ECHOES)
    assert to_json(played) == to_json(expected)


def test_a_game_that_does_not_fit_the_table_is_refused():
    env = started(spy_v0.raw_env, dealt("all"))
    with pytest.raises(ValueError, match="this environment seats"):
        env.start(dealt("referees"))
    (over,) = play_batch([dealt("all")], BOXED_1)
    with pytest.raises(ValueError, match="is over"):
        env.start(over)


def test_an_environment_without_documents_or_of_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match="documents is empty"):
        spy_v0.env(documents=[])
    with pytest.raises(ValueError, match="no task named 'poem'"):
        spy_v0.env(task="poem")


def test_games_dealt_by_the_door_are_those_that_the_core_deals_for_the_same_seed():
    env = spy_v0.env(documents=DOCUMENTS, rules=rules("civilians"))
    env.reset(seed=1)
    game = env.unwrapped.game
    document_played = next(document for document in DOCUMENTS if document.id == game.document.id)
    assert deal(document_played, "summarization", rules("civilians"), game.seed) == game
