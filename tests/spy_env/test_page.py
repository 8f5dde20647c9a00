"""The page as text: what it holds of a game, that no text can become markup, and that it loads nothing."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from itertools import product

import pytest

from spy_env import (
    Document,
    RawReply,
    RewardRules,
    Rules,
    Stage,
    deal,
    from_json,
    observe,
    to_json,
    write_games,
)
from spy_env.diagnostics.proxies import proxies
from spy_env.viewer import replay
from spy_env.viewer.origin import Origin, origin_of
from spy_env.viewer.page import SCRIPTS, embedded_json, facts_of, page_of, row_of, unpacked
from tests.spy_env.doors import ECHOES, VOTERS, dealt, play_batch
from trainers.curriculum import Curriculum, Schedule
from trainers.metrics import curriculum_metrics

PLAIN = Origin("run", "step 1", RewardRules())
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "<img src=x onerror=alert(1)>",
    "{{games}} {{script}}",
    "\u2028\u2029\x00\x1b\x7f\u202e &lt; &#60; ' \" ` \\u003c",
    "javascript:alert(1)",
    "]]>",
)


def played(voters="all", seed="7"):
    return play_batch([dealt(voters, seed)], ECHOES)[0]


def said_by_all(game, performance, vote):
    for reply in (performance, vote):
        game = game.with_replies({seat: RawReply(reply) for seat in game.waiting})
    return game


class Reader(HTMLParser):
    """Reads a page as a browser does: elements in order, and what stands in its scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.held, self.attributes, self._inside = [], {}, {}, None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self._inside = (tag, dict(attrs).get("type"), dict(attrs).get("id"))
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or "")

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        self.held[self._inside] = self.held.get(self._inside, "") + data

    def game(self, index=0):
        return unpacked(self.held["script", "text/plain", f"packed-{index}"])

    def rows(self):
        return json.loads(self.held["script", "application/json", "list-data"])["rows"]


def own(name):
    return (files("spy_env.viewer") / name).read_text(encoding="utf-8")


def as_read(value):
    """As JSON gives it back: tuples as lists."""
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("text", [*HOSTILE, "".join(HOSTILE)])
def test_no_text_of_a_game_becomes_markup_and_all_of_it_comes_back(text):
    game = deal(
        Document(f"id {text}", f"One two three four five six {text} seven."), "summarization", Rules(3), f"s {text}"
    )
    game = said_by_all(game, f"Summary: {text}", f"{text} \\boxed{{1}}")
    origin = replace(PLAIN, run=f"run {text}")
    page, harmless = page_of([(1, game, origin)]), page_of([(1, played(), PLAIN)])
    assert Reader(page).elements == Reader(harmless).elements
    assert Reader(page).rows() == as_read([row_of(1, game, origin)])
    assert Reader(page).game() == as_read(facts_of(game, origin))


def test_lone_surrogates_come_back_too():
    text = "One two \ud800three four five six."
    game = deal(Document("d\udfff", text), "summarization", Rules(3), "1")
    game = from_json(to_json(game))
    reader = Reader(page_of([(1, game, PLAIN)]))
    assert "".join(part for part, _ in reader.game()["document"]) == text
    assert reader.rows()[0]["document"] == "d\udfff"


def test_the_page_is_ascii_where_games_speak():
    game = said_by_all(deal(Document("ü", "一二三四五六七八九十"), "summarization", Rules(3), "1"), "総括", "三")
    page = page_of([(1, game, PLAIN)])
    assert page[page.index('id="list-data"') : page.rindex("<script>")].isascii()
    assert "<" not in embedded_json({"<": "</script>"})


def test_the_page_names_no_address_and_loads_nothing():
    page = page_of([(1, played(), PLAIN)])
    assert not re.search(r"https?:|[\"'(]//|@import|url\(", page)
    assert not {"src", "href", "srcset", "action", "style"} & set(Reader(page).attributes)
    assert not {"link", "img", "iframe", "object", "base", "a"} & set(Reader(page).elements)


def test_the_policy_lets_the_pages_own_script_and_style_run_and_nothing_else():
    reader = Reader(page_of([(1, played(), PLAIN)]))
    (policy,) = (value for value in reader.attributes["content"] if "default-src" in value)
    for directive, held in (("script-src", "script"), ("style-src", "style")):
        text = reader.held[held, None, None]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_the_scripts_make_no_markup_of_text_and_end_no_element():
    script = "".join(map(own, SCRIPTS))
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|\.on\w+ ?=|</|<!--"
    assert not re.search(forbidden, script)
    assert sorted(SCRIPTS) == sorted(
        file.name for file in files("spy_env.viewer").iterdir() if file.name.endswith(".js")
    )


@pytest.mark.parametrize("voters", VOTERS)
def test_every_seats_prompts_are_held_exactly_and_once(voters):
    game = played(voters)
    told = facts_of(game, PLAIN)["told"]
    for stage in (Stage.PERFORMING, Stage.DETECTION):
        prompts = observe(game, stage)
        assert {seat: told[stage]["texts"][i] for seat, i in told[stage]["of"].items()} == prompts
        assert len(told[stage]["texts"]) == len(set(prompts.values()))


def test_the_documents_parts_are_the_document_and_tell_what_the_spy_missed():
    game = deal(Document("d", "One two three four five six seven."), "summarization", Rules(3, operator="spans"), "1")
    parts = facts_of(game, PLAIN)["document"]
    assert "".join(text for text, _ in parts) == game.document.text
    assert [text for text, hidden in parts if hidden] == [game.document.text[a:b] for a, b in game.hidden]
    whole = replace(game, hidden=())
    assert facts_of(whole, PLAIN)["document"] == [(game.document.text, False)]


def test_a_row_says_how_far_a_game_came_and_how_many_votes_cannot_be_read():
    fresh = dealt("all")
    half = fresh.with_replies({seat: RawReply(f"Summary: {seat}") for seat in fresh.players})
    votes = ["\\boxed{1}", "\\boxed{N/A}", "nobody", "\\boxed{9}"]
    over = half.with_replies({seat: RawReply(vote) for seat, vote in zip(half.voters, votes, strict=True)})
    rows = [row_of(n, game, PLAIN) for n, game in enumerate((fresh, half, over), start=1)]
    assert [row["stage"] for row in rows] == ["performing", "detection", "over"]
    assert [row["caught"] for row in rows] == [None, None, over.spy == "player_1"]
    assert [(row["unreadable"], row["votes"]) for row in rows] == [(0, 0), (0, 0), (2, 4)]
    assert rows[0]["preview"] == over.document.text[:100]
    assert len(Reader(page_of([(1, fresh, PLAIN), (2, half, PLAIN)])).rows()) == 2


def run_folder(folder, curriculum, steps, **flags):
    """A run's folder as a trainer leaves it, with games that move the baselines; and the curriculum of each step."""
    prices = dict.fromkeys(("right", "wrong", "abstain", "unreadable", "beta", "lam"))
    game = {"rewards": "spyrl", **prices, "rae": curriculum.rae, **flags}
    (folder / "config.json").write_text(json.dumps({"config": {"game": game}}))
    read = []
    with (folder / "metrics.jsonl").open("w") as lines:
        for step in range(1, steps + 1):
            games = [played(voters, f"{step}/{voters}") for voters in VOTERS]
            write_games(folder / "games" / f"step_{step:06d}.jsonl", games)
            read.append((games, curriculum))
            curriculum = curriculum.after(games)
            row = {"step": step, "opponent/spy": flags.get("spy"), **curriculum_metrics(curriculum)}
            lines.write(json.dumps({name: value for name, value in row.items() if value is not None}) + "\n")
        lines.write('{"step": ')  # cut while being written
    return read


@pytest.mark.parametrize("rae", [True, False])
@pytest.mark.parametrize("normalise", [True, False])
def test_advantages_are_those_that_the_run_trained_on(tmp_path, rae, normalise):
    start = Curriculum.start(Schedule(), RewardRules(), rae=rae, normalise_performing=normalise)
    moved = 0
    for step, (games, curriculum) in enumerate(run_folder(tmp_path, start, 3, normalise_performing=normalise), 1):
        origin = origin_of(tmp_path / "games" / f"step_{step:06d}.jsonl")
        assert (origin.step, origin.point, origin.run) == (step, f"step {step}", tmp_path.name)
        for game in games:
            outcome = facts_of(game, origin)["outcome"]
            for stage in (Stage.PERFORMING, Stage.DETECTION):
                trained = curriculum.advantages([game], stage)
                assert outcome[f"{stage}_advantages"] == {seat: value for (_, seat), value in trained.items()}
            moved += outcome["performing_advantages"] != outcome["performing"]
    assert moved == (9 if normalise else 6 if rae else 0)  # there is no baseline in the first iteration


def test_baselines_that_nobody_knows_are_not_made_up(tmp_path):
    run_folder(tmp_path, Curriculum.start(Schedule(), RewardRules()), 2)
    second = tmp_path / "games" / "step_000002.jsonl"
    game = played()
    assert facts_of(game, origin_of(second))["outcome"]["performing_advantages"]
    assert origin_of(second, RewardRules(beta=0.5)).baselines is None  # the run's were of other rewards
    (tmp_path / "metrics.jsonl").write_text("")
    for origin, why in ((origin_of(second), "metrics.jsonl"), (PLAIN, "No run is known")):
        outcome = facts_of(game, origin)["outcome"]
        assert outcome["performing_advantages"] is None
        assert why in " ".join(outcome["notes"])
        assert outcome["detection_advantages"]


def test_opponents_have_no_advantages_and_controls_are_named(tmp_path):
    run_folder(tmp_path, Curriculum.start(Schedule(), RewardRules()), 1, spy="scripted", shuffle_advantages=True)
    origin, game = origin_of(tmp_path / "games" / "step_000001.jsonl"), played()
    outcome = facts_of(game, origin)["outcome"]
    assert set(outcome["performing_advantages"]) == set(game.players) - {game.spy}
    assert "spy: played by scripted" in " ".join(outcome["notes"])
    assert "at random" in " ".join(outcome["notes"])


def test_evaluations_are_trained_on_by_no_iteration(tmp_path):
    run_folder(tmp_path, Curriculum.start(Schedule(), RewardRules()), 1)
    for name, point in (("eval_before", "eval before"), ("eval_000010", "eval 10"), ("eval_spy_000000", "eval spy 0")):
        origin = origin_of(tmp_path / "games" / f"{name}.jsonl")
        assert (origin.step, origin.baselines, origin.point) == (None, None, point)


def test_a_config_of_something_else_is_no_run(tmp_path):
    for config in ({"model_type": "llama"}, {"config": 3}, {"config": {"game": []}}, []):
        (tmp_path / "config.json").write_text(json.dumps(config))
        assert origin_of(tmp_path / "step_000001.jsonl").step is None
    (tmp_path / "config.json").write_text(json.dumps({"config": {"game": {"rewards": "mine"}}}))
    with pytest.raises(ValueError, match=r"names the rewards 'mine'; this package knows \['spyrl'"):
        origin_of(tmp_path / "step_000001.jsonl")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"config": {"ga', r"config\.json can't be read"),
        ('{"config": {"game": {"lam": "x"}}}', "lam is 'x'; a price is a"),
    ],
)
def test_a_config_that_is_broken_is_named(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        origin_of(tmp_path / "step_000001.jsonl")


def test_the_page_makes_its_folder_and_never_takes_the_place_of_games(tmp_path):
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    for file in (one, other):
        write_games(file, [played()])
    held = one.read_bytes()
    with pytest.raises(ValueError, match=r"one\.jsonl; name the page to write, such as games\.html, before the games"):
        replay.main(["--html", str(one), str(other)])
    assert one.read_bytes() == held
    assert replay.main(["--html", str(tmp_path / "new" / "page.html"), str(one)]) == 0
    assert (tmp_path / "new" / "page.html").exists()


def test_the_command_writes_the_page_of_the_games_that_were_asked_for(tmp_path, capsys):
    games = tmp_path / "games.jsonl"
    write_games(games, [played(seed="a"), played(seed="b")])
    page = tmp_path / "page.html"
    assert replay.main(["--html", str(page), str(games)]) == 0
    assert "2 games in" in capsys.readouterr().out
    assert [row["seed"] for row in Reader(page.read_text(encoding="utf-8")).rows()] == ["a", "b"]
    replay.main(["--html", str(page), "--game", "b", "--reveal", str(games)])
    assert [row["number"] for row in Reader(page.read_text(encoding="utf-8")).rows()] == [2]
    assert '{"reveal":true' in page.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="leave --list out"):
        replay.main(["--html", str(page), "--list", str(games)])


TEXTS = {
    "text": ("ground", "sheet", "sunk", "chosen", "mark", "found", "spy-ground"),
    "soft": ("ground", "sheet", "sunk", "chosen"),
    "spy": ("spy-ground",),
    "good": ("good-ground", "spy-ground"),
    "warn": ("warn-ground",),
    "on-accent": ("accent",),
}


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_every_text_stands_out_from_its_ground_as_wcag_aa_asks(scheme):
    colours = dict(
        re.findall(r"--([\w-]+): (#\w{6})", re.findall(r":root \{(.*?)\}", own("page.css"), re.DOTALL)[scheme])
    )
    for text, grounds in TEXTS.items():
        for ground in grounds:
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for edge, ground in product(("edge", "accent"), ("sheet", "ground")):  # of what is no text
        assert contrast(colours[edge], colours[ground]) >= 3, (edge, ground)


def contrast(one, other):
    """WCAG 2.2's ratio of relative luminances."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_performance_has_the_measures_that_diagnostics_take_of_it():
    game = played()
    found = facts_of(game, PLAIN)["performances"]
    for name, by_seat in proxies(game).items():
        assert {seat: shown["measures"][name] for seat, shown in found.items()} == by_seat
    assert {"length", "copied share"} <= set(proxies(game))


def test_the_page_says_which_prices_scored_a_game():
    rules = RewardRules(wrong=-0.5, lam=0.25)
    notes = facts_of(played(), replace(PLAIN, rewards=rules))["outcome"]["notes"]
    assert "Scored by: right 1, wrong -0.5, abstain 0, unreadable 0, beta 0.1, lam 0.25." in notes
