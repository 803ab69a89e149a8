// The gateways of the fleet, and the owner of each session.

import { ask } from "/api.js";
import { el, mark, row, setText, table } from "/dom.js";
import { number } from "/format.js";
import { page } from "/keys.js";

const EVERY_MS = 5000;
// Maximum number of rows; the filter finds the others.
const ROWS_MAX = 500;

const GATEWAYS = ["Gateway", "State", "Owned sessions", "Logged on", "Sessions"];
const SESSIONS = ["Session", "Owner", "State", "Next in", "Next out"];

export function open(main) {
  const said = el("p", { class: "count", role: "status" }, "Asking the gateways …");
  const [gatewayFrame, gatewayBody] = table("Gateways", GATEWAYS, [], "stack");
  const [sessionFrame, sessionBody] = table("Sessions of the fleet", SESSIONS, [], "stack");
  const filter = el("input", { type: "search", "aria-label": "Filter sessions",
    placeholder: "Filter: words of session, owner, state", autocomplete: "off",
    spellcheck: "false", oninput: () => show() });
  const count = el("p", { class: "count", role: "status" });
  main.append(el("h1", null, "Fleet"), said, gatewayFrame,
    el("p", null, "Commands: ", el("code", null, "transfix fleet drain SETTINGS GATEWAY"), ", ",
      el("code", null, "resume"), " and ", el("code", null, "move"), "."),
    el("div", { class: "tools" }, filter, count), sessionFrame);

  let [timer, isOver, fleet] = [null, false, null];
  function show() {
    if (!fleet) return;
    replace(gatewayBody, fleet.gateways.map((one) => [one.name,
      one.drained ? ["warn", "⚠ drained"] : ["good", "● takes sessions"],
      number(one.owned), number(one.logged_on), number(one.sessions)]), GATEWAYS);
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    // Problems first; the server sorts by identity.
    const rank = (one) => (one.owner === null ? 0 : one.logged_on ? 2 : 1);
    const sorted = [...fleet.sessions].sort((a, b) => rank(a) - rank(b));
    const all = sorted.map((one) => [one.id, one.owner ?? "–", state(one),
      number(one.next_num_in), number(one.next_num_out)]);
    const found = all.filter(([id, owner, [, text]]) => {
      const searched = `${id} ${owner} ${text}`.toLowerCase();
      return words.every((word) => searched.includes(word));
    });
    replace(sessionBody, found.slice(0, ROWS_MAX), SESSIONS);
    const left = found.length > ROWS_MAX ? ` · the first ${number(ROWS_MAX)} are shown` : "";
    setText(count, `${number(found.length)} of ${number(all.length)} sessions${left}`);
    const answers = fleet.gateways.length;
    setText(said, answers > 0 ? `${number(answers)} ${answers === 1 ? "gateway answers"
      : "gateways answer"}` : "No gateway answers.");
  }

  async function load() {
    try {
      const answer = await ask("/fleet", { wait: 15000 });
      if (isOver) return;
      fleet = answer;
      show();
    } catch (problem) {
      if (isOver) return;
      said.replaceChildren(mark("bad", `✕ ${problem.full ?? problem}`));
    }
    timer = setTimeout(load, document.hidden ? 3 * EVERY_MS : EVERY_MS);
  }
  load();
  page.filter = () => filter.focus();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

function state({ owner, logged_on }) {
  if (owner === null) return ["bad", "✕ no gateway"];
  return logged_on ? ["good", "● logged on"] : ["plain", "disconnected"];
}

// Replaces the rows only if they have changed, so that a selection stays.
function replace(body, rows, heads) {
  const wanted = JSON.stringify(rows);
  if (body.dataset.shown === wanted) return;
  body.dataset.shown = wanted;
  body.replaceChildren(...rows.map((cells) => row(cells.map((cell) =>
    (Array.isArray(cell) ? mark(...cell) : cell)), null, heads)));
}
