// The page of one session: its state, its actions and its messages.

import { actionButtons, act, removeButton } from "/actions.js";
import { ask as request, may, sessionPath } from "/api.js";
import { ask } from "/dialog.js";
import { el, facts, mark, row, setText, table } from "/dom.js";
import { bytes, dateTime, nanoseconds, number, rate, span, STATES } from "/format.js";
import { age, rates } from "/live.js";
import * as messages from "/messages.js";
import { page } from "/keys.js";
import { problemOf } from "/sessions.js";

const EVERY_MS = 1000;
// Number of rates in a curve.
const POINTS = 120;

export function open(main, [id, part], query) {
  const base = `#/session/${encodeURIComponent(id)}`;
  const tab = (name, href, isOn) =>
    el("a", { href, "aria-current": isOn ? "page" : null }, name);
  const standing = el("p", { class: "standing", role: "status" });
  main.append(el("nav", { class: "crumbs", "aria-label": "Way back" },
    el("a", { href: "#/sessions" }, "‹ All sessions")),
  el("h1", { class: "mono" }, id), standing,
  el("nav", { class: "tabs", "aria-label": "Of this session" },
    tab("Overview", base, part !== "messages"),
    tab("Messages", `${base}/messages`, part === "messages"),
    tab("Events", `#/events?session=${encodeURIComponent(id)}`, false)));
  const show = part === "messages" ? () => {} : overview(main, id);
  const end = poll(id, standing, show);
  const endMessages = part === "messages" ? messages.open(main, id, query) : null;
  if (part === "messages" && query.size > 0) page.back = () => (location.hash = base);
  return () => {
    end();
    endMessages?.();
  };
}

// Polls the session about once a second. Returns a function that ends the polling.
function poll(id, standing, show) {
  let [timer, isOver, before] = [null, false, null];
  async function once() {
    try {
      const session = await request(sessionPath(id), { wait: 15000 });
      if (isOver) return;
      session.now = Date.parse(session.now);
      session.rates = rates(before, session, session.now_ns) ?? {};
      before = session;
      showStanding(standing, session);
      show(session);
    } catch (problem) {
      if (isOver) return;
      standing.replaceChildren(mark("bad", `⚠ ${problem.full ?? problem}`));
    }
    timer = setTimeout(once, document.hidden ? 10 * EVERY_MS : EVERY_MS);
  }
  once();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

function showStanding(node, session) {
  const parts = [mark(session.state === "Active" ? "good" : "plain",
    STATES[session.state] ?? session.state)];
  if (session.since) parts.push(`since ${dateTime(session.since)} UTC`);
  if (session.problem) {
    parts.push(mark("bad", `⚠ ${problemOf(session)}`));
  }
  if (!session.enabled) parts.push(mark("warn", "logged out by an operator"));
  const text = parts.map((part) => part.textContent ?? part).join(" ");
  // The text is only replaced if it has changed, so that a screen reader does not repeat it.
  if (node.dataset.text === text) return;
  node.dataset.text = text;
  node.replaceChildren(...parts.flatMap((part) => [part, " "]));
}

function card(title, ...children) {
  return el("section", { class: "card", "aria-label": title }, el("h2", null, title), ...children);
}

// All counters except messages and bytes, which are shown as rates.
const COUNTS = [["logons", "Logons"], ["logons_refused", "Logons refused"],
  ["disconnects", "Ends of connections"], ["refused", "Connections refused"],
  ["rejects_in", "Reject(3) received"], ["rejects_out", "Reject(3) sent"],
  ["business_rejects_in", "BusinessMessageReject(j) received"],
  ["business_rejects_out", "BusinessMessageReject(j) sent"],
  ["resend_requests_in", "ResendRequest(2) received"],
  ["resend_requests_out", "ResendRequest(2) sent"], ["resent", "Messages sent again"],
  ["garbled", "Garbled"], ["not_stored", "Not stored"], ["passed_over", "Passed over"],
  ["not_logged", "Not logged"]];

function overview(main, id) {
  const [state, setState] = facts([["role", "Role"], ["address", "Address"],
    ["destination", "Connected to"], ["peer", "Address of the other side"],
    ["next_in", "Next number in"], ["next_out", "Next number out"],
    ["heard", "Last heard"], ["sent", "Last sent"], ["heart", "HeartBtInt(108)"],
    ["queue", "Queue"], ["waiting", "Waiting for the program"], ["store", "Store on disk"]]);
  const [end, setEnd] = facts([["at", "When"], ["reason", "Why"],
    ["text", "Text of the other side"], ["store", "Store failure"]]);
  const [counts, setCount] = facts(COUNTS);
  const curves = ["messages_in", "messages_out", "bytes_in", "bytes_out"].map(curve);
  const [latency, latencyRows] = table("Latency by stage",
    ["Stage", "Count", "p50", "p99", "p99.9", "Max"], []);
  const [windows, windowRows] = table("Next windows of the schedule", ["Opens", "Closes"], []);
  const destinations = el("ul", { class: "destinations" });
  main.append(el("div", { class: "sides" },
    el("div", { class: "side" }, card("State", state), card("Last end", end),
      card("Counted since the start", counts)),
    el("div", { class: "side" },
      card("Rates", el("div", { class: "curves" }, curves.map((c) => c.node))),
      card("Actions", actionButtons(id), removeButton(id)), card("Latency", latency),
      el("div", { class: "cards" }, card("Schedule", windows),
        card("Destinations", destinations)))));
  return (s) => {
    setState("role", s.role);
    setState("address", s.address);
    setState("destination", s.destination ?? "–");
    setState("peer", s.peer ?? "–");
    setState("next_in", number(s.next_num_in));
    setState("next_out", number(s.next_num_out));
    setState("heard", s.last_received ? `${span(age(s.last_received, s.now))} ago` : "–");
    setState("sent", s.last_sent ? `${span(age(s.last_sent, s.now))} ago` : "–");
    setState("heart", s.heart_bt_int_s ? `${s.heart_bt_int_s} s` : "none");
    setState("queue", bytes(s.queued_bytes));
    const { messages: waiting, bytes: size } = s.waiting_for_application;
    setState("waiting", `${number(waiting)}, ${bytes(size)}`);
    setState("store", s.store ? `${bytes(s.store.bytes)}, ${bytes(s.store.free_bytes)} left`
      : "in memory");
    setEnd("at", s.last_end ? `${dateTime(s.last_end.at)} UTC` : "–");
    setEnd("reason", s.last_end ? `${s.last_end.reason} (code ${s.last_end.code})` : "–");
    setEnd("text", s.last_end?.text ? `“${s.last_end.text}”` : "–");
    setEnd("store", s.store_failure ?? "none");
    for (const [name] of COUNTS) setCount(name, number(s.counters[name]));
    curves.forEach((one) => one.add(s.rates));
    showRows(latencyRows, (s.latency ?? []).map((l) => [l.stage.replaceAll("_", " ") +
      (s.unusual_latency.includes(l.stage) ? " ⚠ unusual" : ""),
      number(l.count), nanoseconds(l.p50_ns), nanoseconds(l.p99_ns), nanoseconds(l.p999_ns),
      nanoseconds(l.max_ns)]), "Nothing was measured yet.");
    showRows(windowRows, (s.windows ?? []).map((w) => [w.open_local, w.close_local]),
      s.windows ? "No window is known." : "Always open.");
    showDestinations(destinations, id, s);
  };
}

// Replaces the rows only if the texts have changed.
function showRows(body, rows, none) {
  const wanted = JSON.stringify(rows);
  if (body.dataset.shown === wanted) return;
  body.dataset.shown = wanted;
  body.replaceChildren(...(rows.length > 0 ? rows.map((cells) => row(cells))
    : [el("tr", null, el("td", { colspan: 6 }, none))]));
}

function showDestinations(list, id, session) {
  const { destinations, destination } = session;
  const wanted = JSON.stringify([destinations, destination]);
  if (list.dataset.shown === wanted) return;
  list.dataset.shown = wanted;
  if (session.role !== "initiator") {
    list.replaceChildren(el("li", null, "An acceptor is connected to."));
    return;
  }
  list.replaceChildren(...destinations.map((address, n) => {
    const isOn = address === destination;
    const button = el("button", { type: "button", disabled: !may("operator"),
      title: may("operator") ? null : "Needs the role operator",
      onclick: () => ask({ title: `Connect to ${address}`, button: "Connect",
        says: "Leaves the connection that is there, and connects to this destination.",
        does: () => act(id, `Connect to ${address}`,
          { action: "connect_to", destination: n }) }) }, "Connect to …");
    return el("li", null, el("code", null, address), isOn ? mark("good", "in use") : "", button);
  }));
}

const SVG = "http://www.w3.org/2000/svg";

const LABELS = { messages_in: "Messages/s in", messages_out: "Messages/s out",
  bytes_in: "Bytes/s in", bytes_out: "Bytes/s out" };

// Creates a number with a curve of the last two minutes. The curve is hidden from screen readers.
function curve(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${POINTS - 1} 32`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, "polyline");
  svg.append(line);
  const value = el("b", { "data-rate": name });
  const most = el("span", { class: "note" });
  const points = [];
  const show = name.startsWith("bytes") ? bytes : rate;
  return {
    node: el("div", { class: "curve" }, el("span", null, LABELS[name]), value, svg, most),
    add(found) {
      setText(value, show(found[name]));
      if (found[name] === undefined) return;
      points.push(found[name]);
      if (points.length > POINTS) points.shift();
      const top = Math.max(...points, 0.001);
      line.setAttribute("points", points.map((point, n) =>
        `${POINTS - points.length + n},${31 - (point / top) * 30}`).join(" "));
      setText(most, `most ${show(Math.max(...points))}`);
    },
  };
}
