// The login form.

import { logIn } from "/api.js";
import { el, labelled } from "/dom.js";

// Shows the form; calls `done` after a login.
export function show(place, why, done) {
  const name = el("input", { name: "name", autocomplete: "username", required: true,
    autocapitalize: "none", spellcheck: "false" });
  const password = el("input", { name: "password", type: "password", required: true,
    autocomplete: "current-password" });
  const error = el("p", { class: "error", role: "alert" }, why ?? "");
  const button = el("button", { class: "primary", type: "submit" }, "Log in");
  const form = el("form", { class: "login", novalidate: true, onsubmit: async (event) => {
    event.preventDefault();
    if (!name.value || !password.value) {
      error.textContent = "Write a name and a password";
      (name.value ? password : name).focus();
      return;
    }
    button.disabled = true;
    error.textContent = "";
    try {
      await logIn(name.value, password.value);
      done();
    } catch (problem) {
      error.textContent = problem.full ?? String(problem);
      password.value = "";
      button.disabled = false;
      password.focus();
    }
  } },
  el("h1", null, "Transfix"), el("p", { class: "note" }, location.host),
  labelled("Name", name), labelled("Password", password), error, button,
  el("p", { class: "note" }, "Users are added with transfix admin user add."));
  place.replaceChildren(el("main", { class: "login-page" }, form));
  name.focus();
}
