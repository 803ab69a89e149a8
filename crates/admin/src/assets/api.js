// Requests to the server. Every unsuccessful answer becomes a Problem.

// Reason why a request failed. Status 0: the server did not answer.
export class Problem extends Error {
  constructor(status, text, code, retryAfter) {
    super(text);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }

  // Error text with the numbers that support needs.
  get full() {
    const numbers = [];
    if (this.code) numbers.push(`code ${this.code}`);
    if (this.status) numbers.push(`HTTP ${this.status}`);
    return numbers.length > 0 ? `${this.message} (${numbers.join(", ")})` : this.message;
  }
}

const WAIT_MS = 70_000;
const RANKS = ["viewer", "operator", "administrator"];

// Logged-in user: name, role, csrf.
export let me = null;

// Returns true if the user may do actions that need this role.
export const may = (role) => me !== null && RANKS.indexOf(me.role) >= RANKS.indexOf(role);

// Called when the server no longer accepts the login.
let expired = () => {};
export const onExpired = (what) => (expired = what);

export async function ask(path, { body, query, method = "POST", wait = WAIT_MS } = {}) {
  const url = new URL(`/api${path}`, location.origin);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  const options = { headers: {}, signal: AbortSignal.timeout(wait), cache: "no-store" };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  if (body !== undefined || method === "DELETE") {
    options.method = method;
    if (me) options.headers["X-CSRF-Token"] = me.csrf;
  }
  let response;
  let answer;
  try {
    response = await fetch(url, options);
    answer = await response.json();
  } catch (error) {
    if (response?.status === 401) answer = {};
    else if (response && !response.ok) answer = {};
    else if (error.name === "TimeoutError") throw new Problem(0, "the server does not answer");
    else throw new Problem(0, "the server cannot be reached");
  }
  if (response.ok) return answer;
  const text = answer.error ?? `the server says ${response.status}`;
  const after = Number(response.headers.get("Retry-After")) || undefined;
  const problem = new Problem(response.status, text, answer.code, after);
  if (response.status === 401 && path !== "/login") {
    const was = me !== null;
    me = null;
    if (was) expired();
  }
  throw problem;
}

export async function whoAmI() {
  me = await ask("/me");
  return me;
}

export async function logIn(name, password) {
  me = await ask("/login", { body: { name, password } });
  return me;
}

export async function logOut() {
  try {
    await ask("/logout", { body: {} });
  } finally {
    me = null;
  }
}

export const sessionPath = (id) => `/sessions/${encodeURIComponent(id)}`;
