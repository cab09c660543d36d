// Puts the explorer's page together: the sections of the report, and those that ask the server.

const MAP_HINT = "Click a point, or move the cross onto it and press Space, to open its row.";

class Explorer {
  constructor(content, state) {
    Object.assign(this, { content, state, filter: null, map: null, selection: null });
    this.server = new Server(state.command);
    this.applyNames();
    this.mapHolder = el("div", { class: "map" }, el("p", { class: "note" }, "Drawing the map…"));
    this.news = el("p", { class: "news note", role: "status" });
    this.compare = new Compare(this);
    this.walk = new Walk(this);
    this.names = new Names(this);
    this.search = new Search(this);
    this.filters = new Filter(this);
    this.rowPanel = new RowPanel(this);
  }

  say(text) {
    this.news.textContent = text;
  }

  // The names that the server knows, which may be newer than the rest of the page.
  applyNames() {
    for (const { cluster, name, merged_into: into } of this.state.names) {
      const card = this.content.clusters[cluster];
      if (card) card.name = into === null ? name : `merged into ${into}`;
    }
  }

  setNames(names) {
    this.state.names = names;
    this.applyNames();
    this.compare.fillChoices();
    this.walk.fillChoices();
    this.names.fillChoices();
    this.filters.rename();
    for (const section of sections(this.content, this.mapHolder)) {
      if (section.id !== "map") document.getElementById(section.id).replaceWith(sectionElement(section));
    }
    const { map } = this;
    if (map === null) return;
    map.colorings[0].names = map.listColorings()[0].names;
    map.showLegend();
    map.redraw();
  }

  setFilter(flags) {
    this.filter = flags;
    this.compare.fillChoices();
    this.selection.showFilter();
  }

  openRow(row, focus) {
    return this.rowPanel.open(row, focus);
  }

  // The report's sections, with ours after the map.
  sections() {
    const report = sections(this.content, this.mapHolder);
    const at = report.findIndex(({ id }) => id === "map") + 1;
    const own = [
      { title: "Compare groups", id: "compare", nodes: this.compare.section() },
      { title: "Walk between clusters", id: "walk", nodes: this.walk.section() },
      { title: "Names and merges", id: "names", nodes: this.names.section() },
    ];
    return [...report.slice(0, at), ...own, ...report.slice(at)];
  }

  // The point of a row is marked with a ring; rows that are not on the map have none.
  markerShapes() {
    const { map } = this;
    if (map.marker === null) return [];
    const i = map.points.row.indexOf(map.marker);
    if (i < 0) return [];
    const { scale, left, top } = map.transform();
    const [cx, cy] = [map.points.x[i] * scale + left, map.points.y[i] * scale + top];
    return [svg("circle", { class: "marker", cx, cy, r: 9 })];
  }

  async fillMap() {
    let points;
    try {
      points = await loadPoints(this.content.map);
    } catch {
      const problem = "This browser cannot unpack the map, without which rows cannot be selected.";
      this.mapHolder.replaceChildren(el("p", {}, problem));
      return;
    }
    const map = new PointMap(this.content, points);
    const selection = new ExplorerSelection(map, this);
    const input = new MapInput(map, selection);
    Object.assign(this, { map, selection });
    map.marker = null;
    map.overlayShapes = () => [...input.shapes(), ...this.markerShapes()];
    this.openByClick(input);
    map.help.append(` ${MAP_HINT}`);
    this.mapHolder.replaceChildren(
      ...this.search.node(),
      this.filters.node(),
      mapToolbar(map, input, selection),
      map.frame,
      map.legend,
      this.news,
      this.rowPanel.panel,
      selection.panel,
      el("p", { class: "caption" }, mapCaption(this.content)),
      map.help,
    );
    document.addEventListener("themechange", () => map.recolor());
    map.redraw();
  }

  // A click that did not move the map opens the row below it; so does Space at the cross.
  openByClick(input) {
    const { frame } = this.map;
    let pressed = null;
    frame.addEventListener("pointerdown", (event) => (pressed = [event.clientX, event.clientY]));
    frame.addEventListener("click", (event) => {
      const moved = pressed && Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) > 4;
      if (!moved && !input.lasso && !event.shiftKey) this.openAt(...input.position(event));
    });
    frame.addEventListener("keydown", (event) => {
      if (event.key !== " " || event.target !== frame) return;
      event.preventDefault();
      const { width, height } = this.map.transform();
      this.openAt(...(input.cross ?? [width / 2, height / 2]));
    });
  }

  openAt(px, py) {
    const { map } = this;
    const [x, y] = map.toPoint(px, py);
    const found = nearest(map.points, x, y, HOVER_PIXELS / map.transform().scale);
    if (found >= 0) this.openRow(map.points.row[found], false);
  }
}

function explore() {
  const explorer = new Explorer(readContent(), readState());
  const shown = explorer.sections();
  const elements = shown.map(sectionElement);
  const { nav, watch } = contents(shown);
  document.body.prepend(
    el("a", { class: "skip", href: "#main" }, "Skip to the content"),
    explorer.server.notice,
    banner(explorer.content),
    el("div", { class: "columns-layout" }, nav, el("main", { id: "main", tabindex: -1 }, elements)),
    el(
      "footer",
      {},
      "Made by pervade. This page asks only the server on this machine that sent it; texts come from the data.",
    ),
  );
  watch(elements);
  unfoldForPrint();
  if (explorer.content.map) explorer.fillMap();
}

explore();
