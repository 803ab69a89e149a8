// Live events of the engine.

import { ask, may, me, whoAmI } from "/api.js";
import { explanation, readCodes } from "/codes.js";
import { el, labelled, mark, say, setText } from "/dom.js";
import { clockTime, number } from "/format.js";
import { page } from "/keys.js";
import { soon } from "/live.js";

// Number of kept events, and of events in the page.
const KEPT = 2000;
const SHOWN = 300;
const LEVELS = { INFO: 0, WARN: 1, ERROR: 2 };
const MARKS = {
  INFO: ["plain", "info"], WARN: ["warn", "⚠ warning"], ERROR: ["bad", "✕ error"],
};

export function open(main, rest, query) {
  let [events, waiting, isPaused, frame, isOver] = [[], [], false, null, false];
  const session = el("input", { type: "search", id: "event-session",
    value: query.get("session") ?? "", placeholder: "all", autocomplete: "off",
    spellcheck: "false", oninput: redraw });
  const level = el("select", { onchange: redraw }, ["INFO", "WARN", "ERROR"].map((name) =>
    el("option", { value: name }, { INFO: "all", WARN: "warnings and errors",
      ERROR: "errors" }[name])));
  const pause = el("button", { type: "button", "aria-pressed": "false", onclick: () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", isPaused);
    setText(pause, isPaused ? "Go on" : "Pause");
    if (!isPaused) flush();
  } }, "Pause");
  const state = el("p", { class: "count", role: "status" });
  const list = el("ol", { class: "events", "aria-label": "Events, the newest first" });
  main.append(el("h1", null, "Events"), el("div", { class: "tools" },
    labelled("Session", session), labelled("Level", level), pause, state), levels(), list);
  page.filter = () => session.focus();

  const isWanted = (event) => LEVELS[event.level] >= LEVELS[level.value] &&
    (event.session ?? "").toLowerCase().includes(session.value.trim().toLowerCase());

  function redraw() {
    const found = events.filter(isWanted).slice(-SHOWN).reverse();
    list.replaceChildren(...found.map(item));
    tell();
  }

  function tell(text) {
    setText(state, text ?? `${number(list.childElementCount)} shown of ${number(events.length)}` +
      (isPaused ? ` · paused, ${number(waiting.length)} more wait` : ""));
  }

  // Adds all events since the last update to the list.
  function flush() {
    frame = null;
    if (isPaused || isOver) return tell();
    const fresh = waiting.filter((event) => event.n > (events.at(-1)?.n ?? 0));
    waiting = [];
    events = [...events, ...fresh].slice(-KEPT);
    list.prepend(...fresh.filter(isWanted).slice(-SHOWN).reverse().map(item));
    while (list.childElementCount > SHOWN) list.lastElementChild.remove();
    tell();
  }

  function later() {
    waiting = waiting.slice(-KEPT);
    frame ??= setTimeout(flush, 150);
  }

  async function catchUp() {
    const last = events.at(-1)?.n ?? 0;
    const answer = await ask("/events", { query: { after: last, limit: 1000 } });
    if (isOver) return;
    waiting.push(...answer.events);
    waiting.sort((a, b) => a.n - b.n);
    later();
  }

  let source = null;
  function follow() {
    source = new EventSource("/api/events/stream");
    source.onopen = () => catchUp().catch(() => {});
    source.onmessage = (message) => {
      const event = JSON.parse(message.data);
      // A restarted program counts from 1 again.
      if (event.n < (events.at(-1)?.n ?? 0) - KEPT) events = [];
      waiting.push(event);
      later();
    };
    source.addEventListener("missed", () => catchUp().catch(() => {}));
    source.onerror = async () => {
      source.close();
      if (isOver) return;
      tell("The stream has ended; trying again");
      soon();
      // Checks the login; if the login has ended, the login form appears.
      await whoAmI().catch(() => {});
      if (!isOver && me) setTimeout(() => !isOver && follow(), 2000);
    };
  }
  // Without explanations, the events are shown anyway.
  readCodes().catch(() => {}).then(() => !isOver && follow());

  return () => {
    isOver = true;
    clearTimeout(frame);
    source?.close();
  };
}

// Levels of the program's events, which an administrator may set.
function levels() {
  const isOff = !may("administrator");
  const field = el("input", { type: "text", id: "event-levels", maxlength: 2048, disabled: isOff,
    autocomplete: "off", spellcheck: "false",
    title: isOff ? "Needs the role administrator" : null });
  const set = el("button", { type: "submit", disabled: isOff }, "Set");
  const said = el("p", { class: "count", role: "status" });
  const show = (answer) => {
    field.value = answer.levels;
    setText(said, answer.is_set ? "until the next start or reload" : "as the settings say");
  };
  const form = el("form", { class: "tools", onsubmit: async (submitted) => {
    submitted.preventDefault();
    try {
      show(await ask("/events/levels", { method: "PUT", body: { levels: field.value.trim() } }));
      say(`Events: ${field.value} until the next start or reload`);
    } catch (problem) {
      setText(said, `✕ ${problem.full ?? problem.message}`);
    }
  } }, labelled("The program tells", field), set, said);
  // A program without an event filter shows no levels.
  ask("/events/levels").then(show).catch(() => form.remove());
  return form;
}

function item(event) {
  const [kind, name] = MARKS[event.level] ?? ["plain", event.level];
  const values = Object.entries(event.fields).map(([key, value]) =>
    el("span", { class: "pair" }, el("i", null, `${key}=`), String(value)));
  return el("li", null, el("time", { class: "mono", datetime: event.at, title: event.at },
    clockTime(event.at)), mark(kind, name),
  event.session ? el("a", { class: "mono", href:
    `#/session/${encodeURIComponent(event.session)}` }, event.session) : null,
  el("b", null, event.text), values, explanation(event.code));
}
