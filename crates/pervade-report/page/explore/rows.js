// Single rows: search, the cells of a row, and the rows nearest to it.

// A list of rows as buttons that open them. `more` has further columns: heading and one value per row.
function rowList(explorer, caption, { examples, clusters }, more = []) {
  if (examples.length === 0) return null;
  const open = (example) =>
    button(count(example.row + 1), () => explorer.openRow(example.row, true), {
      class: "row-button",
      "aria-label": `Open row ${count(example.row + 1)}`,
    });
  if (examples.some((example) => example.picture !== null))
    return rowPictures(explorer, caption, { examples, clusters }, more);
  const names = cellNames(examples);
  const hasNames = examples.some((example) => example.name !== null);
  const headings = ["Row", ...(hasNames ? ["Name"] : []), "Cluster", "Confidence", ...more.map(([h]) => h)];
  const lines = examples.map((example, i) => [
    open(example),
    ...(hasNames ? [data(trimmed(example.name ?? "", 60))] : []),
    badge(clusters[i]),
    percent(example.confidence),
    ...more.map(([, values]) => values[i]),
    ...names.map((name) => data(trimmed(cellOf(example, name), 240))),
  ]);
  const all = [...headings, ...names.map((name) => data(trimmed(name, 40) || "(no name)"))];
  return table(caption, all, lines, { hideCaption: true, class: names.length === 1 ? "entries" : null });
}

function rowPictures(explorer, caption, { examples, clusters }, more) {
  const item = (example, i) => {
    const number = count(example.row + 1);
    return el(
      "figure",
      { class: "picture" },
      button(
        el("img", { src: example.picture, alt: "" }),
        () => explorer.openRow(example.row, true),
        { class: "picture-button", "aria-label": `Open row ${number}` },
      ),
      el(
        "figcaption",
        {},
        `${number} `,
        badge(clusters[i]),
        more.map(([heading, values]) => [el("br"), `${heading.toLowerCase()} ${values[i]}`]),
      ),
    );
  };
  return el("div", { class: "pictures", role: "group", "aria-label": caption }, examples.map(item));
}

class Search {
  constructor(explorer) {
    this.explorer = explorer;
    this.answer = el("div", { class: "answer found", "aria-live": "polite" });
    this.input = el("input", { id: newId("search"), type: "search", size: 28, autocomplete: "off" });
  }

  run() {
    const { explorer } = this;
    return showAnswer(this.answer, async () => {
      if (this.input.value.trim() === "") return null;
      const { total, searched, list, rows } = await explorer.server.ask("search", { text: this.input.value });
      const first = list.examples.length < total ? `, the first ${list.examples.length} are listed` : "";
      const flags = flagsOf(rows, explorer.state.n_rows);
      return [
        el("p", {}, `${rowsText(total)} found in `, data(searched), `${first}. `),
        total > 0 && button("Select them on the map", () => explorer.selection.chooseRows(flags)),
        button("Close", () => this.close()),
        rowList(explorer, "Rows that were found", list),
      ];
    });
  }

  close() {
    this.answer.replaceChildren();
    this.input.focus();
  }

  node() {
    const submit = (event) => {
      event.preventDefault();
      this.run();
    };
    const help = newId("help");
    this.input.setAttribute("aria-describedby", help);
    return [
      el(
        "form",
        { class: "question", role: "search", onsubmit: submit },
        el("span", {}, el("label", { for: this.input.id }, "Find rows"), " ", this.input),
        el("button", { type: "submit" }, "Search"),
        el(
          "span",
          { id: help, class: "note" },
          "A row number, a text, or a value of one column: ",
          el("code", {}, "column: value"),
        ),
      ),
      this.answer,
    ];
  }
}

// The panel about one row.
class RowPanel {
  constructor(explorer) {
    this.explorer = explorer;
    this.panel = el("div", { class: "selection row-panel", "aria-live": "polite" });
  }

  async open(row, focus) {
    const { server, map } = this.explorer;
    await showAnswer(this.panel, async () => this.nodes(await server.ask("row", { row })));
    map.marker = row;
    map.drawOverlay();
    if (!focus) return;
    this.panel.scrollIntoView({ block: "nearest" });
    this.panel.querySelector("h3")?.focus();
  }

  close() {
    const { map } = this.explorer;
    this.panel.replaceChildren();
    map.marker = null;
    map.drawOverlay();
    map.frame.focus();
  }

  nodes(answer) {
    const { explorer } = this;
    const { row: example, nearest, distances } = answer;
    const name = example.name === null ? null : [" ", data(example.name)];
    const near = nearest.examples.map((item) => item.row);
    const select = () => {
      const flags = new Uint8Array(explorer.state.n_rows);
      for (const row of [example.row, ...near]) flags[row] = 1;
      explorer.selection.chooseRows(flags);
    };
    return [
      el("h3", { tabindex: -1 }, `Row ${count(example.row + 1)}`, name),
      el("div", { class: "row-parts" }, this.cells(example), this.facts(answer)),
      el("h4", {}, "Nearest rows"),
      rowList(explorer, "Nearest rows", nearest, [["Distance", distances.map(number)]]),
      el(
        "p",
        { class: "note" },
        "Distances are those between latent means: near rows are alike for the model.",
      ),
      el(
        "div",
        { class: "actions" },
        near.length > 0 && button("Select it and these rows", select),
        button("Close", () => this.close()),
      ),
    ];
  }

  cells(example) {
    if (example.picture !== null)
      return pictureFigure(example.picture, `Row ${count(example.row + 1)} as a picture`, null);
    const lines = example.cells.map(([name, value]) => [data(name), data(trimmed(value, 240))]);
    const box = el(
      "div",
      { class: "cells", role: "group", "aria-label": "Cells of the row", tabindex: 0 },
      table("Cells of the row", ["Column", "Value"], lines, { hideCaption: true }),
    );
    const { n_columns: columns } = this.explorer.content;
    // One line has the largest entries of a sparse row.
    if (lines.length === 1 || lines.length >= columns) return box;
    const note = `${lines.length} of ${count(columns)} columns: those that distinguish its cluster, then the first.`;
    return el("div", {}, box, el("p", { class: "note" }, note));
  }

  facts({ probabilities, score, costs }) {
    const { content } = this.explorer;
    const likely = probabilities.filter(([, p]) => p >= 0.001).map(([k, p]) => [
      [badge(k), " ", clusterTitle(content, k)],
      percent(p),
    ]);
    return el(
      "div",
      {},
      table("Probable clusters", ["Cluster", "Probability"], likely, { numeric: [1] }),
      el("p", { class: "note" }, `Score ${number(score)} nats; lower is stranger.`),
      costs.length > 0 &&
        table(
          "Least expected cells",
          ["Column", "Here", "Expected"],
          costs.map(([column, value, expected]) => [
            data(trimmed(column, 40)),
            data(trimmed(value, 60)),
            data(trimmed(expected, 60)),
          ]),
        ),
    );
  }
}
