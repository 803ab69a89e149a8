// Actions of users: one action a row, with the session's state before and after.

import { ask } from "/api.js";
import { el, labelled, mark, row, setText, table } from "/dom.js";
import { dateTime, number } from "/format.js";
import { page } from "/keys.js";

// Joins the two lines of each action. An action without an end is in progress, or its process was
// killed.
export function joined(lines) {
  const actions = new Map();
  for (const line of lines) {
    const begun = actions.get(line.of);
    if (begun) begun.end = line;
    else actions.set(line.n, { begun: line });
  }
  return [...actions.values()].reverse();
}

const HEADS = ["When (UTC)", "Who", "Session", "What", "Outcome", "Before", "After"];

export function open(main) {
  const filter = el("input", { type: "search", oninput: show, autocomplete: "off",
    spellcheck: "false" });
  const said = el("p", { class: "count", role: "status" });
  const [frame, body] = table("Audit, the newest first",
    HEADS, [], "stack");
  const again = el("button", { type: "button", onclick: load }, "Ask again");
  main.append(el("h1", null, "Audit"), el("div", { class: "tools" },
    labelled("Filter", filter), again, said), frame);
  page.filter = () => filter.focus();
  let actions = [];
  let isOver = false;

  function show() {
    const wanted = filter.value.trim().toLowerCase();
    const found = actions.filter((action) =>
      JSON.stringify(action).toLowerCase().includes(wanted));
    body.replaceChildren(...found.map(line));
    setText(said, `${number(found.length)} ${found.length === 1 ? "action" : "actions"}`);
  }

  async function load() {
    try {
      const answer = await ask("/audit", { query: { limit: 1000 } });
      if (isOver) return;
      actions = joined(answer.lines);
      show();
    } catch (problem) {
      if (!isOver) said.replaceChildren(mark("warn", problem.full ?? String(problem)));
    }
  }

  load();
  return () => (isOver = true);
}

function line({ begun, end }) {
  const step = end?.step ?? begun.step;
  const outcome = step === "done" ? mark("good", "done")
    : step === "asked" ? mark("warn", "⚠ no end is written") : mark("bad", `✕ ${step}`);
  const session = begun.session ? el("a", { class: "mono",
    href: `#/session/${encodeURIComponent(begun.session)}` }, begun.session) : "the engine";
  return row([dateTime(begun.at), el("span", null, begun.who, el("br"),
    el("small", null, begun.from ?? "")), session, el("span", { class: "mono" }, begun.what ?? ""),
  outcome, state(begun.before), end?.why ? el("span", null, end.why) : state(end?.after)],
  null, HEADS);
}

// Shows a text such as "state=Active next_in=3", one value a line.
const state = (text) => el("span", { class: "mono small" },
  (text ?? "").split(/ (?=\w+=)/).map((part) => el("span", { class: "block" }, part)));
