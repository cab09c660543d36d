// `pervade explore` in a browser: a small model each of the penguins and the digits.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import path from "node:path";
import * as checks from "./checks.mjs";
import { LIMIT_MS, begin, close, isDrawn, openUrl } from "./session.mjs";

const PERVADE = path.resolve("target/release/pervade");
const PENGUINS = path.resolve("testdata/readers/penguins.csv");
const DIGITS = path.resolve("crates/pervade-cli/assets/digits.csv.gz");
const QUICK = ["--hidden", "32", "--pretrain-epochs", "30", "--epochs", "5", "--device", "cpu", "--quiet"];

// Starts the server and waits for its address.
export async function serve(folder, args, port = 0) {
  const child = spawn(PERVADE, ["explore", ...args, "--no-open", "--json", "--port", String(port)], {
    cwd: folder,
    stdio: ["ignore", "pipe", "ignore"],
  });
  process.once("exit", () => child.kill());
  const line = await new Promise((done, fail) => {
    child.stdout.once("data", (bytes) => done(bytes.toString()));
    child.once("exit", (status) => fail(new Error(`pervade explore ended with ${status}`)));
  });
  const { url } = JSON.parse(line);
  const ended = new Promise((done) => child.once("exit", done));
  const end = () => (child.kill("SIGINT"), ended);
  return { url, origin: new URL(url).origin, end };
}

const visit = (browser, served, options) =>
  openUrl(browser, served.url, (to) => to.startsWith(`${served.origin}/`), options);

// Draws a lasso around a part of the map, in shares of its width and height.
export async function lasso(page, [x0, y0, x1, y1]) {
  const box = await checks.frameBox(page);
  const at = (x, y) => [box.x + x * box.width, box.y + y * box.height];
  await page.keyboard.down("Shift");
  await page.mouse.move(...at(x0, y0));
  await page.mouse.down();
  for (const corner of [
    [x1, y0],
    [x1, y1],
    [x0, y1],
  ])
    await page.mouse.move(...at(...corner), { steps: 6 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  const heading = await page.locator(".selection h3", { hasText: "selected" }).textContent();
  return Number(heading.replace(/\D/g, ""));
}

const settled = (page, selector) => page.locator(`${selector}:not([aria-busy])`).first();

async function profileOfASelection({ page }) {
  const selected = await lasso(page, [0.01, 0.01, 0.5, 0.99]);
  assert.ok(selected > 0 && selected < 344, `${selected} rows`);
  const profile = page.locator(".selection .answer");
  await profile.locator(".columns li").first().waitFor();
  const note = await profile.locator(".note").first().textContent();
  assert.match(note, new RegExp(`^The selection: ${selected} rows · The other rows: ${344 - selected} rows`));
}

async function oneSelectionAgainstAnother({ page }) {
  const first = await lasso(page, [0.01, 0.01, 0.5, 0.99]);
  await page.getByRole("button", { name: "Keep as A" }).click();
  const second = await lasso(page, [0.5, 0.01, 0.99, 0.99]);
  await page.getByRole("button", { name: "Keep as B" }).click();
  assert.match(await page.locator(".news").textContent(), /kept as B/);
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.locator("#compare .columns li").first().waitFor();
  const note = await page.locator("#compare .answer .note").first().textContent();
  assert.ok(note.startsWith(`A: ${first} rows · B: ${second} rows`), note);
  await page.getByRole("button", { name: "Clear the selection" }).click();
}

async function aClickOpensARowWithItsNearest({ page }) {
  await checks.frameBox(page);
  const [x, y] = await checks.labelPosition(page);
  for (let i = 0; i < 40; i++) {
    const [dx, dy] = [6 * Math.sqrt(i) * Math.cos(i), 6 * Math.sqrt(i) * Math.sin(i)];
    await page.mouse.click(x + dx, y + dy);
    await page.waitForTimeout(30);
    if ((await page.locator(".row-panel h3").count()) > 0) break;
  }
  await page.locator(".row-panel h3").waitFor();
  const before = await page.locator(".row-panel h3").textContent();
  assert.equal(await page.locator(".marker").count(), 1, "the row is marked on the map");
  const nearest = page.locator(".row-panel").getByRole("button", { name: /^Open row/ });
  assert.equal(await nearest.count(), 12);
  await nearest.first().click();
  await page.waitForFunction((old) => document.querySelector(".row-panel h3").textContent !== old, before);
}

async function searchFindsRows({ page }) {
  const input = page.getByLabel("Find rows");
  const search = async (text) => {
    await input.fill(text);
    await input.press("Enter");
    await page.waitForFunction(() => document.querySelector(".found:not([aria-busy]) p") !== null);
    await page.waitForTimeout(100);
    return (await settled(page, ".found").locator("p").first().textContent()).replace(/\s+/g, " ");
  };
  assert.match(await search("island: torgersen"), /^52 rows found in island/);
  await page.getByRole("button", { name: "Select them on the map" }).click();
  assert.match(await page.locator(".selection h3").filter({ hasText: "selected" }).textContent(), /^52 rows/);
  assert.match(await search("<img src=x onerror=window.attacked=1>"), /^0 rows found/);
  assert.match(await search("row 7"), /^1 row found/);
  await page.locator(".found").getByRole("button", { name: "Open row 7" }).click();
  await page.locator(".row-panel h3", { hasText: /^Row 7$/ }).waitFor();
  await page.getByRole("button", { name: "Clear the selection" }).click();
}

// Opaque pixels of the map, and how many of them have a colour.
const mapPixels = (page) =>
  page.evaluate(async () => {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const points = document.querySelector(".points");
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width: points.width, height: points.height });
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(points, 0, 0);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    let [drawn, coloured] = [0, 0];
    for (let i = 0; i < data.length; i += 4) {
      if (data[i + 3] === 0) continue;
      drawn++;
      if (Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 40) coloured++;
    }
    return { drawn, coloured };
  });

async function filtersGreyOut({ page }) {
  const before = await mapPixels(page);
  await page.locator(".filter summary").click();
  await page.getByLabel("Rows with").selectOption({ label: "island" });
  await page.getByLabel("Values of island").selectOption({ label: "Torgersen" });
  await page.getByRole("button", { name: "Add the condition" }).click();
  await page.locator(".conditions li").waitFor();
  assert.match(await page.locator(".filter [role=status]").textContent(), /^52 of 344 rows pass/);
  const after = await mapPixels(page);
  assert.ok(after.coloured < before.coloured * 0.6, "others lose their colour");
  assert.ok(after.drawn > before.drawn * 0.9, `but stay: ${before.drawn} and ${after.drawn} pixels`);
  await page.getByLabel("Rows with").selectOption({ label: "body_mass_g" });
  const from = page.locator(".filter").getByLabel("from");
  await from.fill("3500");
  await from.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll(".conditions li").length === 2);
  const passing = Number((await page.locator(".filter [role=status]").textContent()).match(/^\d+/)[0]);
  assert.ok(passing > 0 && passing < 52, `${passing}`);
  const selected = await lasso(page, [0.01, 0.01, 0.99, 0.99]);
  assert.equal(selected, passing, "a selection leaves out what the filter leaves out");
  await page.getByRole("button", { name: "Clear the selection" }).click();
  for (let left = 2; left > 0; left--) {
    await page.locator(".conditions button").first().click();
    await page.waitForFunction((n) => document.querySelectorAll(".conditions li").length === n, left - 1);
  }
  assert.deepEqual(await mapPixels(page), before);
  await page.locator(".filter summary").click();
}

async function aWalkShowsRowsInTheirOwnTypes({ page }) {
  await page.getByRole("button", { name: "Walk", exact: true }).click();
  await page.locator("table.walk tbody tr").first().waitFor();
  const line = page.locator("table.walk tbody tr").filter({ hasText: "island" });
  const cells = await line.locator("td").allTextContents();
  assert.equal(cells.length, 9);
  assert.ok(cells.every((cell) => ["Biscoe", "Dream", "Torgersen"].includes(cell)), cells.join());
  const { name } = await checks.savedBy(page, () =>
    page.locator("#walk").getByRole("button", { name: /CSV$/ }).click(),
  );
  assert.match(name, /\.csv$/);
}

async function namesSurviveAReload({ page }) {
  const hostile = "<b>Ärger</b> & \u202e“x” 🐧";
  await page.getByLabel("Name of cluster 0").fill(hostile);
  await page.getByLabel("Name of cluster 1").fill("Gentoo");
  await page.locator("#names").getByRole("button", { name: "Save" }).click();
  await page.locator("#names [role=status]", { hasText: "Saved to" }).waitFor();
  assert.match(await page.locator("#cluster-1 h3").textContent(), /Gentoo/, "the cards have the name at once");
  assert.match(await page.locator(".map-legend").textContent(), /Gentoo/);
  await page.reload();
  await isDrawn(page);
  assert.equal(await page.getByLabel("Name of cluster 0").inputValue(), hostile);
  assert.ok((await page.locator("#cluster-0 h3").textContent()).includes(hostile), "as text");
  assert.equal(await page.locator("#cluster-0 h3 b").count(), 0);
}

async function mergingDescribesTheClustersAnew({ page }) {
  const rows = async (k) => (await page.locator(`#cluster-${k} header .note`).textContent()).match(/^[\d,]+/)[0];
  const [one, two] = [await rows(1), await rows(2)].map(Number);
  await page.getByLabel("Merge cluster 2 into").selectOption("1");
  await Promise.all([
    page.waitForEvent("load"),
    page.locator("#names").getByRole("button", { name: "Save" }).click(),
  ]);
  await isDrawn(page);
  assert.deepEqual([await rows(1), await rows(2)].map(Number), [one + two, 0]);
  assert.match(await page.locator("#result").textContent(), /Merged by hand: cluster 2 into 1/);
  await page.getByLabel("Merge cluster 2 into").selectOption("");
  await Promise.all([
    page.waitForEvent("load"),
    page.locator("#names").getByRole("button", { name: "Save" }).click(),
  ]);
  await isDrawn(page);
  assert.deepEqual([await rows(1), await rows(2)].map(Number), [one, two]);
}

// Search, open a row, open it from the map, compare, walk and name: without a mouse.
async function everythingWorksByKeyboard({ page }) {
  await page.evaluate(() => document.querySelector(".skip").focus());
  await checks.tabTo(page, "input[type=search]");
  await page.keyboard.type("row 3");
  await page.keyboard.press("Enter");
  await page.locator(".found .row-button").waitFor();
  await checks.tabTo(page, ".found .row-button");
  await page.keyboard.press("Enter");
  await page.locator(".row-panel h3:focus").waitFor();
  await page.evaluate(() => document.querySelector(".skip").focus());
  await checks.tabTo(page, ".filter summary");
  await page.keyboard.press("Enter");
  assert.ok(await page.locator(".filter").evaluate((item) => item.open));
  await page.keyboard.press("Enter");
  await checks.tabTo(page, ".map-frame");
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press(["ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"][Math.floor(Math.sqrt(i)) % 4]);
    if ((await page.locator(".tooltip:visible").count()) > 0) break;
  }
  await page.keyboard.press(" ");
  await page.locator(".row-panel h3").waitFor();
  await checks.tabTo(page, "#compare select");
  await page.keyboard.press("ArrowDown");
  await checks.tabTo(page, "#compare button[type=submit]");
  await page.keyboard.press("Enter");
  await page.locator("#compare .columns li").first().waitFor();
  await checks.tabTo(page, "#walk button[type=submit]");
  await page.keyboard.press("Enter");
  await page.locator("#walk table").waitFor();
  await checks.tabTo(page, "#names input");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("typed");
  await page.keyboard.press("Enter");
  await page.locator("#names [role=status]", { hasText: "Saved to" }).waitFor();
  assert.match(await page.locator("#cluster-0 h3").textContent(), /typed/);
}

// Leaves something in every panel, so that all of it is looked at.
async function fillPanels({ page }, isPicture) {
  await page.getByLabel("Find rows").fill(isPicture ? "row 12" : "Dream");
  await page.getByLabel("Find rows").press("Enter");
  await page.locator(".found").getByRole("button", { name: /^Open row/ }).first().click();
  await page.locator(".row-panel h3").waitFor();
  await lasso(page, [0.05, 0.05, 0.45, 0.6]);
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.getByRole("button", { name: "Walk", exact: true }).click();
  await page.locator(isPicture ? "#walk img" : "#walk table").first().waitFor();
  await page.locator(isPicture ? "#compare img" : "#compare .columns li").first().waitFor();
  await page.locator(".filter summary").click();
}

async function saysWhenTheServerIsGone({ page }, served) {
  assert.equal(await served.end(), 0, "Ctrl-C ends it with success");
  await page.getByRole("button", { name: "Walk", exact: true }).click();
  await page.locator(".gone:visible").waitFor();
  assert.match(await page.locator(".gone").textContent(), /has ended.*pervade explore/);
  assert.ok((await page.locator("#cluster-0").count()) > 0, "the report stays");
}

async function needsTheToken(browser, served) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const answer = await page.goto(`${served.origin}/`);
  assert.equal(answer.status(), 403);
  assert.match(await page.locator("body").textContent(), /Open the address/);
  await context.close();
}

async function penguins(browser, axe, folder, shots, step) {
  const model = ["penguins.pervade", PENGUINS, "--labels", "column:species"];
  execFileSync(PERVADE, ["fit", PENGUINS, "--labels", "column:species", "-k", "3", "--out", model[0], ...QUICK], {
    cwd: folder,
    timeout: LIMIT_MS,
  });
  const served = await serve(folder, model);
  const session = await visit(browser, served, { colorScheme: "light" });
  const run = (check, ...more) => step(check.name, () => check(session, ...more));
  const shot = (name, fullPage = true) =>
    session.page.screenshot({ path: path.join(shots, `explorer-${name}.png`), fullPage });
  await shot("penguins-light");
  await run(checks.textsAreText, ["explorer"]);
  await run(checks.nothingOverflows);
  await run(checks.axeFindsNothing, axe);
  await run(checks.pixelsRepeat);
  await run(checks.mapWorksByKeyboard);
  for (const check of [
    profileOfASelection,
    oneSelectionAgainstAnother,
    aClickOpensARowWithItsNearest,
    searchFindsRows,
    filtersGreyOut,
    aWalkShowsRowsInTheirOwnTypes,
    namesSurviveAReload,
    mergingDescribesTheClustersAnew,
    everythingWorksByKeyboard,
  ])
    await run(check);
  await step("fillPanels", () => fillPanels(session, false));
  await shot("penguins-panels");
  await run(checks.axeFindsNothing, axe);
  await run(checks.nothingOverflows);
  await run(checks.textsAreText, ["explorer"]);
  await step("no request elsewhere, no error, no violation of the policy", async () => {
    assert.deepEqual(await close(session), []);
  });
  await step("needsTheToken", () => needsTheToken(browser, served));
  const reopened = await visit(browser, served, { colorScheme: "dark" });
  await step("closed and opened again: names are there", async () => {
    assert.equal(await reopened.page.getByLabel("Name of cluster 0").inputValue(), "typed");
  });
  await step("fillPanels in the dark", () => fillPanels(reopened, false));
  await reopened.page.screenshot({ path: path.join(shots, "explorer-penguins-dark.png"), fullPage: true });
  await step("axeFindsNothing in the dark", () => checks.axeFindsNothing(reopened, axe));
  await step("saysWhenTheServerIsGone", () => saysWhenTheServerIsGone(reopened, served));
  await reopened.page.screenshot({ path: path.join(shots, "explorer-gone.png") });
  await step("axeFindsNothing without a server", () => checks.axeFindsNothing(reopened, axe));
  await reopened.context.close();
}

async function digits(browser, axe, folder, shots, step) {
  const fit = ["fit", DIGITS, "--labels", "column:last", "--image", "8x8", "-k", "10", "--out", "digits.pervade"];
  execFileSync(PERVADE, [...fit, ...QUICK], { cwd: folder, timeout: LIMIT_MS });
  const served = await serve(folder, ["digits.pervade", DIGITS, "--labels", "column:last"]);
  const phone = { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true };
  for (const [name, options] of [
    ["digits-light", { colorScheme: "light" }],
    ["digits-phone", phone],
  ]) {
    const session = await visit(browser, served, options);
    await step(`fillPanels of ${name}`, () => fillPanels(session, true));
    await session.page.screenshot({ path: path.join(shots, `explorer-${name}.png`), fullPage: true });
    await step(`nothingOverflows of ${name}`, () => checks.nothingOverflows(session));
    await step(`axeFindsNothing of ${name}`, () => checks.axeFindsNothing(session, axe));
    await step("no request elsewhere, no error, no violation of the policy", async () => {
      assert.deepEqual(await close(session), []);
    });
  }
  begin("ending pervade explore");
  await served.end();
}

export async function explorer(browser, axe, tools, shots, step) {
  const folder = path.resolve(tools, "explorer");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  console.log("explorer of the penguins");
  await penguins(browser, axe, folder, shots, step);
  console.log("explorer of the digits");
  await digits(browser, axe, folder, shots, step);
}
