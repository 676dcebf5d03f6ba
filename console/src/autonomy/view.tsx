// The view "Autonomy": what the movers may do, what they suggest and did, with buttons that approve, undo and freeze. From /api/autonomy. Its file is loaded when it is opened.
import { useState } from "preact/hooks";
import { useAsked } from "../ask";
import { percent } from "../format";
import { Old } from "../old";
import { Rich } from "../parts";
import { t } from "../words";
import type { AutonomyPage } from "./answers";
import { useSender } from "./asking";
import { Now, Rules } from "./now";
import { MoveReceipts, Pools, Recovery, Sizes } from "./receipts";
import { called, say } from "./words";

export function Autonomy() {
  const [turn, next] = useState(0);
  const asked = useAsked<AutonomyPage>(`/api/autonomy?turn=${turn}`, 3);
  const sending = useSender(() => next((before) => before + 1));
  const page = asked.value;
  if (asked.error && !page) return <p class="error" role="alert">{asked.error}</p>;
  if (!page) return <p class="empty">{t("loading")}</p>;
  const sender = page.may_change ? sending : null;
  return (
    <section class="detail story acting" aria-label={t("autonomy")}>
      <Old asked={asked} />
      {!page.may_change && <p class="note"><Rich text={say("off")} /></p>}
      {sending.told}
      <Now page={page} sender={sender} />
      <Rules page={page} />
      {page.earned.length > 0 && (
        <section>
          <h2>{say("earned")}</h2>
          <ul>{page.earned.map((each) => <li key={each.action + each.where}>{say("earned.held", { ...each, action: called("action", each.action), rung: called("rung", each.rung), low: percent(each.low, 1) })}</li>)}</ul>
        </section>
      )}
      <Sizes sizings={page.sizes} sender={sender} />
      <MoveReceipts moves={page.moves} sender={sender} />
      <Pools pools={page.pools} sender={sender} />
      <Recovery page={page} />
    </section>
  );
}
