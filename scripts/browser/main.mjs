// node main.mjs TOOLS [FILE...]: checks the samples in TOOLS/samples, or the given files.

import { mkdirSync, readdirSync } from "node:fs";
import path from "node:path";
import * as checks from "./checks.mjs";
import { explorer } from "./explorer.mjs";
import { begin, close, launch, open } from "./session.mjs";

const [tools, ...given] = process.argv.slice(2);
const shots = path.join(tools, "shots");
const FRAME_LIMIT_MS = Number(process.env.FRAME_LIMIT_MS ?? 60);
let failures = 0;

async function step(name, work) {
  begin(name);
  try {
    const note = await work();
    console.log(`  ok    ${name}${note ? `: ${note}` : ""}`);
  } catch (error) {
    failures++;
    console.log(`  FAIL  ${name}: ${error.message}`);
  }
}

// Opens a page, runs named checks, and at the end asks whether anything forbidden happened.
async function visit(browser, file, options, run) {
  const session = await open(browser, file, options);
  await run(session);
  const faults = await close(session);
  await step("no request, no error, no violation of the policy", () => {
    if (faults.length > 0) throw new Error([...new Set(faults)].slice(0, 5).join("; "));
  });
}

async function shot({ page }, name, fullPage = true) {
  await page.screenshot({ path: path.join(shots, `${name}.png`), fullPage });
}

async function desktop(session, name, axe) {
  const { page, hasMap } = session;
  const run = (check, ...more) => step(check.name, () => check(session, ...more));
  await shot(session, `${name}-light`);
  await run(checks.textsAreText);
  await run(checks.nothingOverflows);
  await run(checks.axeFindsNothing, axe);
  if (hasMap) {
    await run(checks.pixelsRepeat);
    await run(checks.hoverShowsATooltip);
    await shot(session, `${name}-hover`, false);
    await run(checks.wheelZoomsOnlyAfterAClick);
    await run(checks.selectionIsExact);
    await run(checks.lassoSelectsAndSaves);
    await run(checks.mapWorksByKeyboard);
  }
  if ((await page.locator(".matrix button").count()) > 1) await run(checks.pairsWorkByKeyboard);
  if ((await page.locator(".tree").count()) > 0) await run(checks.treeIsWhole);
  await run(checks.everyDownloadWorks);
  await run(checks.axeFindsNothing, axe);
  if (name === "million") await run(checks.frameTimes, FRAME_LIMIT_MS);
}

async function dark(session, name, axe) {
  await shot(session, `${name}-dark`);
  await step("axeFindsNothing in the dark", () => checks.axeFindsNothing(session, axe));
}

async function phone(session, name) {
  await shot(session, `${name}-phone`);
  await step("nothingOverflows on a phone", () => checks.nothingOverflows(session));
  if ((await session.page.locator(".tree").count()) > 0) {
    await step("treeFits on a phone", () => checks.treeFits(session));
  }
}

async function print(session, name) {
  await session.page.pdf({
    path: path.join(shots, `${name}-print.pdf`),
    format: "A4",
    printBackground: true,
    margin: { top: "1.5cm", bottom: "1.5cm", left: "1.5cm", right: "1.5cm" },
  });
  await session.page.emulateMedia({ media: "print" });
  await shot(session, `${name}-print`);
}

mkdirSync(shots, { recursive: true });
const { browser, axe } = await launch(tools);
const samples = path.join(tools, "samples");
const files =
  given.length > 0 || process.env.ONLY === "explorer"
    ? given
    : readdirSync(samples)
        .filter((name) => name.endsWith(".html"))
        .map((name) => path.resolve(samples, name));
for (const file of files) {
  const name = path.basename(file, ".html");
  console.log(name);
  await visit(browser, file, { colorScheme: "light" }, (session) => desktop(session, name, axe));
  await visit(browser, file, { colorScheme: "dark" }, (session) => dark(session, name, axe));
  await visit(
    browser,
    file,
    { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true },
    (session) => phone(session, name),
  );
  await visit(browser, file, { viewport: { width: 800, height: 1100 } }, (session) => print(session, name));
}
if (given.length === 0) await explorer(browser, axe, tools, shots, step);
begin("closing the browser");
await browser.close();
console.log(failures > 0 ? `${failures} checks failed` : "all checks passed");
process.exit(failures > 0 ? 1 : 0);
