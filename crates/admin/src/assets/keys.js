// Keyboard: global keys, and lists with arrow keys.

import { el } from "/dom.js";

const KEYS = [
  ["↑ ↓ PageUp PageDown Home End", "go through a list"],
  ["Enter", "opens the session or message"],
  ["/", "goes to the filter"],
  ["Escape", "empties the filter, closes, goes back to all sessions"],
  ["?", "shows these keys"],
  ["Tab", "goes from one control to the next"],
];

const isTyping = (target) =>
  target.matches?.("input:not([type=checkbox]), select, textarea, [contenteditable]");

// Handlers of the open page: filter() and back().
export const page = { filter: null, back: null };

export function showKeys() {
  const close = el("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const list = KEYS.map(([key, does]) =>
    el("div", null, el("dt", null, key.split(" ").map((one) => el("kbd", null, one))),
      el("dd", null, does)));
  const dialog = el("dialog", { "aria-labelledby": "keys-title", class: "keys" },
    el("h2", { id: "keys-title" }, "Keys"), el("dl", null, list),
    el("div", { class: "buttons" }, close));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  // A dialog handles its own keys.
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    const { target } = event;
    if (isTyping(target) && target.value !== "" && target.type === "search") {
      target.value = "";
      target.dispatchEvent(new Event("input"));
    } else {
      page.back?.();
    }
    event.preventDefault();
    return;
  }
  if (isTyping(event.target)) return;
  if (event.key === "/" && page.filter) {
    event.preventDefault();
    page.filter();
  } else if (event.key === "?") {
    event.preventDefault();
    showKeys();
  }
});

// Lets arrow keys move through the children of `list` that match, with one child in the tab order.
export function roving(list, selector, open) {
  const all = () => [...list.querySelectorAll(selector)];
  const enter = (node) => {
    all().forEach((other) => other.setAttribute("tabindex", other === node ? "0" : "-1"));
  };
  list.addEventListener("focusin", (event) => {
    const node = event.target.closest(selector);
    if (node) enter(node);
  });
  list.addEventListener("keydown", (event) => {
    const nodes = all();
    const at = nodes.indexOf(event.target);
    if (at < 0) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 10, PageUp: at - 10,
      Home: 0, End: nodes.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      const next = nodes[Math.min(Math.max(to, 0), nodes.length - 1)];
      next.focus();
      next.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      event.preventDefault();
      open(event.target);
    }
  });
  list.addEventListener("click", (event) => {
    const node = event.target.closest(selector);
    if (node && !event.target.closest("a, button")) open(node);
  });
  // Called after rows were added or removed.
  return () => {
    const nodes = all();
    if (!nodes.some((node) => node.tabIndex === 0)) nodes[0]?.setAttribute("tabindex", "0");
  };
}
