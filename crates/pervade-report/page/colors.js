// Colours: of clusters, which people with any colour vision can tell apart, and of numbers.

// Okabe and Ito's colours, without their black, which a dark page would swallow.
const BASE_COLORS = [
  [0, 114, 178], [230, 159, 0], [0, 158, 115], [204, 121, 167],
  [86, 180, 233], [213, 94, 0], [240, 228, 66], [130, 130, 130],
];
const GREY = [150, 150, 150];

const mix = (a, b, share) => a.map((value, i) => Math.round(value + (b[i] - value) * share));

// After the eight: darker, then lighter ones. Lightness is what all can see. Then hues a golden angle apart.
function clusterColor(k) {
  const base = BASE_COLORS[k % 8];
  if (k < 8) return base;
  if (k < 16) return mix(base, [0, 0, 0], 0.45);
  if (k < 24) return mix(base, [255, 255, 255], 0.55);
  return hueColor((k * 137.508) % 360, 0.35 + 0.3 * ((k % 3) / 2));
}

function hueColor(degrees, lightness) {
  const channel = (n) => {
    const k = (n + degrees / 30) % 12;
    return Math.round(255 * (lightness - 0.6 * Math.min(lightness, 1 - lightness) * clamp(Math.min(k - 3, 9 - k), -1, 1)));
  };
  return [channel(0), channel(8), channel(4)];
}

// From few to many: dark blue, through green, to yellow. Grey levels rise all the way, so a grey print keeps the order.
const RAMP = [[38, 26, 92], [40, 80, 140], [26, 130, 140], [70, 175, 110], [170, 205, 65], [253, 230, 55]];

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

// A cell's shade in a matrix: the page's ink over its paper, never so dark that text is hard to read.
function shade(share) {
  const strength = Math.round(clamp(share, 0, 1) * 55);
  return `color-mix(in srgb, var(--accent-fill) ${strength}%, transparent)`;
}
