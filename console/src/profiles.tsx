// The view "Profiles": what a workload uses (tendency) and what it suffers from (sensitivity) by resource, as radars, two workloads at a time. From WorkloadProfiles.
import { useAsked } from "./ask";
import type { ProfileView, Reading } from "./answers";
import { percent } from "./format";
import { moveFocus } from "./keys";
import { Empty, Wide } from "./parts";
import { param, set } from "./route";
import { t, type Word } from "./words";

const LARGEST = 1000;
type Part = "sensitivity" | "tendency";
const PARTS: readonly Part[] = ["sensitivity", "tendency"];

export function Profiles() {
  const asked = useAsked<ProfileView[]>("/api/profiles", 5);
  const all = asked.value ?? [];
  const text = param("q").toLowerCase();
  const chosen = [param("a"), param("b")].map((name) => all.find((each) => each.profile === name));
  const shown = chosen.filter((each): each is ProfileView => !!each);
  if (asked.error && !asked.value) return <p class="error" role="alert">{asked.error}</p>;
  if (!asked.value) return <p class="empty">{t("loading")}</p>;
  if (!all.length) return <Empty text={t("profiles.empty")} />;
  const rows = all.filter((each) => `${each.profile} ${each.kind} ${each.workload}`.toLowerCase().includes(text));
  return (
    <div class={`pods${shown.length ? " has-choice" : ""} profiles`}>
      <section class="list" aria-label={t("profiles")}>
        <div class="controls">
          <input type="search" class="search" value={param("q")} placeholder={t("search")} aria-label={t("search")} onInput={(event) => set({ q: event.currentTarget.value })} />
        </div>
        <p class="soft">{t("profiles.help")}</p>
        <div class="rows" onKeyDown={moveFocus}>
          {rows.map((each) => {
            const at = chosen.indexOf(each);
            return (
              <button type="button" key={each.profile} class={`row plain${at >= 0 ? " chosen" : ""}`} aria-pressed={at >= 0} onClick={() => choose(each.profile)}>
                <span class={`state profile-${at < 0 ? "none" : at}`} aria-hidden="true" />
                <span class="row-name"><b>{each.profile}</b><span class="soft">{each.kind} {each.workload}</span></span>
                <span class="row-figures"><span>{t("profile.known", { n: known(each), all: each.axes.length })}</span><span class="soft">{source(each)}</span></span>
              </button>
            );
          })}
        </div>
        {rows.length === 0 && <p class="empty">{t("profiles.none")}</p>}
      </section>
      <section class="detail">
        {shown.length === 0 && <p class="empty">{t("profiles.choose")}</p>}
        {shown.length > 0 && (
          <>
            <div class="controls">{chosen.map((each, k) => each && <button type="button" key={each.profile} onClick={() => choose(each.profile)}><span class={`swatch profile-${k}`} /> {each.profile} ×</button>)}</div>
            {shown.map((each) => each.wrong.map((line) => <p class="error" key={line}>{each.profile}: {line}</p>))}
            <div class="radars">{PARTS.map((part) => <Radar key={part} part={part} profiles={chosen} />)}</div>
            <Figures profiles={chosen} />
          </>
        )}
      </section>
    </div>
  );
}

/** Put a profile at the first empty place, or at the second; take it away if it is there. */
function choose(name: string): void {
  const [a, b] = [param("a"), param("b")];
  if (name === a) set({ a: b, b: "" });
  else if (name === b) set({ b: "" });
  else if (!a) set({ a: name });
  else set({ b: name });
}

function known(profile: ProfileView): number {
  return profile.axes.filter((each) => each.sensitivity.value !== undefined || each.tendency.value !== undefined).length;
}

/** The best source of its figures. */
function source(profile: ProfileView): string {
  const found = new Set(profile.axes.flatMap((each) => [each.sensitivity.source, each.tendency.source]));
  const best = (["measured", "learned", "declared"] as const).find((each) => found.has(each));
  return best ? t(`source.${best}`) : "";
}

export function spoken(reading: Reading): string {
  if (reading.value === undefined) return reading.cannotTell ?? "";
  return `${reading.value} (${reading.low}–${reading.high}), ${t("profile.samples", { n: reading.samples ?? 0 })}, ${t(`source.${reading.source ?? "learned"}` as Word)}`;
}

const WIDTH = 360;
const HEIGHT = 250;
const MIDDLE = WIDTH / 2;
const RADIUS = 100;

function at(number: number, of: number, share: number): [number, number] {
  const angle = (2 * Math.PI * number) / of - Math.PI / 2;
  return [MIDDLE + share * RADIUS * Math.cos(angle), HEIGHT / 2 + share * RADIUS * Math.sin(angle)];
}

function points(pairs: [number, number][]): string {
  return pairs.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
}

/** One polygon a profile, with its interval as a spoke; an axis that is not known has no corner and a hollow mark in the middle. */
function Radar({ part, profiles }: { part: Part; profiles: (ProfileView | undefined)[] }) {
  const axes = profiles.find((each) => each)?.axes ?? [];
  const n = axes.length;
  const title = `${t(`profile.${part}`)}: ${profiles.filter((each) => each).map((each) => each!.profile).join(", ")}`;
  return (
    <figure class="radar">
      <figcaption><b>{t(`profile.${part}`)}</b> <span class="soft">{t(`profile.${part}.help`)}</span></figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={title}>
        {[0.25, 0.5, 0.75, 1].map((ring) => <polygon key={ring} class="ring" points={points(axes.map((_, k) => at(k, n, ring)))} />)}
        {axes.map((axis, k) => {
          const [x, y] = at(k, n, 1);
          const [tx, ty] = at(k, n, 1.12);
          return (
            <g key={axis.name}>
              <line class="ring" x1={MIDDLE} y1={HEIGHT / 2} x2={x} y2={y} />
              <text class="axis" x={tx} y={ty + 4} text-anchor={Math.abs(tx - MIDDLE) < 10 ? "middle" : tx > MIDDLE ? "start" : "end"}>{t(`axis.${axis.name}` as Word)}</text>
            </g>
          );
        })}
        {profiles.map((profile, index) => {
          if (!profile) return null;
          const readings = profile.axes.map((axis) => axis[part]);
          const corners = readings.flatMap((reading, k) => (reading.value === undefined ? [] : [at(k, n, reading.value / LARGEST)]));
          return (
            <g key={profile.profile} class={`series-${index}`}>
              {corners.length > 1 && <polygon class="shape" points={points(corners)} />}
              {readings.map((reading, k) => {
                const label = `${profile.profile}, ${t(`axis.${axes[k]!.name}` as Word)}: ${spoken(reading)}`;
                if (reading.value === undefined) {
                  const [x, y] = at(k, n, 0.05 + 0.05 * index);
                  return <circle key={k} class="hollow" cx={x} cy={y} r="2.5"><title>{label}</title></circle>;
                }
                const [x, y] = at(k, n, reading.value / LARGEST);
                const [lx, ly] = at(k, n, (reading.low ?? reading.value) / LARGEST);
                const [hx, hy] = at(k, n, (reading.high ?? reading.value) / LARGEST);
                return (
                  <g key={k}>
                    <line class="interval" x1={lx} y1={ly} x2={hx} y2={hy} />
                    {index ? <rect class="corner" x={x - 3.5} y={y - 3.5} width="7" height="7"><title>{label}</title></rect> : <circle class="corner" cx={x} cy={y} r="4"><title>{label}</title></circle>}
                  </g>
                );
              })}
            </g>
          );
        })}
      </svg>
    </figure>
  );
}

/** The figures of both radars, and for a pair what the mean use of one pod of each costs the other. */
function Figures({ profiles }: { profiles: (ProfileView | undefined)[] }) {
  const [a, b] = profiles;
  const first = a ?? b!;
  const pair = a && b ? ([[a, b], [b, a]] as const) : [];
  const cost = (victim: ProfileView, culprit: ProfileView, k: number): number | null => {
    const [hurt, use] = [victim.axes[k]!.sensitivity.value, culprit.axes[k]!.tendency.value];
    return hurt === undefined || use === undefined ? null : (hurt * use) / LARGEST;
  };
  const worst = pair.map(([victim, culprit]) => Math.max(...first.axes.map((_, k) => cost(victim, culprit, k) ?? 0)));
  return (
    <section class="card">
      <h2>{t("profile.figures")}</h2>
      <Wide>
        <table>
          <thead>
            <tr>
              <th scope="col">{t("resource")}</th>
              {profiles.map((each, k) => each && PARTS.map((part) => <th scope="col" key={`${each.profile}${part}`}><span class={`swatch profile-${k}`} /><span class="hidden">{each.profile}</span> {t(`profile.${part}`)}</th>))}
              {pair.map(([victim, culprit], k) => <th scope="col" class="number" key={k} title={t("profile.cost.title", { victim: victim.profile, culprit: culprit.profile })}><span class={`swatch profile-${1 - k}`} /><span class="hidden">{culprit.profile}</span> → <span class={`swatch profile-${k}`} /><span class="hidden">{victim.profile}</span></th>)}
            </tr>
          </thead>
          <tbody>
            {first.axes.map((axis, k) => (
              <tr key={axis.name}>
                <th scope="row">{t(`axis.${axis.name}` as Word)}</th>
                {profiles.map((each) => each && PARTS.map((part) => <td key={`${each.profile}${part}`} class={each.axes[k]![part].value === undefined ? "soft" : ""}>{spoken(each.axes[k]![part])}</td>))}
                {pair.map(([victim, culprit], index) => {
                  const value = cost(victim, culprit, k);
                  return <td key={index} class={`number${value !== null && value > 0 && value === worst[index] ? " burning" : ""}`}>{value === null ? "–" : `+${percent(value, LARGEST)}`}</td>;
                })}
              </tr>
            ))}
            {(["sensitivity", "pressure", "tolerates"] as const).map((name) => (
              <tr key={name}>
                <th scope="row">{t(`overall.${name}`)}</th>
                {profiles.map((each) => each && <td key={each.profile} colSpan={2} class={each.overall[name].value === undefined ? "soft" : ""}>{spoken(each.overall[name])}</td>)}
                {pair.map((_, index) => <td key={index} />)}
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {pair.length > 0 && <p class="soft">{t("profile.cost.help")}</p>}
      {profiles.map((each) => each && (each.measured || each.updated) && (
        <p class="soft" key={each.profile}>{each.profile}: {each.measured && t("profile.measured", { at: each.measured, node: each.measured_on })} {each.updated && t("profile.updated", { at: each.updated })}</p>
      ))}
    </section>
  );
}
