// The view "Credit": balances of tenants, and the account book with the figures from which each amount follows. From the credit process.
import { useAsked } from "./ask";
import { Old } from "./old";
import type { CreditEntry, CreditTenant } from "./answers";
import { age, bytes, cores, count, moment, percent } from "./format";
import { Empty, Wide } from "./parts";
import { param, set, to } from "./route";
import { t, type Word } from "./words";
import table from "./words.json";

const MOST = 100;

export function Credit() {
  const asked = useAsked<CreditTenant[]>("/api/credit/tenants", 5);
  const name = param("of");
  const one = useAsked<CreditTenant>(name ? `/api/credit/tenants/${encodeURIComponent(name)}?limit=${MOST}` : "", 5);
  const all = useAsked<CreditEntry[]>(name || !asked.value ? "" : `/api/credit/entries?limit=${MOST}`, 5);
  const text = param("q").toLowerCase();
  if (asked.error && !asked.value) return <Empty text={t("credit.none")} why={asked.error} />;
  if (!asked.value) return <p class="empty">{t("loading")}</p>;
  const tenants = [...asked.value].sort((a, b) => b.balance_milli - a.balance_milli || (a.tenant < b.tenant ? -1 : 1));
  if (!tenants.length) return <Empty text={t("credit.empty")} />;
  const most = Math.max(1, ...tenants.map((each) => Math.abs(each.balance_milli)));
  const chosen = one.value?.tenant === name ? one.value : null;
  const entries = (name ? chosen?.entries : all.value) ?? [];
  return (
    <div class="services">
      <div class="controls">
        <input type="search" class="search" value={param("q")} placeholder={t("search")} aria-label={t("search")} onInput={(event) => set({ q: event.currentTarget.value })} />
        {name && <button type="button" onClick={() => set({ of: "" })}>{name} ×</button>}
      </div>
      <Old asked={asked} />
      <p class="soft">{t("credit.help")}</p>
      <Wide>
        <table>
          <thead><tr><th scope="col">{t("tenant")}</th><th scope="col">{t("credit.balance")}</th><th scope="col" class="number">{t("credit.amount")}</th><th scope="col" class="number">{t("credit.standing")}</th></tr></thead>
          <tbody>
            {tenants.filter((each) => each.tenant.toLowerCase().includes(text)).slice(0, 200).map((each) => (
              <tr key={each.tenant} class={each.tenant === name ? "chosen" : ""}>
                <th scope="row"><button type="button" class="plain link" aria-pressed={each.tenant === name} onClick={() => set({ of: each.tenant === name ? "" : each.tenant })}>{each.tenant}</button></th>
                <td><Balance share={each.balance_milli / most} /></td>
                <td class={`number${each.balance_milli < 0 ? " burning" : ""}`}>{credits(each.balance_milli)}</td>
                <td class="number">{each.standing < 0 ? `−${-each.standing}` : each.standing}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {one.error && <p class="error" role="alert">{one.error}</p>}
      {chosen && entries.length > 0 && (
        <div class="radars">
          <section class="card">
            <h2>{t("credit.over-time")}</h2>
            <Sketch tenant={chosen} />
          </section>
          <section class="card">
            <h2>{t("credit.causes")}</h2>
            <Causes tenant={chosen} />
          </section>
        </div>
      )}
      <section>
        <h2>{name ? t("credit.of", { tenant: name }) : `${t("credit.entries")}: ${t("credit.everyone")}`} <span class="soft">{t("credit.last", { n: count(entries.length) })}</span></h2>
        <Book entries={entries} name={name} />
      </section>
    </div>
  );
}

function credits(milli: number): string {
  return `${milli < 0 ? "−" : ""}${(Math.abs(milli) / 1000).toFixed(Math.abs(milli) >= 100_000 ? 0 : Math.abs(milli) >= 1000 ? 2 : 3)}`;
}

const SHAPES: readonly [string, (value: number) => string][] = [
  ["_milli_cpu", (value) => `${cores(value)} ${t("cpu")}`],
  ["_bytes", bytes],
  ["_permille", (value) => percent(value, 1000)],
  ["_milli_core_hours", (value) => t("evidence.core-hours", { n: cores(value) })],
  ["_milli", credits],
];

/** A figure of an entry as people read it: its name without the unit, its value with one. */
function figure(key: string, value: string | number): string {
  if (key === "seconds" && typeof value === "number") return age(value);
  const shape = typeof value === "number" ? SHAPES.find(([end]) => key.endsWith(end)) : undefined;
  const name = shape ? key.slice(0, -shape[0].length) : key;
  const word = `evidence.${name}`;
  return `${word in table ? t(word as Word) : name.replaceAll("_", " ")} ${shape ? shape[1](value as number) : value}`;
}

/** A cause in words; those of memory end in the resource's name. */
function cause(name: string): string {
  const [first, resource] = [name.replace(/-memory$/, ""), name.endsWith("-memory") ? `, ${t("memory")}` : ""];
  const word = `cause.${first}`;
  return (word in table ? t(word as Word) : first) + resource;
}

/** A tenant's account as its name, the house as what it is. */
function account(name: string): preact.ComponentChildren {
  if (!name.startsWith("tenant/")) return <span class="soft">{name === "house" ? t("credit.house") : name}</span>;
  const tenant = name.slice(7);
  return <a href={to("credit", { of: tenant })}>{tenant}</a>;
}

/** What an entry adds to a tenant. */
function change(entry: CreditEntry, tenant: string): number {
  return (entry.payee === `tenant/${tenant}` ? entry.milli : 0) - (entry.payer === `tenant/${tenant}` ? entry.milli : 0);
}

function Balance({ share }: { share: number }) {
  const width = 50 * Math.min(1, Math.abs(share));
  return <span class="balance" aria-hidden="true"><i class={share < 0 ? "debt" : ""} style={{ width: `${width}%`, left: `${share < 0 ? 50 - width : 50}%` }} /></span>;
}

/** The balance after each entry, computed back from the present one. */
function Sketch({ tenant }: { tenant: CreditTenant }) {
  const entries = tenant.entries ?? [];
  const values = [tenant.balance_milli];
  for (const entry of entries) values.push(values[values.length - 1]! - change(entry, tenant.tenant));
  values.reverse();
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  const y = (value: number): number => 96 - (92 * (value - low)) / (high - low || 1);
  const x = (k: number): number => (100 * k) / Math.max(1, values.length - 1);
  const path = values.map((value, k) => `${k ? `H${x(k).toFixed(2)}V` : `M${x(k).toFixed(2)} `}${y(value).toFixed(2)}`).join("");
  return (
    <>
      <svg class="sketch" viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label={`${t("credit.over-time")}: ${credits(values[0]!)} – ${credits(tenant.balance_milli)}`}>
        <line class="zero" x1="0" x2="100" y1={y(0)} y2={y(0)} />
        <path class="line" d={path} />
      </svg>
      <p class="between soft"><span>{credits(values[0]!)}</span><span>{credits(low)} … {credits(high)}</span><span>{credits(tenant.balance_milli)}</span></p>
    </>
  );
}

function Causes({ tenant }: { tenant: CreditTenant }) {
  const sums = new Map<string, number>();
  for (const entry of tenant.entries ?? []) sums.set(entry.cause, (sums.get(entry.cause) ?? 0) + change(entry, tenant.tenant));
  const rows = [...sums].sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const most = Math.max(1, ...rows.map(([, value]) => Math.abs(value)));
  return (
    <table>
      <tbody>{rows.map(([name, value]) => <tr key={name}><th scope="row">{cause(name)}</th><td><Balance share={value / most} /></td><td class={`number${value < 0 ? " burning" : ""}`}>{credits(value)}</td></tr>)}</tbody>
    </table>
  );
}

function Book({ entries, name }: { entries: CreditEntry[]; name: string }) {
  return (
    <Wide>
      <table>
        <thead><tr><th scope="col">{t("credit.when")}</th><th scope="col">{t("credit.cause")}</th><th scope="col">{t("credit.payer")}</th><th scope="col">{t("credit.payee")}</th><th scope="col" class="number">{t("credit.amount")}</th><th scope="col">{t("credit.figures")}</th></tr></thead>
        <tbody>
          {entries.map((entry) => {
            const own = name ? change(entry, name) : entry.milli;
            return (
              <tr key={entry.number}>
                <td class="nowrap">{moment(entry.at_ms / 1000)}</td>
                <th scope="row">{cause(entry.cause)}</th>
                <td>{account(entry.payer)}</td>
                <td>{account(entry.payee)}</td>
                <td class={`number${own < 0 ? " burning" : ""}`}>{credits(own)}</td>
                <td class="soft figures-of">{Object.entries(entry.evidence).map(([key, value]) => figure(key, value)).join(", ")}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Wide>
  );
}
