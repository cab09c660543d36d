// Tables of values and of example rows.

// `headings` and `rows` hold texts or nodes; the first cell of each row is its heading.
function table(caption, headings, rows, options = {}) {
  const numeric = new Set(options.numeric ?? []);
  const cell = (value, i) => {
    const attributes = { class: numeric.has(i) ? "number" : null };
    return i === 0 ? el("th", { scope: "row", ...attributes }, value) : el("td", attributes, value);
  };
  return scroller(
    caption,
    el(
      "table",
      { class: options.class },
      el("caption", { class: options.hideCaption ? "hidden" : null }, caption),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          headings.map((heading, i) =>
            el("th", { scope: "col", class: numeric.has(i) ? "number" : null }, heading),
          ),
        ),
      ),
      el(
        "tbody",
        {},
        rows.map((row) => el("tr", {}, row.map(cell))),
      ),
    ),
  );
}

// Wide content scrolls by itself instead of making the page wide. Where it does, the keyboard must reach it; where all
// is visible, one more stop would only be in the way.
const scrollWatch = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});

function scroller(label, ...content) {
  const item = el("div", { class: "scroller", role: "group", "aria-label": label }, ...content);
  scrollWatch.observe(item);
  return item;
}

const rowName = (example) => (example.row === null ? "generated" : count(example.row + 1));

const exampleLabel = (example) =>
  example.name === null ? rowName(example) : [rowName(example), " ", data(trimmed(example.name, 24))];

// All names of cells in the order in which they first occur.
const cellNames = (examples) => [
  ...new Set(examples.flatMap((example) => example.cells.map(([name]) => name))),
];

function cellOf(example, name) {
  const cell = example.cells.find(([column]) => column === name);
  return cell ? cell[1] : "";
}

function secondText(example) {
  return example.second === null ? "" : `cluster ${example.second[0]}, ${percent(example.second[1])}`;
}

// Columns of a table of examples: those that any of them has something in.
function exampleColumns(examples) {
  const any = (key) => examples.some((example) => example[key] !== null);
  const fixed = [
    { heading: "Row", show: (e) => rowName(e), csv: (e) => (e.row === null ? "" : e.row + 1), numeric: true },
    any("name") && {
      heading: "Name",
      show: (e) => data(trimmed(e.name ?? "", 60)),
      csv: (e) => e.name ?? "",
    },
    any("confidence") && {
      heading: "Confidence",
      show: (e) => percent(e.confidence),
      csv: (e) => e.confidence,
      numeric: true,
    },
    any("second") && { heading: "Second choice", show: secondText, csv: secondText },
  ].filter(Boolean);
  const generated = examples.every((example) => example.row === null);
  const cells = cellNames(examples).map((name) => ({
    heading: data(trimmed(name, 40) || "(no name)"),
    csvHeading: name,
    show: (e) => data(trimmed(cellOf(e, name), 240)),
    csv: (e) => cellOf(e, name),
  }));
  if (!generated || cells.length === 0) return [...fixed, ...cells];
  const numbered = {
    heading: "No.",
    show: (e) => String(examples.indexOf(e) + 1),
    csv: (e) => examples.indexOf(e) + 1,
    numeric: true,
  };
  return [numbered, ...fixed.slice(1), ...cells];
}

function exampleTable(caption, examples, hideCaption) {
  const columns = exampleColumns(examples);
  const rows = examples.map((example) => columns.map((column) => column.show(example)));
  const numeric = columns.flatMap((column, i) => (column.numeric ? [i] : []));
  const csv = () => [
    columns.map((column) => column.csvHeading ?? column.heading),
    ...examples.map((example) => columns.map((column) => column.csv(example))),
  ];
  return el(
    "div",
    { class: "examples" },
    table(
      caption,
      columns.map((column) => column.heading),
      rows,
      { numeric, hideCaption, class: cellNames(examples).length === 1 ? "entries" : null },
    ),
    downloads(caption, { rows: csv }),
  );
}

function pictureFigure(url, label, note) {
  return el(
    "figure",
    { class: "picture" },
    el("img", { src: url, alt: label, decoding: "async" }),
    note && el("figcaption", {}, note),
  );
}

function exampleNote(example) {
  if (example.row === null) return null;
  const parts = [exampleLabel(example)];
  if (example.confidence !== null) parts.push(el("br"), percent(example.confidence));
  if (example.second !== null) parts.push(el("br"), `or ${example.second[0]}: ${percent(example.second[1])}`);
  return parts;
}

function exampleAlt(example, i) {
  if (example.row === null) return `Generated row ${i + 1}`;
  return `Row ${count(example.row + 1)}`;
}

// Pictures if the rows are pictures, a table if not.
function exampleList(caption, examples, hideCaption = false) {
  if (examples.length === 0) return null;
  if (!examples.some((example) => example.picture !== null))
    return exampleTable(caption, examples, hideCaption);
  const pictures = examples.filter((example) => example.picture !== null);
  return el(
    "div",
    { class: "examples" },
    el("p", { class: "caption" }, caption),
    el(
      "div",
      { class: "pictures" },
      pictures.map((example, i) =>
        pictureFigure(example.picture, exampleAlt(example, i), exampleNote(example)),
      ),
    ),
  );
}
