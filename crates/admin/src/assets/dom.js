// Creates elements. Text is only inserted as text, never as HTML.

// Creates an element with attributes, listeners (functions with names that begin with "on") and
// children.
export function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

// Sets the text of a node only if the text differs, which saves work in the browser.
export function setText(node, text) {
  const wanted = text === null || text === undefined ? "" : String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

let count = 0;

// Creates a label with its input. Returns both.
export function labelled(label, input, note) {
  input.id ||= `field-${++count}`;
  const parts = [el("label", { for: input.id }, label), input];
  if (note) {
    const id = `${input.id}-note`;
    input.setAttribute("aria-describedby", id);
    parts.push(el("span", { id, class: "note" }, note));
  }
  return el("div", { class: "field" }, ...parts);
}

// Creates a list of names and values. Returns the node and a function that sets a value.
export function facts(names) {
  const values = new Map();
  const node = el("dl", { class: "facts" }, names.map(([key, name]) => {
    const value = el("dd", { "data-fact": key });
    values.set(key, value);
    return el("div", null, el("dt", null, name), value);
  }));
  return [node, (key, text) => setText(values.get(key), text)];
}

// Creates a table in a frame that scrolls if the page is narrow.
export function table(label, heads, rows, kind) {
  const head = el("tr", null, heads.map((text) => el("th", { scope: "col" }, text)));
  const body = el("tbody", null, rows);
  const node = el("table", { "aria-label": label, class: kind }, el("thead", null, head), body);
  return [el("div", { class: "frame", tabindex: "0", role: "region", "aria-label": label }, node),
    body];
}

// Creates a row of texts or nodes. With the names of the columns, a narrow page shows the row as a
// card.
export function row(cells, attributes, heads) {
  return el("tr", attributes, cells.map((cell, n) =>
    el("td", heads ? { "data-name": heads[n] } : null, el("div", null, cell ?? ""))));
}

// Creates a mark that has a text as well as a color.
export function mark(kind, text) {
  return el("span", { class: `mark ${kind}` }, text);
}

let saying = null;

// Shows a result or an error, also to screen readers.
export function say(text, kind = "good") {
  const place = document.getElementById("said");
  if (!place) return;
  clearTimeout(saying);
  place.replaceChildren(el("div", { class: `said ${kind}` }, el("span", null, text),
    el("button", { type: "button", class: "plain", "aria-label": "Dismiss",
      onclick: () => place.replaceChildren() }, "×")));
  // An error stays visible; only a success disappears.
  if (kind === "good") saying = setTimeout(() => place.replaceChildren(), 8000);
}
