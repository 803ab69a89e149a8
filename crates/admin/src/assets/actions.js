// Actions on a session, and the roles that they need.

import { ask as request, may, sessionPath } from "/api.js";
import { ask } from "/dialog.js";
import { el, say } from "/dom.js";
import { soon } from "/live.js";

const NUMBER = { type: "number" };

// The engine decides which actions are dangerous; a test compares this list with the engine's list.
export const ACTIONS = [
  { name: "log_on", dangerous: false, group: "Connection", label: "Log on",
    says: "Lets the session be connected; an initiator tries at once." },
  { name: "log_out", dangerous: false, group: "Connection", label: "Log out …",
    says: "Sends Logout(5) and stays disconnected until somebody logs it on again.",
    fields: [{ name: "text", label: "Text(58) of the Logout(5)",
      note: "The counterparty reads it. It may be empty." }] },
  { name: "disconnect", dangerous: false, group: "Connection", label: "Disconnect …",
    says: "Drops the connection without a word. An initiator connects again.", asks: true },
  { name: "revive", dangerous: false, group: "Connection", label: "Revive",
    says: "Brings the session back after it has failed." },
  { name: "heartbeat", dangerous: false, group: "Test the line", label: "Send Heartbeat(0)",
    says: "Sends a Heartbeat(0)." },
  { name: "test_request", dangerous: false, group: "Test the line",
    label: "Send TestRequest(1) …",
    says: "Asks the counterparty for a Heartbeat(0) with the same TestReqID(112).",
    fields: [{ name: "id", label: "TestReqID(112)", required: true, value: "CONSOLE" }] },
  { name: "resend_request", dangerous: false, group: "Test the line",
    label: "Send ResendRequest(2) …", says: "Asks for messages to be sent again.",
    fields: [{ name: "begin", label: "BeginSeqNo(7)", required: true, ...NUMBER },
      { name: "end", label: "EndSeqNo(16)", value: "0", note: "0: all that follow", ...NUMBER }] },
  { name: "hold_sending", dangerous: false, group: "Queue", label: "Hold sending",
    says: "Keeps messages back in the queue." },
  { name: "release_sending", dangerous: false, group: "Queue", label: "Release sending",
    says: "Sends what was held back." },
  { name: "clear_queued", dangerous: true, group: "Queue", label: "Clear the queue …",
    says: "Drops the messages that wait in the queue. They are lost." },
  { name: "set_numbers", dangerous: true, group: "Numbers", label: "Set next numbers …",
    says: "Sets the next numbers without a word to the counterparty. What is left empty stays.",
    fields: [{ name: "next_in", label: "Next number in", ...NUMBER },
      { name: "next_out", label: "Next number out", ...NUMBER }] },
  { name: "reset_at_next_logon", dangerous: true, group: "Numbers",
    label: "Reset at next logon …",
    says: "The next Logon(A) resets both numbers to 1, with ResetSeqNumFlag(141)=Y." },
  { name: "reset_in_session", dangerous: true, group: "Numbers", label: "Reset now …",
    says: "Resets both numbers of a session that is logged on." },
  { name: "sequence_reset", dangerous: true, group: "Numbers", label: "Send SequenceReset(4) …",
    says: "Tells the counterparty by SequenceReset-Reset(4) which number comes next.",
    fields: [{ name: "new_seq_no", label: "NewSeqNo(36)", required: true, ...NUMBER }] },
  { name: "send", dangerous: true, group: "Message", label: "Send a message …",
    says: "Sends an application message of your own. Header and trailer are added.",
    fields: [{ name: "msg_type", label: "MsgType(35)", required: true },
      { name: "fields", label: "Fields", required: true, note: "as 148=News|33=1|58=text" }] },
];

export const neededRole = (isDangerous) => (isDangerous ? "administrator" : "operator");

// Performs an action and shows the result. Throws the server's error.
export async function act(id, label, body) {
  await request(`${sessionPath(id)}/actions`, { body });
  say(`Done: ${label} for ${id}`);
  soon();
}

const plain = (label) => label.replace(/ …$/, "");

async function begin(id, action) {
  const label = plain(action.label);
  if (!action.fields && !action.dangerous && !action.asks) {
    try {
      await act(id, label, { action: action.name });
    } catch (problem) {
      say(`Not done: ${label}: ${problem.full ?? problem}`, "bad");
    }
    return;
  }
  await ask({
    title: `${label}: ${id}`,
    says: action.says,
    fields: action.fields,
    confirm: action.dangerous ? id : null,
    isDangerous: action.dangerous,
    button: label,
    does: (values) => act(id, label, { action: action.name, ...values,
      ...(action.dangerous ? { confirm: id } : {}) }),
  });
}

// Returns the actions as groups of buttons. Buttons without the required role are disabled, with
// the reason in a paragraph.
export function actionButtons(id) {
  const groups = Map.groupBy
    ? Map.groupBy(ACTIONS, (action) => action.group)
    : ACTIONS.reduce((all, one) => all.set(one.group, [...(all.get(one.group) ?? []), one]),
      new Map());
  const refused = ["operator", "administrator"].filter((role) => !may(role));
  const why = refused.length === 0 ? null
    : el("p", { class: "why", id: "why-off" }, refused.length === 2
      ? "Your role, viewer, may only look: actions need the role operator, those with ⚠ the " +
        "role administrator."
      : "Actions with ⚠ need the role administrator; yours is operator.");
  const nodes = [...groups].map(([group, actions]) =>
    el("fieldset", null, el("legend", null, group), actions.map((action) => {
      const isOff = !may(neededRole(action.dangerous));
      const role = neededRole(action.dangerous);
      return el("button", { type: "button", "data-action": action.name, disabled: isOff,
        class: action.dangerous ? "danger" : "", "aria-describedby": isOff ? "why-off" : null,
        title: isOff ? `Needs the role ${role}` : action.says,
        onclick: () => begin(id, action) },
      action.dangerous ? `⚠ ${action.label}` : action.label);
    })));
  return el("div", { class: "actions" }, why, nodes);
}

// Returns the button that logs the session out and removes it. The session's store stays.
export function removeButton(id) {
  const isOff = !may("administrator");
  const remove = async ({ text }) => {
    const { said: how } = await request(sessionPath(id),
      { method: "DELETE", query: { confirm: id, text } });
    say(`Done: ${how}`);
    soon();
    location.hash = "#/sessions";
  };
  return el("div", { class: "actions" }, el("fieldset", null, el("legend", null, "Session"),
    el("button", { type: "button", class: "danger", "data-action": "remove", disabled: isOff,
      title: isOff ? "Needs the role administrator" : "Logs the session out and removes it.",
      onclick: () => ask({ title: `Remove: ${id}`, button: "Remove",
        says: "Logs the session out and removes it; its store stays. One of the settings file " +
          "comes back with the next reload or start.",
        fields: [{ name: "text", label: "Text(58) of the Logout(5)" }],
        confirm: id, isDangerous: true, does: remove }) }, "⚠ Remove …")));
}
