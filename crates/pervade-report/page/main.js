function main() {
  const content = readContent();
  const mapHolder = el("div", { class: "map" }, el("p", { class: "note" }, "Drawing the map…"));
  const shown = sections(content, mapHolder);
  const elements = shown.map(sectionElement);
  const { nav, watch } = contents(shown);
  document.body.prepend(
    el("a", { class: "skip", href: "#main" }, "Skip to the content"),
    banner(content),
    el("div", { class: "columns-layout" }, nav, el("main", { id: "main", tabindex: -1 }, elements)),
    el(
      "footer",
      {},
      "Made by pervade. This page is one file and makes no requests; texts come from the data.",
    ),
  );
  watch(elements);
  unfoldForPrint();
  if (content.map) fillMap(content, mapHolder);
}

main();
