// The table of all sessions, those with a problem first.

import { el, setText } from "/dom.js";
import { bytes, number, rate, span, STATES } from "/format.js";
import { Grid } from "/grid.js";
import { page } from "/keys.js";
import { age, health, listen, sessions } from "/live.js";

// Severity of a problem; the lowest rank is the most severe.
const RANK = { store: 0, callback: 1, "not logged on": 2, "sending held": 3,
  "slow consumer": 4, latency: 5 };
const rank = (session) => (session.problem ? RANK[session.problem] ?? 6 : session.enabled ? 8 : 7);

const PROBLEMS = { store: "store failed", latency: "slower than usual" };

// Returns the problem of a session as text.
export const problemOf = (session) => (session.problem === "callback"
  ? `${session.held_up_by} does not return` : PROBLEMS[session.problem] ?? session.problem);

const isLate = (session) => session.state === "Active" && session.heart_bt_int_s > 0 &&
  session.heard > session.heart_bt_int_s * 1500;

const since = (session) => age(session.since, health.now);
const endAt = (session) => (session.last_end ? Date.parse(session.last_end.at) : 0);

const KEYS = {
  problem: { name: "Problem", of: rank },
  id: { name: "Session", of: (s) => s.id, text: true },
  role: { name: "Role", of: (s) => s.role, text: true },
  state: { name: "State", of: (s) => s.state, text: true },
  since: { name: "Since", of: since },
  next_in: { name: "Next number in", short: "Next in", of: (s) => s.next_num_in, first: -1 },
  next_out: { name: "Next number out", short: "Next out", of: (s) => s.next_num_out, first: -1 },
  messages_in: { name: "Messages per second in", short: "Msg/s in",
    of: (s) => s.rates.messages_in, first: -1 },
  messages_out: { name: "Messages per second out", short: "Msg/s out",
    of: (s) => s.rates.messages_out, first: -1 },
  bytes_in: { name: "Bytes per second in", short: "Bytes/s in", of: (s) => s.rates.bytes_in,
    first: -1 },
  bytes_out: { name: "Bytes per second out", short: "Bytes/s out", of: (s) => s.rates.bytes_out,
    first: -1 },
  heard: { name: "Last heard", short: "Heard", of: (s) => s.heard, first: -1 },
  queue: { name: "Queue", of: (s) => s.queued_bytes + s.waiting_for_application.bytes, first: -1 },
  ended: { name: "Last end", of: endAt, first: -1 },
};

function problem(session) {
  if (session.problem) return [`⚠ ${problemOf(session)}`, "", "bad"];
  if (!session.enabled) return ["logged out", "by an operator", "quiet"];
  return session.state === "Active" ? ["–", ""] : ["–", "closed by schedule", "quiet"];
}

function queue(session) {
  const waiting = session.waiting_for_application.messages;
  const upper = session.queued_bytes > 0 ? bytes(session.queued_bytes) : "–";
  return [upper, waiting > 0 ? `${number(waiting)} to app` : "",
    session.queued_bytes > 0 ? "warn" : ""];
}

const COLUMNS = [
  { name: "Session", keys: ["id", "role"], class: "c-id", fill: (s) =>
    [s.id, s.peer ? `${s.role}, ${s.peer}` : s.role] },
  { name: "State", keys: ["state", "since"], class: "c-state", fill: (s) =>
    [STATES[s.state] ?? s.state, s.since ? span(since(s)) : "since start",
      `is-${s.state}`] },
  { name: "Problem", keys: ["problem"], class: "c-problem", fill: problem },
  { name: "Next", keys: ["next_in", "next_out"], class: "c-next num", fill: (s) =>
    [number(s.next_num_in), number(s.next_num_out)] },
  { name: "Msg/s", keys: ["messages_in", "messages_out"], class: "c-messages num", fill: (s) =>
    [rate(s.rates.messages_in), rate(s.rates.messages_out)] },
  { name: "Bytes/s", keys: ["bytes_in", "bytes_out"], class: "c-bytes num", fill: (s) =>
    [bytes(s.rates.bytes_in), bytes(s.rates.bytes_out)] },
  { name: "Heard", keys: ["heard"], class: "c-heard num", fill: (s) =>
    [span(s.heard), isLate(s) ? "⚠ late" : s.state === "Active" && s.heart_bt_int_s
      ? `of ${s.heart_bt_int_s} s` : "", isLate(s) ? "warn" : ""] },
  { name: "Queue", keys: ["queue"], class: "c-queue num", fill: queue },
  { name: "Last end", keys: ["ended"], class: "c-end", fill: (s) => (s.last_end
    ? [`${span(age(s.last_end.at, health.now))} ago: ${s.last_end.reason}`,
      s.last_end.text ? `“${s.last_end.text}”` : ""] : ["–", ""]) },
];

const searched = (s) =>
  `${s.id} ${s.role} ${STATES[s.state]} ${s.problem ?? ""} ${s.last_end?.reason ?? ""} ` +
  `${s.last_end?.text ?? ""} ${s.peer ?? ""} ${s.enabled ? "" : "logged out"}`.toLowerCase();

// Last choices of the user, restored when the page is opened again.
const kept = { filter: "", only: false, sort: { key: "problem", direction: 1 }, active: null,
  scroll: 0 };

export function open(main) {
  const filter = el("input", { type: "search", id: "filter", value: kept.filter,
    placeholder: "Filter: words of name, state, problem, text", "aria-label": "Filter sessions",
    autocomplete: "off", spellcheck: "false", oninput: () => {
      kept.filter = filter.value;
      refresh(true);
    }, onkeydown: (event) => {
      if (event.key !== "Enter" && event.key !== "ArrowDown") return;
      event.preventDefault();
      grid.node.focus();
      grid.move(0);
    } });
  const only = el("input", { type: "checkbox", id: "only", onchange: () => {
    kept.only = only.checked;
    refresh(true);
  } });
  only.checked = kept.only;
  const count = el("p", { class: "count", role: "status", "aria-live": "off" });
  const grid = new Grid({ label: "Sessions", columns: COLUMNS, keys: KEYS, sort: kept.sort,
    onOpen: (session) => (location.hash = `#/session/${encodeURIComponent(session.id)}`) });
  const none = el("p", { class: "none" });
  grid.active = kept.active;

  function refresh(isAsked) {
    const words = kept.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    let [problems, on] = [0, 0];
    for (const session of sessions.values()) {
      if (session.problem) problems += 1;
      if (session.state === "Active") on += 1;
      if (kept.only && !session.problem) continue;
      if (words.length > 0) {
        const text = searched(session).toLowerCase();
        if (!words.every((word) => text.includes(word))) continue;
      }
      found.push(session);
    }
    if (isAsked) grid.held = 0;
    grid.show(found);
    setText(count, `${number(found.length)} of ${number(sessions.size)} sessions shown · ` +
      `${number(on)} logged on · ${number(problems)} with a problem`);
    setText(none, health.last === 0 ? "Asking the engine …" : found.length > 0 ? ""
      : sessions.size > 0 ? "No session matches. Escape in the filter empties it."
        : "The engine has no session.");
    none.hidden = found.length > 0;
  }

  main.classList.add("fill");
  main.append(el("h1", { class: "sr" }, "Sessions"),
    el("div", { class: "tools" }, filter,
      el("label", { class: "check", for: "only" }, only, "Problems only"),
      el("label", { class: "sort-select" }, "Sort by ", grid.select), count),
    none, grid.node);
  const end = listen(() => refresh(false), true);
  refresh(true);
  grid.node.focus({ preventScroll: true });
  requestAnimationFrame(() => (grid.node.scrollTop = kept.scroll));
  page.filter = () => filter.focus();
  page.back = () => grid.node.focus();
  return () => {
    Object.assign(kept, { sort: grid.sort, active: grid.active, scroll: grid.node.scrollTop });
    main.classList.remove("fill");
    grid.close();
    end();
  };
}
