// Names of clusters and merges, which the server writes to a file.

class Names {
  constructor(explorer) {
    this.explorer = explorer;
    this.status = el("p", { class: "note", role: "status" });
    this.isChanged = false;
    const { state } = explorer;
    this.inputs = state.names.map(({ cluster, name, merged_into: into }) => ({
      name: el("input", {
        value: name ?? "",
        size: 24,
        maxlength: state.longest_name,
        disabled: state.read_only !== null || into !== null,
        "aria-label": `Name of cluster ${cluster}`,
        oninput: () => this.changed(),
      }),
      into: this.mergeChoice(cluster, into),
    }));
    addEventListener("beforeunload", (event) => this.isChanged && event.preventDefault());
  }

  mergeChoice(cluster, into) {
    const select = el("select", {
      "aria-label": `Merge cluster ${cluster} into`,
      disabled: this.explorer.state.read_only !== null,
      onchange: () => this.changed(),
    });
    this.fillChoice(select, cluster, into === null ? "" : String(into));
    return select;
  }

  fillChoice(select, cluster, chosen) {
    const { content } = this.explorer;
    const targets = livingClusters(this.explorer).filter((k) => k !== cluster);
    select.replaceChildren(option("", "–"), ...targets.map((k) => option(`${k}`, clusterName(content, k))));
    select.value = chosen;
  }

  fillChoices() {
    this.inputs.forEach(({ into }, cluster) => this.fillChoice(into, cluster, into.value));
  }

  changed() {
    this.isChanged = true;
    this.status.textContent = "Not saved yet.";
  }

  async save() {
    const { explorer } = this;
    const clusters = this.inputs.map(({ name, into }, cluster) => ({
      cluster,
      name: name.value.trim() || null,
      merged_into: into.value === "" ? null : Number(into.value),
    }));
    this.status.textContent = "Saving…";
    try {
      const answer = await explorer.server.ask("names", { clusters });
      this.isChanged = false;
      if (answer.reload) {
        // Merged clusters are described anew: everything on the page changes.
        location.reload();
        return;
      }
      explorer.setNames(answer.names);
      this.status.textContent = `Saved to ${explorer.state.names_file}.`;
    } catch (error) {
      this.status.textContent = `Not saved: ${error.message}`;
    }
  }

  section() {
    const { state, content } = this.explorer;
    const rows = this.inputs.map(({ name, into }, k) => [
      badge(k),
      name,
      into,
      count(content.clusters[k]?.n_rows ?? 0),
    ]);
    const submit = (event) => {
      event.preventDefault();
      this.save();
    };
    return [
      el(
        "p",
        {},
        "Names are saved to ",
        el("code", {}, data(state.names_file)),
        " and used by ",
        el("code", {}, data(state.assign)),
        ". A cluster that is merged into another gives it its rows and its probability; numbers stay.",
      ),
      state.read_only !== null && el("p", { class: "problem" }, `Names cannot be saved: ${state.read_only}`),
      el(
        "form",
        { class: "names", onsubmit: submit },
        table("Names of clusters", ["Cluster", "Name", "Merge into", "Rows"], rows, {
          numeric: [3],
          hideCaption: true,
        }),
        el("button", { type: "submit", disabled: state.read_only !== null }, "Save"),
        this.status,
      ),
    ];
  }
}
