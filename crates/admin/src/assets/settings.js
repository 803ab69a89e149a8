// Settings in force, each with its value and its origin.

import { ask } from "/api.js";
import { el, labelled, mark, row, setText, table } from "/dom.js";
import { number } from "/format.js";
import { page } from "/keys.js";
import { listen, sessions } from "/live.js";

const HEADS = ["Of", "Table", "Key", "Value", "From"];
// Maximum number of rows in the page.
const ROWS_MAX = 2000;

export function open(main) {
  const list = el("datalist", { id: "all-sessions" });
  const session = el("input", { type: "search", list: "all-sessions", autocomplete: "off",
    placeholder: "the engine alone", spellcheck: "false", onchange: load });
  const filter = el("input", { type: "search", oninput: show, autocomplete: "off",
    spellcheck: "false" });
  const only = el("input", { type: "checkbox", id: "written", onchange: show });
  const said = el("p", { class: "count", role: "status" });
  const [frame, body] = table("Settings", HEADS, [], "stack");
  main.append(el("h1", null, "Settings"),
    el("p", { class: "note" }, "Secrets are shown as stars. This is the file as it is now: what " +
      "has changed since the last reload does not count yet."),
    el("div", { class: "tools" }, labelled("Session", session), list, labelled("Filter", filter),
      el("label", { class: "check", for: "written" }, only, "Without defaults"), said), frame);
  page.filter = () => filter.focus();
  let parts = [];
  let isOver = false;

  function show() {
    const wanted = filter.value.trim().toLowerCase();
    const rows = [];
    let count = 0;
    for (const part of parts) {
      for (const key of part.keys) {
        const text = `${key.table ?? ""} ${key.key} ${key.value} ${key.origin}`.toLowerCase();
        if (!text.includes(wanted) || (only.checked && key.origin === "default")) continue;
        count += 1;
        if (rows.length === ROWS_MAX) continue;
        rows.push(row([part.session ?? "engine", key.table ?? "", key.key,
          el("code", null, String(key.value)), key.origin],
        { class: key.origin === "default" ? "default" : "" }, HEADS));
      }
    }
    body.replaceChildren(...rows);
    setText(said, `${number(count)} settings` +
      (count > rows.length ? `, the first ${number(rows.length)} shown` : ""));
  }

  async function load() {
    try {
      // An empty text requests only the settings of the engine.
      const answer = await ask(`/settings?session=${encodeURIComponent(session.value.trim())}`);
      if (isOver) return;
      parts = answer.parts;
      show();
    } catch (problem) {
      if (!isOver) said.replaceChildren(mark("warn", problem.full ?? String(problem)));
    }
  }

  // The names of the sessions are added when they are known.
  const end = listen(() => {
    if (list.childElementCount === sessions.size) return;
    list.replaceChildren(...[...sessions.keys()].map((value) => el("option", { value })));
  });
  load();
  return () => {
    isOver = true;
    end();
  };
}
