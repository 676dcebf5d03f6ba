// What was suggested and done: to sizes, by moves and by recovery, with who allowed it and what came of it.
import { bytes, cores, moment, percent } from "../format";
import { Rich, Wide } from "../parts";
import type { LendingPool } from "../answers";
import { to } from "../route";
import { named, t } from "../words";
import type { AutonomyPage, MoveReceipt, Sizing } from "./answers";
import { Ask, type Sender } from "./asking";
import { called, say } from "./words";

export function Sizes({ sizings, sender }: { sizings: Sizing[]; sender: Sender | null }) {
  return (
    <section data-kind="sizes">
      <h2>{say("sizes")}</h2>
      {!sizings.length && <p class="soft">{say("sizes.none")}</p>}
      {sizings.map((each) => <SizingOf key={each.sizing} sizing={each} sender={sender} />)}
    </section>
  );
}

function SizingOf({ sizing, sender }: { sizing: Sizing; sender: Sender | null }) {
  return (
    <article data-sizing={sizing.sizing}>
      <h3>{sizing.sizing} <span class="soft">{sizing.workload} · {sizing.mode} · {sizing.state}</span></h3>
      {sizing.message && <p>{sizing.message}</p>}
      {sizing.wrong.map((line) => <p class="error" key={line}>{line}</p>)}
      {sizing.suggested && (
        <>
          <p>{say("sizes.suggested")}: <b>{sizing.suggested}</b>{sizing.approve && <> <Ask sender={sender} verb="approve" of="sizes" name={sizing.sizing} id={sizing.approve} command={`${sizing.sizing} ${sizing.approve}`} /></>}</p>
          {sizing.why.length > 0 && <ul class="soft">{sizing.why.map((line) => <li key={line}>{line}</li>)}</ul>}
        </>
      )}
      {sizing.applied && <p>{say("sizes.applied")}: <b>{sizing.applied}</b>{sizing.undo && <> <Ask sender={sender} verb="undo" of="sizes" name={sizing.sizing} id={sizing.undo} command={`${sizing.sizing} ${sizing.undo}`} /></>}</p>}
      {sizing.receipts.length > 0 && (
        <Wide><table>
          <thead><tr><th scope="col">{say("at")}</th><th scope="col">{say("outcome")}</th><th scope="col">{say("change")}</th><th scope="col">{say("because")}</th><th scope="col">{say("allowed-by")}</th></tr></thead>
          <tbody>
            {sizing.receipts.map((each) => (
              <tr key={each.id + each.at}>
                <th scope="row">{moment(Date.parse(each.at) / 1000)}</th>
                <td class={each.outcome === "done" ? "" : "burning"}>{called("outcome", each.outcome)}</td>
                <td>{each.change}</td>
                <td>{each.why} <span class="soft">{say("pods", { n: each.pods })}</span></td>
                <td>{each.allowed_by || "–"}</td>
              </tr>
            ))}
          </tbody>
        </table></Wide>
      )}
    </article>
  );
}

export function MoveReceipts({ moves, sender }: { moves: MoveReceipt[]; sender: Sender | null }) {
  return (
    <section data-kind="moves">
      <h2>{t("moves")}</h2>
      <p class="soft">{say(moves.length ? "no-undo" : "moves.none")}</p>
      {moves.length > 0 && (
        <Wide><table>
          <thead><tr><th scope="col">{say("move")}</th><th scope="col">{say("state")}</th><th scope="col">{say("route")}</th><th scope="col">{say("because")}</th><th scope="col">{say("result")}</th><th scope="col">{say("allowed-by")}</th></tr></thead>
          <tbody>
            {moves.map((each) => (
              <tr key={each.move} data-move={each.move}>
                <th scope="row"><a href={to("moves", { move: each.move })}>{each.pod}</a> <span class="soft">{moment(each.at)}</span></th>
                <td class={each.state === "failed" || each.state === "did not help" ? "burning" : ""}>{called("state", each.state)}</td>
                <td>{each.before || "?"} → {each.after || "?"}</td>
                <td>{each.why}</td>
                <td>{each.result || "–"}</td>
                <td>{each.waits ? <Ask sender={sender} verb="approve" of="moves" name={each.move} id="" command={each.move} /> : each.allowed_by || "–"}</td>
              </tr>
            ))}
          </tbody>
        </table></Wide>
      )}
    </section>
  );
}

export function Pools({ pools, sender }: { pools: LendingPool[]; sender: Sender | null }) {
  return (
    <section data-kind="lending">
      <h2>{t("lending")}</h2>
      {!pools.length && <p class="soft"><Rich text={t("lending.empty")} /></p>}
      {pools.map((pool) => <Pool key={pool.pool} pool={pool} sender={sender} />)}
    </section>
  );
}

function Pool({ pool, sender }: { pool: LendingPool; sender: Sender | null }) {
  const stands = pool.suggestion;
  return (
    <article data-pool={pool.pool}>
      <h3>{pool.pool} <span class="soft">{pool.state} · {pool.mode} · {pool.rung}</span></h3>
      {pool.message && <p>{pool.message}</p>}
      {pool.wrong.map((line) => <p class="error" key={line}>{line}</p>)}
      {stands && <p>{t("lending.offers", { cpu: cores(stands.cpu_m), memory: bytes(stands.memory_mib * 1048576), n: stands.nodes })} <span class="soft">{stands.rules}</span></p>}
      <p class="soft">{t("lending.earned", { rung: pool.earned, hits: pool.hits, trials: pool.trials, low: percent(pool.low, 1) })}</p>
      {pool.approve && <p><Ask sender={sender} verb="approve" of="lending" name={pool.pool} id={pool.approve} command={`${pool.pool} --lending`} /></p>}
      {pool.may_undo && <p><Ask sender={sender} verb="undo" of="lending" name={pool.pool} id="" command={`${pool.pool} --lending`} /></p>}
      {pool.days.length > 0 && (
        <Wide><table>
          <thead><tr><th scope="col">{t("lending.day")}</th><th scope="col">{say("outcome")}</th><th scope="col" class="number">{t("cpu")}</th><th scope="col" class="number">{t("memory")}</th><th scope="col">{say("because")}</th><th scope="col">{say("allowed-by")}</th></tr></thead>
          <tbody>
            {pool.days.map((day) => (
              <tr key={day.day}>
                <th scope="row">{day.day}</th>
                <td class={day.outcome === "held" ? "" : "burning"}>{named("lending.outcome", day.outcome)}{!day.is_lent && <span class="soft"> · {t("lending.only")}</span>}</td>
                <td class="number">{cores(day.cpu_m)}</td>
                <td class="number">{bytes(day.memory_bytes)}</td>
                <td>{day.why}</td>
                <td>{day.allowed_by || "–"}</td>
              </tr>
            ))}
          </tbody>
        </table></Wide>
      )}
    </article>
  );
}

export function Recovery({ page }: { page: AutonomyPage }) {
  return (
    <section data-kind="recovery">
      <h2>{called("action", "recovery")}</h2>
      <p class="soft">{say("recovery.note")}</p>
      {!page.recovery.length && <p class="soft">{page.recovery_problem || say("recovery.none")}</p>}
      {page.recovery.length > 0 && (
        <Wide><table>
          <thead><tr><th scope="col">{say("at")}</th><th scope="col">{say("recovery.act")}</th><th scope="col">{say("recovery.culprit")}</th><th scope="col">{say("recovery.victim")}</th><th scope="col">{say("recovery.helped")}</th></tr></thead>
          <tbody>
            {page.recovery.map((each) => (
              <tr key={`${each.at} ${each.node} ${each.culprit}`}>
                <th scope="row">{moment(each.at)}</th>
                <td>{each.rung} <span class="soft">{each.node}</span></td>
                <td>{each.culprit}</td>
                <td><a href={to("pods", { pod: each.victim })}>{each.victim}</a></td>
                <td>{say(each.helped === null ? "recovery.open" : each.helped ? "recovery.yes" : "recovery.no")}</td>
              </tr>
            ))}
          </tbody>
        </table></Wide>
      )}
    </section>
  );
}
