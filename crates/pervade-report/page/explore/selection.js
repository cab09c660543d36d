// Selections on the explorer's map: rows that the filter leaves out stay grey, and a profile says what was selected.

class ExplorerSelection extends Selection {
  constructor(map, explorer) {
    super(map);
    this.explorer = explorer;
    this.chosen = null;
    this.profile = el("div", { class: "answer" });
  }

  choose(mask) {
    const { filter } = this.explorer;
    this.chosen = filter ? mask.map((flag, i) => flag & filter[this.map.points.row[i]]) : mask;
    super.choose(this.chosen);
    const rows = this.rows();
    if (countOf(rows) > 0) this.showProfile(rows);
  }

  // Rows of the table, also those that are not on the map.
  chooseRows(flags) {
    this.choose(pointsOfRows(this.map.points, flags));
  }

  clear() {
    this.chosen = null;
    this.panel.replaceChildren();
    this.showFilter();
  }

  // Greys out what the filter leaves out, and keeps what was selected before.
  showFilter() {
    const { filter } = this.explorer;
    if (this.chosen !== null) return this.choose(this.chosen);
    this.map.mask = filter ? pointsOfRows(this.map.points, filter) : null;
    this.map.recolor();
  }

  rows() {
    return rowsOfPoints(this.map.points, this.chosen, this.explorer.state.n_rows);
  }

  showPanel() {
    super.showPanel();
    const keep = (side) =>
      button(`Keep as ${side}`, () => {
        this.explorer.compare.keep(side, this.rows());
        this.explorer.say(`${rowsText(countOf(this.chosen))} kept as ${side} in the section “Compare groups”.`);
      });
    if (countOf(this.chosen) === 0) return;
    this.panel.querySelector(".actions").append(keep("A"), keep("B"));
    this.panel.append(el("h3", {}, "What distinguishes them from all other rows"), this.profile);
  }

  showProfile(rows) {
    const { explorer } = this;
    showAnswer(this.profile, async () => {
      const answer = await explorer.server.ask("compare", { a: { rows: hexOf(rows) }, b: "rest" });
      return groupNodes(explorer, answer, ["the selection", "the other rows"], false);
    });
  }
}
