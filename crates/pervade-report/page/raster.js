// Draws points into pixels with integer sums only: the picture does not depend on the order of the points.
// Each pixel has the mean colour of the points on it, and is the more opaque the more points there are.

const NORMAL_WEIGHT = 4;
const DIM_WEIGHT = 1;

// The pixels that a disc covers, with coverage in quarters. A radius below one pixel gives a single pixel.
function discStamp(radius) {
  if (radius < 0.75) return { dx: [0], dy: [0], weight: [1], unit: NORMAL_WEIGHT };
  const reach = Math.ceil(radius);
  const stamp = { dx: [], dy: [], weight: [], unit: 4 * NORMAL_WEIGHT };
  for (let dy = -reach; dy <= reach; dy++) {
    for (let dx = -reach; dx <= reach; dx++) {
      const weight = Math.round(4 * clamp(radius + 0.5 - Math.hypot(dx, dy), 0, 1));
      if (weight === 0) continue;
      stamp.dx.push(dx);
      stamp.dy.push(dy);
      stamp.weight.push(weight);
    }
  }
  return stamp;
}

// Opacity by the sum of weights: the first point counts most, many points saturate.
function opacities(unit, first) {
  return Uint8Array.from({ length: 64 * unit }, (_, weight) =>
    Math.round(255 * (1 - (1 - first) ** (weight / unit))),
  );
}

class Raster {
  resize(width, height) {
    if (this.width === width && this.height === height) return;
    Object.assign(this, { width, height });
    // Red, green, blue and weight of a pixel lie beside each other: one point touches one line of the cache.
    this.sums = new Uint32Array(4 * width * height);
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  // `view` is { scale, left, top }: a point at x is at pixel x * scale + left. `shades` is an index into `colors`,
  // a table of { rgb, weight }.
  draw(points, view, shades, colors, radius, firstOpacity) {
    this.sums.fill(0);
    const stamp = discStamp(radius);
    const table = Int32Array.from(
      colors.flatMap(({ rgb, weight }) => [...rgb.map((value) => value * weight), weight]),
    );
    if (stamp.dx.length === 1) this.addPixels(points, view, shades, table);
    else this.addStamps(points, view, shades, table, stamp);
    this.compose(opacities(stamp.unit, firstOpacity));
    return this.image;
  }

  addPixels({ n, x, y }, { scale, left, top }, shades, table) {
    const { sums, width, height } = this;
    for (let i = 0; i < n; i++) {
      const px = x[i] * scale + left;
      const py = y[i] * scale + top;
      if (px < 0 || py < 0 || px >= width || py >= height) continue;
      const at = ((py | 0) * width + (px | 0)) << 2;
      const color = shades[i] << 2;
      sums[at] += table[color];
      sums[at + 1] += table[color + 1];
      sums[at + 2] += table[color + 2];
      sums[at + 3] += table[color + 3];
    }
  }

  addStamps({ n, x, y }, { scale, left, top }, shades, table, stamp) {
    const { sums, width, height } = this;
    const { dx, dy, weight } = stamp;
    for (let i = 0; i < n; i++) {
      const px = Math.floor(x[i] * scale + left);
      const py = Math.floor(y[i] * scale + top);
      if (px < -9 || py < -9 || px >= width + 9 || py >= height + 9) continue;
      const color = shades[i] << 2;
      for (let s = 0; s < dx.length; s++) {
        const sx = px + dx[s];
        const sy = py + dy[s];
        if (sx < 0 || sy < 0 || sx >= width || sy >= height) continue;
        const at = (sy * width + sx) << 2;
        sums[at] += weight[s] * table[color];
        sums[at + 1] += weight[s] * table[color + 1];
        sums[at + 2] += weight[s] * table[color + 2];
        sums[at + 3] += weight[s] * table[color + 3];
      }
    }
  }

  compose(opacity) {
    const { sums, pixels } = this;
    const most = opacity.length - 1;
    for (let i = 0, at = 0; i < pixels.length; i++, at += 4) {
      const weight = sums[at + 3];
      if (weight === 0) {
        pixels[i] = 0;
        continue;
      }
      const alpha = opacity[weight < most ? weight : most];
      const r = (sums[at] / weight) | 0;
      const g = (sums[at + 1] / weight) | 0;
      const b = (sums[at + 2] / weight) | 0;
      pixels[i] = (alpha << 24) | (b << 16) | (g << 8) | r;
    }
  }
}
