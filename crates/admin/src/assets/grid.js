// A table for thousands of rows. Only visible rows are in the page, and are updated in place.
//
// A column has a name, one or two sort keys, and `fill(row)`, which returns the upper text, the
// lower text and a class. The arrow keys move the active row; the grid itself keeps the focus.

import { el, setText } from "/dom.js";

// Time without sorting after the last pointer movement or scroll, so that no row moves away under
// the pointer.
const HOLD_MS = 2500;

export class Grid {
  constructor({ label, columns, keys, sort, onOpen }) {
    Object.assign(this, { columns, keys, sort, onOpen });
    this.rows = [];
    this.order = [];
    this.pool = [];
    this.active = null;
    this.held = 0;
    this.body = el("div", { class: "grid-body", role: "rowgroup" });
    this.head = el("div", { class: "grid-head grid-row", role: "row", "aria-rowindex": "1" },
      columns.map((column) => this.header(column)));
    this.node = el("div", { class: "grid", role: "grid", tabindex: "0", "aria-label": label,
      "aria-colcount": columns.length,
      onscroll: () => this.scrolled(), onkeydown: (event) => this.key(event),
      onclick: (event) => this.clicked(event), onpointermove: () => this.hold() },
    el("div", { role: "rowgroup", class: "grid-top" }, this.head), this.body);
    this.select = el("select", { onchange: () => this.sortBy(this.select.value, 1) },
      Object.entries(keys).map(([key, { name }]) => el("option", { value: key }, name)));
    this.select.value = sort.key;
    this.watcher = new ResizeObserver(() => this.measure());
    this.watcher.observe(this.node);
    this.showSort();
  }

  close() {
    this.watcher.disconnect();
  }

  header(column) {
    const buttons = column.keys.map((key) =>
      el("button", { type: "button", class: "sort", "data-sort": key,
        onclick: () => this.sortBy(key) }, this.keys[key].short ?? this.keys[key].name));
    return el("div", { role: "columnheader", class: column.class ?? "" }, buttons);
  }

  sortBy(key, direction) {
    const again = this.sort.key === key ? -this.sort.direction : this.keys[key].first ?? 1;
    this.sort = { key, direction: direction ? this.keys[key].first ?? 1 : again };
    this.select.value = key;
    this.showSort();
    this.arrange(true);
  }

  showSort() {
    for (const head of this.head.children) {
      head.removeAttribute("aria-sort");
      for (const button of head.querySelectorAll("button")) {
        const isOn = button.dataset.sort === this.sort.key;
        const up = this.sort.direction > 0;
        button.dataset.direction = isOn ? (up ? "up" : "down") : "";
        if (isOn) head.setAttribute("aria-sort", up ? "ascending" : "descending");
      }
    }
  }

  hold() {
    this.held = performance.now() + HOLD_MS;
  }

  // Shows these rows, which have passed the filter.
  show(rows) {
    this.rows = rows;
    this.arrange(false);
  }

  arrange(isAsked) {
    if (isAsked || performance.now() >= this.held) {
      const { of, text } = this.keys[this.sort.key];
      const { direction } = this.sort;
      const decorated = this.rows.map((row) => [of(row), row]);
      const compare = text ? byText : byNumber;
      decorated.sort(([a, x], [b, y]) => direction * compare(a, b) || byText(x.id, y.id));
      this.order = decorated.map(([, row]) => row);
    } else {
      // The order is kept: removed rows disappear, and new rows follow at the end.
      const now = new Map(this.rows.map((row) => [row.id, row]));
      const kept = [];
      for (const { id } of this.order) {
        if (now.has(id)) kept.push(now.get(id));
        now.delete(id);
      }
      this.order = [...kept, ...now.values()];
    }
    this.node.setAttribute("aria-rowcount", this.order.length + 1);
    this.body.style.height = `${this.order.length * this.height}px`;
    this.render();
  }

  measure() {
    const style = getComputedStyle(this.node);
    this.height = parseFloat(style.getPropertyValue("--row")) *
      parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.top = this.head.getBoundingClientRect().height;
    this.room = this.node.clientHeight - this.top;
    this.body.style.height = `${this.order.length * this.height}px`;
    const wanted = Math.ceil(Math.max(this.room, 0) / this.height) + 2;
    while (this.pool.length > wanted) this.pool.pop().node.remove();
    while (this.pool.length < wanted) this.pool.push(this.line());
    this.pool.forEach((line) => (line.index = -1));
    this.render();
  }

  line() {
    const cells = this.columns.map((column) => {
      const [upper, lower] = [el("span", { class: "upper" }), el("span", { class: "lower" })];
      const node = el("div", { role: "gridcell", class: column.class ?? "",
        "data-name": column.name }, upper, lower);
      return { node, upper, lower, fill: column.fill, base: column.class ?? "" };
    });
    const node = el("div", { role: "row", class: "grid-row" }, cells.map((cell) => cell.node));
    node.hidden = true;
    this.body.append(node);
    return { node, cells, index: -1 };
  }

  scrolled() {
    this.hold();
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.render();
    });
  }

  render() {
    if (!this.pool.length) return;
    const first = Math.max(0, Math.floor(this.node.scrollTop / this.height));
    for (let index = first; index < first + this.pool.length; index += 1) {
      this.fill(this.pool[index % this.pool.length], index, this.order[index]);
    }
    const at = this.pool.find((line) => !line.node.hidden && line.row?.id === this.active);
    if (at) this.node.setAttribute("aria-activedescendant", at.node.id);
    else this.node.removeAttribute("aria-activedescendant");
  }

  fill(line, index, row) {
    line.row = row;
    if (!row) {
      line.node.hidden = true;
      line.index = -1;
      return;
    }
    if (line.index !== index) {
      line.index = index;
      line.node.id = `row-${index}`;
      line.node.setAttribute("aria-rowindex", index + 2);
      line.node.style.transform = `translateY(${index * this.height}px)`;
      line.node.classList.toggle("odd", index % 2 === 1);
      line.node.hidden = false;
    }
    const isActive = row.id === this.active;
    if (line.isActive !== isActive) {
      line.isActive = isActive;
      line.node.classList.toggle("active", isActive);
      line.node.setAttribute("aria-selected", isActive);
    }
    for (const cell of line.cells) {
      const [upper, lower, kind] = cell.fill(row);
      setText(cell.upper, upper);
      setText(cell.lower, lower);
      const wanted = kind ? `${cell.base} ${kind}` : cell.base;
      if (cell.node.className !== wanted) cell.node.className = wanted;
    }
  }

  move(to) {
    if (this.order.length === 0) return;
    const index = Math.min(Math.max(to, 0), this.order.length - 1);
    this.active = this.order[index].id;
    const top = index * this.height;
    const { scrollTop } = this.node;
    if (top < scrollTop) this.node.scrollTop = top;
    else if (top + this.height > scrollTop + this.room) {
      this.node.scrollTop = top + this.height - this.room;
    }
    this.hold();
    this.render();
  }

  key(event) {
    if (event.target !== this.node || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.order.findIndex((row) => row.id === this.active);
    const page = Math.max(1, Math.floor(this.room / this.height) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page,
      Home: 0, End: this.order.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.move(to);
    } else if (event.key === "Enter" && at >= 0) {
      event.preventDefault();
      this.onOpen(this.order[at]);
    }
  }

  clicked(event) {
    const node = event.target.closest(".grid-body .grid-row");
    const line = this.pool.find((one) => one.node === node);
    if (!line?.row) return;
    this.active = line.row.id;
    this.onOpen(line.row);
  }
}

const byNumber = (a, b) => (a ?? -1) - (b ?? -1);
const byText = (a, b) => (a === b ? 0 : (a ?? "") < (b ?? "") ? -1 : 1);
