// One game. What gives the spy away is not in the page's elements before it is asked for.

/** The game as elements. `told` says whether all is revealed, `actions` what the reader can do. */
function drawGame(index, game, told, actions) {
  const row = ROWS[index];
  const parts = [heading(row, game, told, actions), banner(row, game, told, actions), documentSection(game, told)];
  parts.push(performancesSection(game, told, actions));
  if (told && Object.keys(game.votes).length) parts.push(votesSection(game));
  if (told && game.outcome) parts.push(rewardsSection(game));
  parts.push(toldSection(game, told));
  return el("article", { "aria-labelledby": "game-title" }, ...parts);
}

function heading(row, game, told, actions) {
  const reveal = button(told ? "Hide the spy" : "Reveal the spy", { class: "primary", id: "reveal", "aria-pressed": told, title: "r" }, actions.reveal);
  const facts = [taskName(row.task), `document ${row.document}`, `seed ${row.seed}`, `${row.run}, ${row.point}`, game.rules];
  if (game.trained) facts.push(`trains ${game.trained}`);
  return el(
    "header",
    { class: "game-head" },
    button("‹ Games", { class: "back" }, actions.back),
    el("h2", { id: "game-title", tabindex: -1 }, `Game ${row.number}`),
    el(
      "div",
      { class: "buttons" },
      button("‹", { "aria-label": "Previous game", title: "k" }, actions.previous),
      button("›", { "aria-label": "Next game", title: "j" }, actions.next),
      reveal,
    ),
    el("p", { class: "facts" }, ...facts.map((fact) => el("span", {}, fact))),
  );
}

function banner(row, game, told, actions) {
  const waiting = row.stage === "over" ? "" : ` This game isn't over: ${STAGES[row.stage]}.`;
  if (!told) {
    const ask = "One of them worked from a copy with a part hidden. Compare the performances with the document.";
    return el("p", { class: "banner" }, `Who is the spy? ${ask}${waiting}`);
  }
  const spy = nameOf(game.spy);
  const votes = `${votesFor(game.spy, game)} of ${Object.keys(game.votes).length} votes`;
  const ending = game.outcome ? ` and was ${game.outcome.caught ? "caught" : "not caught"}: ${votes}.` : `.${waiting}`;
  const guess = actions.guess ? ` You suspected ${nameOf(actions.guess)}: ${actions.guess === game.spy ? "right." : "wrong."}` : "";
  return el("p", { class: "banner told", role: "status" }, el("b", {}, `${spy} was the spy`), ending + guess);
}

function votesFor(vote, game) {
  return Object.values(game.votes).filter((cast) => cast.vote === vote).length;
}

function plainNumber(value) {
  return String(Math.round(value * 100) / 100);
}

function documentSection(game, told) {
  const marked = ([text, hidden]) => (hidden ? el("mark", {}, unseen("[hidden from the spy: "), text, unseen("]")) : text);
  const parts = told ? game.document.map(marked) : [game.document.map(([text]) => text).join("")]; // one node: where it ends says nothing
  const hidden = told && !game.document.some(([, isHidden]) => isHidden) ? " (nothing was hidden)" : "";
  const box = el("div", { class: "text document searched", dir: "auto", tabindex: 0, role: "region", "aria-label": "Document" }, ...parts);
  const whole = button("Show whole", { class: "show-whole", "aria-expanded": false }, () => {
    const now = box.classList.toggle("whole");
    whole.textContent = now ? "Show less" : "Show whole";
    whole.setAttribute("aria-expanded", now);
  });
  return section("Document", el("p", { class: "note" }, told ? `What the spy did not see is marked${hidden}.` : "As the civilians read it."), box, whole);
}

function performancesSection(game, told, actions) {
  const played = game.players.filter((seat) => game.performances[seat]);
  const cards = played.map((seat) => card(seat, game, told, actions));
  if (!cards.length) return section("Performances", el("p", { class: "note" }, "Nobody has performed yet."));
  return section("Performances", el("div", { class: "cards" }, ...cards));
}

function card(seat, game, told, actions) {
  const { text, said, unmarked, truncated, cut, measures } = game.performances[seat];
  const spy = told && seat === game.spy;
  const badges = [spy ? badge("spy", "spy") : null, unmarked ? badge("quiet", "no answer marker") : null];
  badges.push(truncated ? badge("warn", "cut off") : null, cut ? badge("quiet", `first ${cut} characters on the ballot`) : null);
  if (told && game.outcome) badges.push(badge("quiet", `${votesFor(seat, game)} of ${game.voters.length} votes`));
  const guess = told ? null : button("I suspect this one", { class: "suspect", "aria-label": `I suspect ${nameOf(seat)}` }, () => actions.suspect(seat));
  const reply = told ? folding("Whole reply, thinking included", () => el("div", { class: "text", dir: "auto" }, said)) : null;
  return el(
    "article",
    { class: spy ? "card is-spy" : "card", "aria-label": nameOf(seat) },
    el("h4", {}, nameOf(seat), ...badges),
    el("div", { class: "text searched", dir: "auto" }, text),
    told ? el("p", { class: "note" }, measured(measures)) : null,
    reply,
    guess,
  );
}

/** What diagnostics count of a performance; what was hidden comes into it, so it is told with the spy. */
function measured(measures) {
  return Object.entries(measures)
    .map(([name, value]) => (name === "length" ? `${value} words` : `${name} ${Math.round(100 * value)} %`))
    .join(" · ");
}

/** Content that is made when it is first unfolded. */
function folding(title, make) {
  const node = el("details", {}, el("summary", {}, title));
  node.addEventListener("toggle", () => node.childElementCount < 2 && node.append(make()), { once: true });
  return node;
}

const OTHER_VOTES = { abstain: "N/A", unreadable: "unreadable" };

function votesSection(game) {
  const columns = [...game.players, ...Object.keys(OTHER_VOTES)];
  const voters = game.voters.filter((seat) => game.votes[seat]);
  const head = ["Voter", ...columns.map((vote) => (OTHER_VOTES[vote] ? OTHER_VOTES[vote] : el("span", {}, unseen("for player "), numberOf(vote))))];
  const body = voters.map((seat) => [seatWithRole(seat, game), ...columns.map((vote) => voteCell(game, game.votes[seat].vote, vote))]);
  const counted = columns.map((vote) => String(votesFor(vote, game)));
  const replies = folding("Replies of the voters", () => el("dl", { class: "replies" }, ...voters.flatMap((seat) => voteReply(seat, game))));
  return section("Votes", table("Who voted for whom; columns are the players voted for", head, body, ["All votes", ...counted]), replies);
}

function voteCell(game, cast, vote) {
  const column = vote === game.spy ? "spy-column" : "";
  if (cast !== vote) return el("td", { class: column });
  const right = vote === game.spy;
  const kind = right ? "right" : OTHER_VOTES[vote] ? "other" : "wrong";
  return el("td", { class: column }, el("span", { class: `vote ${kind}` }, el("span", { "aria-hidden": "true" }, right ? "✓" : OTHER_VOTES[vote] ? "–" : "✗"), unseen(right ? "right" : kind === "wrong" ? "wrong" : "cast")));
}

function voteReply(seat, game) {
  const { said, truncated } = game.votes[seat];
  return [el("dt", {}, seatWithRole(seat, game), truncated ? badge("warn", "cut off") : null), el("dd", { class: "text", dir: "auto" }, said || "(empty)")];
}

function seatWithRole(seat, game) {
  return el("span", {}, nameOf(seat), seat === game.spy ? badge("spy", "spy") : null);
}

function rewardsSection(game) {
  const { received, performing, detection, performing_advantages: performed, detection_advantages: detected, notes } = game.outcome;
  const head = ["Seat", "Role", "Votes for", "Received", "Performing reward", "Performing advantage", "Detection reward", "Detection advantage"];
  const body = Object.keys(game.roles).map((seat) => [
    seatWithRole(seat, game),
    game.roles[seat],
    voteName(game.votes[seat]?.vote),
    seat in received ? plainNumber(received[seat]) : "–",
    signed(performing[seat]),
    performed === null ? (seat in performing ? "?" : "–") : signed(performed[seat]),
    signed(detection[seat]),
    signed(detected[seat]),
  ]);
  const told = notes.map((note) => el("li", {}, note));
  return section("Rewards and advantages", table("What each seat earned, and how it moves the model", head, body), told.length ? el("ul", { class: "note" }, ...told) : null);
}

function voteName(vote) {
  return vote === undefined ? "–" : (OTHER_VOTES[vote] ?? nameOf(vote));
}

const STAGE_TITLES = { performing: "To perform", detection: "To vote (the ballot)" };

/** The prompts of each stage, each once, with the seats that were given it. */
function toldSection(game, told) {
  const parts = Object.entries(game.told).flatMap(([stage, { texts, of }]) => {
    const seats = texts.map((_, i) => Object.keys(of).filter((seat) => of[seat] === i));
    const kinds = texts.map((_, i) => i).filter((i) => told || !seats[i].includes(game.spy));
    return kinds.map((i) => folding(toldTitle(stage, seats[i], game, told), () => promptBox(texts[i])));
  });
  const note = told ? "The exact prompts. Seats on one line were told the same, byte for byte." : "The exact prompts of those who saw the whole document; who got which is told with the spy.";
  return section("What the seats were told", el("p", { class: "note" }, note), ...parts);
}

function toldTitle(stage, seats, game, told) {
  const role = game.roles[seats[0]];
  const who = told ? seats.map(nameOf).join(", ") : role === "referee" ? "referees" : "civilians";
  return `${STAGE_TITLES[stage]}: ${who}${told ? ` (${role})` : ""}`;
}

function promptBox(text) {
  return el("div", { class: "text prompt", dir: "auto", tabindex: 0, role: "region", "aria-label": "Prompt" }, text);
}
