// What a report must do. Each check throws if it does not.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

export const frameBox = async (page) => {
  await page.locator(".map-frame").scrollIntoViewIfNeeded();
  return page.locator(".map-frame").boundingBox();
};

// The centre of the first label lies on points.
export async function labelPosition(page) {
  const box = await page.locator(".island").first().boundingBox();
  return [box.x + box.width / 2, box.y + box.height / 2];
}

export async function savedBy(page, action) {
  const [download] = await Promise.all([page.waitForEvent("download"), action()]);
  return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
}

export async function hoverShowsATooltip({ page }) {
  await frameBox(page);
  const [x, y] = await labelPosition(page);
  // Not every pixel is close to a point; one of these is.
  for (const [dx, dy] of [
    [0, 0],
    [10, 0],
    [0, 10],
    [-10, 0],
    [0, -10],
    [16, 16],
    [-16, -16],
  ]) {
    await page.mouse.move(x + dx, y + dy);
    if ((await page.locator(".tooltip:visible").count()) > 0) break;
  }
  assert.match(await page.locator(".tooltip:visible").textContent(), /^Row [\d,]+/);
}

export async function lassoSelectsAndSaves({ page }) {
  await page.getByRole("button", { name: "Lasso" }).click();
  const box = await frameBox(page);
  const corners = [
    [0.01, 0.01],
    [0.99, 0.01],
    [0.99, 0.6],
    [0.01, 0.6],
  ];
  const at = ([x, y]) => [box.x + x * box.width, box.y + y * box.height];
  await page.mouse.move(...at(corners[0]));
  await page.mouse.down();
  for (const corner of corners.slice(1)) await page.mouse.move(...at(corner), { steps: 8 });
  await page.mouse.up();
  const heading = await page.locator(".selection h3").textContent();
  const selected = Number(heading.replace(/\D/g, ""));
  assert.ok(selected > 0, `the lasso selected: ${heading}`);
  const { name, bytes } = await savedBy(page, () =>
    page.getByRole("button", { name: "Download the rows (CSV)" }).click(),
  );
  assert.equal(name, "selected-rows.csv");
  // Names may contain line breaks, so lines are at least as many as rows.
  assert.ok(bytes.toString().split("\r\n").length > selected, "every selected row is in the file");
  await page.getByRole("button", { name: "Clear the selection" }).click();
  await page.getByRole("button", { name: "Lasso" }).click();
  assert.equal(await page.locator(".selection h3").count(), 0);
}

// A lasso around everything finds every point; pieces of the map add up to the whole.
export async function selectionIsExact({ page }) {
  await frameBox(page);
  const chosen = async () => Number((await page.locator(".selection h3").textContent()).replace(/\D/g, ""));
  await page.getByRole("button", { name: "Select what is in view" }).click();
  const all = await chosen();
  const caption = await page.locator(".map .caption").textContent();
  assert.equal(all, Number(caption.match(/^(?:All )?([\d,]+)/)[1].replace(/\D/g, "")));
  const rows = await page.locator(".selection tbody tr td:nth-child(2)").allTextContents();
  assert.equal(
    rows.reduce((sum, text) => sum + Number(text.replace(/\D/g, "")), 0),
    all,
  );
  await page.getByRole("button", { name: "Clear the selection" }).click();
}

export async function everyDownloadWorks({ page }) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((item) => (item.open = true)));
  const seen = { CSV: 0, SVG: 0, PNG: 0 };
  for (const item of await page.locator(".quiet").all()) {
    const kind = await item.textContent();
    if (++seen[kind] > 6) continue;
    const { name, bytes } = await savedBy(page, () => item.click());
    assert.ok(name.endsWith(kind.toLowerCase()), name);
    if (kind === "PNG") assert.equal(bytes.subarray(1, 4).toString(), "PNG");
    if (kind === "SVG") assert.match(bytes.toString(), /^<svg /);
    assert.ok(bytes.length > 10, `${name} has ${bytes.length} bytes`);
  }
}

// Every merge has two branches and a line between them, and every merge is in the file.
export async function treeIsWhole({ page }) {
  const tree = await page.evaluate(() => JSON.parse(document.getElementById("content").textContent).tree);
  const leaves = await page.locator(".tree rect[width='10']").count();
  assert.ok(leaves > 1 && leaves <= tree.leaves.length, `${leaves} leaves`);
  assert.equal(await page.locator(".tree .branch").count(), 3 * (leaves - 1));
  const button = page.getByRole("button", { name: "Download Merge tree as CSV" });
  const { bytes } = await savedBy(page, () => button.click());
  assert.equal(bytes.toString().trim().split("\r\n").length, 1 + tree.leaves.length);
}

// The tree needs no scrolling: the chosen number of clusters is seen at once.
export async function treeFits({ page }) {
  const [inner, outer] = await page.evaluate(() => {
    const box = document.querySelector(".tree .scroller");
    return [box.scrollWidth, box.clientWidth];
  });
  assert.ok(inner <= outer, `${inner} pixels in ${outer}`);
}

// Presses Tab until the element has focus.
export async function tabTo(page, selector) {
  for (let i = 0; i < 400; i++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((s) => document.activeElement?.matches(s) ?? false, selector)) return;
  }
  assert.fail(`${selector} cannot be reached with Tab`);
}

export async function mapWorksByKeyboard({ page }) {
  // From the beginning, wherever the mouse was last.
  await page.evaluate(() => document.querySelector(".skip").focus());
  await tabTo(page, ".theme");
  const before = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.keyboard.press("Enter");
  assert.notEqual(
    await page.evaluate(() => getComputedStyle(document.body).backgroundColor),
    before,
    "theme",
  );
  await page.keyboard.press("Enter");
  await tabTo(page, ".toolbar select");
  const options = await page.locator(".toolbar option").count();
  if (options > 1) {
    await page.keyboard.press("ArrowDown");
    assert.equal(await page.evaluate(() => document.activeElement.selectedIndex), 1);
    await page.keyboard.press("ArrowUp");
  }
  await tabTo(page, ".map-frame");
  await page.keyboard.press("ArrowLeft");
  assert.equal(await page.locator(".cross").count(), 1);
  await page.keyboard.press("+");
  await page.waitForFunction(() => document.querySelector(".map-frame").classList.contains("zoomed"));
  await page.keyboard.press("0");
  await page.keyboard.press("Shift+ArrowLeft");
  await page.keyboard.press("Shift+ArrowUp");
  await page.keyboard.press("Enter");
  for (let i = 0; i < 3; i++)
    for (const key of ["ArrowRight", "ArrowDown"]) await page.keyboard.press(`Shift+${key}`);
  await page.keyboard.press("Enter");
  assert.match(await page.locator(".selection h3").textContent(), /selected/);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator(".selection h3").count(), 0);
  await tabTo(page, ".chip");
  await page.keyboard.press("Space");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-pressed")), "true");
  await page.keyboard.press("Space");
}

export async function pairsWorkByKeyboard({ page }) {
  await tabTo(page, ".matrix button");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  const pressed = await page.evaluate(() => [
    document.activeElement.getAttribute("aria-pressed"),
    document.activeElement.dataset.pair,
  ]);
  assert.equal(pressed[0], "true");
  const title = await page.locator(".pair h3").textContent();
  assert.equal(title, `Between ${pressed[1].split(" ").join(" and ")}`);
}

export async function wheelZoomsOnlyAfterAClick({ page }) {
  const box = await frameBox(page);
  const zoomed = () => page.locator(".map-frame.zoomed").count();
  await page.evaluate(() => document.activeElement?.blur());
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.wheel(0, -300);
  assert.equal(await zoomed(), 0, "the wheel must scroll the page before the map has focus");
  await frameBox(page);
  await page.locator(".map-frame").click();
  await page.mouse.wheel(0, -300);
  await page.waitForFunction(() => document.querySelector(".map-frame").classList.contains("zoomed"));
  await page.getByRole("button", { name: "Whole map" }).click();
}

// The picture depends on the points only: zooming in and out again gives the same pixels.
export async function pixelsRepeat({ page }) {
  const pixels = () =>
    page.evaluate(async () => {
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      return document.querySelector(".points").toDataURL();
    });
  const before = await pixels();
  assert.ok(before.length > 2000, "the map is not empty");
  await page.getByRole("button", { name: "Zoom in" }).click();
  assert.notEqual(await pixels(), before);
  await page.getByRole("button", { name: "Whole map" }).click();
  assert.equal(await pixels(), before);
}

export async function nothingOverflows({ page }) {
  const [page_, window_] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(page_ <= window_, `the page is ${page_} pixels wide in a window of ${window_}`);
}

export async function textsAreText({ page }, more = []) {
  assert.equal(await page.evaluate(() => window.attacked), undefined);
  const allowed = await page.evaluate(() =>
    [...document.querySelectorAll("script")].map((item) => item.id || "page script"),
  );
  assert.deepEqual(allowed, ["content", "map-block", "names-block", ...more, "page script"]);
  const strange =
    "body [onerror], body [onload], body iframe, body object, body img:not([src^='data:image/png'])";
  assert.equal(await page.locator(strange).count(), 0);
  const words = await page.evaluate(() => document.body.innerText);
  assert.ok(!/\bundefined\b|\[object |NaN/.test(words), "no undefined, NaN or [object Object] on the page");
}

export async function axeFindsNothing({ page }, axe) {
  await page.evaluate(axe);
  const found = await page.evaluate(() =>
    window.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    }),
  );
  const text = found.violations.map(
    (v) =>
      `${v.id}: ${v.help} (${v.nodes.length}x), e.g. ${v.nodes[0].html.slice(0, 200)} ${v.nodes[0].failureSummary}`,
  );
  assert.deepEqual(text, []);
}

// Milliseconds per frame over zooms and moves; the slowest of each view would be noise of a shared machine, so medians.
export async function frameTimes({ page }, limit) {
  await page.locator(".map-frame").focus();
  const frame = async (key) => {
    await page.keyboard.press(key);
    return page.evaluate(async () => {
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      return performance.getEntriesByName("map-frame")[0].duration;
    });
  };
  const medians = {};
  for (const keys of ["0", "+-", "++++0"]) {
    const times = [];
    for (let i = 0; i < 7; i++) for (const key of keys) times.push(await frame(key));
    times.sort((a, b) => a - b);
    medians[keys] = Math.round(times[times.length >> 1]);
  }
  await frame("0");
  const size = await page.evaluate(() => [
    document.querySelector(".points").width,
    document.querySelector(".points").height,
  ]);
  for (const [keys, time] of Object.entries(medians))
    assert.ok(time <= limit, `${time} ms a frame for keys ${keys} at ${size}`);
  return `median ${JSON.stringify(medians)} ms per frame at ${size.join(" x ")} pixels`;
}
