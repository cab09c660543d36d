// Why there are so many clusters: numbers that were compared, and the tree of merged components.

// More leaves would be too many to tell apart: the first merges are drawn as done, unless they are those of the clusters.
const mostLeaves = (tree) => clamp(tree.chosen + 20, 60, 150);

// Groups of leaves, as the merges before the drawing leave them: `{ leaves, rows, cluster }`, cluster null if mixed.
function treeGroups(tree) {
  const groups = tree.leaves.map((leaf) => ({ leaves: [leaf], rows: leaf.n_rows, cluster: leaf.cluster }));
  const early = Math.max(0, tree.leaves.length - mostLeaves(tree));
  for (const [a, b] of tree.merges.slice(0, early)) {
    groups[a] = joined(groups[a], groups[b]);
    groups[b] = null;
  }
  return { groups, merges: tree.merges.slice(early) };
}

const joined = (a, b) => ({
  leaves: [...a.leaves, ...b.leaves],
  rows: a.rows + b.rows,
  cluster: a.cluster === b.cluster ? a.cluster : null,
});

// Nodes from the leaves to the root: `{ rows, cluster, left, children }`, where `left` is how many groups remain.
function treeNodes(tree) {
  const { groups, merges } = treeGroups(tree);
  const first = merges.length + 1;
  const nodes = groups.map((group) => group && { ...group, left: first, children: [] });
  merges.forEach(([a, b], i) => {
    // The larger group above.
    const children = nodes[a].rows >= nodes[b].rows ? [nodes[a], nodes[b]] : [nodes[b], nodes[a]];
    nodes[a] = { ...joined(nodes[a], nodes[b]), left: first - 1 - i, children };
    nodes[b] = null;
  });
  return { root: nodes.find((node) => node !== null), first };
}

// Heights of the nodes: leaves below each other, others between their children. Without recursion: trees may be deep.
function placedLeaves(root) {
  const order = [];
  const stack = [root];
  while (stack.length > 0) {
    const node = stack.pop();
    order.push(node);
    stack.push(...[...node.children].reverse());
  }
  const leaves = order.filter((node) => node.children.length === 0);
  leaves.forEach((leaf, i) => (leaf.y = i));
  for (const node of order.reverse())
    if (node.children.length > 0) node.y = (node.children[0].y + node.children[1].y) / 2;
  return { nodes: order, leaves };
}

const groupColor = (cluster) => (cluster === null ? "var(--soft)" : css(clusterColor(cluster)));

const leafText = ({ rows, cluster, leaves }) =>
  `${cluster === null ? "mixed" : cluster} · ${count(rows)}${leaves.length > 1 ? ` (${leaves.length})` : ""}`;

// Modularity with each number of groups, the most groups first.
const modularities = (tree) =>
  [[tree.leaves.length, tree.modularity]].concat(
    tree.merges.map(([, , modularity], i) => [tree.leaves.length - 1 - i, modularity]),
  );

// Where a number of groups lies: a logarithmic axis gives the few last merges most of the room.
function treeScale(first, left, right) {
  const span = Math.log(first) || 1;
  return (groups) => right - (Math.log(groups) / span) * (right - left);
}

const axisNumbers = (first) => [1, 2, 3, 5, 10, 20, 30, 50, 100].filter((n) => n <= first);

function treeBranches(nodes, x, y) {
  const line = (node, points) =>
    svg("polyline", {
      class: "branch",
      stroke: groupColor(node.cluster),
      points: points.map(([px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`).join(" "),
    });
  return nodes
    .filter((node) => node.children.length > 0)
    .map((node) => {
      const at = x(node.left);
      return [
        node.children.map((child) =>
          line(child, [
            [x(child.left), y(child.y)],
            [at, y(child.y)],
          ]),
        ),
        line(node, [
          [at, y(node.children[0].y)],
          [at, y(node.children[1].y)],
        ]),
      ];
    });
}

// Modularity above the tree, on the same axis.
function treeCurve(points, x, { left, right, top, bottom }) {
  const values = points.map(([, modularity]) => modularity).filter(isNumber);
  const [low, high] = extent([0, ...values]);
  const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - top);
  const step = tickStep(low, high, 3, false);
  const best = points.reduce((most, point) => (point[1] > (most?.[1] ?? -Infinity) ? point : most), null);
  return [
    ticks(low, high, step).map((value) => [
      svg("line", { class: "gridline", x1: left, x2: right, y1: y(value), y2: y(value) }),
      chartText(left - 6, y(value) + 4, number(value), { class: "end" }),
    ]),
    runs(points).map((run) =>
      svg("polyline", {
        class: "line",
        stroke: "var(--accent)",
        points: run.map(([groups, q]) => `${x(groups).toFixed(1)},${y(q).toFixed(1)}`).join(" "),
      }),
    ),
    best && svg("circle", { cx: x(best[0]), cy: y(best[1]), r: 4, fill: "var(--accent)" }),
    best &&
      chartText(x(best[0]), y(best[1]) - 9, `highest: ${number(best[1])} at ${best[0]}`, {
        class: `halo ${x(best[0]) > right - 80 ? "end" : x(best[0]) < left + 60 ? "" : "middle"}`,
      }),
  ];
}

// As wide as the page has room for: on a phone, the chosen number would otherwise lie outside of what is seen first.
const treeWidth = () => clamp(document.documentElement.clientWidth - 40, 300, 680);

function mergeChart(tree) {
  const { root, first } = treeNodes(tree);
  const { nodes, leaves } = placedLeaves(root);
  const [width, row, left, top] = [treeWidth(), 15, 124, 184];
  // Where there is little room beside the names of the branches, titles begin above them.
  const title = width < 500 ? 4 : left;
  const right = width - 16;
  const bottom = top + leaves.length * row;
  const x = treeScale(first, left, right);
  const y = (position) => top + (position + 0.5) * row;
  const { chosen } = tree;
  // Between the merge that left so many and the next.
  const cut = chosen >= first ? left : (x(chosen) + x(Math.max(1, chosen - 1))) / 2;
  const points = modularities(tree).filter(([groups]) => groups <= first);
  return chart(
    width,
    bottom + 40,
    `Merge tree of ${tree.leaves.length} components, coloured by their ${chosen} clusters, below the modularity with each number of clusters`,
    svg("line", { class: "mark", x1: cut, x2: cut, y1: 36, y2: bottom }),
    chartText(title, 12, "modularity with each number of clusters", { class: "strong" }),
    treeCurve(points, x, { left, right, top: 60, bottom: top - 36 }),
    chartText(4, top - 8, "cluster · rows", { class: "strong" }),
    chartText(left, top - 8, "merges of components", { class: "strong" }),
    treeBranches(nodes, x, y),
    leaves.map((leaf) => [
      svg("rect", { x: left - 13, y: y(leaf.y) - 5, width: 10, height: 10, fill: groupColor(leaf.cluster) }),
      chartText(left - 18, y(leaf.y) + 4, leafText(leaf), { class: "end" }),
    ]),
    axisNumbers(first).map((n) => chartText(x(n), bottom + 16, String(n), { class: "middle" })),
    chartText((left + right) / 2, bottom + 34, "number of clusters left", { class: "middle" }),
    chartText(cut, 30, `${chosen} in the model`, { class: cut > (left + right) / 2 ? "strong end" : "strong" }),
  );
}

function treeFigure(tree) {
  const drawing = mergeChart(tree);
  const merges = () => [
    ["clusters left", "component", "merged with component", "modularity"],
    [tree.leaves.length, "", "", tree.modularity],
    ...tree.merges.map(([a, b, modularity], i) => [
      tree.leaves.length - 1 - i,
      tree.leaves[a].component,
      tree.leaves[b].component,
      modularity,
    ]),
  ];
  const components = () => [
    ["component", "rows", "cluster"],
    ...tree.leaves.map((leaf) => [leaf.component, leaf.n_rows, leaf.cluster]),
  ];
  const done = tree.leaves.length - mostLeaves(tree);
  return [
    el(
      "figure",
      { class: "plot tree" },
      scroller("Merge tree of the components", drawing),
      downloads("Merge tree", { rows: merges, chart: () => standaloneSvg(drawing) }),
    ),
    el(
      "p",
      { class: "note" },
      "Each branch on the left is a component, with its final cluster and its rows; from left to right the two groups whose ",
      "merge suits the neighbour graph best become one. Branches have the colour of a cluster as long as all of their ",
      "components are in it; grey ones join several clusters.",
      done > 0 &&
        ` The first ${done} merges of ${tree.leaves.length} components are drawn as done; ` +
          "in brackets, the components of a branch.",
    ),
    el(
      "details",
      {},
      el("summary", {}, `The ${plural(tree.leaves.length, "component", "components")} as a table`),
      table(
        "Components",
        ["Component", "Rows", "Cluster"],
        tree.leaves.map((leaf) => [String(leaf.component), count(leaf.n_rows), badge(leaf.cluster)]),
        { numeric: [0, 1], hideCaption: true },
      ),
      downloads("Components", { rows: components }),
    ),
  ];
}

function levelsFigure(levels) {
  const chosen = levels.find((level) => level.chosen);
  const lines = [
    {
      name: "modularity",
      color: lineColor(0),
      points: levels.map((level) => [level.clusters, level.modularity]),
    },
  ];
  if (levels.some((level) => isNumber(level.stability))) {
    lines.push({
      name: "stability between mixtures",
      color: lineColor(5),
      dashed: true,
      points: levels.map((level) => [level.clusters, level.stability]).filter(([, y]) => isNumber(y)),
    });
  }
  const mark = chosen && { x: chosen.clusters, text: `${chosen.clusters} chosen` };
  const drawing = lineChart(lines, {
    label: `Modularity by number of clusters${chosen ? `; ${chosen.clusters} were chosen` : ""}`,
    xLabel: "number of clusters",
    mark,
    dots: levels.length <= 60,
  });
  const rows = levels.map((level) => [
    [count(level.clusters), level.chosen ? " (chosen)" : ""],
    number(level.modularity),
    number(level.stability),
  ]);
  const csv = () => [
    ["clusters", "modularity", "stability", "chosen"],
    ...levels.map((l) => [l.clusters, l.modularity, l.stability, l.chosen]),
  ];
  return [
    plotFigure("Number of clusters", null, drawing, csv, lineLegend(lines)),
    el(
      "details",
      {},
      el("summary", {}, "As a table"),
      table("Numbers of clusters", ["Clusters", "Modularity", "Stability"], rows, { numeric: [0, 1, 2] }),
    ),
  ];
}

function numberSection(content) {
  const levels = content.levels.filter((level) => isNumber(level.modularity));
  const sentences = content.number_sentences.map((sentence) => el("p", {}, withCode(sentence)));
  if (sentences.length === 0 && levels.length < 2 && !content.tree) return null;
  const isCompared = levels.length > 1;
  return [
    sentences,
    (isCompared || content.tree) &&
      el(
        "p",
        { class: "note" },
        "Modularity says how well clusters agree with which rows are neighbours: 0 is chance, above 0.5 is clear structure.",
      ),
    isCompared && levelsFigure(levels),
    content.tree && treeFigure(content.tree),
  ];
}
