"use strict";
// The data: the list's rows at once, games when they are asked for, and their text for the search.

const { rows: ROWS, reveal: REVEAL_AT_START } = JSON.parse(document.getElementById("list-data").textContent);
const HELD_CHARACTERS = 100e6; // of text for the search; what goes over it is unpacked again for each search

/** All that the page knows of a game. */
async function unpack(index) {
  const packed = atob(document.getElementById(`packed-${index}`).textContent);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

const heldTexts = new Map();
let heldCharacters = 0;

/** What is searched of a game: what the list says, its document and its performances; nothing that gives the spy away. */
async function searchedText(index) {
  if (heldTexts.has(index)) return heldTexts.get(index);
  const game = await unpack(index);
  const row = ROWS[index];
  const shown = Object.values(game.performances).map((performance) => performance.text);
  const whole = game.document.map(([text]) => text).join("");
  const text = folded([row.number, row.seed, row.task, row.document, row.run, row.point, whole, ...shown].join(" \n "));
  if (!heldTexts.has(index) && heldCharacters + text.length <= HELD_CHARACTERS) {
    heldTexts.set(index, text);
    heldCharacters += text.length;
  }
  return text;
}

/** As it is compared: without upper case, and with one space for any white space. */
function folded(text) {
  return text.toLowerCase().replace(/\s+/g, " ");
}
