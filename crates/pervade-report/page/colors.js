// Colours: of clusters, which people with any colour vision can tell apart, and of numbers.

// Okabe and Ito's colours, without their black, which a dark page would swallow.
const BASE_COLORS = [
  [0, 114, 178],
  [230, 159, 0],
  [0, 158, 115],
  [204, 121, 167],
  [86, 180, 233],
  [213, 94, 0],
  [240, 228, 66],
  [130, 130, 130],
];
// More that differ in lightness as well as in hue, after Paul Tol's muted scheme.
const MORE_COLORS = [
  [95, 75, 190],
  [68, 170, 153],
  [153, 153, 51],
  [136, 34, 85],
  [221, 204, 119],
  [17, 119, 51],
  [170, 68, 153],
  [204, 102, 119],
];
const GREY = [150, 150, 150];

const mix = (a, b, share) => a.map((value, i) => Math.round(value + (b[i] - value) * share));

// After these, lighter ones, then hues a golden angle apart: with so many clusters only the numbers tell them apart.
function clusterColor(k) {
  if (k < 8) return BASE_COLORS[k];
  if (k < 16) return MORE_COLORS[k - 8];
  if (k < 24) return mix(BASE_COLORS[k - 16], [255, 255, 255], 0.4);
  return hueColor((k * 137.508) % 360, 0.35 + 0.3 * ((k % 3) / 2));
}

function hueColor(degrees, lightness) {
  const channel = (n) => {
    const k = (n + degrees / 30) % 12;
    return Math.round(
      255 * (lightness - 0.6 * Math.min(lightness, 1 - lightness) * clamp(Math.min(k - 3, 9 - k), -1, 1)),
    );
  };
  return [channel(0), channel(8), channel(4)];
}

// From few to many: dark blue, through green, to yellow. Grey levels rise all the way, so a grey print keeps the order.
const RAMP = [
  [38, 26, 92],
  [40, 80, 140],
  [26, 130, 140],
  [70, 175, 110],
  [170, 205, 65],
  [253, 230, 55],
];

function rampColor(share) {
  const at = clamp(share, 0, 1) * (RAMP.length - 1);
  const i = Math.min(Math.floor(at), RAMP.length - 2);
  return mix(RAMP[i], RAMP[i + 1], at - i);
}

const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;

// Black or white, whichever is read more easily on the colour.
function inkOn(color) {
  const [r, g, b] = color.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff";
}

// A cluster's number on its colour.
function badge(k) {
  const item = el("span", { class: "badge" }, String(k));
  item.style.background = css(clusterColor(k));
  item.style.color = inkOn(clusterColor(k));
  return item;
}

const isDark = () => {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

// A cell's shade in a matrix, never so strong that text is hard to read. The root lets small shares show.
function shade(share) {
  const strength = Math.round(Math.sqrt(clamp(share, 0, 1)) * 55);
  return `color-mix(in srgb, var(--accent-fill) ${strength}%, transparent)`;
}
