// The map: what is visible, how it is coloured, labels, tooltip. Input: map-input.js; selection: selection.js.

const UNITS = 65536;
const MOST_PIXELS = 1.3e6;
const LARGEST_ZOOM = 400;
const HOVER_PIXELS = 10;

class PointMap {
  constructor(content, points) {
    Object.assign(this, { content, points, header: content.map, k: content.n_clusters });
    this.raster = new Raster();
    this.highlighted = new Set();
    this.mask = null;
    this.redraw = oncePerFrame(() => this.draw());
    this.labels = labelPositions(points, this.k).sort((a, b) => b.n - a.n);
    this.bounds = this.findBounds();
    this.view = {
      zoom: 1,
      x: (this.bounds[0] + this.bounds[2]) / 2,
      y: (this.bounds[1] + this.bounds[3]) / 2,
    };
    this.home = { ...this.view };
    this.colorings = this.listColorings();
    this.build();
    this.setColoring(0);
    this.watchSize();
  }

  build() {
    this.canvas = el("canvas", { class: "points" });
    this.overlay = svg("svg", { class: "overlay", "aria-hidden": "true" });
    this.tooltip = el("div", { class: "tooltip", role: "status", hidden: true });
    this.hint = el("div", { class: "hint", "aria-hidden": "true" });
    const help = newId("help");
    this.frame = el(
      "div",
      {
        class: "map-frame",
        tabindex: 0,
        role: "application",
        "aria-label": "Map of rows",
        "aria-describedby": help,
      },
      this.canvas,
      this.overlay,
      this.tooltip,
      this.hint,
    );
    this.help = el(
      "p",
      { id: help, class: "note" },
      "Mouse: drag to move, click and then turn the wheel to zoom, hold Shift and drag to select. ",
      "Keyboard: arrow keys move a cross over the map, ",
      el("kbd", {}, "+"),
      " and ",
      el("kbd", {}, "−"),
      " zoom, ",
      el("kbd", {}, "0"),
      " shows all, ",
      el("kbd", {}, "Enter"),
      " sets the corners of a selection, ",
      el("kbd", {}, "Esc"),
      " clears it.",
    );
    this.legend = el("div", { class: "map-legend" });
  }

  watchSize() {
    new ResizeObserver(this.redraw).observe(this.frame);
  }

  findBounds() {
    const { n, x, y } = this.points;
    let [x0, y0, x1, y1] = [UNITS, UNITS, 0, 0];
    for (let i = 0; i < n; i++) {
      if (x[i] < x0) x0 = x[i];
      if (x[i] > x1) x1 = x[i];
      if (y[i] < y0) y0 = y[i];
      if (y[i] > y1) y1 = y[i];
    }
    return [x0, y0, x1, y1];
  }

  // Position and scale in the page's pixels.
  transform() {
    const { clientWidth: width, clientHeight: height } = this.frame;
    const [x0, y0, x1, y1] = this.bounds;
    const scale = this.view.zoom * Math.min((width - 40) / (x1 - x0 + 1), (height - 40) / (y1 - y0 + 1));
    return {
      scale,
      left: width / 2 - this.view.x * scale,
      top: height / 2 - this.view.y * scale,
      width,
      height,
    };
  }

  toPoint(px, py) {
    const { scale, left, top } = this.transform();
    return [(px - left) / scale, (py - top) / scale];
  }

  visibleBox() {
    const { width, height } = this.transform();
    return [...this.toPoint(0, 0), ...this.toPoint(width, height)];
  }

  // Zooms so that the place below a pixel stays there.
  zoomAt(factor, px, py) {
    const { width, height } = this.transform();
    const [x, y] = this.toPoint(px ?? width / 2, py ?? height / 2);
    const zoom = clamp(this.view.zoom * factor, 1, LARGEST_ZOOM);
    const share = this.view.zoom / zoom;
    this.show({ zoom, x: x + (this.view.x - x) * share, y: y + (this.view.y - y) * share });
  }

  moveBy(dx, dy) {
    const { scale } = this.transform();
    this.show({ ...this.view, x: this.view.x - dx / scale, y: this.view.y - dy / scale });
  }

  show(view) {
    const [x0, y0, x1, y1] = this.bounds;
    this.view =
      view.zoom === 1
        ? { ...this.home }
        : { zoom: view.zoom, x: clamp(view.x, x0, x1), y: clamp(view.y, y0, y1) };
    this.frame.classList.toggle("zoomed", this.view.zoom > 1);
    this.hideTooltip();
    this.redraw();
  }

  draw() {
    const start = performance.now();
    const { scale, left, top, width, height } = this.transform();
    if (width < 1 || height < 1) return;
    const fine = Math.min(window.devicePixelRatio || 1, Math.sqrt(MOST_PIXELS / (width * height)));
    const ratio = this.points.n > 300000 ? Math.min(1, fine) : fine;
    const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
    this.raster.resize(w, h);
    if (this.canvas.width !== w || this.canvas.height !== h)
      Object.assign(this.canvas, { width: w, height: h });
    const view = { scale: scale * ratio, left: left * ratio, top: top * ratio };
    const visible = Math.max(1, countInside(this.points, this.visibleBox()));
    const radius = clamp(Math.sqrt((0.3 * w * h) / (Math.PI * visible)), 0.5, 4 * Math.max(1, ratio));
    const first = radius > 2 ? 0.85 : radius > 0.75 ? 0.65 : 0.5;
    const image = this.raster.draw(this.points, view, this.shades, this.colors, radius, first);
    this.canvas.getContext("2d").putImageData(image, 0, 0);
    this.drawOverlay();
    // For measurements: the newest frame only, so that nothing piles up.
    performance.clearMeasures("map-frame");
    performance.measure("map-frame", { start, end: performance.now() });
  }

  drawOverlay() {
    const { scale, left, top, width, height } = this.transform();
    this.overlay.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const placed = [];
    const marks = this.labels.map((label) => {
      const [x, y] = [label.x * scale + left, label.y * scale + top];
      const name = this.content.clusters[label.cluster]?.name ?? null;
      const text = name === null ? String(label.cluster) : `${label.cluster} ${trimmed(name, 20)}`;
      const half = 6 + 4 * [...text].length;
      // Larger clusters come first; a label that would cover another is left out until there is room.
      if (x < 0 || y < 0 || x > width || y > height) return null;
      if (placed.some((p) => Math.abs(p.x - x) < p.half + half && Math.abs(p.y - y) < 20)) return null;
      placed.push({ x, y, half });
      return svg("text", { class: "island", x, y: y + 5 }, text);
    });
    this.overlay.replaceChildren(...marks.filter(Boolean), ...this.overlayShapes());
  }

  // The ways to colour the points: { name, kind, ... }.
  listColorings() {
    const clusters = Array.from({ length: this.k }, (_, i) => this.content.clusters[i]?.name ?? null);
    const found = [
      {
        name: "Cluster",
        array: "cluster",
        names: clusters.map((name, i) => (name === null ? `Cluster ${i}` : `${i} ${name}`)),
        missing: -1,
      },
    ];
    if (this.points.confidence)
      found.push({ name: "Confidence", array: "confidence", scale: { low: 0, high: 1 } });
    if (this.header.score)
      found.push({ name: "Score (lower is stranger)", array: "score", scale: this.header.score });
    this.header.columns.forEach((column, i) => {
      const array = `column ${i}`;
      const missing = column.levels.length <= 255 ? 255 : 65535;
      found.push(
        column.scale
          ? { name: column.name, array, scale: column.scale }
          : { name: column.name, array, names: column.levels, missing },
      );
    });
    return found;
  }

  setColoring(index) {
    this.coloring = this.colorings[index];
    this.highlighted.clear();
    this.recolor();
    this.showLegend();
  }

  // One colour per category, or one per step of a scale; then missing values, then points outside the selection.
  recolor() {
    const { names, scale, array, missing } = this.coloring;
    const values = this.points[array];
    const n = scale ? 255 : names.length;
    const normal = (rgb) => ({ rgb, weight: NORMAL_WEIGHT });
    const dim = { rgb: isDark() ? [70, 74, 80] : [205, 208, 212], weight: DIM_WEIGHT };
    const color = (i) => (scale ? rampColor(i / 254) : clusterColor(i));
    const lit = (i) => this.highlighted.size === 0 || this.highlighted.has(i);
    this.colors = Array.from({ length: n }, (_, i) => (lit(i) ? normal(color(i)) : dim));
    this.colors.push(normal(GREY), dim);
    const absent = scale ? 255 : missing;
    this.shades = new Uint16Array(this.points.n);
    for (let i = 0; i < this.points.n; i++) {
      const value = values[i];
      this.shades[i] = this.mask !== null && !this.mask[i] ? n + 1 : value === absent ? n : value;
    }
    this.redraw();
  }

  valueText({ names, scale, array, missing }, i) {
    const value = this.points[array][i];
    if (!scale) return value === missing ? "missing" : names[value];
    if (value === 255) return "missing";
    if (value === 0 && scale.clipped_low) return `${number(scale.low)} or less`;
    if (value === 254 && scale.clipped_high) return `${number(scale.high)} or more`;
    return `about ${number(scale.low + (value / 254) * (scale.high - scale.low))}`;
  }

  confidence(i) {
    const value = this.points.confidence?.[i];
    return value === undefined || value === 255 ? null : value / 254;
  }

  nameOf(i) {
    return this.points.names ? this.points.names[this.points.order[i]] : null;
  }

  hover(px, py) {
    const [x, y] = this.toPoint(px, py);
    const found = nearest(this.points, x, y, HOVER_PIXELS / this.transform().scale);
    if (found < 0) this.hideTooltip();
    else this.showTooltip(found);
  }

  showTooltip(i) {
    const { scale, left, top, width } = this.transform();
    const [px, py] = [this.points.x[i] * scale + left, this.points.y[i] * scale + top];
    const name = this.nameOf(i);
    const cluster = this.points.cluster[i];
    const confidence = this.confidence(i);
    const colored = this.colorings.indexOf(this.coloring) > 1;
    this.tooltip.replaceChildren(
      el("strong", {}, `Row ${count(this.points.row[i] + 1)}`),
      name === null || name === "" ? "" : el("div", {}, data(name)),
      el("div", {}, badge(cluster), " ", data(this.colorings[0].names[cluster])),
      confidence === null ? "" : el("div", {}, `Confidence ${percent(confidence)}`),
      colored ? el("div", {}, data(this.coloring.name), ": ", data(this.valueText(this.coloring, i))) : "",
    );
    this.tooltip.hidden = false;
    this.tooltip.style.left = `${px}px`;
    this.tooltip.style.top = `${py}px`;
    this.tooltip.classList.toggle("flipped", px > width / 2);
    this.tooltip.classList.toggle("below", py < 110);
  }

  hideTooltip() {
    this.tooltip.hidden = true;
  }

  showLegend() {
    this.legend.replaceChildren(this.coloring.scale ? this.scaleLegend() : this.categoryLegend());
  }

  scaleLegend() {
    const { scale } = this.coloring;
    const bar = el("span", { class: "ramp" });
    bar.style.background = `linear-gradient(to right, ${RAMP.map(css).join(", ")})`;
    return el(
      "p",
      { class: "scale" },
      `${scale.clipped_low ? "≤ " : ""}${number(scale.low)}`,
      bar,
      `${scale.clipped_high ? "≥ " : ""}${number(scale.high)}`,
      el("span", { class: "note" }, "grey: missing"),
    );
  }

  // Buttons: the pressed ones stay in colour, the others turn grey.
  categoryLegend() {
    const shown = this.coloring.names.slice(0, 120);
    const rest = this.coloring.names.length - shown.length;
    const buttons = shown.map((name, i) => {
      const swatch = this.coloring.array === "cluster" ? badge(i) : el("span", { class: "swatch" });
      if (swatch.className === "swatch") swatch.style.background = css(clusterColor(i));
      const text = this.coloring.array === "cluster" ? (this.content.clusters[i]?.name ?? "") : name;
      const short = trimmed(text, 30);
      return button([swatch, text && [" ", data(short)]], () => this.toggle(i, buttons), {
        class: "chip",
        "aria-pressed": "false",
        // What is seen must be part of what is read aloud.
        "aria-label": text === "" ? name : name.replace(text, () => short),
      });
    });
    return el(
      "div",
      { class: "chips", role: "group", "aria-label": `Highlight by ${this.coloring.name}` },
      el("span", { class: "note" }, "Highlight"),
      buttons,
      rest > 0 && el("span", { class: "note" }, `and ${rest} more`),
    );
  }

  toggle(i, buttons) {
    if (!this.highlighted.delete(i)) this.highlighted.add(i);
    buttons.forEach((item, j) => item.setAttribute("aria-pressed", String(this.highlighted.has(j))));
    this.recolor();
  }

  // The map with its labels as one picture.
  savePng() {
    const { width, height } = this.transform();
    const ratio = this.canvas.width / width;
    const picture = el("canvas", { width: this.canvas.width, height: this.canvas.height });
    const context = picture.getContext("2d");
    const style = getComputedStyle(this.frame);
    context.fillStyle = style.backgroundColor;
    context.fillRect(0, 0, picture.width, picture.height);
    context.drawImage(this.canvas, 0, 0);
    context.scale(ratio, ratio);
    Object.assign(context, {
      font: `600 15px ${style.fontFamily}`,
      textAlign: "center",
      lineWidth: 4,
      lineJoin: "round",
    });
    for (const label of this.overlay.querySelectorAll(".island")) {
      const [x, y] = [Number(label.getAttribute("x")), Number(label.getAttribute("y"))];
      Object.assign(context, { strokeStyle: style.backgroundColor, fillStyle: style.color });
      context.strokeText(label.textContent, x, y);
      context.fillText(label.textContent, x, y);
    }
    picture.toBlob((blob) => blob && saveBlob("map.png", blob));
  }
}
