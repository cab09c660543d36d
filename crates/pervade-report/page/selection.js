// Selected points: how many of which cluster, and the list of rows as a file; and the section that holds the map.

class Selection {
  constructor(map) {
    this.map = map;
    this.panel = el("div", { class: "selection", "aria-live": "polite" });
  }

  choose(mask) {
    this.map.mask = mask;
    this.map.recolor();
    this.showPanel();
  }

  clear() {
    if (this.map.mask === null) return;
    this.map.mask = null;
    this.map.recolor();
    this.panel.replaceChildren();
  }

  chooseVisible() {
    const [x0, y0, x1, y1] = this.map.visibleBox();
    this.choose(
      pointsInside(this.map.points, [
        [x0, y0],
        [x1, y0],
        [x1, y1],
        [x0, y1],
      ]),
    );
  }

  counts() {
    const { points, mask, k } = this.map;
    const [all, chosen] = [new Uint32Array(k), new Uint32Array(k)];
    for (let i = 0; i < points.n; i++) {
      all[points.cluster[i]]++;
      chosen[points.cluster[i]] += mask[i];
    }
    return { all, chosen };
  }

  showPanel() {
    const { all, chosen } = this.counts();
    const total = chosen.reduce((sum, n) => sum + n, 0);
    const names = this.map.colorings[0].names;
    const order = [...chosen.keys()].filter((i) => chosen[i] > 0).sort((a, b) => chosen[b] - chosen[a]);
    const rows = order.map((i) => [
      [badge(i), " ", data(names[i])],
      count(chosen[i]),
      percent(chosen[i] / total),
      percent(chosen[i] / all[i]),
    ]);
    const headings = ["Cluster", "Selected rows", "Share of the selection", "Share of the cluster"];
    const actions = el(
      "div",
      { class: "actions" },
      total > 0 && button("Download the rows (CSV)", () => this.save()),
      button("Clear the selection", () => this.clear()),
    );
    this.panel.replaceChildren(
      el("h3", {}, `${rowsText(total)} selected`),
      total > 0
        ? table("Selected rows by cluster", headings, rows, { numeric: [1, 2, 3], hideCaption: true })
        : "",
      actions,
    );
  }

  save() {
    const { points, mask } = this.map;
    const chosen = [];
    for (let i = 0; i < points.n; i++) if (mask[i]) chosen.push(i);
    chosen.sort((a, b) => points.row[a] - points.row[b]);
    const line = (i) => [
      points.row[i] + 1,
      ...(points.names ? [this.map.nameOf(i)] : []),
      points.cluster[i],
      this.map.confidence(i)?.toFixed(2),
    ];
    saveCsv("selected-rows", [
      ["row", ...(points.names ? ["name"] : []), "cluster", "confidence"],
      ...chosen.map(line),
    ]);
  }
}

function mapToolbar(map, input, selection) {
  const choice = newId("color");
  const colors = el(
    "select",
    { id: choice, onchange: () => map.setColoring(colors.selectedIndex) },
    map.colorings.map((coloring) => el("option", {}, coloring.name)),
  );
  const lasso = button(
    "Lasso",
    () => {
      input.setLasso(!input.lasso);
      lasso.setAttribute("aria-pressed", String(input.lasso));
    },
    { "aria-pressed": "false" },
  );
  const zoom = (text, label, factor) => button(text, () => map.zoomAt(factor), { "aria-label": label });
  return el(
    "div",
    { class: "toolbar", role: "group", "aria-label": "Map controls" },
    el("span", {}, el("label", { for: choice }, "Colour by"), " ", colors),
    el(
      "span",
      { class: "joined" },
      zoom("+", "Zoom in", 1.5),
      zoom("−", "Zoom out", 1 / 1.5),
      button("Whole map", () => map.show({ ...map.home })),
    ),
    el(
      "span",
      { class: "joined" },
      lasso,
      button("Select what is in view", () => selection.chooseVisible()),
    ),
    button("PNG", () => map.savePng(), { class: "quiet", "aria-label": "Download the map as PNG" }),
  );
}

function mapCaption(content) {
  const { n } = content.map;
  const which = n < content.n_rows ? `${count(n)} of ${count(content.n_rows)} rows` : `All ${count(n)} rows`;
  return (
    `${which}, each a point beside the rows that resemble it. Points close together are alike; how far apart ` +
    "islands lie, how large they are and how dense says little. Numbers are clusters."
  );
}

// Builds the map after the rest of the page: it takes longest.
async function fillMap(content, holder) {
  let points;
  try {
    points = await loadPoints(content.map);
  } catch {
    holder.replaceChildren(
      el("p", {}, "This browser cannot unpack the map; everything else on the page works."),
    );
    return;
  }
  const map = new PointMap(content, points);
  const selection = new Selection(map);
  const input = new MapInput(map, selection);
  holder.replaceChildren(
    mapToolbar(map, input, selection),
    map.frame,
    map.legend,
    el("p", { class: "caption" }, mapCaption(content)),
    map.help,
    selection.panel,
  );
  document.addEventListener("themechange", () => map.recolor());
  map.redraw();
}
