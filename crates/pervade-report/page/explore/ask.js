// The explorer: questions to the server that sent the page, and a notice when it does not answer.

const readState = () => JSON.parse(document.getElementById("explorer").textContent);

const ALIVE_EVERY = 4000;

class Server {
  constructor(command) {
    this.token = new URLSearchParams(location.search).get("token") ?? "";
    this.command = command;
    this.notice = el("div", { class: "gone", role: "alert", hidden: true });
    const look = () => document.visibilityState === "visible" && this.check();
    setInterval(look, ALIVE_EVERY);
    document.addEventListener("visibilitychange", look);
  }

  // Whether the server is there; without a question nobody would notice that it has ended.
  async check() {
    await this.request("/api/alive", { method: "GET" }).catch(() => {});
  }

  // The answer; an error says in words why there is none.
  ask(what, question) {
    return this.request(`/api/${what}`, { method: "POST", body: JSON.stringify(question) });
  }

  async request(path, options) {
    let response;
    try {
      response = await fetch(path, { ...options, headers: { "X-Pervade-Token": this.token } });
    } catch {
      this.tell("The server has ended, so that this page can no longer be asked. ", "Start it again with ");
      throw new Error("The server does not answer.");
    }
    const answer = await response.json().catch(() => ({}));
    if (response.status === 403) {
      this.tell("The server was started again and has another address. ", "Open the one that was printed by ");
      throw new Error("The server does not know this page.");
    }
    this.notice.hidden = true;
    if (!response.ok) throw new Error(sentence(answer.error ?? "The server could not answer."));
    return answer;
  }

  tell(what, advice) {
    if (!this.notice.hidden) return;
    this.notice.replaceChildren(
      el("strong", {}, what),
      advice,
      el("code", {}, this.command),
      ". What is on the page can still be read.",
    );
    this.notice.hidden = false;
  }
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

// Shows in `panel` what `work` returns, or why it could not; of several answers the last question's.
async function showAnswer(panel, work) {
  const turn = (showAnswer.turns.get(panel) ?? 0) + 1;
  showAnswer.turns.set(panel, turn);
  panel.setAttribute("aria-busy", "true");
  let nodes;
  try {
    nodes = await work();
  } catch (error) {
    nodes = el("p", { class: "problem" }, error.message);
  }
  if (showAnswer.turns.get(panel) !== turn) return;
  panel.removeAttribute("aria-busy");
  panel.replaceChildren(...[nodes].flat(Infinity).filter(Boolean));
}
showAnswer.turns = new WeakMap();

// Rows travel as hexadecimal digits, four rows per digit, the first in the lowest bit.
function hexOf(flags) {
  let text = "";
  for (let i = 0; i < flags.length; i += 4) {
    const bit = (j) => (flags[i + j] ? 1 << j : 0);
    text += (bit(0) | bit(1) | bit(2) | bit(3)).toString(16);
  }
  return text;
}

function flagsOf(hex, n) {
  const flags = new Uint8Array(n);
  for (let i = 0; i < n; i++) flags[i] = (parseInt(hex[i >> 2], 16) >> (i & 3)) & 1;
  return flags;
}

const countOf = (flags) => flags.reduce((sum, flag) => sum + flag, 0);

// From flags of points on the map to flags of rows of the table, and back.
function rowsOfPoints(points, mask, n) {
  const flags = new Uint8Array(n);
  for (let i = 0; i < points.n; i++) if (mask[i]) flags[points.row[i]] = 1;
  return flags;
}

function pointsOfRows(points, flags) {
  const mask = new Uint8Array(points.n);
  for (let i = 0; i < points.n; i++) mask[i] = flags[points.row[i]];
  return mask;
}
