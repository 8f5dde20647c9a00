"""The page in a real browser: spoiler-free, quick however many games, usable by keyboard, and running nobody's text."""

from dataclasses import replace

import pytest

from spy_env import Document, RawReply, Rules, deal, player_seats
from spy_env.viewer.page import row_of
from tests.spy_env.browser import MISSING, started
from tests.spy_env.doors import dealt
from tests.spy_env.made_pages import many_games, page_file
from tests.spy_env.test_page import HOSTILE, PLAIN, played, said_by_all

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING} (Debian's chromium and chromium-driver)"),
]
OPENS_IN, LONGEST_TASK = 3.0, 200  # seconds, milliseconds
TRIES = 3  # of a measure, since other work on the machine can only make it look worse
GAME, READY = "document.querySelector('main article')", "document.documentElement.dataset.ready !== undefined"
WATCH = "window.tasks = []; new PerformanceObserver((seen) => window.tasks.push(...seen.getEntries().map((e) => e.duration))).observe({type: 'longtask'})"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with started(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def browser(chromium):
    """With a desktop's window, and nothing left from the test before."""
    chromium.open("about:blank")
    chromium.look(1280, 860)
    chromium.requested(), chromium.complaints()
    return chromium


@pytest.fixture(scope="module")
def thousand(tmp_path_factory):
    return page_file(tmp_path_factory.mktemp("thousand"), many_games(1000, 2000))


@pytest.fixture(scope="module")
def hundred(tmp_path_factory):
    return page_file(tmp_path_factory.mktemp("hundred"), hundred_games())


def hundred_games():
    return many_games(100, 60)


def opened(browser, page):
    browser.open(page)
    browser.until(READY)
    return browser


def text_of(browser, selector="main"):
    return browser.run(f"return document.querySelector('{selector}')?.innerText ?? ''")


def open_game(browser, number):
    return browser.until(f"{GAME} && document.querySelector('h2#game-title')?.textContent === 'Game {number}'")


def smallest(measure):
    """The smallest of some measures, as few as a good one needs."""
    values = []
    for _ in range(TRIES):
        values.append(measure())
        if values[-1] <= LONGEST_TASK:
            break
    return min(values)


def test_a_thousand_games_of_two_thousand_words_open_in_time(browser, thousand):
    def seconds():
        opened(browser, thousand).until(GAME)
        return browser.run("return performance.now()") / 1000

    assert min(seconds() for _ in range(TRIES)) < OPENS_IN
    assert "1,000 of 1,000 games" in text_of(browser, "#count")
    assert browser.complaints() == []


def test_nothing_holds_the_page_up_while_the_whole_list_is_scrolled_and_only_rows_in_sight_are_drawn(browser, thousand):
    opened(browser, thousand).until(GAME)
    browser.run(WATCH)

    def longest():
        browser.run(
            "window.tasks.length = 0; window.numbers = new Set(); document.getElementById('list').scrollTop = 0"
        )
        return browser.run("""
            const list = document.getElementById("list");
            const frame = () => new Promise(requestAnimationFrame);
            for (let at = 0; at < list.scrollHeight; at += list.clientHeight * 0.8) {
              list.scrollTop = at;
              await frame();
              await frame();
              for (const row of list.querySelectorAll(".row:not([hidden]) b")) window.numbers.add(row.textContent);
            }
            await new Promise((go) => setTimeout(go, 300));
            return Math.max(0, ...window.tasks);""")

    assert smallest(longest) <= LONGEST_TASK
    assert browser.run("return window.numbers.size") == 1000
    assert browser.run("return document.querySelectorAll('.row').length") < 60


def test_a_search_through_all_texts_holds_nothing_up_and_finds_the_one_game(browser, thousand):
    def longest():  # of a page just opened: a second search has its texts at hand
        browser.open("about:blank")
        opened(browser, thousand).until(GAME)
        browser.run(WATCH)
        browser.run(
            "const box = document.getElementById('query'); box.value = 'NEEDLE  of game 700'; box.dispatchEvent(new Event('input'))"
        )
        browser.until("document.getElementById('count').textContent === '1 of 1,000 games'", 60)
        return browser.run("await new Promise((go) => setTimeout(go, 300)); return Math.max(0, ...window.tasks)")

    assert smallest(longest) <= LONGEST_TASK
    assert "#701" in text_of(browser, "#list")


def test_no_text_of_a_game_runs_or_loads_anything(browser, tmp_path):
    text = " ".join(
        [*HOSTILE, '<svg onload="window.ran=1">', "<script>window.ran=1</script>", "<a href='javascript:window.ran=1'>"]
    )
    network = "<img src='http://127.0.0.1:9/x.png' onerror='window.ran=1'><link rel=stylesheet href='http://127.0.0.1:9/x.css'>"
    said = f"{text} {network}"
    game = deal(Document(said, f"One two three four five six {said} seven."), "summarization", Rules(3), said)
    game = said_by_all(game, f"Summary: {said}", f"{said} \\boxed{{1}}")
    origin = replace(PLAIN, run=said, point=said)
    page = page_file(tmp_path, [(1, game, origin), (2, played(), PLAIN)], reveal=True)
    opened(browser, page).until(GAME)
    browser.run("for (const folded of document.querySelectorAll('details')) folded.open = true")
    browser.run(
        "const box = document.getElementById('query'); box.value = '<img src=x'; box.dispatchEvent(new Event('input'))"
    )
    browser.until("document.getElementById('count').textContent === '1 of 2 games'")
    assert browser.run("return window.ran") is None
    assert browser.run("return document.querySelectorAll('img, svg, a:not(.skip), link, iframe').length") == 0
    assert text_of(browser).count("<svg onload") > 3
    assert browser.requested() == [page.as_uri()]
    assert browser.complaints() == []


def test_what_would_run_is_stopped_by_the_policy(browser, hundred):
    """That the test before would see it: markup that gets in is refused."""
    opened(browser, hundred).until(GAME)
    refused = "try { document.body.innerHTML = '<b>'; return 'in' } catch (error) { return String(error) }"
    assert "TrustedHTML" in browser.run(refused)
    browser.run(
        "const image = document.createElement('img'); image.src = 'http://127.0.0.1:9/x.png'; document.body.append(image)"
    )
    assert any("Content Security Policy" in line for line in browser.complaints())


def test_before_the_reveal_the_page_is_the_same_whoever_is_the_spy_and_whatever_the_votes_say(browser, tmp_path):
    seen = set()
    for spy, vote in zip(player_seats(4), (1, 2, 1, 2), strict=True):  # two are caught
        game = replace(dealt("all", spy), seed="s", spy=spy)
        game = said_by_all(game, "<think>I am a civilian</think>Summary: so it is", f"\\boxed{{{vote}}}")
        opened(browser, page_file(tmp_path, [(1, game, PLAIN)])).until(GAME)
        browser.run("for (const folded of document.querySelectorAll('main details')) folded.open = true")
        browser.until("document.querySelectorAll('.prompt').length === 2")
        pieces = browser.run("return document.querySelector('.document').childNodes.length")
        assert pieces == 1  # not cut where it was hidden
        seen.add(
            browser.run("return document.querySelector('main').outerHTML + document.getElementById('list').outerHTML")
        )
    assert len(seen) == 1
    assert "I am a civilian" not in seen.pop()


def test_the_reveal_tells_spy_hidden_text_votes_rewards_and_prompts_and_takes_it_all_back(browser, tmp_path):
    game = played()
    opened(browser, page_file(tmp_path, [(1, game, PLAIN)])).until(GAME)
    before = text_of(browser)
    browser.click("#reveal")
    browser.until("document.querySelector('main mark')")
    browser.run("for (const folded of document.querySelectorAll('main details')) folded.open = true")
    (span,) = game.hidden
    assert (
        browser.run("return document.querySelector('mark').childNodes[1].data")
        == game.document.text[span.start : span.end]
    )
    number = game.spy[-1]
    assert f"Player {number} was the spy" in text_of(browser)
    assert text_of(browser, ".is-spy h4").startswith(f"Player {number}")
    for seat in game.players:
        assert game.replies["detection"][seat].text in text_of(browser, ".replies")
    cells = browser.run(
        "return [...document.querySelectorAll('section:nth-of-type(3) tbody tr')].map((row) => [...row.children].map((cell) => cell.innerText.trim()))"
    )
    rewards = game.rewards(PLAIN.rewards)
    rows = browser.run(
        "return [...document.querySelectorAll('section:nth-of-type(4) tbody tr')].map((row) => [...row.children].map((cell) => cell.innerText.trim().replace('−', '-')))"
    )
    for seat, votes, row in zip(game.players, cells, rows, strict=True):
        column = [*game.players, "abstain", "unreadable"].index(game.votes()[seat]) + 1
        assert [i for i, cell in enumerate(votes) if i and cell] == [column]
        assert row[1] == game.role(seat)
        assert float(row[4]) == pytest.approx(rewards.performing[seat], abs=6e-4)
        assert row[5] == "?"  # there are no baselines
        assert float(row[6]) == pytest.approx(rewards.detection[seat], abs=6e-4)
    browser.click("#reveal")
    browser.until("!document.querySelector('main mark')")
    assert text_of(browser) == before


def test_the_keys_go_through_the_games_reveal_and_come_back(browser, hundred):
    opened(browser, hundred)
    open_game(browser, 1)
    browser.type("j", "j", "k")
    open_game(browser, 2)
    browser.type("r")
    browser.until("document.querySelector('.banner.told')")
    browser.type("j")
    open_game(browser, 3)
    assert not browser.run("return document.querySelector('.banner.told')")
    browser.type("k")
    open_game(browser, 2)
    assert browser.run("return document.querySelector('.banner.told') !== null")  # remembered
    browser.type("R", "R")
    browser.until("!document.querySelector('.banner.told')")
    browser.type("Escape", "End")
    open_game(browser, 100)
    active = "document.getElementById(document.getElementById('list').getAttribute('aria-activedescendant'))"
    assert (
        browser.run(f"return {active}.getAttribute('aria-selected') + {active}.getAttribute('aria-posinset')")
        == "true100"
    )
    browser.type("Enter")
    browser.until("document.activeElement.id === 'game-title'")
    browser.type("/", "7", "j")
    browser.until("document.activeElement.id === 'query' && document.activeElement.value === '7j'")
    browser.type("Escape", "Escape")
    browser.until("document.activeElement.id === 'list'")
    browser.type("?")
    browser.until("document.getElementById('help').open")
    browser.type("j", "Escape")
    browser.until("!document.getElementById('help').open")
    open_game(browser, 100)
    browser.until("location.hash === '#100'")
    browser.run("document.getElementById('keys-on').checked = false")
    browser.type("k")
    browser.run("await new Promise((go) => setTimeout(go, 300))")
    open_game(browser, 100)


def test_every_filter_leaves_the_games_that_it_names(browser, hundred):
    opened(browser, hundred)
    rows = [row_of(*game) for game in hundred_games()]
    asked = {
        "task": ("creative_writing", lambda row: row["task"] == "creative_writing"),
        "point": ("step 3", lambda row: row["point"] == "step 3"),
        "stage": ("votes missing", lambda row: row["stage"] == "detection"),
        "caught": ("spy caught", lambda row: row["caught"]),
        "unreadable": ("some unreadable", lambda row: 0 < row["unreadable"] < row["votes"]),
    }
    for name, (value, holds) in asked.items():
        set_filter(browser, name, value)
        wanted = sum(map(bool, map(holds, rows)))
        assert 0 < wanted < 100, name
        browser.until(f"document.getElementById('count').textContent === '{wanted} of 100 games'")
        browser.click("#filters-clear")
    set_filter(browser, "task", "creative_writing")
    set_filter(browser, "point", "step 3")
    both = sum(row["task"] == "creative_writing" and row["point"] == "step 3" for row in rows)
    browser.until(f"document.getElementById('count').textContent === '{both} of 100 games'")


def set_filter(browser, name, value):
    browser.run(
        f"const box = document.getElementById('facet-{name}'); box.value = arguments[0]; box.dispatchEvent(new Event('change'))",
        value,
    )


def test_a_guess_is_answered(browser, tmp_path):
    game = replace(played(), spy="player_2")
    opened(browser, page_file(tmp_path, [(1, game, PLAIN)])).until(GAME)
    browser.run("document.querySelectorAll('.suspect')[1].click()")
    browser.until("document.querySelector('.banner.told')")
    assert "You suspected Player 2: right." in text_of(browser, ".banner")


def test_a_telephone_shows_the_list_then_the_game_and_its_way_back_and_nothing_is_too_wide(browser, tmp_path):
    long = Document("d", "word " * 30 + "unbroken" * 60)
    game = said_by_all(deal(long, "summarization", Rules(8, "referees", 5), "1"), "Summary: " + "x" * 400, "\\boxed{3}")
    browser.look(360, 740, phone=True)
    opened(browser, page_file(tmp_path, [(1, game, PLAIN), (2, played(), PLAIN)]))
    too_wide = "return Math.max(document.documentElement.scrollWidth, document.querySelector('main').scrollWidth, innerWidth) - 360"
    assert not browser.run(f"return {GAME}")
    assert browser.run(too_wide) == 0
    browser.click(".row")
    open_game(browser, 1)
    browser.click("#reveal")
    browser.until("document.querySelector('main mark')")
    browser.run("for (const folded of document.querySelectorAll('main details')) folded.open = true")
    assert browser.run(too_wide) == 0
    browser.run("history.back()")
    browser.until("document.body.dataset.view === 'list'")


def test_an_address_with_a_number_opens_that_game(browser, hundred):
    opened(browser, f"{hundred.as_uri()}#42")
    open_game(browser, 42)
    assert "#42" in text_of(browser, "#list")


def test_a_dark_page_for_those_who_want_one(browser, hundred):
    grounds = []
    for scheme in ("light", "dark"):
        browser.look(1280, 860, scheme)
        opened(browser, hundred)
        grounds.append(browser.run("return getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(245, 246, 248)", "rgb(18, 21, 28)"]


def test_everything_that_can_be_worked_has_a_name_and_every_part_of_the_page_a_landmark(browser, hundred):
    opened(browser, hundred).until(GAME)
    browser.type("r")
    browser.until("document.querySelector('.banner.told')")
    nodes = browser.devtools("Accessibility.getFullAXTree")["nodes"]
    roles = {}
    for node in nodes:
        if not node.get("ignored"):
            roles.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
    worked = (
        "button",
        "switch",
        "combobox",
        "searchbox",
        "listbox",
        "option",
        "region",
        "article",
        "DisclosureTriangle",
    )
    for role in worked:
        assert all(roles[role]), role
    assert {"main", "navigation", "search", "banner"} <= set(roles)


def test_games_that_are_not_over_are_shown(browser, tmp_path):
    fresh = dealt("all")
    half = fresh.with_replies({seat: RawReply("Summary: told") for seat in fresh.players})
    opened(browser, page_file(tmp_path, [(1, fresh, PLAIN), (2, half, PLAIN)], reveal=True))
    open_game(browser, 1)
    assert "Nobody has performed yet" in text_of(browser)
    browser.type("j")
    open_game(browser, 2)
    assert "votes missing" in text_of(browser)
    assert browser.complaints() == []


def test_only_a_document_that_is_cut_off_can_be_shown_whole(browser, hundred, thousand):
    hidden = "document.querySelector('.show-whole').hidden"
    opened(browser, hundred).until(GAME)
    assert browser.run(f"return {hidden}")
    opened(browser, thousand).until(GAME)
    assert not browser.run(f"return {hidden}")
    browser.click(".show-whole")
    assert browser.run(
        "const box = document.querySelector('.document'); return box.scrollHeight <= box.clientHeight + 2"
    )
