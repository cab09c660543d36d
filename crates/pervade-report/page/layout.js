// Puts the page together.

const readContent = () => JSON.parse(document.getElementById("content").textContent);

// Title, id and content of each section that has something to show.
function sections(content, mapHolder) {
  const restarts = restartsSection(content);
  const curves = curvesSection(content);
  const all = [
    ["Result", "result", verdictSection(content)],
    ["Map", "map", content.map ? mapHolder : null],
    ["Clusters", "clusters", clusterSection(content)],
    ["Overlap", "overlap", overlapSection(content)],
    ["Unusual rows", "unusual", outlierSection(content)],
    ["Why this many clusters", "number", numberSection(content)],
    ["Agreement of restarts", "restarts", restarts],
    ["Training", "training", curves],
    ["How it was made", "provenance", provenanceSection(content)],
  ];
  return all.filter(([, , nodes]) => nodes !== null).map(([title, id, nodes]) => ({ title, id, nodes }));
}

function sectionElement({ title, id, nodes }) {
  return el(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    el("h2", { id: `${id}-title` }, title),
    nodes,
  );
}

function themeButton() {
  const item = button(
    "",
    () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      update();
      document.dispatchEvent(new Event("themechange"));
    },
    { class: "theme" },
  );
  const update = () => (item.textContent = isDark() ? "Light page" : "Dark page");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    update();
    document.dispatchEvent(new Event("themechange"));
  });
  update();
  return item;
}

function banner(content) {
  const facts = [
    rowsText(content.n_rows),
    plural(content.n_columns, "column", "columns"),
    plural(content.n_clusters, "cluster", "clusters"),
  ];
  return el(
    "header",
    { class: "banner" },
    el(
      "div",
      {},
      el("h1", {}, content.title === "" ? "Clusters" : data(content.title)),
      el("p", { class: "note" }, facts.join(" · ")),
    ),
    themeButton(),
  );
}

function contents(shown) {
  const links = shown.map(({ title, id }) => el("a", { href: `#${id}` }, title));
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        const link = links[shown.findIndex(({ id }) => id === target.id)];
        if (isIntersecting) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    },
    { rootMargin: "-20% 0px -79.9% 0px" },
  );
  const nav = el(
    "nav",
    { class: "contents", "aria-label": "Contents" },
    el(
      "ul",
      {},
      links.map((link) => el("li", {}, link)),
    ),
  );
  return { nav, watch: (elements) => elements.forEach((element) => observer.observe(element)) };
}

// On paper nothing can be unfolded.
function unfoldForPrint() {
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const item of closed) item.open = true;
  });
  addEventListener("afterprint", () => closed.forEach((item) => (item.open = false)));
}

