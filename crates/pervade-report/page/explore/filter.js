// Conditions on columns. Rows that do not meet them turn grey; they are not hidden, so that their neighbours stay in sight.

const MANY_COLUMNS = 80;

class Filter {
  constructor(explorer) {
    this.explorer = explorer;
    this.conditions = [];
    this.fields = this.listFields();
    this.inputs = el("span", { class: "inputs" });
    this.list = el("ul", { class: "conditions" });
    this.status = el("p", { class: "note", role: "status" });
    this.chooser = this.makeChooser();
    this.showInputs();
  }

  // What conditions can be about: { name, on, levels }, or a range without levels, or a text.
  listFields() {
    const { state, content } = this.explorer;
    const clusters = livingClusters(this.explorer);
    return [
      {
        name: "Cluster",
        on: "cluster",
        levels: clusters.map((k) => clusterName(content, k)),
        ids: clusters,
      },
      state.labels.length > 0 && { name: "Label", on: "label", levels: state.labels },
      { name: "Confidence", on: "confidence" },
      { name: "Score", on: "score" },
      ...state.kept.map((name, i) => ({ name, on: { kept: i }, isText: true })),
      ...state.columns.map(({ name, levels }, i) => ({
        name,
        on: { column: i },
        levels: levels.length > 0 ? levels : undefined,
      })),
    ].filter(Boolean);
  }

  // Clusters have other names now; conditions that were added keep the words that they had.
  rename() {
    this.fields = this.listFields();
    this.showInputs();
  }

  // A list to choose from, or for very many columns a field that completes what is typed.
  makeChooser() {
    const id = newId("field");
    const change = () => this.showInputs();
    if (this.fields.length <= MANY_COLUMNS) {
      const select = el(
        "select",
        { id, onchange: change },
        this.fields.map(({ name }, i) => option(i, trimmed(name, 60))),
      );
      return { node: select, id, chosen: () => this.fields[select.selectedIndex] };
    }
    const names = newId("fields");
    const input = el("input", { id, list: names, onchange: change, value: this.fields[0].name });
    const list = el(
      "datalist",
      { id: names },
      this.fields.map(({ name }) => option(name, name)),
    );
    const chosen = () => this.fields.find(({ name }) => name === input.value);
    return { node: [input, list], id, chosen };
  }

  showInputs() {
    const field = this.chooser.chosen();
    if (!field) return this.inputs.replaceChildren(el("span", { class: "note" }, "There is no such column."));
    const input = (label, key) => {
      const id = newId("value");
      return [el("label", { for: id }, label), " ", el("input", { id, name: key, size: 9 }), " "];
    };
    const nodes = field.levels
      ? this.levelInputs(field)
      : field.isText
        ? input("contains", "text")
        : [...input("from", "low"), ...input("to", "high")];
    this.inputs.replaceChildren(...nodes);
  }

  levelInputs({ name, levels }) {
    const id = newId("levels");
    const size = Math.min(levels.length, 5);
    return [
      el("label", { for: id, class: "hidden" }, `Values of ${name}`),
      el(
        "select",
        { id, name: "levels", multiple: true, size },
        levels.map((level, i) => option(i, trimmed(level, 40))),
      ),
    ];
  }

  // The condition that was typed, with its text; null if nothing was chosen.
  typed() {
    const field = this.chooser.chosen();
    if (!field) return null;
    const value = (key) => this.inputs.querySelector(`[name=${key}]`)?.value.trim() ?? "";
    const levels = [...this.inputs.querySelectorAll("option:checked")].map((item) => Number(item.value));
    const [low, high, text] = ["low", "high", "text"].map(value);
    if (levels.length === 0 && low + high + text === "") return null;
    const range = low === "" ? `at most ${high}` : high === "" ? `at least ${low}` : `${low} to ${high}`;
    const words = field.levels
      ? levels.map((i) => field.levels[i]).join(" or ")
      : field.isText
        ? `contains “${text}”`
        : range;
    const ids = field.ids ? levels.map((i) => field.ids[i]) : levels;
    return { words: `${field.name}: ${words}`, condition: { on: field.on, low, high, text, levels: ids } };
  }

  async add() {
    const typed = this.typed();
    if (!typed) {
      this.status.textContent = "Choose values, or type a limit.";
      return;
    }
    if (await this.apply([...this.conditions, typed])) this.showInputs();
  }

  // Asks which rows meet the conditions; keeps the old ones if the server refuses.
  async apply(conditions) {
    const { explorer } = this;
    const n = explorer.state.n_rows;
    let flags = null;
    try {
      if (conditions.length > 0) {
        const question = { conditions: conditions.map(({ condition }) => condition) };
        const answer = await explorer.server.ask("filter", question);
        flags = flagsOf(answer.rows, n);
        this.status.textContent = `${count(answer.total)} of ${rowsText(n)} pass; the others are grey.`;
      } else {
        this.status.textContent = "No filter: all rows are shown in colour.";
      }
    } catch (error) {
      this.status.textContent = error.message;
      return false;
    }
    this.conditions = conditions;
    explorer.setFilter(flags);
    this.showConditions();
    return true;
  }

  showConditions() {
    const remove = (i) => this.apply(this.conditions.filter((_, j) => j !== i));
    const items = this.conditions.map(({ words }, i) =>
      el(
        "li",
        {},
        data(trimmed(words, 80)),
        " ",
        button("×", () => remove(i), { class: "quiet", "aria-label": `Remove the condition ${words}` }),
      ),
    );
    this.list.replaceChildren(...items);
  }

  node() {
    const submit = (event) => {
      event.preventDefault();
      this.add();
    };
    const selectThem = button("Select these rows", () => {
      if (this.explorer.filter) this.explorer.selection.chooseRows(this.explorer.filter);
    });
    return el(
      "details",
      { class: "filter" },
      el("summary", {}, "Filter"),
      el(
        "form",
        { class: "question", onsubmit: submit },
        el("span", {}, el("label", { for: this.chooser.id }, "Rows with"), " ", this.chooser.node),
        this.inputs,
        el("button", { type: "submit" }, "Add the condition"),
        selectThem,
      ),
      this.list,
      this.status,
    );
  }
}
