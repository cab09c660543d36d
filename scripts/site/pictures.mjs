// node pictures.mjs TOOLS FOLDER: fits the penguins, and writes penguins-report.png and explore.png to FOLDER.

import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { lasso, serve } from "../browser/explorer.mjs";
import { begin, isDrawn, launch } from "../browser/session.mjs";

const [tools, folder] = process.argv.slice(2);
const pervade = path.resolve("target/release/pervade");
const rows = [path.resolve("testdata/readers/penguins.csv"), "--labels", "column:species"];
const work = path.resolve(tools, "pictures");
const run = (...args) => execFileSync(pervade, [...args, "--quiet", "--device", "cpu", "--force"], { cwd: work });

rmSync(work, { recursive: true, force: true });
mkdirSync(work, { recursive: true });
mkdirSync(folder, { recursive: true });
run("fit", ...rows, "--clusters", "3");
run("report", "penguins.pervade", ...rows, "--out", "report.html");

const { browser } = await launch(tools);

async function picture(name, url, { width, height }, prepare) {
  begin(name);
  const page = await browser.newPage({ viewport: { width, height }, deviceScaleFactor: 1 });
  await page.goto(url);
  await isDrawn(page);
  await prepare?.(page);
  await page.screenshot({ path: path.join(folder, `${name}.png`), animations: "disabled" });
  await page.close();
}

await picture("penguins-report", pathToFileURL(path.join(work, "report.html")).href, { width: 1100, height: 1600 });

const served = await serve(work, ["penguins.pervade", ...rows, "--names", "names.json"]);
await picture("explore", served.url, { width: 1100, height: 1250 }, async (page) => {
  // A selection, and what tells it from the other rows.
  await lasso(page, [0.01, 0.01, 0.5, 0.7]);
  await page.locator(".selection .answer .columns li").first().waitFor();
  const end = { block: "end", behavior: "instant" };
  await page.locator(".selection .answer .columns li").nth(3).evaluate((line, end) => line.scrollIntoView(end), end);
  await page.waitForTimeout(300);
});
await served.end();
await browser.close();
console.log(`screenshots: ${folder}`);
