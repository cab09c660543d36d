// A browser that has no network and remembers everything a report must not do.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export const LIMIT_MS = 120_000;
let timer;

// Some calls of the browser have no limit of time. One that does not return must not stop the test for hours: the program
// ends unless the next piece of work begins in time.
export function begin(name) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    console.log(`  FAIL  ${name}: it has not ended after ${LIMIT_MS / 1000} s`);
    process.exit(1);
  }, LIMIT_MS).unref();
}

export async function launch(tools) {
  begin("starting the browser");
  const require = createRequire(path.resolve(tools, "package.json"));
  const { chromium } = require("playwright-core");
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
  return { browser, axe: readFileSync(require.resolve("axe-core/axe.min.js"), "utf8") };
}

// Opens a file; `faults` fills with requests, errors and violations of the policy.
export async function open(browser, file, options = {}) {
  const url = pathToFileURL(file).href;
  return openUrl(browser, url, (to) => to === url, { offline: true, ...options });
}

// Opens a page that may make the requests that `isAllowed`.
export async function openUrl(browser, url, isAllowed, options = {}) {
  begin(`opening ${url}`);
  const context = await browser.newContext({
    viewport: { width: 1440, height: 1000 },
    acceptDownloads: true,
    ...options,
  });
  context.setDefaultTimeout(10000);
  const page = await context.newPage();
  const faults = [];
  page.on("request", (request) => {
    const to = request.url();
    if (!isAllowed(to) && !to.startsWith("data:") && !to.startsWith("blob:")) faults.push(`request to ${to}`);
  });
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  await page.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (event) =>
      window.violations.push(event.violatedDirective),
    );
  });
  await page.goto(url);
  const hasMap = await isDrawn(page);
  return { page, context, faults, hasMap };
}

// Waits until the page is complete; whether it has a map.
export async function isDrawn(page) {
  await page.waitForFunction(() => document.querySelector("footer") !== null);
  const hasMap = (await page.locator("#map").count()) > 0;
  if (hasMap) await page.waitForFunction(() => performance.getEntriesByName("map-frame").length > 0);
  return hasMap;
}

export async function close({ page, context, faults }) {
  begin(`closing ${page.url()}`);
  const violations = await page.evaluate(() => window.violations);
  await context.close();
  return [...faults, ...violations.map((directive) => `policy violated: ${directive}`)];
}
