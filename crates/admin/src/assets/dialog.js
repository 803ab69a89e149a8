// Dialogs that ask for values. A dangerous action requires the session's name to be typed.

import { el, labelled } from "/dom.js";
import { Problem } from "/api.js";

// Shows a form. Calls `does(values)` with the typed values; an error of `does` is shown, and the
// form stays open. Resolves to true if `does` succeeded.
export function ask({ title, says, fields = [], confirm, button, isDangerous, does }) {
  return new Promise((resolve) => {
    const inputs = fields.map((field) => {
      // A field of type "number" would hide rejected input from the script.
      const input = el("input", { name: field.name, required: field.required,
        inputmode: field.type === "number" ? "numeric" : null, value: field.value ?? "",
        autocomplete: "off", spellcheck: "false" });
      return [field, input];
    });
    const typed = el("input", { name: "confirm", autocomplete: "off", spellcheck: "false" });
    const error = el("p", { class: "error", role: "alert" });
    const submit = el("button", { type: "submit", class: isDangerous ? "danger" : "primary" },
      button);
    let isDone = false;
    const form = el("form", { novalidate: true, onsubmit: submitted },
      el("h2", { id: "dialog-title" }, title),
      el("p", { id: "dialog-says" }, says),
      inputs.map(([field, input]) => labelled(field.label, input, field.note)),
      confirm ? el("div", { class: "confirm" },
        el("p", null, "This is dangerous. To do it, type ", el("code", null, confirm)),
        labelled("Type the name", typed)) : null,
      error,
      el("div", { class: "buttons" },
        el("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), submit));
    const dialog = el("dialog", { "aria-labelledby": "dialog-title",
      "aria-describedby": "dialog-says" }, form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(isDone);
    });

    async function submitted(event) {
      event.preventDefault();
      const wrong = (text, input) => {
        error.textContent = text;
        input?.focus();
      };
      const values = {};
      for (const [field, input] of inputs) {
        const value = field.type === "number" ? input.value.trim() : input.value;
        if (value === "") {
          if (field.required) return wrong(`${field.label} is missing`, input);
          if (field.type !== "number") values[field.name] = "";
          continue;
        }
        if (field.type === "number" && !/^\d{1,15}$/.test(value)) {
          return wrong(`${field.label} is a whole number`, input);
        }
        values[field.name] = field.type === "number" ? Number(value) : value;
      }
      if (confirm && typed.value.trim() !== confirm) {
        return wrong(`Nothing was done: that is not ${confirm}`, typed);
      }
      error.textContent = "";
      submit.disabled = true;
      try {
        await does(values);
        isDone = true;
        dialog.close();
      } catch (problem) {
        wrong(problem instanceof Problem ? problem.full : String(problem));
      } finally {
        submit.disabled = false;
      }
    }

    document.body.append(dialog);
    dialog.showModal();
    (inputs[0]?.[1] ?? (confirm ? typed : submit)).focus();
  });
}
