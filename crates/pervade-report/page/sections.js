// The other sections. Each function returns nodes, or null if there is nothing to show.

function fact(value, label) {
  return el("div", {}, el("dt", {}, label), el("dd", {}, value));
}

function verdictFacts(content) {
  const rows = content.clusters.reduce((sum, cluster) => sum + cluster.n_rows, 0);
  const weighted = content.clusters.reduce((sum, c) => sum + (c.mean_confidence ?? NaN) * c.n_rows, 0);
  return el(
    "dl",
    { class: "facts" },
    fact(count(content.n_rows), content.n_rows === 1 ? "row" : "rows"),
    fact(count(content.n_columns), content.n_columns === 1 ? "column" : "columns"),
    fact(count(content.n_clusters), content.n_clusters === 1 ? "cluster" : "clusters"),
    rows > 0 && isNumber(weighted) && fact(percent(weighted / rows), "mean confidence"),
    isNumber(content.restarts?.stability) && fact(number(content.restarts.stability), "stability (ARI)"),
  );
}

function verdictSection(content) {
  const { sentences, warnings, next_steps: next } = content.verdict;
  return [
    verdictFacts(content),
    sentences.map((sentence, i) => el("p", { class: i === 0 ? "lead" : null }, withCode(sentence))),
    warnings.length > 0 &&
      el(
        "div",
        { class: "warnings" },
        el("h3", {}, plural(warnings.length, "warning", "warnings")),
        el(
          "ul",
          {},
          warnings.map((warning) => el("li", {}, withCode(warning))),
        ),
      ),
    next.length > 0 &&
      el(
        "div",
        { class: "next" },
        el("h3", {}, "What to do next"),
        el(
          "ul",
          {},
          next.map((step) => el("li", {}, withCode(step))),
        ),
      ),
  ];
}

// A matrix of shares as a table; `cell` may replace a cell's content.
function matrixTable(caption, headings, values, text, cell) {
  const rows = values.map((row, j) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, headings[j].cloneNode(true)),
      row.map((value, k) => {
        const item = el("td", { class: "matrix-cell" }, cell?.(j, k, value) ?? text(value));
        item.style.background = shade(value ?? 0);
        return item;
      }),
    ),
  );
  const matrix = el(
    "table",
    { class: "matrix" },
    el("caption", { class: "hidden" }, caption),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        el("td"),
        headings.map((heading) => el("th", { scope: "col" }, heading)),
      ),
    ),
    el("tbody", {}, rows),
  );
  // A caption inside would be as narrow as a small matrix.
  return [el("p", { class: "caption", "aria-hidden": "true" }, caption), scroller(caption, matrix)];
}

const pairKey = (a, b) => `${Math.min(a, b)} ${Math.max(a, b)}`;

function pairPanel(content, pair) {
  const [a, b] = pair.clusters;
  return [
    el("h3", {}, "Between ", badge(a), " and ", badge(b)),
    el(
      "p",
      {},
      `${rowsText(pair.n_rows)} whose two most probable clusters are ${a} and ${b}, with neither above 0.9.`,
    ),
    exampleList(`Rows between clusters ${a} and ${b}, the most doubtful first`, pair.examples),
  ];
}

const MOST_IN_MATRIX = 60;

function overlapSection(content) {
  if (content.overlap.length < 2 && content.between.length === 0) return null;
  const pairs = new Map(content.between.map((pair) => [pairKey(...pair.clusters), pair]));
  const panel = el("div", { class: "pair", "aria-live": "polite" });
  const buttons = [];
  const choose = (pair) => {
    panel.replaceChildren(...pairPanel(content, pair).filter(Boolean));
    for (const item of buttons)
      item.setAttribute("aria-pressed", String(item.dataset.pair === pairKey(...pair.clusters)));
  };
  const pairButton = (pair, label, text) => {
    const item = button(text, () => choose(pair), {
      "data-pair": pairKey(...pair.clusters),
      "aria-pressed": "false",
      "aria-label": label,
    });
    buttons.push(item);
    return item;
  };
  const first = content.between.reduce(
    (most, pair) => (most === null || pair.n_rows > most.n_rows ? pair : most),
    null,
  );
  const shown = [
    content.overlap.length > 1 && content.overlap.length <= MOST_IN_MATRIX
      ? overlapMatrix(content, pairs, pairButton)
      : pairList(content, pairButton),
    overlapDownloads(content),
    panel,
  ];
  if (first) choose(first);
  return shown;
}

function overlapMatrix(content, pairs, pairButton) {
  const text = (share) => (isNumber(share) && share < 0.005 ? "·" : percent(share).replace("\u202f%", ""));
  const made = [];
  const cell = (j, k, share) => {
    const pair = j === k ? undefined : pairs.get(pairKey(j, k));
    if (!pair) return null;
    const item = pairButton(
      pair,
      `Rows of cluster ${j} in cluster ${k}: ${percent(share)}; ${rowsText(pair.n_rows)} between them`,
      text(share),
    );
    made.push(item);
    return item;
  };
  const caption = "Mean probability, in percent, of each cluster (column) over the rows of a cluster (row)";
  const matrix = matrixTable(
    caption,
    content.overlap.map((_, k) => badge(k)),
    content.overlap,
    text,
    cell,
  );
  arrowKeys(made, Math.max(1, Math.round(made.length / content.overlap.length)));
  return [
    made.length > 0 && el("p", {}, "Choose a pair to see the rows between the two clusters."),
    matrix,
    el(
      "p",
      { class: "note" },
      "Rows of well separated clusters have nearly all of their probability on the diagonal.",
    ),
  ];
}

function pairList(content, pairButton) {
  const pairs = [...content.between].sort((a, b) => b.n_rows - a.n_rows).slice(0, 40);
  const items = pairs.map((pair) => {
    const [a, b] = pair.clusters;
    return el("li", {}, pairButton(pair, null, [badge(a), " and ", badge(b), `: ${rowsText(pair.n_rows)}`]));
  });
  return [
    el("p", {}, "Pairs of clusters with most rows between them:"),
    el("ul", { class: "pair-list" }, items),
  ];
}

function overlapDownloads(content) {
  const rows =
    content.overlap.length > 0
      ? () => [
          ["cluster", ...content.overlap.map((_, k) => k)],
          ...content.overlap.map((row, j) => [j, ...row]),
        ]
      : () => [
          ["cluster", "other cluster", "rows between"],
          ...content.between.map((pair) => [...pair.clusters, pair.n_rows]),
        ];
  return downloads("Overlap", { rows });
}

function costItems(costs) {
  return el(
    "ul",
    { class: "costs" },
    costs.map(([column, value, expected, nats]) =>
      el(
        "li",
        {},
        data(column),
        " is ",
        el("b", {}, data(value)),
        ", expected ",
        data(expected),
        el("span", { class: "note" }, ` ${number(nats)} nats`),
      ),
    ),
  );
}

function outlierSection(content) {
  const { outliers } = content;
  if (outliers.length === 0) return null;
  const pictures = outliers.some((outlier) => outlier.example.picture !== null);
  const costly = outliers.some((outlier) => outlier.costs.length > 0);
  const named = outliers.some((outlier) => outlier.example.name !== null);
  // Without them, the row's own cells say at least what it is.
  const celled = !costly && !pictures && outliers.some((outlier) => outlier.example.cells.length > 0);
  const cellText = ({ cells }) =>
    cells.map(([name, value], i) => [i > 0 && ", ", data(name), " ", el("b", {}, data(value))]);
  const rows = outliers.map(({ example, cluster, score, costs }, i) => [
    rowName(example),
    ...(named ? [data(example.name ?? "")] : []),
    ...(pictures
      ? [
          example.picture
            ? el("img", {
                class: "sprite",
                src: example.picture,
                alt: exampleAlt(example, i),
                decoding: "async",
              })
            : "",
        ]
      : []),
    cluster === null ? "–" : badge(cluster),
    number(score),
    ...(costly ? [costItems(costs)] : []),
    ...(celled ? [cellText(example)] : []),
  ]);
  const headings = [
    "Row",
    ...(named ? ["Name"] : []),
    ...(pictures ? ["Picture"] : []),
    "Cluster",
    "Score (nats)",
    ...(costly ? ["Columns that cost most"] : []),
    ...(celled ? ["Some of its cells"] : []),
  ];
  const inOrder = outliers.every(({ score }, i) => i === 0 || !(score < outliers[i - 1].score));
  const csv = () => [
    ["row", "name", "cluster", "score", "column", "value", "expected", "nats"],
    ...outliers.flatMap(({ example: e, cluster, score, costs }) =>
      (costs.length > 0 ? costs : [["", "", "", ""]]).map((cost) => [
        e.row === null ? "" : e.row + 1,
        e.name,
        cluster,
        score,
        ...cost,
      ]),
    ),
  ];
  return [
    el(
      "p",
      {},
      "The most unusual row comes first. The score is a row's log density under the model, or a lower bound on it. ",
      "A low one means an error in the data, a rare case, or a kind of row that the model has not learned.",
      !inOrder &&
        " The order also counts how unusual each cell is by itself, so that scores need not be in order.",
    ),
    table("Rows least like any cluster, the strangest first", headings, rows, {
      numeric: [0, 2 + named + pictures],
      class: "outliers",
      hideCaption: true,
    }),
    downloads("Rows least like any cluster", { rows: csv }),
  ];
}

const LINE_COLORS = [0, 1, 2, 3, 4, 5, 7];

const lineColor = (i) => css(clusterColor(LINE_COLORS[i % LINE_COLORS.length]));

function plotFigure(name, caption, drawing, rows, ...more) {
  return el(
    "figure",
    { class: "plot" },
    caption && el("figcaption", {}, caption),
    drawing,
    more,
    downloads(name, { rows, chart: () => standaloneSvg(drawing) }),
  );
}

function restartsSection(content) {
  const { restarts } = content;
  if (!restarts) return null;
  const ids = restarts.ari.map((_, i) => el("span", {}, String(i + 1)));
  const csv = () => [
    ["restart", ...restarts.ari.map((_, i) => i + 1)],
    ...restarts.ari.map((row, i) => [i + 1, ...row]),
  ];
  return [
    restarts.outcome && el("p", {}, withCode(restarts.outcome)),
    el("p", { class: "note" }, "An ARI of 1 means the same clusters, 0 no more agreement than chance."),
    restarts.ari.length > 1 && [
      matrixTable("Adjusted Rand index (ARI) of each pair of restarts", ids, restarts.ari, number),
      downloads("Agreement of restarts", { rows: csv }),
    ],
  ];
}

function curveFigure(curve) {
  const many = curve.lines.length > 12;
  const lines = curve.lines.map((name, i) => ({
    name,
    color: lineColor(many ? 0 : i),
    dashed: !many && i >= LINE_COLORS.length,
    points: curve.values[i].map((value, epoch) => [epoch + 1, value]),
  }));
  const drawing = lineChart(lines, { label: `${curve.name} by epoch`, xLabel: "epoch", yLabel: curve.unit });
  const n = Math.max(0, ...curve.values.map((values) => values.length));
  const csv = () => [
    ["epoch", ...curve.lines],
    ...Array.from({ length: n }, (_, epoch) => [epoch + 1, ...curve.values.map((values) => values[epoch])]),
  ];
  return plotFigure(
    `Curve ${curve.name}`,
    data(curve.name),
    drawing,
    csv,
    lines.length > 1 && !many && lineLegend(lines),
  );
}

function curvesSection(content) {
  const curves = content.curves.filter((curve) => curve.values.some((values) => values.some(isNumber)));
  return curves.length > 0 ? el("div", { class: "plots" }, curves.map(curveFigure)) : null;
}

function provenanceSection(content) {
  if (content.provenance.length === 0) return null;
  const [main, settings] = [false, true].map((wanted) =>
    content.provenance
      .filter(([name]) => name.startsWith("Setting ") === wanted)
      .map(([name, value]) => [data(name.replace(/^Setting /, "")), el("code", {}, data(value))]),
  );
  const list = (caption, head, rows) =>
    table(caption, [head, "Value"], rows, { class: "provenance", hideCaption: true });
  return [
    main.length > 0 && list("How this result was made", "Item", main),
    settings.length > 0 &&
      el(
        "details",
        {},
        el("summary", {}, `All ${plural(settings.length, "setting", "settings")}`),
        list("Settings", "Setting", settings),
      ),
    downloads("Provenance", { rows: () => [["item", "value"], ...content.provenance] }),
  ];
}
