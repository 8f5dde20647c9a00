"""A ballot in each voter's own order: numbers stand for the texts that the voter reads under them."""

import json
from dataclasses import replace

import pytest

from spy_env import RawReply, Stage, deal, from_json, observe, parse_vote, to_json
from spy_env.diagnostics import position_habit
from spy_env.observations import read_results
from spy_env.render import game_text
from tests.spy_env.doors import SEATS, dealt, document, rules
from trainers.metrics import commonest_number


def performed(table="all voter", seed="1"):
    game = dealt(table, seed)
    return game.with_replies({seat: RawReply(f"Summary: text of {SEATS.index(seat)}") for seat in game.players})


def naming_number(game, number):
    """The game after all its voters named one number."""
    return game.with_replies({voter: RawReply(rf"\boxed{{{number}}}") for voter in game.voters})


def test_each_voter_reads_the_players_in_an_order_of_its_own_that_the_seed_draws():
    game = performed()
    orders = [game.ballot(voter) for voter in game.voters]
    assert all(sorted(order) == list(game.players) for order in orders)
    assert len(set(orders)) > 1
    assert orders == [replace(game, spy="player_4").ballot(voter) for voter in game.voters]  # whoever the spy is
    assert orders != [performed(seed="2").ballot(voter) for voter in game.voters]


def test_over_many_games_every_player_is_as_often_under_every_number():
    counts = {}
    for i in range(600):
        game = deal(document(), "summarization", rules("all voter"), str(i))
        for number, player in enumerate(game.ballot("player_2")):
            counts[number, player] = counts.get((number, player), 0) + 1
    assert len(counts) == 16
    assert all(110 < count < 190 for count in counts.values())  # 150 expected; 4 standard deviations are 42


@pytest.mark.parametrize("table", ["all voter", "civilians voter", "referees voter", "all"])
def test_a_vote_is_for_the_player_whose_text_the_voter_read_under_the_number(table):
    game = performed(table)
    prompts = observe(game, Stage.DETECTION)
    wanted = "text of 2"  # player_3's
    votes = {
        voter: RawReply(rf"\boxed{{{next(number for number, text in read_results(prompts[voter]) if text == wanted)}}}")
        for voter in game.voters
    }
    over = game.with_replies(votes)
    assert set(over.votes().values()) == {"player_3"}
    assert (len(set(over.numbers().values())) == 1) == (table == "all")
    for voter, number in over.numbers().items():
        assert over.ballot(voter)[number - 1] == "player_3"


def test_votes_that_name_nobody_have_no_number():
    game = performed()
    said = dict(zip(game.voters, [r"\boxed{N/A}", "no idea", r"\boxed{9}", r"\boxed{2}"], strict=True))
    over = game.with_replies({voter: RawReply(text) for voter, text in said.items()})
    assert over.numbers() == {game.voters[3]: 2}


def test_prompts_of_all_voters_are_the_same_up_to_the_results():
    game = performed("referees voter")
    prompts = list(observe(game, Stage.DETECTION).values())
    assert len(set(prompts)) > 1
    (shared,) = {prompt.partition("Player 1:\n")[0] for prompt in prompts}
    assert game.document.text in shared


def test_a_habit_of_one_number_is_seen_although_its_votes_go_to_different_players():
    games = [naming_number(performed(seed=str(i)), 1) for i in range(40)]
    received = {player: sum(game.tally().received[player] for game in games) for player in games[0].players}
    assert max(received.values()) < 0.4 * sum(received.values())
    assert commonest_number(games) == (1, 1.0)
    habit = position_habit(games)
    assert habit is not None
    assert habit.alarm
    assert "now 1" in habit.text


def test_a_record_without_an_order_or_prompts_was_played_with_one_ballot_by_the_first_prompts():
    row = json.loads(to_json(naming_number(performed("all"), 2)))
    del row["rules"]["ballot_order"], row["rules"]["prompts"]
    game = from_json(json.dumps(row))
    assert (game.rules.ballot_order, game.rules.prompts) == ("seat", "v1")
    assert set(game.votes().values()) == {parse_vote(r"\boxed{2}", 4)}


def test_a_game_with_orders_of_its_own_is_read_back_exactly():
    game = naming_number(performed("referees voter lean"), 3)
    assert from_json(to_json(game)) == game
    assert from_json(to_json(game)).votes() == game.votes()


def test_a_replay_says_whom_a_number_meant():
    game = naming_number(performed(), 1)
    shown = game_text(game, reveal=True)
    for voter, vote in game.votes().items():
        assert f"{voter} ({game.role(voter)}) said: \\boxed{{1}} (on its ballot: {vote})" in shown
    assert "on its ballot" not in game_text(naming_number(performed("all"), 1), reveal=True)
