// Elements made by hand. Whatever a game says gets into the page as text nodes alone.

/** A new element; children are elements or text. Attributes that are false or missing are left out. */
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

function button(label, attributes, onClick) {
  const node = el("button", { type: "button", ...attributes }, label);
  node.addEventListener("click", onClick);
  return node;
}

function badge(kind, label) {
  return el("span", { class: `badge ${kind}` }, label);
}

function unseen(text) {
  return el("span", { class: "unseen" }, text);
}

function section(title, ...children) {
  return el("section", {}, el("h3", {}, title), ...children);
}

/** A table that scrolls sideways by itself where it is too wide. */
function table(caption, head, body, foot) {
  const cells = (row, scope) => row.map((cell, i) => (i && !scope ? cellOf(cell) : el("th", { scope: scope ?? "row" }, cell)));
  const cellOf = (cell) => (cell instanceof Element && cell.tagName === "TD" ? cell : el("td", {}, cell));
  const drawn = el(
    "table",
    {},
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, ...cells(head, "col"))),
    el("tbody", {}, ...body.map((row) => el("tr", {}, ...cells(row)))),
    foot ? el("tfoot", {}, el("tr", {}, ...cells(foot))) : null,
  );
  return el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption }, drawn);
}

/** `player_3` as it is read: Player 3. */
function nameOf(seat) {
  return (seat[0].toUpperCase() + seat.slice(1)).replace("_", " ");
}

function numberOf(seat) {
  return seat.slice(seat.lastIndexOf("_") + 1);
}

/** A task's name; of a file outside the package its last part. */
function taskName(task) {
  return task.slice(Math.max(task.lastIndexOf("/"), task.lastIndexOf("\\")) + 1);
}

function signed(value) {
  if (value === undefined) return "–";
  const text = Math.abs(value).toFixed(3);
  return `${value < 0 && +text ? "−" : "+"}${text}`;
}
