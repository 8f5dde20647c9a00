// Which games the list shows: the filters, and a search that never holds the page up.

const SLICE_MS = 25; // of work between two looks at what the reader does
const TELL_MS = 200; // between two tellings of what is found so far
const AT_ONCE = 8; // games unpacked side by side

const STAGES = { over: "played to the end", detection: "votes missing", performing: "performances missing" };
const FACETS = [
  { name: "task", label: "Task", of: (row) => row.task },
  { name: "run", label: "Run", of: (row) => row.run },
  { name: "point", label: "Step", of: (row) => row.point },
  { name: "stage", label: "Stage", of: (row) => STAGES[row.stage] },
  { name: "caught", label: "Outcome", of: (row) => (row.caught === null ? "undecided" : row.caught ? "spy caught" : "spy not caught") },
  { name: "unreadable", label: "Votes", of: unreadableVotes },
];
const chosen = {}; // by facet

function unreadableVotes(row) {
  if (!row.votes) return "no votes yet";
  if (!row.unreadable) return "all readable";
  return row.unreadable === row.votes ? "none readable" : "some unreadable";
}

function buildFacets(onChange) {
  const place = document.getElementById("facets");
  for (const facet of FACETS) {
    const counts = new Map();
    for (const row of ROWS) counts.set(facet.of(row), (counts.get(facet.of(row)) ?? 0) + 1);
    if (counts.size < 2) continue; // nothing to choose
    const options = [...counts].map(([value, count]) => el("option", { value }, `${value} (${count.toLocaleString("en")})`));
    const select = el("select", { id: `facet-${facet.name}` }, el("option", { value: "" }, "any"), ...options);
    select.addEventListener("change", () => {
      chosen[facet.name] = select.value;
      onChange();
    });
    place.append(el("label", {}, facet.label, select));
  }
  if (!place.childElementCount) document.getElementById("filters").hidden = true;
}

function clearFacets() {
  for (const select of document.querySelectorAll("#facets select")) select.value = "";
  for (const name of Object.keys(chosen)) delete chosen[name];
}

function passes(row) {
  return FACETS.every((facet) => !chosen[facet.name] || facet.of(row) === chosen[facet.name]);
}

let round = 0; // of searching; a newer one ends the older

/** Tell `onFound(games, tried, of)` what matches, again and again until all are tried. */
async function find(query, onFound) {
  const mine = ++round;
  const candidates = [...ROWS.keys()].filter((index) => passes(ROWS[index]));
  const wanted = folded(query).trim();
  if (!wanted) return onFound(candidates, candidates.length, candidates.length);
  const found = [];
  let begun = performance.now();
  let toldAt = begun;
  for (let at = 0; at < candidates.length; at += AT_ONCE) {
    const some = candidates.slice(at, at + AT_ONCE);
    const texts = await Promise.all(some.map(searchedText));
    if (mine !== round) return;
    found.push(...some.filter((_, i) => texts[i].includes(wanted)));
    if (performance.now() - begun < SLICE_MS) continue;
    if (performance.now() - toldAt > TELL_MS) {
      onFound(found, at + some.length, candidates.length);
      toldAt = performance.now();
    }
    await new Promise((go) => setTimeout(go));
    if (mine !== round) return;
    begun = performance.now();
  }
  onFound(found, candidates.length, candidates.length);
}
