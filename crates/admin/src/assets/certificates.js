// Certificates of the engine, those that expire first at the top.

import { ask } from "/api.js";
import { el, mark, row, setText, table } from "/dom.js";
import { number } from "/format.js";

// Returns the mark for the remaining days.
export function standing(days) {
  if (days < 0) return mark("bad", `✕ ended ${number(-days)} d ago`);
  if (days <= 7) return mark("bad", `⚠ ${number(days)} d left`);
  if (days <= 30) return mark("warn", `⚠ ${number(days)} d left`);
  return mark("good", `${number(days)} d left`);
}

const HEADS = ["Days left", "Ends (UTC)", "Subject", "File", "Shown by", "SHA-256"];

export function open(main) {
  const said = el("p", { class: "count", role: "status" }, "Asking …");
  const [frame, body] = table("Certificates", HEADS, [], "stack");
  main.append(el("h1", null, "Certificates"), said, frame);
  let isOver = false;
  ask("/certificates").then(({ certificates }) => {
    if (isOver) return;
    const all = [...certificates].sort((a, b) => a.not_after_s - b.not_after_s);
    body.replaceChildren(...all.map((one) => row([
      one.refused ? mark("bad", `✕ ${one.refused}`) : standing(one.days_left),
      new Date(one.not_after_s * 1000).toISOString().slice(0, 16).replace("T", " "),
      one.subject, el("span", { class: "mono" }, one.file),
      el("span", { class: "mono" }, [one.shown_by].flat().join(", ")),
      el("span", { class: "mono small wrap" }, one.sha256)],
    null, HEADS)));
    frame.hidden = all.length === 0;
    setText(said, all.length > 0 ? `${number(all.length)} ${all.length === 1 ? "certificate" : "certificates"}`
      : "The engine shows no certificate: no session of it speaks TLS with one.");
  }).catch((problem) => {
    if (!isOver) said.replaceChildren(mark("bad", problem.full ?? String(problem)));
  });
  return () => (isOver = true);
}
