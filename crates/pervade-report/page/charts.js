// Charts as inline SVG. Colours come from the style sheet by class, so that they follow the theme.

const chartText = (x, y, text, attributes) => svg("text", { x, y, ...attributes }, text);

// A picture with a text for those who cannot see it. Its width in the page may shrink, its proportions stay.
function chart(width, height, label, ...children) {
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, class: "chart", role: "img", "aria-label": label },
    ...children,
  );
}

// The outline of a histogram over the whole width.
function steps(shares, width, height, top) {
  const step = width / shares.length;
  const y = (share) => height - (isNumber(share) ? share / top : 0) * height;
  const points = shares.flatMap((share, i) => [
    [i * step, y(share)],
    [(i + 1) * step, y(share)],
  ]);
  return points.map(([px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`).join(" ");
}

const trimmed = (text, length) =>
  [...text].length > length ? [...text].slice(0, length - 1).join("") + "…" : text;

function histogramChart(distribution, label) {
  const [width, height] = [220, 46];
  const { inside, outside, generated } = distribution.shares;
  const top = largest([...inside, ...outside, ...generated]) || 1;
  const [low, high] = distribution.labels;
  const line = (shares, kind) =>
    shares.length > 0 && svg("polyline", { class: kind, points: steps(shares, width, height, top) });
  return chart(
    width,
    height + 16,
    label,
    inside.length > 0 &&
      svg("polygon", {
        class: "inside",
        points: `0,${height} ${steps(inside, width, height, top)} ${width},${height}`,
      }),
    line(outside, "outside"),
    line(generated, "generated"),
    svg("line", { class: "axis", x1: 0, x2: width, y1: height, y2: height }),
    chartText(0, height + 13, trimmed(low, 18)),
    chartText(width, height + 13, trimmed(high, 18), { class: "end" }),
  );
}

// The most frequent levels; the rest together, so that shares still sum to one.
function mainLevels(distribution, most) {
  const { inside, outside, generated } = distribution.shares;
  const share = (list, i) => (isNumber(list[i]) ? list[i] : 0);
  const levels = distribution.names.map((name, i) => ({
    name,
    inside: share(inside, i),
    outside: share(outside, i),
    generated: share(generated, i),
  }));
  if (levels.length <= most) return levels;
  levels.sort((a, b) => Math.max(b.inside, b.outside) - Math.max(a.inside, a.outside));
  const rest = { name: `${levels.length - most + 1} others`, inside: 0, outside: 0, generated: 0 };
  for (const level of levels.splice(most - 1)) {
    for (const key of ["inside", "outside", "generated"]) rest[key] += level[key];
  }
  return [...levels, rest];
}

function levelsChart(distribution, label) {
  const [width, row, left] = [220, 15, 88];
  const levels = mainLevels(distribution, 6);
  const hasGenerated = distribution.shares.generated.length > 0;
  const x = (share) => left + clamp(share, 0, 1) * (width - left - 2);
  const bars = levels.map((level, i) => {
    const y = i * row;
    return [
      chartText(left - 6, y + 11, trimmed(level.name, 15), { class: "end" }),
      svg("rect", { class: "inside", x: left, y: y + 2, width: x(level.inside) - left, height: row - 5 }),
      svg("line", { class: "outside", x1: x(level.outside), x2: x(level.outside), y1: y, y2: y + row - 1 }),
      hasGenerated &&
        svg("line", {
          class: "generated",
          x1: x(level.generated),
          x2: x(level.generated),
          y1: y,
          y2: y + row - 1,
        }),
    ];
  });
  return chart(
    width,
    levels.length * row + 2,
    label,
    bars,
    svg("line", { class: "axis", x1: left, x2: left, y1: 0, y2: levels.length * row }),
  );
}

// How sure the model is of a cluster's rows, in ten steps.
function confidenceChart(counts, label) {
  const [width, height] = [200, 54];
  const top = largest(counts) || 1;
  const step = width / counts.length;
  const bars = counts.map((n, i) => {
    // A step with few rows keeps a visible bar.
    const tall = n > 0 ? Math.max(1.5, (n / top) * height) : 0;
    return svg("rect", { class: "inside", x: i * step + 1, y: height - tall, width: step - 2, height: tall });
  });
  return chart(
    width,
    height + 16,
    label,
    bars,
    svg("line", { class: "axis", x1: 0, x2: width, y1: height, y2: height }),
    chartText(0, height + 13, "0"),
    chartText(width / 2, height + 13, "0.5", { class: "middle" }),
    chartText(width, height + 13, "1", { class: "end" }),
  );
}

// From nearly the page's paper to a strong colour, in either theme.
const meanShade = (share) =>
  `color-mix(in srgb, var(--high) ${Math.round(100 * clamp(share, 0, 1))}%, var(--low))`;

// Terms and counts: the size of a dot is the share of rows above zero, its shade the mean.
function dotChart(terms, label) {
  const [left, row, head, width] = [150, 22, 20, 380];
  const columns = [
    ["inside", "cluster", left + 32],
    ["outside", "other rows", left + 108],
  ];
  const top =
    largest(terms.flatMap((term) => [term.distribution.inside[1], term.distribution.outside[1]])) || 1;
  const dot = (term, [key, , x], y) => {
    const [share, mean] = term.distribution[key];
    const radius = 1 + 9 * Math.sqrt(clamp(share ?? 0, 0, 1));
    const drawn = svg(
      "circle",
      { class: "dot", cx: x, cy: y, r: radius.toFixed(1) },
      svg("title", {}, `${percent(share)} above zero, mean ${number(mean)}`),
    );
    drawn.style.fill = meanShade((mean ?? 0) / top);
    return drawn;
  };
  const rows = terms.map((term, i) => {
    const y = head + i * row + row / 2;
    return [
      chartText(left, y + 4, trimmed(term.column, 22), { class: "end" }),
      columns.map((column) => dot(term, column, y)),
      chartText(left + 170, y + 4, `log odds ${signed(term.distribution.log_odds)}`),
    ];
  });
  return chart(
    width,
    head + terms.length * row + 34,
    label,
    columns.map(([, name, x]) => chartText(x, 12, name, { class: "middle" })),
    rows,
    dotLegend(head + terms.length * row + 20, top),
  );
}

function dotLegend(y, top) {
  const sizes = [0.1, 0.5, 1].map((share, i) => {
    const x = 12 + i * 62;
    return [
      svg("circle", { class: "dot outline", cx: x, cy: y, r: 1 + 9 * Math.sqrt(share) }),
      chartText(x + 14, y + 4, percent(share)),
    ];
  });
  const shades = [0, 0.25, 0.5, 0.75, 1].map((share, i) => {
    const drawn = svg("rect", { x: 262 + i * 12, y: y - 6, width: 12, height: 12 });
    drawn.style.fill = meanShade(share);
    return drawn;
  });
  return [
    sizes,
    chartText(256, y + 4, "mean 0", { class: "end" }),
    shades,
    chartText(328, y + 4, number(top)),
  ];
}

// Round numbers that cover the range.
function tickStep(low, high, most, whole) {
  const rough = (high - low) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) ?? 1;
  return whole ? Math.max(1, Math.round(step)) : step;
}

function ticks(low, high, step) {
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9 && found.length < 50; i++)
    found.push(i * step);
  return found;
}

function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (!isNumber(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return [0, 1];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

// The parts of a line between gaps.
function runs(points) {
  const found = [];
  let run = [];
  for (const point of points) {
    if (isNumber(point[1])) run.push(point);
    else if (run.length > 0) {
      found.push(run);
      run = [];
    }
  }
  return run.length > 0 ? [...found, run] : found;
}

function axes(frame, xTicks, yTicks, xLabel) {
  const { left, right, top, bottom, x, y } = frame;
  const decimals = clamp(-Math.floor(Math.log10(frame.yStep)), 0, 6);
  const tickText = (value) =>
    frame.yStep >= 1e6 || frame.yStep < 1e-6 ? number(value) : value.toFixed(decimals).replace("-", "−");
  return [
    yTicks.map((value) => [
      svg("line", { class: "gridline", x1: left, x2: right, y1: y(value), y2: y(value) }),
      chartText(left - 6, y(value) + 4, tickText(value), { class: "end" }),
    ]),
    xTicks.map((value) => chartText(x(value), bottom + 16, count(value), { class: "middle" })),
    svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
    chartText((left + right) / 2, bottom + 32, xLabel, { class: "middle" }),
    frame.yLabel && chartText(0, top - 14, trimmed(frame.yLabel, 60), {}),
  ];
}

// Lines of `{ name, points: [[x, y]], color, dashed }`; `mark` is an x value to point out, with its text.
function lineChart(lines, { label, xLabel, yLabel, mark, dots }) {
  const [width, height] = [560, 260];
  const frame = { left: 56, right: width - 12, top: 28, bottom: height - 40, yLabel };
  const [xLow, xHigh] = extent(lines.flatMap((line) => line.points.map(([x]) => x)));
  const heights = lines.flatMap((line) => line.points.map(([, y]) => y)).filter(isNumber);
  const [lowest, highest] = extent(heights);
  // Whole steps, so that no line runs along the frame.
  frame.yStep = tickStep(lowest, highest, 5, heights.every(Number.isInteger));
  const [yLow, yHigh] = [
    Math.floor(lowest / frame.yStep) * frame.yStep,
    Math.ceil(highest / frame.yStep) * frame.yStep,
  ];
  frame.x = (value) => frame.left + ((value - xLow) / (xHigh - xLow)) * (frame.right - frame.left);
  frame.y = (value) => frame.bottom - ((value - yLow) / (yHigh - yLow)) * (frame.bottom - frame.top);
  const path = (run) => run.map(([x, y]) => `${frame.x(x).toFixed(1)},${frame.y(y).toFixed(1)}`).join(" ");
  const drawn = lines.map((line) => [
    runs(line.points).map((run) =>
      svg("polyline", { class: line.dashed ? "line dashed" : "line", stroke: line.color, points: path(run) }),
    ),
    dots &&
      line.points
        .filter(([, y]) => isNumber(y))
        .map(([x, y]) => svg("circle", { cx: frame.x(x), cy: frame.y(y), r: 3, fill: line.color })),
  ]);
  return chart(
    width,
    height,
    label,
    axes(frame, ticks(xLow, xHigh, tickStep(xLow, xHigh, 10, true)), ticks(yLow, yHigh, frame.yStep), xLabel),
    mark && markLine(frame, mark),
    drawn,
  );
}

function markLine({ x, top, bottom, right }, mark) {
  const at = x(mark.x);
  const fits = at < right - 90;
  return [
    svg("line", { class: "mark", x1: at, x2: at, y1: top - 18, y2: bottom }),
    chartText(fits ? at + 5 : at - 5, top - 12, mark.text, { class: fits ? "strong" : "strong end" }),
  ];
}

// Names of lines beside samples of them.
function lineLegend(lines) {
  return el(
    "ul",
    { class: "legend" },
    lines.map((line) => {
      const sample = svg(
        "svg",
        { viewBox: "0 0 24 8", width: 24, height: 8, "aria-hidden": "true" },
        svg("line", {
          class: line.dashed ? "line dashed" : "line",
          x1: 0,
          x2: 24,
          y1: 4,
          y2: 4,
          stroke: line.color,
        }),
      );
      return el("li", {}, sample, " ", data(line.name));
    }),
  );
}
