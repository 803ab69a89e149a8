// Meaning and remedy of each event, the text that `transfix codes` prints.

import { ask } from "/api.js";
import { el } from "/dom.js";

const known = new Map();

// Reads the codes once, because they never change while the program runs.
export async function readCodes() {
  if (known.size) return;
  const answer = await ask("/events/codes");
  for (const one of answer.codes) known.set(one.code, one);
}

// Returns the line below an event; null for an event without a number.
export function explanation(code) {
  const found = known.get(code);
  return found
    ? el("p", { class: "remedy" }, el("span", { class: "mono" }, `${code} ${found.name}`),
      found.remedy)
    : null;
}
