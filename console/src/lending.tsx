// The view "Lending": how far the manager may lend on each pool of nodes, what it offers there, and how its days were judged. From PoolLendings.
import type { LendingPool } from "./answers";
import { useAsked } from "./ask";
import { bytes, cores, percent } from "./format";
import { Old } from "./old";
import { Empty, Wide } from "./parts";
import { named, t } from "./words";

export function Lending() {
  const asked = useAsked<LendingPool[]>("/api/lending", 5);
  if (asked.error && !asked.value) return <p class="error" role="alert">{asked.error}</p>;
  if (!asked.value) return <p class="empty">{t("loading")}</p>;
  if (!asked.value.length) return <Empty text={t("lending.empty")} />;
  return (
    <section class="detail" aria-label={t("lending")}>
      <Old asked={asked} />
      {asked.value.map((pool) => <Pool key={pool.pool} pool={pool} />)}
    </section>
  );
}

function Pool({ pool }: { pool: LendingPool }) {
  const stands = pool.suggestion;
  const waits = stands !== null && pool.rung !== "suggest" && (pool.state === "suggested" || pool.state === "stopped");
  return (
    <section data-pool={pool.pool}>
      <h2>{pool.pool} <span class="soft">{pool.state} · {pool.mode} · {pool.rung}</span></h2>
      {pool.message && <p>{pool.message}</p>}
      {pool.wrong.map((line) => <p class="error" key={line}>{line}</p>)}
      {stands && <p>{t("lending.offers", { cpu: cores(stands.cpu_m), memory: bytes(stands.memory_mib * 1048576), n: stands.nodes })} <span class="soft">{stands.rules}</span></p>}
      <p class="soft">{t("lending.earned", { rung: pool.earned, hits: pool.hits, trials: pool.trials, low: percent(pool.low, 1) })}</p>
      {(waits || pool.state === "lent") && <p><code>cotenant receipts {waits ? "approve" : "undo"} {pool.pool} --lending</code></p>}
      {pool.days.length > 0 && (
        <Wide><table>
          <thead><tr><th scope="col">{t("lending.day")}</th><th scope="col">{t("lending.outcome")}</th><th scope="col" class="number">{t("cpu")}</th><th scope="col" class="number">{t("memory")}</th><th scope="col">{t("credit.figures")}</th></tr></thead>
          <tbody>
            {pool.days.map((day) => (
              <tr key={day.day}>
                <th scope="row">{day.day}</th>
                <td class={day.outcome === "held" ? "" : "burning"}>{named("lending.outcome", day.outcome)}{!day.is_lent && <span class="soft"> · {t("lending.only")}</span>}</td>
                <td class="number">{cores(day.cpu_m)}</td>
                <td class="number">{bytes(day.memory_bytes)}</td>
                <td>{day.why}{day.allowed_by && <span class="soft"> · {day.allowed_by}</span>}</td>
              </tr>
            ))}
          </tbody>
        </table></Wide>
      )}
    </section>
  );
}
