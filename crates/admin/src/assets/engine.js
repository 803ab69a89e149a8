// The engine as a whole: health, reload, log rotation and stop.

import { ask as request, may } from "/api.js";
import { ask } from "/dialog.js";
import { el, facts, mark, say, setText } from "/dom.js";
import { dateTime, number, STATES } from "/format.js";
import { listen, sessions } from "/live.js";

const EVERY_MS = 5000;

export function open(main) {
  const [about, set] = facts([["version", "Version"], ["process", "Process"],
    ["listening", "Listens at"], ["settings_file", "Settings"], ["audit_file", "Audit"],
    ["now", "Its time (UTC)"], ["tls", "This page"]]);
  const ready = el("div", { class: "health", role: "status" });
  const counts = el("ul", { class: "counts" });
  const isOff = !may("administrator");
  const why = isOff ? "Needs the role administrator" : null;
  const reload = el("button", { type: "button", disabled: isOff, title: why, "data-action":
    "reload", onclick: () => ask({ title: "Reload the settings", button: "Reload",
    says: "Goes over to what the settings file says now. What is wrong in it changes nothing.",
    does: async () => say(`Reloaded: ${(await request("/engine/reload", { body: {} })).said}`) }) },
  "Reload …");
  const rotate = el("button", { type: "button", disabled: isOff, title: why, "data-action":
    "rotate", onclick: () => ask({ title: "Rotate the logs", button: "Rotate",
    says: "Begins new files of the protocol logs and of the event log now.",
    does: async () => say((await request("/engine/rotate-logs", { body: {} })).said) }) },
  "Rotate logs …");
  const stop = el("button", { type: "button", class: "danger", disabled: isOff, title: why,
    "data-action": "stop", onclick: () => ask({ title: "Stop the engine", button: "Stop",
      says: "Logs all sessions out and ends the program. This page ends with it.",
      confirm: "stop", isDangerous: true,
      does: async () => say(`Stopping: ${(await request("/engine/stop",
        { body: { confirm: "stop" } })).said}`) }) }, "⚠ Stop …");
  main.append(el("h1", null, "Engine"), el("div", { class: "cards" },
    el("section", { class: "card", "aria-label": "Health" }, el("h2", null, "Health"), ready,
      el("h3", null, "Sessions by state"), counts),
    el("section", { class: "card", "aria-label": "About" }, el("h2", null, "About"), about),
    el("section", { class: "card", "aria-label": "Actions" }, el("h2", null, "Actions"),
      el("div", { class: "actions" },
        isOff ? el("p", { class: "why" }, "These need the role administrator.") : null,
        el("div", { class: "buttons" }, reload, rotate, stop)))));

  let [timer, isOver] = [null, false];
  async function load() {
    try {
      const [answer, health] = await Promise.all([request("/engine"),
        fetch("/health/ready", { cache: "no-store" }).then((response) => response.json())]);
      if (isOver) return;
      set("version", answer.version);
      set("process", answer.process);
      set("listening", answer.listening.join(", ") || "nowhere");
      set("settings_file", answer.settings_file ?? "none");
      set("audit_file", answer.audit_file ?? "no audit is written");
      set("now", dateTime(answer.now));
      set("tls", answer.tls ? "over TLS" : "without TLS, on this machine alone");
      ready.replaceChildren(health.ready ? mark("good", "● ready") : mark("bad", "✕ not ready"),
        ...health.why.map((text) => el("p", null, text)));
    } catch (problem) {
      if (isOver) return;
      ready.replaceChildren(mark("bad", `✕ ${problem.full ?? problem.message}`));
    }
    timer = setTimeout(load, EVERY_MS);
  }

  const end = listen(() => {
    const found = new Map();
    let problems = 0;
    for (const session of sessions.values()) {
      found.set(session.state, (found.get(session.state) ?? 0) + 1);
      if (session.problem) problems += 1;
    }
    const lines = [...found].map(([state, n]) => `${STATES[state] ?? state}: ${number(n)}`);
    lines.push(`With a problem: ${number(problems)}`);
    if (counts.dataset.shown === lines.join()) return;
    counts.dataset.shown = lines.join();
    counts.replaceChildren(...lines.map((text) => el("li", null, text)));
  });
  load();
  setText(counts, "…");
  return () => {
    isOver = true;
    clearTimeout(timer);
    end();
  };
}
