// The shell: navigation, what is out of date, language, theme, and the keys that work everywhere.
import { useEffect, useState } from "preact/hooks";
import type { Zone } from "./answers";
import { Applications } from "./apps/view";
import { useAsked } from "./ask";
import { isDark, setTheme, theme, type Theme } from "./colours";
import { Credit } from "./credit";
import { clock } from "./format";
import { FleetView } from "./hosts/view";
import { focusByArrow } from "./keys";
import { Lab } from "./lab";
import { Later } from "./later";
import { lostSince, sources, version } from "./live";
import { travel } from "./machines/time";
import { Machines, zoom } from "./machines/view";
import { Moves } from "./moves";
import { NodeView } from "./node";
import { Pods } from "./pods";
import { Profiles } from "./profiles";
import { Quotas } from "./quotas";
import { go, param, route, set, to, view, VIEWS, type View } from "./route";
import { Services } from "./services";
import { language, setLanguage, t } from "./words";
import { Zones } from "./zones";

const loadAutonomy = () => import("./autonomy/view").then((found) => found.Autonomy);
const THEMES: readonly Theme[] = ["auto", "light", "dark"];
const GROUPS = ["", "zone", "pool", "numa", "tenant"];
const CHOSEN = ["pod", "name", "machine", "quota", "move", "zone", "objective", "service", "of", "host", "container", "group", "release", "vm"]; // what the title of the tab names

export function App() {
  const [hasHelp, setHelp] = useState(false);
  useEffect(() => {
    document.documentElement.dataset["theme"] = isDark.value ? "dark" : "light";
  }, [isDark.value]);
  useEffect(() => {
    const what = CHOSEN.map(param).find(Boolean);
    document.title = `${what ? `${what} · ` : ""}${t(view.value)} · Cotenant`;
  }, [route.value, language.value]);
  useEffect(() => {
    document.querySelector("nav a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [view.value]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (key(event) || (!event.ctrlKey && !event.metaKey && !event.altKey && focusByArrow(event))) event.preventDefault();
      else if (event.key === "?" && !isTyping(event)) setHelp((before) => !before);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const shown = view.value;
  const hasZones = !!useAsked<Zone[]>("/api/zones", 60).value?.length; // most clusters have none
  return (
    <>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.getElementById("content")?.focus(); }}>{t("skip")}</a>
      <header>
        <a class="brand" aria-label="Cotenant" href={to("machines")}><img src="/assets/icon.svg" alt="" width="22" height="22" /><span>Cotenant</span></a>
        <nav aria-label="Cotenant">
          {VIEWS.filter((each) => each !== "zones" || hasZones || shown === each).map((each) => (
            <a key={each} href={to(each)} aria-current={shown === each || (shown === "node" && each === "machines") ? "page" : undefined}>{t(each)}</a>
          ))}
        </nav>
        <div class="tools">
          <button type="button" aria-expanded={hasHelp} onClick={() => setHelp(!hasHelp)} title={t("keys")} aria-label={t("keys")}>?</button>
          <button type="button" onClick={() => setTheme(THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!)} title={t(`theme.${theme.value}`)} aria-label={t(`theme.${theme.value}`)}>{{ auto: "◐", light: "☀", dark: "☾" }[theme.value]}</button>
          <button type="button" lang={language.value === "en" ? "zh" : "en"} onClick={() => setLanguage(language.value === "en" ? "zh" : "en")}>{t("language")}</button>
          <form method="post" action="/logout"><button type="submit" title={t("logout")} aria-label={t("logout")}><svg width="15" height="15" viewBox="0 0 16 16" aria-hidden="true"><path d="M6 2H3v12h3M10 4.5 13.5 8 10 11.5M13.5 8H6" fill="none" stroke="currentColor" stroke-width="1.6" /></svg></button></form>
        </div>
      </header>
      {hasHelp && <p class="note" role="status">{t("keys.text")}</p>}
      <Stale />
      {route.value.unknown && <p class="note" role="status">{t("view.unknown", { name: route.value.unknown })}</p>}
      <main id="content" tabIndex={-1}>
        {shown === "machines" && <Machines />}
        {shown === "pods" && <Pods />}
        {shown === "node" && <NodeView />}
        {shown === "quotas" && <Quotas />}
        {shown === "credit" && <Credit />}
        {shown === "services" && <Services />}
        {shown === "moves" && <Moves />}
        {shown === "lab" && <Lab />}
        {shown === "autonomy" && <Later load={loadAutonomy} />}
        {shown === "profiles" && <Profiles />}
        {shown === "zones" && <Zones />}
        {shown === "fleet" && <FleetView />}
        {shown === "apps" && <Applications />}
      </main>
    </>
  );
}

function Stale() {
  void version.value;
  const notes: string[] = [];
  if (lostSince.value) notes.push(t("stale.connection", { at: clock(lostSince.value) }));
  else {
    const { cluster, scheduler, use } = sources.value;
    if (cluster && !cluster.ok) notes.push(t("stale.cluster", { at: clock(cluster.since) }));
    if (scheduler && !scheduler.ok) notes.push(t("stale.scheduler", { at: clock(scheduler.since), why: scheduler.why }));
    if (use && !use.ok) notes.push(t("stale.use", { why: use.why }));
  }
  return <div role="status" aria-live="polite">{notes.map((each) => <p class="note stale" key={each}>{each}</p>)}</div>;
}

function isTyping(event: KeyboardEvent): boolean {
  const at = event.target as HTMLElement;
  return at.matches("input:not([type=range]), select, textarea");
}

/** The keys that work everywhere; whether it was one. */
function key(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  if (event.key === "Escape") return escape(event);
  if (isTyping(event)) return false;
  const number = event.key === "0" ? 10 : Number(event.key);
  if (number >= 1 && number <= VIEWS.length) {
    go(VIEWS[number - 1] as View);
    return true;
  }
  switch (event.key) {
    case "/":
      document.querySelector<HTMLInputElement>("input[type=search]")?.focus();
      return true;
    case "e":
      if (view.value === "machines" && param("machine")) go("node", { name: param("machine") });
      return true;
    case "+":
    case "=":
      if (view.value === "machines") zoom(1);
      return view.value === "machines";
    case "-":
      if (view.value === "machines") zoom(-1);
      return view.value === "machines";
    case "g":
      if (view.value === "machines") set({ group: GROUPS[(GROUPS.indexOf(param("group")) + 1) % GROUPS.length]! });
      return view.value === "machines";
    case "c":
      if (view.value === "machines") set({ colour: param("colour") === "kind" ? "" : "kind" });
      return view.value === "machines";
    case "[":
    case "]":
      if (view.value === "machines") travel(event.key === "[" ? -1 : 1);
      return view.value === "machines";
    case "l":
      if (view.value === "machines") set({ at: "" });
      return view.value === "machines";
    default:
      return false;
  }
}

function escape(event: KeyboardEvent): boolean {
  const at = event.target as HTMLElement;
  if (at.matches("input, select")) {
    at.blur();
    document.querySelector<HTMLElement>("[data-map]")?.focus();
  } else if (view.value === "node") go("machines", { machine: param("name") });
  else if (view.value === "fleet") set({ host: "", container: "", group: "", tab: "", grep: "" });
  else if (view.value === "apps") set({ release: "", vm: "" });
  else if (param("pod")) set({ pod: "", if: "", tab: "", grep: "" });
  else set({ machine: "", quota: "", trace: "", move: "", zone: "", a: "", b: "", ...(view.value === "credit" ? { of: "" } : {}) });
  return true;
}
