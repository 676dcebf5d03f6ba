// What the browser keeps for this page between visits. A sandboxed frame has no such place, and its page works without.
export function kept(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}
