// The meaning of each event, and the remedy: the text that `transfix codes` prints.

import { ask } from "/api.js";
import { el } from "/dom.js";

const known = new Map();

// Asks the program once: its codes never change while it runs.
export async function readCodes() {
  if (known.size) return;
  const answer = await ask("/events/codes");
  for (const one of answer.codes) known.set(one.code, one);
}

// The line below an event; null for an event without a number.
export function explanation(code) {
  const found = known.get(code);
  return found
    ? el("p", { class: "remedy" }, el("span", { class: "mono" }, `${code} ${found.name}`),
      found.remedy)
    : null;
}
