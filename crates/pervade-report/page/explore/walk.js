// A walk through the latent space between two clusters.

class Walk {
  constructor(explorer) {
    this.explorer = explorer;
    const [from, to] = this.firstPair();
    this.from = this.choice(from);
    this.to = this.choice(to);
    this.steps = el("input", { id: newId("steps"), type: "number", min: 2, max: 41, value: 9 });
    this.answer = el("div", { class: "answer", "aria-live": "polite" });
  }

  // The pair with most rows between them.
  firstPair() {
    const living = livingClusters(this.explorer);
    const between = this.explorer.content.between.reduce(
      (most, pair) => (most === null || pair.n_rows > most.n_rows ? pair : most),
      null,
    );
    return between?.clusters ?? [living[0], living[1]];
  }

  choice(chosen) {
    const select = el("select", { id: newId("cluster") });
    this.fillChoice(select, chosen);
    return select;
  }

  fillChoice(select, chosen) {
    const { content } = this.explorer;
    select.replaceChildren(
      ...livingClusters(this.explorer).map((k) => option(`${k}`, clusterName(content, k))),
    );
    select.value = String(chosen);
  }

  fillChoices() {
    for (const select of [this.from, this.to]) this.fillChoice(select, select.value);
  }

  go() {
    const question = {
      from: Number(this.from.value),
      to: Number(this.to.value),
      steps: clamp(Math.round(Number(this.steps.value)) || 9, 2, 41),
    };
    return showAnswer(this.answer, async () => {
      if (question.from === question.to) throw new Error("Choose two different clusters.");
      return this.nodes(await this.explorer.server.ask("walk", question), question);
    });
  }

  nodes({ steps, probabilities, shown, columns }, { from, to }) {
    const most = probabilities.map((all) => all.reduce((best, p, k) => (p > all[best] ? k : best), 0));
    const caption = `From cluster ${from} to cluster ${to}`;
    const mark = (i) => [badge(most[i]), " ", percent(probabilities[i][most[i]])];
    const pictures = steps.some((step) => step.picture !== null);
    return [
      pictures ? this.pictures(steps, caption, mark) : this.table(steps, caption, mark),
      el(
        "p",
        { class: "note" },
        "Each step is what the model expects at a point on the straight line between the clusters, with the ",
        "most probable cluster there.",
        !pictures && shown < columns && ` The ${shown} columns that change most are shown, of ${count(columns)}.`,
      ),
    ];
  }

  pictures(steps, caption, mark) {
    const item = (step, i) => pictureFigure(step.picture, `Step ${i + 1}`, mark(i));
    return el("div", { class: "pictures walk", role: "group", "aria-label": caption }, steps.map(item));
  }

  // Columns of the data as lines, so that a value can be followed from left to right.
  table(steps, caption, mark) {
    const lines = cellNames(steps).map((name) => {
      const values = steps.map((step) => cellOf(step, name));
      return [
        data(trimmed(name, 40)),
        ...values.map((value, i) =>
          i > 0 && value !== values[i - 1] ? el("b", {}, data(trimmed(value, 40))) : data(trimmed(value, 40)),
        ),
      ];
    });
    const csv = () => [
      ["column", ...steps.map((_, i) => `step ${i + 1}`)],
      ...cellNames(steps).map((name) => [name, ...steps.map((step) => cellOf(step, name))]),
    ];
    return [
      table(caption, ["Column", ...steps.map((_, i) => mark(i))], lines, { class: "walk" }),
      downloads(caption, { rows: csv }),
    ];
  }

  section() {
    if (livingClusters(this.explorer).length < 2)
      return [el("p", {}, "There is one cluster only, so that there is nowhere to walk to.")];
    const field = (label, node) => el("span", {}, el("label", { for: node.id }, label), " ", node);
    const submit = (event) => {
      event.preventDefault();
      this.go();
    };
    return [
      el(
        "p",
        {},
        "How one cluster turns into another: the rows that the model expects on the way between them.",
      ),
      el(
        "form",
        { class: "question", onsubmit: submit },
        field("From", this.from),
        field("to", this.to),
        field("in steps", this.steps),
        el("button", { type: "submit" }, "Walk"),
      ),
      this.answer,
    ];
  }
}
