// The map's points: read from the file, sorted along a Morton curve, found through it.
//
// Along a Morton curve all points of a cell of any grid of 2^m x 2^m cells follow each other. So the curve itself is
// the index for hover and lasso, and drawing in its order touches memory in order.

const GRID_BITS = 8;
const GRID = 1 << GRID_BITS;
const CELL_BITS = 16 - GRID_BITS;

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function unpacked(id) {
  const bytes = bytesOf(document.getElementById(id).textContent);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Puts byte planes together, the most significant first.
function fromPlanes(bytes, offset, n, width) {
  if (width === 1) return bytes.subarray(offset, offset + n);
  const values = width === 2 ? new Uint16Array(n) : new Uint32Array(n);
  for (let plane = 0; plane < width; plane++) {
    const start = offset + plane * n;
    for (let i = 0; i < n; i++) values[i] = (values[i] << 8) | bytes[start + i];
  }
  return values;
}

// Moves the bits of a 16-bit number apart, to leave room for another one's.
function apart(value) {
  let v = value;
  v = (v | (v << 8)) & 0x00ff00ff;
  v = (v | (v << 4)) & 0x0f0f0f0f;
  v = (v | (v << 2)) & 0x33333333;
  return (v | (v << 1)) & 0x55555555;
}

const morton = (x, y) => (apart(x) | (apart(y) << 1)) >>> 0;

// Indices in the order of 32-bit keys; equal keys keep their order. Two passes of counting over 16 bits.
function orderOf(keys) {
  const n = keys.length;
  let from = Uint32Array.from({ length: n }, (_, i) => i);
  let to = new Uint32Array(n);
  for (const shift of [0, 16]) {
    const starts = new Uint32Array(65537);
    for (let i = 0; i < n; i++) starts[((keys[i] >>> shift) & 0xffff) + 1]++;
    for (let i = 0; i < 65536; i++) starts[i + 1] += starts[i];
    for (let i = 0; i < n; i++) {
      const index = from[i];
      to[starts[(keys[index] >>> shift) & 0xffff]++] = index;
    }
    [from, to] = [to, from];
  }
  return from;
}

function gathered(values, order) {
  const result = new values.constructor(order.length);
  for (let i = 0; i < order.length; i++) result[i] = values[order[i]];
  return result;
}

// Where each cell's points begin, in Morton order of the cells.
function cellStarts(keys, order) {
  const starts = new Uint32Array(GRID * GRID + 1);
  for (let i = 0; i < order.length; i++) starts[(keys[order[i]] >>> (2 * CELL_BITS)) + 1]++;
  for (let i = 0; i < GRID * GRID; i++) starts[i + 1] += starts[i];
  return starts;
}

function runningSums(values) {
  for (let i = 1; i < values.length; i++) values[i] += values[i - 1];
  return values;
}

// All arrays by name, in Morton order, with `row` the row of each point and `starts` the index.
async function loadPoints(header) {
  const bytes = await unpacked("map-block");
  const n = header.n;
  const raw = {};
  let offset = 0;
  for (const { name, width } of header.arrays) {
    raw[name] = fromPlanes(bytes, offset, n, width);
    offset += n * width;
  }
  const keys = new Uint32Array(n);
  for (let i = 0; i < n; i++) keys[i] = morton(raw.x[i], raw.y[i]);
  const order = orderOf(keys);
  const points = { n, starts: cellStarts(keys, order), order };
  for (const [name, values] of Object.entries(raw)) {
    points[name] = gathered(name === "row" ? runningSums(values) : values, order);
  }
  points.row ??= order;
  if (header.has_names) points.names = JSON.parse(new TextDecoder().decode(await unpacked("names-block")));
  return points;
}

// Calls `visit(first, end, cellX, cellY)` for the cells that touch a rectangle.
function eachCell(points, [x0, y0, x1, y1], visit) {
  const cell = (value) => clamp(Math.floor(value), 0, 65535) >> CELL_BITS;
  for (let cy = cell(y0); cy <= cell(y1); cy++) {
    for (let cx = cell(x0); cx <= cell(x1); cx++) {
      const code = morton(cx, cy);
      if (points.starts[code] < points.starts[code + 1])
        visit(points.starts[code], points.starts[code + 1], cx, cy);
    }
  }
}

function countInside(points, box) {
  let n = 0;
  eachCell(points, box, (first, end) => (n += end - first));
  return n;
}

// The point nearest to a position, or -1 if none is within the radius.
function nearest(points, x, y, radius) {
  let [best, bestDistance] = [-1, radius * radius];
  eachCell(points, [x - radius, y - radius, x + radius, y + radius], (first, end) => {
    for (let i = first; i < end; i++) {
      const distance = (points.x[i] - x) ** 2 + (points.y[i] - y) ** 2;
      if (distance < bestDistance) [best, bestDistance] = [i, distance];
    }
  });
  return best;
}

function insidePolygon(polygon, x, y) {
  let inside = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [[ax, ay], [bx, by]] = [polygon[i], polygon[j]];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}

// Cells that an edge may cross: samples half a cell apart, with their neighbours.
function edgeCells(polygon) {
  const marked = new Uint8Array(GRID * GRID);
  const size = 1 << CELL_BITS;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [[ax, ay], [bx, by]] = [polygon[i], polygon[j]];
    const n = Math.min(4 * GRID, Math.ceil((2 * Math.hypot(bx - ax, by - ay)) / size)) + 1;
    for (let s = 0; s <= n; s++) {
      const cx = Math.floor((ax + ((bx - ax) * s) / n) / size);
      const cy = Math.floor((ay + ((by - ay) * s) / n) / size);
      for (let y = Math.max(0, cy - 1); y <= Math.min(GRID - 1, cy + 1); y++) {
        for (let x = Math.max(0, cx - 1); x <= Math.min(GRID - 1, cx + 1); x++) marked[y * GRID + x] = 1;
      }
    }
  }
  return marked;
}

// Marks the points inside a polygon. Away from its edges one test decides about a whole cell.
function pointsInside(points, polygon) {
  const mask = new Uint8Array(points.n);
  const xs = polygon.map(([x]) => x);
  const ys = polygon.map(([, y]) => y);
  const marked = edgeCells(polygon);
  const half = 1 << (CELL_BITS - 1);
  eachCell(
    points,
    [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)],
    (first, end, cx, cy) => {
      if (!marked[cy * GRID + cx]) {
        if (insidePolygon(polygon, (cx << CELL_BITS) + half, (cy << CELL_BITS) + half))
          mask.fill(1, first, end);
        return;
      }
      for (let i = first; i < end; i++) mask[i] = insidePolygon(polygon, points.x[i], points.y[i]) ? 1 : 0;
    },
  );
  return mask;
}

// Where to write each cluster's number: the mean of its points around the cell that has most of them.
function labelPositions(points, k) {
  const coarse = 32;
  const shift = 11;
  const counts = new Map();
  for (let i = 0; i < points.n; i++) {
    const key =
      points.cluster[i] * coarse * coarse + (points.y[i] >> shift) * coarse + (points.x[i] >> shift);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const best = Array.from({ length: k }, () => ({ n: 0, cell: -1, total: 0, x: 0, y: 0, seen: 0 }));
  for (const [key, n] of counts) {
    const label = best[Math.floor(key / (coarse * coarse))];
    label.total += n;
    if (n > label.n) Object.assign(label, { n, cell: key % (coarse * coarse) });
  }
  for (let i = 0; i < points.n; i++) {
    const label = best[points.cluster[i]];
    const [cx, cy] = [label.cell % coarse, Math.floor(label.cell / coarse)];
    if (Math.abs((points.x[i] >> shift) - cx) > 2 || Math.abs((points.y[i] >> shift) - cy) > 2) continue;
    label.x += points.x[i];
    label.y += points.y[i];
    label.seen++;
  }
  return best.flatMap((l, cluster) =>
    l.seen > 0 ? [{ cluster, n: l.total, x: l.x / l.seen, y: l.y / l.seen }] : [],
  );
}
