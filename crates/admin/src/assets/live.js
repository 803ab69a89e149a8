// State of all sessions, polled once a second and passed to each view.

import { ask } from "/api.js";

const FAST_MS = 1000;
const SLOW_MS = 5000;
const HIDDEN_MS = 15000;

// Sessions by identity, each with its rates.
export const sessions = new Map();
// State of polling: the time of the last answer, and the present problem.
export const health = { last: 0, problem: null, since: 0, now: 0 };

const listeners = new Set();
let timer = null;
let running = false;
let generation = 0;

// Calls `listener` after every answer or failure. Returns a function that removes the listener.
export function listen(listener, isFast = false) {
  const entry = { listener, isFast };
  listeners.add(entry);
  if (isFast && running) schedule(0);
  return () => listeners.delete(entry);
}

export function start() {
  if (running) return;
  running = true;
  schedule(0);
}

export function stop() {
  running = false;
  generation += 1;
  clearTimeout(timer);
  sessions.clear();
  Object.assign(health, { last: 0, problem: null, since: 0 });
}

// Polls soon after an action.
export const soon = () => running && schedule(100);

function schedule(ms) {
  clearTimeout(timer);
  timer = setTimeout(poll, ms);
}

let asking = false;

async function poll() {
  if (asking) return schedule(200);
  asking = true;
  const mine = generation;
  const begun = performance.now();
  try {
    const answer = await ask("/sessions", { wait: 15000 });
    if (mine !== generation) return;
    take(answer);
    Object.assign(health, { last: performance.now(), problem: null });
  } catch (problem) {
    if (mine !== generation) return;
    if (!health.problem) health.since = Date.now();
    health.problem = problem;
  } finally {
    asking = false;
  }
  if (!running) return;
  tell();
  const took = performance.now() - begun;
  const isFast = [...listeners].some((entry) => entry.isFast);
  const every = document.hidden ? HIDDEN_MS : isFast ? FAST_MS : SLOW_MS;
  // On a slow connection, the pause is as long as the request took.
  schedule(health.problem ? 2000 : Math.max(every - took, took, 100));
}

function take({ now, now_ns, sessions: all }) {
  health.now = Date.parse(now);
  const gone = new Set(sessions.keys());
  for (const session of all) {
    gone.delete(session.id);
    session.rates = rates(sessions.get(session.id), session, now_ns);
    session.heard = age(session.last_received, health.now);
    session.now_ns = now_ns;
    sessions.set(session.id, session);
  }
  gone.forEach((id) => sessions.delete(id));
}

const COUNTED = ["messages_in", "messages_out", "bytes_in", "bytes_out"];

// Returns rates per second since the previous answer; counters that restarted have no rate yet.
export function rates(before, session, now_ns) {
  if (!before) return {};
  const seconds = (now_ns - before.now_ns) / 1e9;
  // Two answers within 0.4 s are less exact than the previous rates.
  if (seconds < 0.4) return before.rates;
  const found = {};
  for (const name of COUNTED) {
    const more = session.counters[name] - before.counters[name];
    if (more >= 0) found[name] = more / seconds;
  }
  return found;
}

export const age = (at, now) => (at ? Math.max(0, now - Date.parse(at)) : null);

function tell() {
  for (const { listener } of [...listeners]) listener();
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && running) schedule(0);
});
