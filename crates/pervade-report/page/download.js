// Files made in the page: tables as CSV, charts as SVG and PNG.

function saveBlob(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  // The browser reads the blob after the click; a minute is plenty.
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

function csvCell(value) {
  let text = value === null || value === undefined ? "" : String(value);
  // A spreadsheet would run a cell that begins like a formula; numbers are left as they are.
  if (/^[=+\-@\t\r]/.test(text) && !/^-?[\d.]+(e[+-]?\d+)?$/i.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const csvText = (rows) => rows.map((row) => row.map(csvCell).join(",") + "\r\n").join("");

const saveCsv = (name, rows) => saveBlob(`${name}.csv`, new Blob([csvText(rows)], { type: "text/csv" }));

const COPIED = [
  "fill",
  "stroke",
  "stroke-width",
  "paint-order",
  "stroke-dasharray",
  "stroke-linecap",
  "stroke-linejoin",
  "opacity",
  "fill-opacity",
  "font-size",
  "font-family",
  "font-weight",
  "text-anchor",
];

// The chart without the page's style sheet: what the style sheet said is written into the elements.
function standaloneSvg(chart) {
  const copy = chart.cloneNode(true);
  const [from, to] = [
    [chart, ...chart.querySelectorAll("*")],
    [copy, ...copy.querySelectorAll("*")],
  ];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of COPIED) to[i].setAttribute(name, style.getPropertyValue(name));
    to[i].removeAttribute("class");
  });
  const box = chart.viewBox.baseVal;
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  const paper = getComputedStyle(document.body).backgroundColor;
  copy.prepend(svg("rect", { x: box.x, y: box.y, width: box.width, height: box.height, fill: paper }));
  return copy;
}

// Several charts below each other, with their titles.
function stackedSvg(charts) {
  const [gap, lead] = [14, 18];
  const copies = charts.map(({ chart }) => standaloneSvg(chart));
  let y = gap;
  let width = 0;
  const paper = getComputedStyle(document.body);
  const parts = charts.map(({ title }, i) => {
    const copy = copies[i];
    const heading = svg(
      "text",
      { x: gap, y: y + 12, "font-size": 13, "font-family": "sans-serif", fill: paper.color },
      title,
    );
    copy.setAttribute("x", gap);
    copy.setAttribute("y", y + lead);
    y += lead + Number(copy.getAttribute("height")) + gap;
    width = Math.max(width, Number(copy.getAttribute("width")) + 2 * gap);
    return [heading, copy];
  });
  const ground = svg("rect", { width, height: y, fill: paper.backgroundColor });
  return svg("svg", { viewBox: `0 0 ${width} ${y}`, width, height: y }, ground, parts);
}

// Control characters may stand in a text of the page, but not in XML.
function svgBlob(chart) {
  const text = new XMLSerializer()
    .serializeToString(chart)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
  return new Blob([text], { type: "image/svg+xml" });
}

async function savePng(name, chart) {
  const url = URL.createObjectURL(svgBlob(chart));
  const image = new Image();
  image.src = url;
  await image.decode();
  const scale = 2;
  const canvas = el("canvas", { width: image.width * scale, height: image.height * scale });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(url);
  canvas.toBlob((blob) => blob && saveBlob(`${name}.png`, blob));
}

// The row of buttons below a table or chart. `rows` and `chart` are called when they are needed.
function downloads(name, { rows, chart }) {
  const file = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");
  const item = (kind, save) =>
    button(kind, save, { class: "quiet", "aria-label": `Download ${name} as ${kind}` });
  return el(
    "div",
    { class: "downloads" },
    rows && item("CSV", () => saveCsv(file, rows())),
    chart && item("SVG", () => saveBlob(`${file}.svg`, svgBlob(chart()))),
    chart && item("PNG", () => savePng(file, chart())),
  );
}
