// Mouse, touch and keyboard on the map.

const KEY_STEP = 24;

class MapInput {
  constructor(map, selection) {
    Object.assign(this, { map, selection, lasso: false, pointers: new Map(), cross: null });
    const { frame } = map;
    map.overlayShapes = () => this.shapes();
    frame.addEventListener("pointerdown", (event) => this.down(event));
    frame.addEventListener("pointermove", (event) => this.move(event));
    for (const kind of ["pointerup", "pointercancel"])
      frame.addEventListener(kind, (event) => this.up(event));
    frame.addEventListener("pointerleave", () => this.pointers.size === 0 && map.hideTooltip());
    frame.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    frame.addEventListener("dblclick", (event) => map.zoomAt(2, ...this.position(event)));
    frame.addEventListener("keydown", (event) => this.key(event));
    frame.addEventListener("blur", () => this.leave());
  }

  position(event) {
    const box = this.map.frame.getBoundingClientRect();
    return [
      event.clientX - box.left - this.map.frame.clientLeft,
      event.clientY - box.top - this.map.frame.clientTop,
    ];
  }

  setLasso(on) {
    this.lasso = on;
    this.map.frame.classList.toggle("lasso", on);
  }

  down(event) {
    if (event.button !== 0) return;
    this.map.frame.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, this.position(event));
    this.cross = null;
    if (this.lasso || event.shiftKey) this.path = [this.position(event)];
    this.map.hideTooltip();
  }

  move(event) {
    const to = this.position(event);
    if (!this.pointers.has(event.pointerId)) {
      if (event.pointerType !== "touch") this.map.hover(...to);
      return;
    }
    const from = this.pointers.get(event.pointerId);
    if (this.pointers.size === 2) this.pinch(event.pointerId, from, to);
    else if (this.path) this.extend(to);
    else this.map.moveBy(to[0] - from[0], to[1] - from[1]);
    this.pointers.set(event.pointerId, to);
  }

  extend(to) {
    const last = this.path.at(-1);
    if (Math.hypot(to[0] - last[0], to[1] - last[1]) < 3) return;
    this.path.push(to);
    this.map.drawOverlay();
  }

  pinch(id, from, to) {
    const [, other] = [...this.pointers].find(([otherId]) => otherId !== id);
    const apartBefore = Math.hypot(from[0] - other[0], from[1] - other[1]);
    const apartNow = Math.hypot(to[0] - other[0], to[1] - other[1]);
    this.path = null;
    if (apartBefore > 0)
      this.map.zoomAt(apartNow / apartBefore, (to[0] + other[0]) / 2, (to[1] + other[1]) / 2);
  }

  up(event) {
    const started = this.pointers.get(event.pointerId);
    this.pointers.delete(event.pointerId);
    const path = this.path;
    this.path = null;
    if (path && path.length > 2 && event.type === "pointerup") this.select(path);
    else if (started && event.pointerType === "touch") this.map.hover(...this.position(event));
    this.map.drawOverlay();
  }

  select(path) {
    this.selection.choose(
      pointsInside(
        this.map.points,
        path.map(([px, py]) => this.map.toPoint(px, py)),
      ),
    );
  }

  // The wheel belongs to the page until the map was clicked: a reader scrolling past is not caught.
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== this.map.frame) {
      this.hint("Click the map to zoom with the wheel");
      return;
    }
    event.preventDefault();
    const pixels = event.deltaY * (event.deltaMode === 1 ? 20 : event.deltaMode === 2 ? 400 : 1);
    this.map.zoomAt(Math.exp(-clamp(pixels, -300, 300) * 0.0025), ...this.position(event));
  }

  hint(text) {
    const { hint } = this.map;
    hint.textContent = text;
    hint.classList.add("shown");
    clearTimeout(this.hintTimer);
    this.hintTimer = setTimeout(() => hint.classList.remove("shown"), 1200);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.map.frame) return;
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const actions = {
      "+": () => this.map.zoomAt(1.5, ...(this.cross ?? [])),
      "=": () => this.map.zoomAt(1.5, ...(this.cross ?? [])),
      "-": () => this.map.zoomAt(1 / 1.5, ...(this.cross ?? [])),
      0: () => this.map.show({ ...this.map.home }),
      Enter: () => this.setCorner(),
      Escape: () => this.escape(),
    };
    if (moves[event.key]) this.moveCross(moves[event.key], event.shiftKey ? 4 : 1);
    else if (actions[event.key]) actions[event.key]();
    else return;
    event.preventDefault();
  }

  // Moves the cross; at the rim the map moves instead.
  moveCross([dx, dy], times) {
    const { width, height } = this.map.transform();
    const [x, y] = this.cross ?? [width / 2, height / 2];
    const [toX, toY] = [x + dx * times * KEY_STEP, y + dy * times * KEY_STEP];
    this.cross = [clamp(toX, 8, width - 8), clamp(toY, 8, height - 8)];
    const [overX, overY] = [toX - this.cross[0], toY - this.cross[1]];
    if (overX !== 0 || overY !== 0) this.map.moveBy(-overX, -overY);
    this.map.drawOverlay();
    this.map.hover(...this.cross);
  }

  setCorner() {
    const { width, height } = this.map.transform();
    this.cross ??= [width / 2, height / 2];
    if (!this.corner) {
      this.corner = this.map.toPoint(...this.cross);
    } else {
      const [[ax, ay], [bx, by]] = [this.corner, this.map.toPoint(...this.cross)];
      this.corner = null;
      this.selection.choose(
        pointsInside(this.map.points, [
          [ax, ay],
          [bx, ay],
          [bx, by],
          [ax, by],
        ]),
      );
    }
    this.map.drawOverlay();
  }

  escape() {
    this.corner = null;
    this.map.hideTooltip();
    this.selection.clear();
    this.map.drawOverlay();
  }

  leave() {
    this.cross = null;
    this.corner = null;
    this.map.hideTooltip();
    this.map.drawOverlay();
  }

  shapes() {
    const found = [];
    if (this.path)
      found.push(
        svg("polygon", { class: "lasso-path", points: this.path.map((p) => p.join(",")).join(" ") }),
      );
    if (!this.cross) return found;
    const [x, y] = this.cross;
    if (this.corner) found.push(this.cornerBox(x, y));
    found.push(svg("path", { class: "cross", d: `M${x - 9},${y}h18M${x},${y - 9}v18` }));
    return found;
  }

  cornerBox(x, y) {
    const { scale, left, top } = this.map.transform();
    const [cx, cy] = [this.corner[0] * scale + left, this.corner[1] * scale + top];
    return svg("rect", {
      class: "lasso-path",
      x: Math.min(x, cx),
      y: Math.min(y, cy),
      width: Math.abs(x - cx),
      height: Math.abs(y - cy),
    });
  }
}
