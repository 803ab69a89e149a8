// Messages of a session: the last messages live, a search, one message, the messages of an order.

import { ask, sessionPath } from "/api.js";
import { el, labelled, mark, setText } from "/dom.js";
import { clockTime, dateTime, fields, msgType, number, story } from "/format.js";
import { page, roving } from "/keys.js";

const FOLLOW_MS = 2000;
const NAMES = ["direction", "seq_from", "seq_to", "msg_type", "field", "text", "order", "limit"];

export function open(main, id, query) {
  const wanted = Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""]));
  wanted.limit ||= "200";
  const base = `#/session/${encodeURIComponent(id)}/messages`;
  const form = searchForm(wanted, (values) => {
    const text = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ""));
    const hash = `${base}?${text}`;
    if (location.hash === hash) load();
    else location.hash = hash;
  }, base);
  const follow = el("input", { type: "checkbox", id: "follow", onchange: () => load() });
  follow.checked = !NAMES.some((name) => name !== "limit" && wanted[name]);
  const said = el("p", { class: "count", role: "status" });
  const body = el("tbody");
  const heads = ["Time (UTC)", "Way", "34", "MsgType(35)",
    wanted.order ? "What it says" : "Message"];
  const list = el("div", { class: "frame tall" }, el("table", { class: "messages",
    "aria-label": "Messages, the newest first" },
  el("thead", null, el("tr", null, heads.map((head) => el("th", { scope: "col" }, head)))), body));
  const shown = new Map();
  const ensure = roving(body, "tr.message", (node) => {
    const found = [...shown.values()].find((one) => one.node === node);
    if (found) showMessage(id, found.message);
  });
  main.append(wanted.order ? el("div", { class: "story" }, el("h2", null, "Life of order ",
    el("code", null, wanted.order)), el("a", { href: base }, "Show all messages")) : "",
  form.node, el("div", { class: "tools" },
    el("label", { class: "check", for: "follow" }, follow, "Follow new messages"), said), list);
  page.filter = form.focus;
  let [timer, isOver, turn] = [null, false, 0];

  async function load() {
    clearTimeout(timer);
    const mine = ++turn;
    const begun = performance.now();
    try {
      const found = await ask(`${sessionPath(id)}/messages`, { query: wanted });
      if (isOver || mine !== turn) return;
      show(found);
    } catch (problem) {
      if (isOver || mine !== turn) return;
      said.replaceChildren(mark("bad", `⚠ ${problem.full ?? problem}`));
    }
    const took = performance.now() - begun;
    const again = () => (document.hidden ? (timer = setTimeout(again, FOLLOW_MS)) : load());
    if (follow.checked) timer = setTimeout(again, Math.max(FOLLOW_MS, 4 * took));
  }

  function show(found) {
    const marked = marks(found.messages, isComplete(wanted));
    const keys = new Set();
    const nodes = [];
    for (const [n, message] of found.messages.entries()) {
      // A search may return a message twice; time, direction and number identify a message.
      const key = `${message.at} ${message.direction} ${message.seq ?? message.note} ${marked[n]}`;
      keys.add(key);
      if (!shown.has(key)) {
        shown.set(key, { message, node: line(message, marked[n], Boolean(wanted.order)) });
      }
      nodes.push(shown.get(key).node);
    }
    for (const key of [...shown.keys()].filter((one) => !keys.has(one))) {
      shown.get(key).node.remove();
      shown.delete(key);
    }
    // The newest message comes first. Existing rows are not moved, so they keep the focus.
    let next = body.firstChild;
    for (const node of nodes.reverse()) {
      if (node === next) next = next.nextSibling;
      else body.insertBefore(node, next);
    }
    ensure();
    const parts = [`${number(nodes.length)} messages`];
    if (nodes.length === Number(wanted.limit)) parts.push("the last ones; there may be more");
    if (!found.whole) parts.push("⚠ not all was searched in the time: give a narrower search");
    parts.push(found.keeps_inbound
      ? "administrative and rejected messages that came in are not kept"
      : "what came in is not kept (keep_inbound)");
    setText(said, parts.join(" · "));
  }

  load();
  return () => {
    isOver = true;
    clearTimeout(timer);
    document.querySelectorAll("dialog.one-message").forEach((dialog) => dialog.close());
  };
}

// Returns true if the list leaves out no message, so that a missing number is a gap.
const isComplete = (wanted) => !["msg_type", "field", "text", "order"].some((name) => wanted[name]);

// Returns the marks of each message: gaps, resent messages, rejects.
export function marks(messages, areAll) {
  const last = {};
  return messages.map((message) => {
    const found = [];
    const { direction, seq } = message;
    if (message.note !== undefined) {
      if (message.note === "reset") ["in", "out"].forEach((way) => delete last[way]);
      return found;
    }
    const values = new Map(fields(message.text).slice(0, 30).reverse());
    const isAgain = values.get("43") === "Y";
    if (areAll && last[direction] !== undefined && seq > last[direction] + 1) {
      const [from, to] = [last[direction] + 1, seq - 1];
      const which = from === to ? from : `${from}–${to}`;
      // Administrative and rejected inbound messages are not stored, so a missing inbound number is
      // no gap.
      found.push(direction === "in" ? ["plain", `${which} not kept`] : ["warn", `gap: ${which}`]);
    }
    if (message.msg_type === "2") {
      found.push(["warn", `gap: asks for ${values.get("7")}–${values.get("16")}`
        .replace(/–0$/, " and all that follow")]);
    }
    if (isAgain) found.push(["again", "resent (43=Y)"]);
    else if (areAll && seq <= last[direction]) found.push(["warn", "number again"]);
    if (message.msg_type === "3" || message.msg_type === "j") {
      found.push(["bad", `✕ rejects number ${values.get("45") ?? "?"}`]);
    }
    if (values.get("39") === "8") found.push(["bad", "OrdStatus(39)=8 rejected"]);
    last[direction] = Math.max(seq, last[direction] ?? 0);
    return found;
  });
}

function line(message, marked, isStory) {
  if (message.note !== undefined) {
    return el("tr", { class: "remark" }, el("td", null, clockTime(message.at)),
      el("td", { colspan: 4 }, message.note));
  }
  const isIn = message.direction === "in";
  return el("tr", { class: `message ${message.direction}`, tabindex: "-1", role: "row" },
    el("td", { class: "mono" }, isStory ? `${dateTime(message.at)}` : clockTime(message.at)),
    el("td", null, isIn ? "→ in" : "← out"),
    el("td", { class: "num mono" }, number(message.seq)),
    el("td", null, msgType(message.msg_type), " ", marked.map(([kind, text]) => mark(kind, text))),
    el("td", { class: "bytes mono" }, shortened(isStory ? story(message) : message.text)));
}

// Shortens a long message for the list; the dialog shows the whole message.
function shortened(text) {
  const [most, length] = [2000, text.length];
  return length > most ? `${text.slice(0, most)} … (${number(length)} characters)` : text;
}

function searchForm(wanted, search, base) {
  const input = (name, attributes) => el("input", { name, value: wanted[name],
    autocomplete: "off", spellcheck: "false", ...attributes });
  const choice = (name, options) => {
    const select = el("select", { name }, options.map(([value, text]) =>
      el("option", { value }, text)));
    select.value = wanted[name];
    return select;
  };
  const inputs = {
    direction: choice("direction", [["", "both"], ["in", "in"], ["out", "out"]]),
    seq_from: input("seq_from", { inputmode: "numeric", size: 7 }),
    seq_to: input("seq_to", { inputmode: "numeric", size: 7 }),
    msg_type: input("msg_type", { size: 5 }),
    field: input("field", { size: 14, placeholder: "55=EUR/USD" }),
    text: input("text", { type: "search", size: 14 }),
    order: input("order", { size: 12, placeholder: "11, 41 or 37" }),
    limit: choice("limit", ["50", "200", "1000"].map((n) => [n, n])),
  };
  const labels = { direction: "Way", seq_from: "34 from", seq_to: "34 to", msg_type: "MsgType(35)",
    field: "Tag=value", text: "Text", order: "Order", limit: "At most" };
  const error = el("p", { class: "error", role: "alert" });
  const node = el("form", { class: "search", role: "search", onsubmit: (event) => {
    event.preventDefault();
    const values = Object.fromEntries(Object.entries(inputs).map(([name, one]) =>
      [name, one.value.trim()]));
    const bad = ["seq_from", "seq_to"].find((name) => !/^\d*$/.test(values[name]));
    const isField = values.field === "" || /^\d+=./.test(values.field);
    setText(error, bad ? `${labels[bad]} is a whole number`
      : isField ? "" : "Tag=value is such as 55=EUR/USD");
    if (!error.textContent) search(values);
  } },
  Object.entries(inputs).map(([name, one]) => labelled(labels[name], one)),
  el("div", { class: "buttons" }, el("button", { type: "submit", class: "primary" }, "Search"),
    el("a", { href: base, class: "button" }, "Clear")), error);
  return { node, focus: () => inputs.text.focus() };
}

// Shows one message: its names as a tree beside its bytes.
async function showMessage(id, message) {
  const tree = el("div", { class: "tree" }, el("p", { class: "note" }, "Asking for the names …"));
  const parts = fields(message.text);
  const close = el("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const orders = [];
  for (const [tag, name] of [["11", "ClOrdID(11)"], ["41", "OrigClOrdID(41)"],
    ["37", "OrderID(37)"]]) {
    const value = parts.find(([known]) => known === tag)?.[1];
    if (!value || value === "NONE" || orders.some(([, known]) => known === value)) continue;
    orders.push([name, value]);
  }
  const dialog = el("dialog", { class: "one-message", "aria-labelledby": "message-title" },
    el("h2", { id: "message-title" }, `${msgType(message.msg_type)}, MsgSeqNum(34) ` +
      `${message.seq}, ${message.direction === "in" ? "received" : "sent"} ` +
      `${dateTime(message.at)} UTC`),
    el("div", { class: "buttons" }, orders.map(([name, value]) =>
      el("a", { class: "button", "data-order": value, onclick: () => dialog.close(),
        href: `#/session/${encodeURIComponent(id)}/messages?order=${encodeURIComponent(value)}` },
      `Life of the order by ${name}`)), close),
    el("div", { class: "beside" },
      el("section", { "aria-label": "Names" }, el("h3", null, "Names"), tree),
      el("section", { "aria-label": "Bytes" }, el("h3", null, "Bytes"),
        el("ol", { class: "raw mono" }, parts.map(([tag, value]) =>
          el("li", null, el("span", { class: "tag" }, `${tag}=`), value, el("i", null, "|")))))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
  try {
    const query = { direction: message.direction, seq_from: message.seq, seq_to: message.seq,
      names: "true", limit: "50" };
    const found = await ask(`${sessionPath(id)}/messages`, { query });
    const same = found.messages.find((one) => one.at === message.at && one.text === message.text);
    tree.replaceChildren(same?.names ? branch(same.names)
      : el("p", { class: "note" }, "There is no dictionary for it, or it is not in the store."));
  } catch (problem) {
    tree.replaceChildren(mark("bad", `⚠ ${problem.full ?? problem}`));
  }
}

// Returns an object as a list of names, and a group as a list of its entries.
function branch(value) {
  const items = Object.entries(value).map(([name, inner]) => {
    if (Array.isArray(inner)) {
      return el("li", null, el("details", { open: true },
        el("summary", null, `${name} (${inner.length})`),
        el("ol", { class: "group" }, inner.map((entry) => el("li", null, branch(entry))))));
    }
    if (inner !== null && typeof inner === "object") {
      return el("li", null, el("details", { open: true }, el("summary", null, name),
        branch(inner)));
    }
    return el("li", null, el("span", { class: "name" }, name), " ",
      el("span", { class: "value mono" }, String(inner)));
  });
  return el("ul", null, items);
}
