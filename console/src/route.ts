// The URL's fragment holds the view and its whole state: #/machines?group=zone&q=web. Reading and writing go through here.
import { computed, signal } from "@preact/signals";

export type View =
  | "machines" | "pods" | "node" | "quotas" | "services"
  | "credit" | "moves" | "profiles" | "lab" | "zones" | "fleet" | "apps" | "autonomy";
export const VIEWS: readonly View[] = [
  "machines", "pods", "quotas", "credit", "services", "moves", "profiles",
  "lab", "zones", "fleet", "apps", "autonomy",
];
const KNOWN: readonly string[] = [...VIEWS, "node"];

interface Route {
  view: View;
  /** What the address names and the page does not know; empty otherwise. */
  unknown: string;
  query: URLSearchParams;
}

function parse(hash: string): Route {
  const text = hash.replace(/^#\/?/, "");
  const cut = text.indexOf("?");
  const view = cut < 0 ? text : text.slice(0, cut);
  return {
    view: (KNOWN.includes(view) ? view : "machines") as View,
    unknown: view && !KNOWN.includes(view) ? view : "",
    query: new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1)),
  };
}

export const route = signal<Route>(parse(location.hash));
export const view = computed(() => route.value.view);

/** A value of the URL; empty where it is not there. */
export function param(name: string): string {
  return route.value.query.get(name) ?? "";
}

/** The address of a view. */
export function to(target: View, values: Record<string, string> = {}): string {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ""));
  const text = query.toString();
  return `#/${target}${text ? `?${text}` : ""}`;
}

export function go(target: View, values: Record<string, string> = {}): void {
  location.hash = to(target, values);
}

/** Change values of the present view. They replace the entry in the history, so that "back" leaves the view. */
export function set(values: Record<string, string>): void {
  const query = new URLSearchParams(route.value.query);
  for (const [name, value] of Object.entries(values)) {
    if (value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  history.replaceState(null, "", `#/${route.value.view}${text ? `?${text}` : ""}`);
  route.value = { view: route.value.view, unknown: "", query };
}

addEventListener("hashchange", () => {
  if (/^#?(\/|$)/.test(location.hash)) route.value = parse(location.hash); // else an anchor of the page
});
