// Arrow keys between the rows of a list: links and buttons with the class "row".
export function moveFocus(event: KeyboardEvent): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  if (!step) return;
  const rows = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>(".row")];
  const next = rows[rows.indexOf(document.activeElement as HTMLElement) + step];
  if (next) {
    next.focus();
    event.preventDefault();
  }
}

/** What arrow keys are for in the present view: the map, the treemap, or the chosen or first row of a list. */
function target(): HTMLElement | null {
  return document.querySelector<HTMLElement>("main [data-map]") ?? document.querySelector<HTMLElement>("main .treemap") ?? document.querySelector<HTMLElement>(".list .row.chosen") ?? document.querySelector<HTMLElement>(".list .row");
}

/** An arrow key where nothing is focused, or down in the search field: focus what it is for. Whether it did. */
export function focusByArrow(event: KeyboardEvent): boolean {
  if (!event.key.startsWith("Arrow")) return false;
  const at = event.target as HTMLElement;
  const isSearch = at.matches("input[type=search]");
  if (isSearch ? event.key !== "ArrowDown" : at !== document.body && at.id !== "content") return false;
  const found = target();
  if (!found) return false;
  found.focus();
  // The map and the treemap move by the same key; a row is where one wants to be already.
  if (!found.classList.contains("row")) found.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, bubbles: false }));
  return true;
}
