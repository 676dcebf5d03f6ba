// What tables and commands of a static page do beyond HTML: order by a column, the colour of a name, copy.

function order(table: HTMLTableElement, column: number): void {
  const heads = [...table.tHead!.rows[0]!.cells];
  const head = heads[column]!;
  const isDown = head.getAttribute("aria-sort") === "ascending";
  for (const each of heads) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
  const value = (row: HTMLTableRowElement): string => row.cells[column]!.dataset["value"] ?? row.cells[column]!.textContent!.trim();
  const rows = [...table.tBodies[0]!.rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    const [u, v] = [parseFloat(x), parseFloat(y)];
    const by = Number.isNaN(u) || Number.isNaN(v) ? x.localeCompare(y) : u - v;
    return isDown ? -by : by;
  });
  table.tBodies[0]!.append(...rows);
}

export function enliven(colours: Record<string, string>): void {
  for (const dot of document.querySelectorAll<HTMLElement>("[data-policy]")) {
    const colour = new Map(Object.entries(colours)).get(dot.dataset["policy"]!);
    if (colour) dot.style.background = `var(--c-${colour})`;
  }
  for (const table of document.querySelectorAll<HTMLTableElement>("table.sortable")) {
    [...table.tHead!.rows[0]!.cells].forEach((head, column) => {
      head.tabIndex = 0;
      head.addEventListener("click", () => order(table, column));
      head.addEventListener("keydown", (event) => {
        if (event.key === "Enter") order(table, column);
      });
    });
  }
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-copy]")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", () => {
      void navigator.clipboard.writeText(button.previousElementSibling!.textContent ?? "").then(() => {
        button.textContent = "copied";
      });
    });
  }
}
