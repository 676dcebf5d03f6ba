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
