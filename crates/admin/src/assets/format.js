// Formats numbers, times and durations for people. All times are UTC.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const number = (value) =>
  (value === null || value === undefined ? "–" : whole.format(value));

// Formats a rate with few digits, whatever its size.
export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (value < 10) return value.toFixed(1);
  return whole.format(value);
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let [left, unit] = [value, 0];
  const units = ["B", "kB", "MB", "GB", "TB"];
  while (left >= 1000 && unit < units.length - 1) [left, unit] = [left / 1000, unit + 1];
  return `${unit === 0 || left >= 100 ? left.toFixed(0) : left.toFixed(1)} ${units[unit]}`;
}

export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

export function nanoseconds(ns) {
  if (ns === null || ns === undefined) return "–";
  if (ns < 1e3) return `${ns} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toPrecision(3)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toPrecision(3)} ms`;
  return `${(ns / 1e9).toPrecision(3)} s`;
}

// Formats a time such as 2026-11-25T02:18:14.123456Z as a date or a time of day.
export const clockTime = (at) => (at ? at.slice(11, 23) : "–");
export const dateTime = (at) => (at ? `${at.slice(0, 10)} ${at.slice(11, 19)}` : "–");

export const STATES = {
  Disconnected: "Disconnected", LogonAwaited: "Logon awaited", LogonSent: "Logon sent",
  Active: "Active", LogoutSent: "Logout sent",
};

const TYPES = {
  0: "Heartbeat", 1: "TestRequest", 2: "ResendRequest", 3: "Reject", 4: "SequenceReset",
  5: "Logout", 6: "IOI", 7: "Advertisement", 8: "ExecutionReport", 9: "OrderCancelReject",
  A: "Logon", B: "News", C: "Email", D: "NewOrderSingle", E: "NewOrderList",
  F: "OrderCancelRequest", G: "OrderCancelReplaceRequest", H: "OrderStatusRequest",
  J: "AllocationInstruction", K: "ListCancelRequest", P: "AllocationInstructionAck",
  Q: "DontKnowTrade", R: "QuoteRequest", S: "Quote", T: "SettlementInstructions",
  V: "MarketDataRequest", W: "MarketDataSnapshotFullRefresh",
  X: "MarketDataIncrementalRefresh", Y: "MarketDataRequestReject", Z: "QuoteCancel",
  b: "MassQuoteAcknowledgement", c: "SecurityDefinitionRequest", d: "SecurityDefinition",
  e: "SecurityStatusRequest", f: "SecurityStatus", g: "TradingSessionStatusRequest",
  h: "TradingSessionStatus", i: "MassQuote", j: "BusinessMessageReject",
  q: "OrderMassCancelRequest",
  r: "OrderMassCancelReport", s: "NewOrderCross", x: "SecurityListRequest", y: "SecurityList",
  AB: "NewOrderMultileg", AE: "TradeCaptureReport", AF: "OrderMassStatusRequest",
  AG: "QuoteRequestReject", AI: "QuoteStatusReport", AR: "TradeCaptureReportAck",
  BE: "UserRequest", BF: "UserResponse", n: "XMLnonFIX",
};

// Formats MsgType(35) with its name, such as Logon(A).
export const msgType = (value) => (TYPES[value] ? `${TYPES[value]}(${value})` : `(${value})`);

const STATUSES = {
  0: "new", 1: "partially filled", 2: "filled", 3: "done for day", 4: "cancelled", 5: "replaced",
  6: "pending cancel", 7: "stopped", 8: "rejected", 9: "suspended", A: "pending new",
  B: "calculated", C: "expired", D: "accepted for bidding", E: "pending replace",
};

const SIDES = { 1: "buy", 2: "sell", 5: "sell short" };

// Splits a message into pairs of tag and value. A value may contain a "|" without a following TAG=.
export function fields(text) {
  const parts = text.replace(/\|$/, "").split(/\|(?=\d+=)/);
  return parts.map((part) => {
    const at = part.indexOf("=");
    return [part.slice(0, at), part.slice(at + 1)];
  });
}

// Describes a message of an order in one line.
export function story(message) {
  const values = new Map(fields(message.text).reverse());
  const said = [];
  const add = (tag, name, words) => {
    const value = values.get(tag);
    if (value === undefined) return;
    said.push(words ? `${name} ${words[value] ?? value}` : `${name} ${value}`);
  };
  add("39", "OrdStatus(39)", STATUSES);
  add("54", "Side(54)", SIDES);
  add("38", "OrderQty(38)");
  add("44", "Price(44)");
  add("32", "LastQty(32)");
  add("31", "LastPx(31)");
  add("14", "CumQty(14)");
  add("151", "LeavesQty(151)");
  add("11", "ClOrdID(11)");
  add("41", "OrigClOrdID(41)");
  add("37", "OrderID(37)");
  add("58", "Text(58)");
  return said.join(" · ");
}
