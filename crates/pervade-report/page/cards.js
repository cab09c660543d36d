// Clusters: one table of all, then a card each.

const clusterTitle = (content, k) => {
  const name = content.clusters[k]?.name ?? null;
  return name === null ? `Cluster ${k}` : [`Cluster ${k} `, data(name)];
};

const clusterLink = (content, k) =>
  el("a", { href: `#cluster-${k}`, class: "cluster-link" }, badge(k), " ", clusterTitle(content, k));

const totalRows = (content) =>
  content.n_rows || content.clusters.reduce((sum, cluster) => sum + cluster.n_rows, 0) || 1;

const labelText = ({ label }) =>
  label === null ? "–" : [data(trimmed(label[0], 40)), ` (${percent(label[1])})`];

function overviewTable(content) {
  const total = totalRows(content);
  const arrow = ({ difference }) => (difference > 0 ? "\u00a0↑" : difference < 0 ? "\u00a0↓" : "");
  const main = (cluster) =>
    cluster.columns
      .slice(0, 3)
      .map((column) => el("span", { class: "telling" }, data(trimmed(column.column, 40)), arrow(column)));
  const hasColumns = content.clusters.some((cluster) => cluster.columns.length > 0);
  const hasPictures = content.clusters.some((cluster) => cluster.mean_picture !== null);
  const hasLabels = content.clusters.some((cluster) => cluster.label !== null);
  const picture = (cluster, k) =>
    cluster.mean_picture &&
    el("img", { class: "thumbnail", src: cluster.mean_picture, alt: `Mean picture of cluster ${k}` });
  const rows = content.clusters.map((cluster, k) => [
    clusterLink(content, k),
    count(cluster.n_rows),
    percent(cluster.n_rows / total),
    percent(cluster.mean_confidence),
    ...(hasLabels ? [labelText(cluster)] : []),
    ...(hasPictures ? [picture(cluster, k)] : []),
    ...(hasColumns ? [main(cluster)] : []),
  ]);
  const headings = [
    "Cluster",
    "Rows",
    "Share",
    "Mean confidence",
    ...(hasLabels ? ["Most frequent label"] : []),
    ...(hasPictures ? ["Mean picture"] : []),
    ...(hasColumns ? ["Highest (↑) or lowest (↓) against the rest"] : []),
  ];
  const csv = () => [
    ["cluster", "name", "rows", "share", "mean confidence", "label", "share of label", "most telling columns"],
    ...content.clusters.map((c, k) => [
      k,
      c.name,
      c.n_rows,
      c.n_rows / total,
      c.mean_confidence,
      ...(c.label ?? ["", ""]),
      c.columns.map((x) => x.column).join("; "),
    ]),
  ];
  return [
    table("All clusters", headings, rows, { numeric: [1, 2, 3], hideCaption: true, class: "overview" }),
    downloads("All clusters", { rows: csv }),
  ];
}

function distributionChart(column, k) {
  const label = `${column.column}: ${column.inside} in cluster ${k}, ${column.outside} in the other rows`;
  const { distribution } = column;
  if (distribution.kind === "histogram") return histogramChart(distribution, label);
  return distribution.kind === "levels" && distribution.names.length > 0
    ? levelsChart(distribution, label)
    : null;
}

function columnItem(column, chart) {
  const { difference, auc } = column;
  const effect = [
    isNumber(difference) && `${difference > 0 ? "+" : ""}${fixed(difference)} sd`,
    isNumber(auc) && `AUC ${fixed(auc)}`,
  ]
    .filter(Boolean)
    .join(" · ");
  return el(
    "li",
    {},
    el(
      "p",
      { class: "column-name" },
      data(trimmed(column.column, 60)),
      el("span", { class: "note" }, effect),
    ),
    chart,
    el(
      "p",
      { class: "values" },
      el("b", { class: "inside-text" }, data(trimmed(column.inside, 60))),
      " here, ",
      data(trimmed(column.outside, 60)),
      " elsewhere",
    ),
  );
}

function columnRows(columns) {
  return [
    ["column", "difference (sd)", "AUC", "in the cluster", "other rows"],
    ...columns.map((c) => [c.column, c.difference, c.auc, c.inside, c.outside]),
  ];
}

// Numbers and levels, a small chart each.
function plainColumns(columns, k) {
  if (columns.length === 0) return null;
  const charts = columns.map((column) => distributionChart(column, k));
  const drawn = () =>
    columns.flatMap((column, i) => (charts[i] ? [{ title: column.column, chart: charts[i] }] : []));
  const name = `Columns of cluster ${k}`;
  return [
    el(
      "ul",
      { class: "columns" },
      columns.map((column, i) => columnItem(column, charts[i])),
    ),
    downloads(name, {
      rows: () => columnRows(columns),
      chart: drawn().length > 0 ? () => stackedSvg(drawn()) : null,
    }),
  ];
}

// Terms and counts, all in one dot plot.
function termColumns(terms, k) {
  if (terms.length === 0) return null;
  const drawing = dotChart(terms, `Terms of cluster ${k}: ${terms.map((term) => term.column).join(", ")}`);
  const headings = [
    "term",
    "log odds",
    "share above zero, cluster",
    "mean, cluster",
    "share above zero, others",
    "mean, others",
    "AUC",
  ];
  const csv = () => [
    headings,
    ...terms.map(({ column, auc, distribution: d }) => [column, d.log_odds, ...d.inside, ...d.outside, auc]),
  ];
  const text = ([share, mean]) => `${percent(share)}, ${number(mean)}`;
  const rows = terms.map((t) => [
    data(t.column),
    signed(t.distribution.log_odds),
    text(t.distribution.inside),
    text(t.distribution.outside),
  ]);
  return [
    el("figure", { class: "plot" }, drawing),
    el(
      "details",
      {},
      el("summary", {}, "As a table"),
      table(
        `Terms of cluster ${k}: share above zero, mean`,
        ["Term", "Log odds", "In the cluster", "Other rows"],
        rows,
        { numeric: [1, 2, 3] },
      ),
    ),
    downloads(`Terms of cluster ${k}`, { rows: csv, chart: () => standaloneSvg(drawing) }),
  ];
}

function confidenceFigure(cluster, k) {
  const total = cluster.confidence.reduce((sum, n) => sum + n, 0);
  if (total === 0) return null;
  const sure = cluster.confidence[9];
  const name = `Confidence in cluster ${k}`;
  const drawing = confidenceChart(
    cluster.confidence,
    `${name}: ${percent(sure / total)} of its rows above 0.9`,
  );
  const rows = () => [["from", "to", "rows"], ...cluster.confidence.map((n, i) => [i / 10, (i + 1) / 10, n])];
  return el(
    "figure",
    { class: "plot" },
    el("figcaption", {}, `Confidence: ${percent(sure / total)} of the rows above 0.9`),
    drawing,
    downloads(name, { rows, chart: () => standaloneSvg(drawing) }),
  );
}

// Tables are folded, except the first; pictures take little room and are shown.
function exampleSets(cluster, k) {
  const sets = [
    ["Typical rows", cluster.typical],
    ["Doubtful rows", cluster.doubtful],
    ["Generated rows", cluster.generated],
  ].filter(([, examples]) => examples.length > 0);
  return sets.map(([name, examples], i) => {
    const pictures = examples.some((example) => example.picture !== null);
    const list = exampleList(`${name} of cluster ${k}`, examples, true);
    return pictures
      ? list
      : el("details", { open: i === 0 }, el("summary", {}, `${name} (${examples.length})`), list);
  });
}

function shareBar(share) {
  const bar = el("span", { class: "share-bar", "aria-hidden": "true" }, el("span", {}));
  bar.firstChild.style.width = `${clamp(100 * share, 0, 100)}%`;
  return bar;
}

function clusterCard(content, cluster, k) {
  const share = cluster.n_rows / totalRows(content);
  const title = newId("card");
  const isTerm = (column) => column.distribution.kind === "term";
  const facts = [
    rowsText(cluster.n_rows),
    `${percent(share)} of all`,
    isNumber(cluster.mean_confidence) && `mean confidence ${percent(cluster.mean_confidence)}`,
  ];
  return el(
    "article",
    { class: "card", id: `cluster-${k}`, "aria-labelledby": title },
    el(
      "header",
      {},
      el("h3", { id: title }, badge(k), " ", clusterTitle(content, k)),
      el("p", { class: "note" }, facts.filter(Boolean).join(" · ")),
      shareBar(share),
    ),
    el(
      "div",
      { class: "card-body" },
      el(
        "div",
        { class: "card-side" },
        confidenceFigure(cluster, k),
        cluster.mean_picture &&
          pictureFigure(cluster.mean_picture, `Mean picture of cluster ${k}`, "Mean of its rows"),
      ),
      cluster.columns.length > 0 &&
        el(
          "div",
          { class: "card-columns" },
          el("h4", {}, "What distinguishes it"),
          termColumns(cluster.columns.filter(isTerm), k),
          plainColumns(
            cluster.columns.filter((column) => !isTerm(column)),
            k,
          ),
        ),
    ),
    exampleSets(cluster, k),
  );
}

function chartKey(content) {
  const distributions = content.clusters.flatMap((cluster) =>
    cluster.columns.map((column) => column.distribution),
  );
  const kinds = new Set(distributions.map((distribution) => distribution.kind));
  const generated = distributions.some((distribution) => distribution.shares?.generated.length > 0);
  const sample = (kind) =>
    svg(
      "svg",
      { viewBox: "0 0 24 10", width: 24, height: 10, class: "chart", "aria-hidden": "true" },
      kind === "inside"
        ? svg("rect", { class: kind, width: 24, height: 10 })
        : svg("line", { class: kind, x1: 0, x2: 24, y1: 5, y2: 5 }),
    );
  const key = (kind, text) => el("li", {}, sample(kind), " ", text);
  return [
    (kinds.has("histogram") || kinds.has("levels")) &&
      el(
        "ul",
        { class: "legend" },
        key("inside", "rows of the cluster"),
        key("outside", "all other rows"),
        generated && key("generated", "rows generated by the model"),
      ),
    kinds.size > 0 &&
      el(
        "p",
        { class: "note" },
        "Difference of means in standard deviations (sd) of the column. AUC: how often a row of the cluster has a ",
        "higher value than another row; 0.5 says nothing, 0 and 1 separate perfectly. There are no p-values: ",
        "the clusters were made from these columns, and tests would find differences even in noise.",
      ),
    kinds.has("term") &&
      el("p", { class: "note" }, "Dots: their size is the share of rows above zero, their shade the mean."),
  ];
}

function clusterSection(content) {
  if (content.clusters.length === 0) return null;
  return [
    overviewTable(content),
    chartKey(content),
    content.clusters.map((cluster, k) => clusterCard(content, cluster, k)),
  ];
}
