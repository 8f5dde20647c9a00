"""Non-interference: change only who the spy is, and nothing that another seat is told changes by a byte."""

from dataclasses import dataclass, field, replace

import pytest

from spy_env import RawReply, Stage, hide, observe, player_seats, spy_v0
from spy_env.masking import OPERATORS
from spy_env.observations import read_results
from spy_env.seat_view import SeatEnv
from tests.spy_env.doors import (
    PLAYERS,
    SAMPLING,
    SEATS,
    TABLES,
    DealtTable,
    dealt,
    says,
    started,
)
from trainers.engines import Reply
from trainers.rollout import SeatPolicies, rollout

PAIRS = [("player_1", "player_2"), ("player_2", "player_4"), ("player_3", "player_1")]
every_rule = pytest.mark.parametrize("voters", TABLES)
every_pair = pytest.mark.parametrize("spies", PAIRS, ids="-".join)
every_operator = pytest.mark.parametrize("operator", sorted(OPERATORS))


def games_of(voters, spies, **more):
    """One deal, twice, with another spy."""
    game = dealt(voters, **more)
    return tuple(replace(game, spy=spy) for spy in spies)


def others(game, spies):
    """Every seat whose role is the same in both games."""
    seats = dict.fromkeys([*game.players, *game.voters])
    return [seat for seat in seats if seat not in spies]


def told_by_aec(env):
    """All that each seat can read off an AEC environment before every turn until the last vote; then the renderings."""
    told = {agent: [] for agent in env.possible_agents}
    rendered = []
    while not any(env.terminations.values()):
        turn = env.agent_selection
        for agent in env.possible_agents:
            info = dict(env.infos[agent])
            told[agent].append((turn, env.observe(agent), info, env.rewards[agent], env.truncations[agent]))
        rendered.append(env.render())
        env.step(says(turn, env.infos[turn]["stage"]))
    return told, rendered


def told_by_parallel(env):
    """The same, of a parallel environment: what is told before each of its two steps, and what the first returns."""
    agents = list(env.agents)
    first = {agent: (env.aec_env.observe(agent), dict(env.aec_env.infos[agent])) for agent in agents}
    rendered = [env.render()]
    returned = env.step({agent: says(agent, Stage.PERFORMING) for agent in agents})
    rendered.append(env.render())
    return {agent: [first[agent], *(part[agent] for part in returned)] for agent in agents}, rendered


AEC_DOORS = [spy_v0.raw_env, spy_v0.env]


@every_rule
@every_pair
@every_operator
@pytest.mark.parametrize("door", AEC_DOORS)
def test_nobody_else_can_tell_who_the_spy_is_through_the_aec_door(door, voters, spies, operator):
    (told, rendered), (told_else, rendered_else) = (
        told_by_aec(started(door, game, render_mode="ansi")) for game in games_of(voters, spies, operator=operator)
    )
    assert rendered == rendered_else
    for seat in others(dealt(voters), spies):
        assert told[seat] == told_else[seat]


@every_rule
@every_pair
def test_nobody_else_can_tell_who_the_spy_is_through_the_parallel_door(voters, spies):
    (told, rendered), (told_else, rendered_else) = (
        told_by_parallel(started(spy_v0.parallel_env, game, render_mode="ansi")) for game in games_of(voters, spies)
    )
    assert rendered == rendered_else
    for seat in others(dealt(voters), spies):
        assert told[seat] == told_else[seat]


def told_by_seat(seat, game):
    """All that ``reset`` and ``step`` return at a seat until its last action, with the renderings."""

    def player_of(other):
        return lambda prompt: says(other, Stage.DETECTION if read_results(prompt) else Stage.PERFORMING)

    env = SeatEnv(seat, others={other: player_of(other) for other in SEATS}, rules=game.rules)
    env.table = DealtTable(game, render_mode="ansi")
    returned, over = [(*env.reset(), env.render())], False
    while not over:
        stage = returned[-1][-2]["stage"]
        observation, reward, over, truncated, info = env.step(says(seat, stage))
        returned.append((observation, reward, over, truncated, info, env.render()))
    return returned[:-1]


@every_rule
@every_pair
def test_nobody_else_can_tell_who_the_spy_is_through_the_seat_door(voters, spies):
    game, other_game = games_of(voters, spies)
    for seat in others(game, spies):
        assert told_by_seat(seat, game) == told_by_seat(seat, other_game)


@dataclass
class Recorder:
    """An engine that keeps its requests, and whose replies depend on seat and stage alone."""

    heard: dict = field(default_factory=dict)

    def generate(self, requests):
        replies = []
        for request in requests:
            _, stage, seat = request.seed.rsplit("/", 2)
            self.heard[seat, stage] = request
            replies.append(Reply(says(seat, stage)))
        return replies

    def count_tokens(self, prompt, prefill):
        return len(prompt) // 4


def requests_of(game, max_len):
    recorder = Recorder()
    (played,) = rollout([game], SeatPolicies(recorder, SAMPLING, max_len))
    return recorder.heard, played.game


def tight(game):
    """A limit that this game's vote prompts, but not its performing prompts, exceed."""
    _, game = requests_of(game, None)
    longest = max(len(prompt) // 4 for prompt in observe(game, Stage.DETECTION).values())
    return longest + SAMPLING[Stage.DETECTION].max_new_tokens - 20


@every_rule
@every_pair
@every_operator
@pytest.mark.parametrize("limited", [False, True], ids=["room for all", "vote prompts shortened"])
def test_nobody_else_can_tell_who_the_spy_is_in_the_requests_of_a_batch(voters, spies, operator, limited):
    game, other_game = games_of(voters, spies, operator=operator)
    max_len = tight(game) if limited else None
    heard, played = requests_of(game, max_len)
    heard_else, _ = requests_of(other_game, max_len)
    assert (played.detection_words is not None) == limited
    for key in {*heard, *heard_else}:
        if key[0] not in spies:
            assert heard[key] == heard_else[key]


@every_rule
def test_infos_until_the_last_vote_are_the_same_for_every_role(voters):
    env = started(spy_v0.raw_env, dealt(voters))
    while not any(env.terminations.values()):
        for info in env.infos.values():
            assert set(info) == {"stage", "idle", "cut"}
        stage, spy = env.game.stage, env.game.spy
        waits = {seat for seat in env.agents if not env.infos[seat]["idle"]}
        expected = set(env.game.players if stage is Stage.PERFORMING else env.game.voters)
        assert waits == expected  # so a spy's info differs only where, by the rules, the spy alone doesn't vote
        if voters != "civilians" or stage is Stage.PERFORMING:
            assert all(env.infos[player] == env.infos[spy] for player in env.game.players)
        env.step(says(env.agent_selection, stage))


def performed(game):
    return game.with_replies({seat: RawReply(says(seat, Stage.PERFORMING)) for seat in game.players})


def test_without_a_handicap_players_are_told_the_same_as_with_one():
    masked, whole = (performed(dealt("all", operator=operator)) for operator in ("span", "none"))
    for stage in (Stage.PERFORMING, Stage.DETECTION):
        with_mask, without = observe(masked, stage), observe(whole, stage)
        for seat in masked.players:
            shown = hide(masked.document.text, masked.hidden) if seat == masked.spy else masked.document.text
            assert without[seat] == with_mask[seat].replace(shown, masked.document.text)


@every_rule
@every_operator
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_a_spy_is_shown_exactly_what_is_not_hidden_and_all_others_the_document(voters, operator, seed):
    game = performed(dealt(voters, seed, operator=operator))
    text = game.document.text
    masked = hide(text, game.hidden, operator)
    assert (masked == text) == (operator == "none")
    secret = [word for span in game.hidden for word in text[span.start : span.end].split()]
    for stage in (Stage.PERFORMING, Stage.DETECTION):
        for seat, prompt in observe(game, stage).items():
            shown = masked if seat == game.spy else text
            before, _, rest = prompt.partition("<document>\n")
            document_shown, _, after = rest.partition("\n</document>\n")
            assert document_shown == shown
            assert not set(text.split()) & {*before.split(), *after.split()}
            if seat == game.spy:
                assert not any(word.rstrip(".") in prompt for word in secret)


@every_rule
def test_a_shortened_vote_prompt_still_hides_what_was_hidden(voters):
    for start in range(8):
        game = replace(performed(dealt(voters, str(start))), detection_words=20)
        secret = [word for span in game.hidden for word in game.document.text[span.start : span.end].split()]
        prompts = observe(game, Stage.DETECTION)
        if game.spy in prompts:
            assert not any(word.rstrip(".") in prompts[game.spy] for word in secret)


@every_rule
def test_vote_prompts_name_no_role_and_no_seat_of_the_voter(voters):
    game = performed(dealt(voters))
    prompts = observe(game, Stage.DETECTION)
    told = {prompts[voter] for voter in game.trained_voters}
    assert len({tuple(sorted(text.splitlines())) for text in told}) == 1  # only the order of the results differs
    if game.rules.ballot_order == "seat":
        assert len(told) == 1  # byte-identical, so nobody can know which text is its own
    for naming in ("You are", "you are", "your number", "civilian", "Civilian", *SEATS):
        assert not any(naming in text for text in told)
    text = told.pop()
    if voters == "all":
        assert prompts[game.spy].replace(hide(game.document.text, game.hidden), game.document.text) == text


def test_performing_prompts_tell_each_player_its_role():
    game = dealt("all")
    for seat, prompt in observe(game, Stage.PERFORMING).items():
        assert ("you are the spy" in prompt) == (seat == game.spy)
        assert ("you are a civilian" in prompt) == (seat != game.spy)


@every_rule
def test_the_rendering_of_a_running_game_never_names_a_role(voters):
    _, rendered = told_by_aec(started(spy_v0.raw_env, dealt(voters), render_mode="ansi"))
    for text in rendered:
        words = text.replace('"Who is the spy?"', "").lower()
        assert "spy" not in words
        assert "civilian" not in words


@every_pair
def test_where_only_civilians_vote_nothing_tells_the_others_that_the_spy_does_not(spies):
    by_all, by_civilians = (replace(dealt(voters), spy=spies[0]) for voters in ("all", "civilians"))
    (told_all, rendered_all), (told_civilians, rendered_civilians) = (
        told_by_aec(started(spy_v0.raw_env, game, render_mode="ansi")) for game in (by_all, by_civilians)
    )
    assert rendered_all == rendered_civilians
    for seat in player_seats(PLAYERS):
        if seat != spies[0]:
            assert told_all[seat] == told_civilians[seat]
