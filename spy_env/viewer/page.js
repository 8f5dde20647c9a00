// The page: which game is open, what is revealed, keys, and the address that names the game.

const open = { index: -1, game: null };
const pane = document.getElementById("game");
const queryBox = document.getElementById("query");
const helpBox = document.getElementById("help");
const keysOn = document.getElementById("keys-on");
const wide = matchMedia("(min-width: 860px)");
const told = { all: REVEAL_AT_START, but: new Set() }; // games in `but` are the other way round
const guesses = new Map();

function revealed(index) {
  return told.all !== told.but.has(index);
}

function revealOne() {
  if (open.index < 0) return;
  if (!told.but.delete(open.index)) told.but.add(open.index);
  if (open.game) drawOpen(); // else it will be, when it is unpacked
}

function revealAll() {
  told.all = !told.all;
  told.but.clear();
  document.getElementById("reveal-all").setAttribute("aria-checked", told.all);
  if (open.game) drawOpen();
  redraw();
}

let addressing = 0;

/** Open a game. A newer call ends an older one whose game is still being unpacked. */
async function openGame(index) {
  const address = `#${ROWS[index].number}`;
  clearTimeout(addressing);
  if (document.body.dataset.view === "list" && !wide.matches) history.pushState({ fromList: true }, "", address);
  else addressing = setTimeout(() => history.replaceState(history.state, "", address), 200); // browsers refuse many at once
  await showGame(index);
}

/** Back to the list, where it isn't beside the game; the browser's own way back does the same. */
function toList() {
  if (history.state?.fromList) return history.back();
  history.replaceState(null, "", "#");
  document.body.dataset.view = "list";
}

async function showGame(index) {
  document.body.dataset.view = "game";
  if (index === open.index) return;
  Object.assign(open, { index, game: null });
  showInList(index);
  const game = await unpack(index);
  if (open.index !== index) return;
  open.game = game;
  drawOpen();
  pane.scrollTop = 0;
}

function drawOpen() {
  const { index, game } = open;
  const focused = document.activeElement?.id;
  const actions = { reveal: revealOne, back: toList, previous: () => move(-1), next: () => move(1), suspect, guess: guesses.get(index) };
  const scrolled = pane.scrollTop;
  pane.replaceChildren(drawGame(index, game, revealed(index), actions));
  pane.scrollTop = scrolled;
  if (focused === "reveal") document.getElementById("reveal").focus();
  const box = pane.querySelector(".document");
  pane.querySelector(".show-whole").hidden = box.scrollHeight <= box.clientHeight;
  const mark = box.querySelector("mark");
  if (mark) box.scrollTop = mark.offsetTop - 40;
  highlight();
  redraw();
}

function suspect(seat) {
  guesses.set(open.index, seat);
  revealOne();
  pane.scrollTop = 0;
  document.getElementById("reveal").focus();
}

/** Mark what was searched for, where the browser can without touching the text. */
function highlight() {
  if (!CSS.highlights) return;
  const words = queryBox.value.trim().split(/\s+/).filter(Boolean);
  const ranges = words.length ? rangesOf(new RegExp(words.map((word) => word.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("\\s+"), "giu")) : [];
  CSS.highlights.set("found", new Highlight(...ranges));
}

function rangesOf(pattern) {
  const ranges = [];
  for (const place of pane.querySelectorAll(".searched")) {
    const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node && ranges.length < 500; node = walker.nextNode()) {
      for (const match of node.data.matchAll(pattern)) {
        const range = new Range();
        range.setStart(node, match.index);
        range.setEnd(node, match.index + match[0].length);
        ranges.push(range);
      }
    }
  }
  return ranges;
}

// ------------------------------------------------------------------ the list's search and filters

function refresh() {
  const active = Object.values(chosen).filter(Boolean).length;
  document.getElementById("filters-active").textContent = active ? ` (${active})` : "";
  document.getElementById("filters-clear").hidden = !active;
  highlight();
  let more = false;
  return find(queryBox.value, (games, tried, of) => {
    listGames([...games], more);
    more = true;
    const searching = tried < of ? `, searched ${tried.toLocaleString("en")} of ${of.toLocaleString("en")}` : "";
    document.getElementById("count").textContent = `${games.length.toLocaleString("en")} of ${ROWS.length.toLocaleString("en")} games${searching}`;
  });
}

let typing = 0;
queryBox.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(refresh, 120);
});
document.getElementById("filters-clear").addEventListener("click", () => {
  clearFacets();
  refresh();
});

// ------------------------------------------------------------------ keys

const LIST_KEYS = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
const LETTER_KEYS = { j: () => move(1), k: () => move(-1), r: revealOne, R: revealAll, "/": () => queryBox.select(), "?": () => helpBox.showModal() };

function leave() {
  if (document.body.dataset.view === "game" && !wide.matches) toList();
  list.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || helpBox.open) return;
  const typed = event.target.closest("input, select");
  if (event.key === "Escape" && !(typed && queryBox.value)) return leave();
  if (typed) return;
  if (event.target === list && (event.key in LIST_KEYS || event.key === "Enter")) {
    event.preventDefault();
    if (event.key !== "Enter") return move(LIST_KEYS[event.key]);
    if (open.index < 0) move(1);
    return pane.querySelector("h2")?.focus();
  }
  if (!keysOn.checked || !(event.key in LETTER_KEYS)) return;
  event.preventDefault();
  LETTER_KEYS[event.key]();
});

// ------------------------------------------------------------------ start

/** Show what the address names: a game by its number, else the list. */
function follow() {
  const index = ROWS.findIndex((row) => `#${row.number}` === location.hash);
  if (index >= 0) return showGame(index);
  document.body.dataset.view = "list";
}

addEventListener("popstate", follow);
document.getElementById("reveal-all").addEventListener("click", revealAll);
document.getElementById("reveal-all").setAttribute("aria-checked", told.all);
document.getElementById("help-open").addEventListener("click", () => helpBox.showModal());
document.getElementById("filters").open = wide.matches;
buildFacets(refresh);
refresh();
follow();
if (open.index < 0 && wide.matches && ROWS.length) openGame(0);
document.documentElement.dataset.ready = "";
