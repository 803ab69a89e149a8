// Entry point: checks the login, builds the frame of the page, and opens the requested view.

import { ask, logOut, me, onExpired, whoAmI } from "/api.js";
import * as audit from "/audit.js";
import * as certificates from "/certificates.js";
import { el, setText } from "/dom.js";
import * as engine from "/engine.js";
import * as events from "/events.js";
import * as fleet from "/fleet.js";
import { page, showKeys } from "/keys.js";
import * as live from "/live.js";
import * as login from "/login.js";
import * as session from "/session.js";
import * as sessions from "/sessions.js";
import * as settings from "/settings.js";

const PAGES = [
  ["sessions", "Sessions", sessions],
  ["fleet", "Fleet", fleet],
  ["events", "Events", events],
  ["audit", "Audit", audit],
  ["settings", "Settings", settings],
  ["certificates", "Certificates", certificates],
  ["engine", "Engine", engine],
];

let close = null;
let endStatus = null;
let problems = 0;
let title = "Sessions";

const main = el("main", { id: "main", tabindex: "-1" });

function showTitle() {
  document.title = `${problems > 0 ? `(${problems}) ` : ""}${title} · Transfix`;
}

// Opens the view that the address names after the #.
function go() {
  if (!me) return;
  close?.();
  close = null;
  page.filter = null;
  page.back = () => (location.hash = "#/sessions");
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decodeURIComponent);
  const found = PAGES.find(([known]) => known === name) ?? PAGES[0];
  const isOne = name === "session" && rest[0];
  main.replaceChildren();
  main.className = "";
  const opened = isOne ? session : found[2];
  title = isOne ? rest[0] : found[1];
  showTitle();
  const current = isOne ? "sessions" : found[0];
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  window.scrollTo(0, 0);
  close = opened.open(main, rest, new URLSearchParams(query)) ?? null;
  const heading = main.querySelector("h1");
  if (heading && !main.contains(document.activeElement)) {
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  }
}

// Shows the state of the connection to the server in the top line.
function showStatus(node, alert) {
  const { problem, since, last } = live.health;
  problems = [...live.sessions.values()].filter((one) => one.problem).length;
  showTitle();
  node.className = problem ? "live bad" : "live";
  setText(node, problem ? "✕ no answer" : last ? "● live" : "…");
  const time = new Date(since).toISOString().slice(11, 19);
  setText(alert, problem
    ? `${problem.full}. What is shown is of ${time} UTC; trying again every 2 s.` : "");
  alert.hidden = !problem;
}

function frame() {
  const status = el("span", { class: "live" });
  const alert = el("div", { class: "banner", role: "alert", hidden: true });
  const links = PAGES.map(([name, label]) =>
    el("a", { href: `#/${name}`, "data-page": name, hidden: name === "fleet" }, label));
  document.body.replaceChildren(
    el("a", { class: "skip", href: "#main", onclick: (event) => {
      event.preventDefault();
      main.focus();
    } }, "To the content"),
    el("header", null,
      el("span", { class: "brand" }, "Transfix"),
      el("nav", { "aria-label": "Pages" }, links),
      el("div", { class: "who" }, status,
        el("span", { id: "who", title: "Who is logged in, and the role" },
          `${me.name} · ${me.role}`),
        el("button", { type: "button", class: "plain", "aria-label": "Keys",
          onclick: showKeys }, "?"),
        el("button", { type: "button", id: "log-out", onclick: leave }, "Log out"))),
    alert,
    main,
    el("div", { id: "said", role: "status", "aria-live": "polite" }));
  // Only a gateway of a fleet has the page of the fleet. Without an answer, the link stays hidden.
  ask("/engine").then((engine) => {
    links.find((link) => link.dataset.page === "fleet").hidden = !engine.fleet;
  }).catch(() => {});
  endStatus = live.listen(() => showStatus(status, alert));
  showStatus(status, alert);
}

async function leave() {
  try {
    await logOut();
  } catch {
    // The server is unreachable, or no longer accepts the login.
  }
  toLogin("You are logged out.");
}

function toLogin(why) {
  close?.();
  close = null;
  endStatus?.();
  live.stop();
  document.querySelectorAll("dialog").forEach((dialog) => dialog.close());
  document.title = "Log in · Transfix";
  login.show(document.body, why, begin);
}

function begin() {
  frame();
  live.start();
  go();
}

onExpired(() => toLogin("Your log-in has ended. Log in again; you come back to the same page."));
window.addEventListener("hashchange", go);

async function start() {
  try {
    await whoAmI();
    begin();
  } catch (problem) {
    toLogin(problem.status === 401 ? "" : problem.full ?? String(problem));
  }
}

start();
