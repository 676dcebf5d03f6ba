// Says that what is shown is an earlier answer, because the source is away now.
import type { Asked } from "./ask";
import { clock } from "./format";
import { t } from "./words";

export function Old({ asked }: { asked: Asked<unknown> }) {
  if (!asked.error || asked.value === null) return null;
  return <p class="note stale" role="status">{t("stale.since", { at: clock(asked.at), why: asked.error })}</p>;
}
