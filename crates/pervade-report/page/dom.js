// Elements, texts and numbers. Texts of the data are only ever set as text nodes.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG_NAMESPACE, tag), attributes, children);

// Text of the data, kept apart from the direction of the writing around it.
const data = (text) => el("bdi", {}, text);

let lastId = 0;
const newId = (prefix) => `${prefix}-${++lastId}`;

const button = (label, onclick, attributes) =>
  el("button", { type: "button", onclick, ...attributes }, label);

// Texts of ours may name commands between backquotes.
function withCode(text) {
  return text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

function count(value) {
  if (!isNumber(value)) return "–";
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}

// Three significant digits, without an exponent where it can be avoided.
function number(value) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(1).replace("-", "−");
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  const text =
    size >= 10000 ? count(value) : size < 0.1 && size > 0 ? value.toPrecision(2) : value.toFixed(digits);
  return text.replace("-", "−");
}

const fixed = (value) => (isNumber(value) ? value.toFixed(2).replace("-", "−") : "–");

const signed = (value) => (isNumber(value) && value > 0 ? "+" : "") + number(value);

function percent(share) {
  if (!isNumber(share)) return "–";
  const value = 100 * share;
  if (value > 0 && value < 1) return "<\u202f1\u202f%";
  if (value < 100 && value > 99) return ">\u202f99\u202f%";
  return `${Math.round(value)}\u202f%`;
}

const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many}`;
const rowsText = (n) => plural(n, "row", "rows");

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const largest = (values) =>
  values.reduce((most, value) => (isNumber(value) && value > most ? value : most), 0);

// Calls `work` once before the next frame, however often it was asked for.
function oncePerFrame(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
}

// One tab stop for many buttons: arrow keys move within them. `columns` is the width of the grid, 1 for a list.
function arrowKeys(buttons, columns) {
  const steps = {
    ArrowRight: 1,
    ArrowLeft: -1,
    ArrowDown: columns,
    ArrowUp: -columns,
    Home: -Infinity,
    End: Infinity,
  };
  buttons.forEach((item, i) => {
    item.tabIndex = i === 0 ? 0 : -1;
    item.addEventListener("keydown", (event) => {
      const step = steps[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const to = buttons[clamp(i + step, 0, buttons.length - 1)];
      item.tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
    });
  });
}
