// The list of games: however long, only the rows in sight are elements.

const SPARE = 4; // rows drawn above and below what is in sight
const list = document.getElementById("list");
const sizer = document.getElementById("sizer");
let shown = []; // the games in the list, by index
let slots = [];
let rowHeight = 64;
let drawing = false;

/** Show these games; where the reader has scrolled to stays while a search adds to them. */
function listGames(games, more) {
  shown = games;
  measure();
  if (!more) list.scrollTop = 0;
  redraw();
}

/** Rows follow the reader's font size; Chrome ends a page's height at some 33 million pixels, beyond half a million rows. */
function measure() {
  rowHeight = Math.round(4.25 * parseFloat(getComputedStyle(document.documentElement).fontSize));
  sizer.style.height = `${shown.length * rowHeight}px`;
  const wanted = Math.ceil(list.clientHeight / rowHeight) + 2 * SPARE + 1;
  while (slots.length < wanted) slots.push(newSlot());
}

function newSlot() {
  const slot = { node: el("div", { role: "option", class: "row" }), position: -1 };
  slot.node.addEventListener("click", () => openGame(shown[slot.position]));
  sizer.append(slot.node);
  return slot;
}

/** Draw all rows anew. */
function redraw() {
  for (const slot of slots) slot.position = -1;
  draw();
}

function draw() {
  drawing = false;
  const first = Math.max(0, Math.floor(list.scrollTop / rowHeight) - SPARE);
  for (let i = 0; i < slots.length; i++) {
    const position = first + i;
    const slot = slots[position % slots.length];
    if (slot.position !== position) fill(slot, position);
  }
  const active = shown.indexOf(open.index);
  if (slots.some((slot) => slot.position === active)) list.setAttribute("aria-activedescendant", `row-${active}`);
  else list.removeAttribute("aria-activedescendant");
}

function fill(slot, position) {
  slot.position = position;
  slot.node.hidden = position >= shown.length;
  if (slot.node.hidden) return slot.node.removeAttribute("id");
  const index = shown[position];
  const row = ROWS[index];
  slot.node.id = `row-${position}`;
  slot.node.style.height = `${rowHeight}px`;
  slot.node.style.transform = `translateY(${position * rowHeight}px)`;
  slot.node.setAttribute("aria-posinset", position + 1);
  slot.node.setAttribute("aria-setsize", shown.length);
  slot.node.setAttribute("aria-selected", index === open.index);
  slot.node.replaceChildren(
    el("span", { class: "row-head" }, el("b", {}, `#${row.number}`), el("span", { class: "where" }, `${row.point} · ${taskName(row.task)}`), ...badgesOf(row, index)),
    el("span", { class: "preview", dir: "auto" }, row.preview),
  );
}

function badgesOf(row, index) {
  const badges = [];
  if (row.unreadable) badges.push(badge("warn", `${row.unreadable} unreadable`));
  if (row.stage !== "over") badges.push(badge("quiet", STAGES[row.stage]));
  else if (revealed(index)) badges.push(row.caught ? badge("good", "caught") : badge("spy", "got away"));
  return badges;
}

list.addEventListener("scroll", () => {
  if (!drawing) requestAnimationFrame(draw);
  drawing = true;
});
new ResizeObserver(() => {
  measure();
  redraw();
}).observe(list);

/** Open the game some places further in the list, or the first where none of it is open. */
function move(by) {
  if (!shown.length) return;
  const at = shown.indexOf(open.index);
  const to = at < 0 ? 0 : Math.min(shown.length - 1, Math.max(0, at + by));
  if (to !== at) openGame(shown[to]);
}

/** Scroll the list, if need be, until an open game is in sight. */
function showInList(index) {
  const position = shown.indexOf(index);
  if (position < 0) return redraw();
  const top = position * rowHeight;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + rowHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + rowHeight - list.clientHeight;
  redraw();
}
