// Two groups of rows: what distinguishes them.

// A column in both groups; `names` are those of the groups.
function groupColumn(column, names) {
  const { distribution, difference, auc } = column;
  const label = `${column.column}: ${column.inside} in ${names[0]}, ${column.outside} in ${names[1]}`;
  const chart =
    distribution.kind === "histogram"
      ? histogramChart(distribution, label)
      : distribution.kind === "levels" && distribution.names.length > 0
        ? levelsChart(distribution, label)
        : null;
  const effect = [
    isNumber(difference) && `${difference > 0 ? "+" : ""}${fixed(difference)} sd`,
    isNumber(auc) && `AUC ${fixed(auc)}`,
  ];
  return el(
    "li",
    {},
    el(
      "p",
      { class: "column-name" },
      data(trimmed(column.column, 60)),
      el("span", { class: "note" }, effect.filter(Boolean).join(" · ")),
    ),
    chart,
    el(
      "p",
      { class: "values" },
      el("b", { class: "inside-text" }, data(trimmed(column.inside, 60))),
      " against ",
      data(trimmed(column.outside, 60)),
    ),
  );
}

function groupTerms(terms, names) {
  if (terms.length === 0) return null;
  const text = ([share, mean]) => `${percent(share)}, ${number(mean)}`;
  const rows = terms.map(({ column, distribution }) => [
    data(column),
    signed(distribution.log_odds),
    text(distribution.inside),
    text(distribution.outside),
  ]);
  return table("Columns that are mostly zero: share above zero, mean", ["Column", "Log odds", ...names], rows, {
    numeric: [1, 2, 3],
  });
}

function groupKey(columns, names) {
  if (!columns.some(({ distribution }) => distribution.kind !== "term")) return null;
  const sample = (kind) =>
    svg(
      "svg",
      { viewBox: "0 0 24 10", width: 24, height: 10, class: "chart", "aria-hidden": "true" },
      kind === "inside"
        ? svg("rect", { class: kind, width: 24, height: 10 })
        : svg("line", { class: kind, x1: 0, x2: 24, y1: 5, y2: 5 }),
    );
  return el(
    "ul",
    { class: "legend" },
    el("li", {}, sample("inside"), " ", names[0]),
    el("li", {}, sample("outside"), " ", names[1]),
  );
}

function groupCsv(columns, names) {
  return () => [
    ["column", "difference (sd)", "AUC", ...names],
    ...columns.map((c) => [c.column, c.difference, c.auc, c.inside, c.outside]),
  ];
}

// Rows of each cluster in both groups, the most frequent first.
function groupClusters(content, [a, b], names) {
  const [totalA, totalB] = [a, b].map((counts) => counts.reduce((sum, n) => sum + n, 0) || 1);
  const share = (k) => Math.max(a[k] / totalA, b[k] / totalB);
  const order = [...a.keys()].filter((k) => a[k] + b[k] > 0).sort((i, j) => share(j) - share(i) || i - j);
  const rows = order.map((k) => [
    [badge(k), " ", clusterTitle(content, k)],
    count(a[k]),
    percent(a[k] / totalA),
    count(b[k]),
    percent(b[k] / totalB),
  ]);
  const headings = ["Cluster", ...names.flatMap((name) => [`Rows, ${name}`, "Share"])];
  return el(
    "details",
    {},
    el("summary", {}, "Clusters of the rows"),
    table("Clusters of the rows", headings, rows, { numeric: [1, 2, 3, 4], hideCaption: true }),
  );
}

// The answer to "compare". `names` are those of the groups; `withClusters` adds which clusters they are from.
function groupNodes(explorer, answer, names, withClusters) {
  const { content } = explorer;
  const { sizes, both, columns, means, examples } = answer;
  if (sizes.includes(0)) {
    const empty = names[sizes.indexOf(0)];
    return el("p", {}, `There are no rows in ${empty}, so that there is nothing to compare.`);
  }
  const isTerm = (column) => column.distribution.kind === "term";
  const plain = columns.filter((column) => !isTerm(column));
  const capital = (name) => name.charAt(0).toUpperCase() + name.slice(1);
  const sizesText = names.map((name, i) => `${capital(name)}: ${rowsText(sizes[i])}`).join(" · ");
  return [
    el("p", { class: "note" }, sizesText, both > 0 && ` · ${rowsText(both)} in both count for ${names[0]}`),
    means.length === 2 &&
      means[0] !== null &&
      el(
        "div",
        { class: "pictures means" },
        means.map((url, i) => pictureFigure(url, `Mean picture of ${names[i]}`, `Mean of ${names[i]}`)),
      ),
    means.length === 0 && columns.length === 0 && el("p", {}, "No column distinguishes them."),
    groupKey(columns, names),
    groupTerms(columns.filter(isTerm), names),
    plain.length > 0 &&
      el(
        "ul",
        { class: "columns" },
        plain.map((column) => groupColumn(column, names)),
      ),
    columns.length > 0 && downloads(`${names[0]} against ${names[1]}`, { rows: groupCsv(columns, names) }),
    withClusters && groupClusters(content, answer.clusters, names),
    examples.map((list, i) => someRows(explorer, `Some rows of ${names[i]}`, list)),
  ];
}

// Tables are folded; pictures take little room and are shown.
function someRows(explorer, title, list) {
  const rows = rowList(explorer, title, list);
  if (rows === null) return null;
  return list.examples.some((example) => example.picture !== null)
    ? el("div", { class: "examples" }, el("p", { class: "caption" }, title), rows)
    : el("details", {}, el("summary", {}, title), rows);
}

const option = (value, text) => el("option", { value }, text);

const clusterName = (content, k) => {
  const name = content.clusters[k]?.name ?? null;
  return name === null ? `Cluster ${k}` : `Cluster ${k} ${trimmed(name, 40)}`;
};

// Clusters that have rows of their own, which others were perhaps merged into.
const livingClusters = (explorer) =>
  explorer.state.names.filter((entry) => entry.merged_into === null).map((entry) => entry.cluster);

// The section in which any two groups can be compared.
class Compare {
  constructor(explorer) {
    this.explorer = explorer;
    this.kept = { A: null, B: null };
    this.choices = { A: this.choice(), B: this.choice() };
    this.answer = el("div", { class: "answer", "aria-live": "polite" });
    this.fillChoices();
  }

  choice() {
    return el("select", { id: newId("group") });
  }

  fillChoices() {
    const { content } = this.explorer;
    for (const [side, select] of Object.entries(this.choices)) {
      const before = select.value;
      const kept = this.kept[side];
      select.replaceChildren(
        ...(kept ? [option("kept", `Selection of ${rowsText(countOf(kept))}`)] : []),
        ...livingClusters(this.explorer).map((k) => option(`${k}`, clusterName(content, k))),
        ...(this.explorer.filter ? [option("filter", "Rows that pass the filter")] : []),
        ...(side === "B" ? [option("rest", "All other rows")] : []),
      );
      select.value = before === "" ? (side === "A" ? select.value : "rest") : before;
      if (select.selectedIndex < 0) select.selectedIndex = 0;
    }
  }

  // Takes a selection as one of the groups.
  keep(side, flags) {
    this.kept[side] = flags;
    this.fillChoices();
    this.choices[side].value = "kept";
  }

  group(side) {
    const { value } = this.choices[side];
    if (value === "rest") return "rest";
    if (value === "kept") return { rows: hexOf(this.kept[side]) };
    if (value === "filter") return { rows: hexOf(this.explorer.filter) };
    return { clusters: [Number(value)] };
  }

  compare() {
    const { explorer } = this;
    const question = { a: this.group("A"), b: this.group("B") };
    return showAnswer(this.answer, async () =>
      groupNodes(explorer, await explorer.server.ask("compare", question), ["A", "B"], true),
    );
  }

  section() {
    const field = (side) =>
      el("span", {}, el("label", { for: this.choices[side].id }, side), " ", this.choices[side]);
    const submit = (event) => {
      event.preventDefault();
      this.compare();
    };
    return [
      el(
        "p",
        {},
        "Two groups of rows and the columns that distinguish them. A group is a cluster, the rows that pass the filter, ",
        "or a selection on the map that you keep as A or B.",
      ),
      el(
        "form",
        { class: "question", onsubmit: submit },
        field("A"),
        field("B"),
        el("button", { type: "submit" }, "Compare"),
      ),
      this.answer,
    ];
  }
}
