// A gang's state and its members, and the reservations of a node. From the scheduler's plugins.
import { useAsked } from "./ask";
import type { GangPage, Reservation } from "./answers";
import { moment } from "./format";
import { Wide } from "./parts";
import { to } from "./route";
import { t } from "./words";

const MOST = 60;

/** The gang of a pod: how many of how many have a node, what it waits for, and every member. */
export function Gang({ name }: { name: string }) {
  const path = name.split("/").map(encodeURIComponent).join("/");
  const page = useAsked<GangPage | null>(`/api/scheduler/gang-state/${path}`, 5).value;
  if (!page) return null;
  const whole = Math.max(1, page.members.length);
  return (
    <section data-gang>
      <h2>{t("gang")} {page.key} <span class="soft">{page.phase}</span></h2>
      <p class={page.why ? "burning" : ""}>{page.why || t(page.satisfied ? "gang.satisfied" : "gang.unsatisfied")}</p>
      {page.problems.map((each) => <p class="error" key={each}>{each}</p>)}
      <div class="meter">
        <div class="meter-head"><span>{t("gang.counts", { placed: page.placed, holding: page.holding, waiting: page.waiting })}</span><span>{page.spec && t("gang.minimum", { n: page.spec.minAvailable, mode: page.spec.mode })}</span></div>
        <div class="bar">
          <i class="asked" style={{ width: `${(100 * (page.placed + page.holding)) / whole}%` }} />
          <i class="used" style={{ width: `${(100 * page.placed) / whole}%` }} />
          {page.spec && <i class="minimum" style={{ left: `${Math.min(100, (100 * page.spec.minAvailable) / whole)}%` }} />}
        </div>
      </div>
      {page.standsBackFor && <p class="soft">{t("gang.stands-back", { gang: page.standsBackFor })}</p>}
      {page.needs.filter((each) => each !== page.key).length > 0 && <p class="soft">{t("gang.needs", { gangs: page.needs.filter((each) => each !== page.key).join(", ") })}</p>}
      <ul class="members">
        {page.members.slice(0, MOST).map((each) => (
          <li key={each.uid}>
            <span class={`state s-${each.node ? "ok" : "wait"}`} aria-hidden="true" /> <a href={to("pods", { pod: each.pod })}>{each.pod}</a> <span class="soft">{each.node ? <a href={to("node", { name: each.node })}>{each.node}</a> : each.state} {each.told}</span>
          </li>
        ))}
      </ul>
      {page.members.length > MOST && <p class="soft">{t("pods.shown", { n: MOST, all: page.members.length })}</p>}
    </section>
  );
}

/** Reservations that hold room on a node: for whom, how much is left, until when. */
export function Reservations({ node }: { node: string }) {
  const found = useAsked<Reservation[] | null>(`/api/scheduler/reservations/${encodeURIComponent(node)}`, 10).value;
  if (!found?.length) return null;
  const amounts = (of: Record<string, string>): string => Object.entries(of).map(([name, value]) => `${name} ${value}`).join(", ") || "–";
  return (
    <section>
      <h2>{t("reservations")}</h2>
      <Wide>
        <table>
          <thead><tr><th scope="col">{t("reservation")}</th><th scope="col">{t("reservation.reserved")}</th><th scope="col">{t("reservation.left")}</th><th scope="col">{t("reservation.owners")}</th><th scope="col">{t("knob.until")}</th></tr></thead>
          <tbody>
            {found.map((each) => (
              <tr key={each.uid}>
                <th scope="row">{each.name}<div class="soft">{each.phase}{each.allocateOnce && ` · ${t("reservation.once")}`}</div>{each.why && <div class="burning">{each.why}</div>}</th>
                <td>{amounts(each.reserved)}</td>
                <td>{amounts(each.left)}</td>
                <td>{each.owners.map((pod) => <div key={pod}><a href={to("pods", { pod })}>{pod}</a></div>)}{each.waiting.map((pod) => <div class="soft" key={pod}>{t("reservation.waits", { pod })}</div>)}</td>
                <td>{each.endsS === null ? t("reservation.never") : moment(each.endsS)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
    </section>
  );
}
