// The view "Moves": pods that are to be moved, are being moved or were moved, with the reason, the predicted effect and what became better. From PodMigrationJobs.
import { useAsked } from "./ask";
import type { Move, MoveEffect, MoveList } from "./answers";
import { count, moment, when } from "./format";
import { moveFocus } from "./keys";
import { Old } from "./old";
import { Empty, PodName } from "./parts";
import { param, set, to } from "./route";
import { t, type Word } from "./words";

const STATES = ["", "open", "succeeded", "failed", "helped", "not-helped"] as const;

export function Moves() {
  const chosen = param("move");
  const query = new URLSearchParams({ q: param("q"), state: param("state"), limit: "200" });
  const found = useAsked<MoveList>(`/api/moves?${query}`, 3, 150);
  const list = found.value;
  const counted = (state: (typeof STATES)[number]): string => (list ? ` ${count(state === "not-helped" ? list.counts.not_helped : list.counts[state || "all"])}` : "");
  if (list?.counts.all === 0 && !chosen) return <Empty text={t("moves.empty")} />;
  return (
    <div class={`pods${chosen ? " has-choice" : ""}`}>
      <section class="list" aria-label={t("moves")}>
        <div class="controls">
          <input type="search" class="search" value={param("q")} placeholder={t("search.moves")} aria-label={t("search.moves")} onInput={(event) => set({ q: event.currentTarget.value })} />
          <div class="chips" role="group" aria-label={t("state")}>
            {STATES.map((state) => <button type="button" key={state} aria-pressed={param("state") === state} onClick={() => set({ state })}>{t(`move.${state || "all"}` as Word)}{counted(state)}</button>)}
          </div>
        </div>
        <Old asked={found} />
        {found.error && !list && <p class="error" role="alert">{found.error}</p>}
        {!list && found.isLoading && <p class="soft">{t("loading")}</p>}
        
        {list !== null && list.counts.all > 0 && list.count === 0 && <p class="empty">{t("moves.none")}</p>}
        {list !== null && list.count > list.moves.length && <p class="soft">{t("pods.shown", { n: list.moves.length, all: count(list.count) })}</p>}
        <div class="rows" onKeyDown={moveFocus}>
          {list?.moves.map((move) => (
            <a key={move.name} class={`row${move.name === chosen ? " chosen" : ""}`} aria-current={move.name === chosen} href={to("moves", { q: param("q"), state: param("state"), move: move.name })}>
              <span class={`state s-${mark(move)}`} aria-hidden="true" />
              <span class="row-name">
                <PodName pod={move.pod} />
                <span class="soft">{move.node || "?"} → {move.to || "?"}{move.trigger && ` · ${move.trigger}`}</span>
              </span>
              <span class="row-figures">
                <span>{state(move)}</span>
                <span class="soft">{when(move.ended ?? move.created)}</span>
              </span>
            </a>
          ))}
        </div>
      </section>
      <section class="detail">{chosen ? <Detail name={chosen} key={chosen} /> : list !== null && list.count > 0 && <p class="empty">{t("moves.choose")}</p>}</section>
    </div>
  );
}

function mark(move: Move): string {
  if (move.outcome || move.helped === "False") return "late";
  return move.ended === null ? "wait" : "ok";
}

function state(move: Move): string {
  if (move.paused) return t("move.paused");
  if (move.phase === "Succeeded") return t(move.helped === "True" ? "move.helped" : move.helped === "False" ? "move.not-helped" : "move.succeeded");
  return t({ Pending: "move.planned", Running: "move.running", Failed: "move.failed", Aborted: "move.aborted" }[move.phase] as Word);
}

function Detail({ name }: { name: string }) {
  const asked = useAsked<Move>(`/api/moves/${encodeURIComponent(name)}`, 3);
  const move = asked.value;
  return (
    <article class="story" aria-label={name}>
      <p class="crumb"><a href={to("moves", { q: param("q"), state: param("state") })}>← {t("moves")}</a> · <span class="soft">{name}</span></p>
      {asked.error && <p class="error" role="alert">{asked.error}</p>}
      {!move && asked.isLoading && <p class="soft">{t("loading")}</p>}
      {move && (
        <>
          <h1>{move.pod}</h1>
          <p class={`headline${mark(move) === "ok" ? "" : " waits"}`} data-headline>
            {state(move)}: {move.node || "?"} → {move.to || "?"}
          </p>
          {move.outcome && <p class="error">{move.outcome}</p>}
          {move.wrong.map((each) => <p class="error" key={each}>{each}</p>)}
          <dl class="facts">
            <div><dt>{t("move.from")}</dt><dd>{move.node ? <a href={to("node", { name: move.node })}>{move.node}</a> : "–"}</dd></div>
            <div><dt>{t("move.to")}</dt><dd>{move.to ? <a href={to("node", { name: move.to })}>{move.to}</a> : t("move.open-target")}</dd></div>
            <div><dt>Pod</dt><dd><a href={to("pods", { pod: move.pod })}>{move.pod}</a></dd></div>
            {move.replacement && <div><dt>{t("move.replacement")}</dt><dd><a href={to("pods", { pod: move.replacement })}>{move.replacement}</a></dd></div>}
            <div><dt>{t("created")}</dt><dd>{moment(move.created)}</dd></div>
            {move.ended !== null && <div><dt>{t("move.ended")}</dt><dd>{moment(move.ended)}</dd></div>}
            <div><dt>{t("move.by")}</dt><dd>{move.created_by || t("move.by-someone")}</dd></div>
            <div><dt>{t("move.mode")}</dt><dd>{move.mode}</dd></div>
          </dl>
          <section>
            <h2>{t("move.why")}</h2>
            <p>{move.why || t("move.no-reason")} {move.trigger && <span class="soft">{move.trigger}</span>}</p>
            {move.alternatives.length > 0 && <p class="soft">{t("move.alternatives")}: {move.alternatives.join(", ")}</p>}
          </section>
          <section>
            <h2>{t("move.predicted")}</h2>
            {move.effects.length === 0 && <p class="soft">{t("move.no-prediction")}</p>}
            {move.effects.length > 0 && <p class="soft">{t("move.effect-help")}</p>}
            {move.effects.map((each) => <Effect key={each.resource} effect={each} move={move} />)}
          </section>
          <section>
            <h2>{t("move.better")}</h2>
            {move.helped ? (
              <p class={move.helped === "False" ? "burning" : ""}><b>{t(`move.verdict.${move.helped}` as Word)}</b> {move.figures}</p>
            ) : (
              <p class="soft">{t(move.phase === "Succeeded" && move.effects.length ? "move.not-judged" : "move.no-verdict")}</p>
            )}
          </section>
          {move.steps.length > 0 && (
            <section>
              <h2>{t("move.steps")}</h2>
              <ol class="steps">
                {[...move.steps].sort((a, b) => (a.at ?? 0) - (b.at ?? 0)).map((step) => (
                  <li key={step.type}>
                    <time>{step.at === null ? "–" : when(step.at)}</time>
                    <span><b>{step.type}</b> <span class={step.status === "True" ? "soft" : "burning"}>{step.status}</span> {step.reason} {step.message}</span>
                  </li>
                ))}
              </ol>
            </section>
          )}
        </>
      )}
    </article>
  );
}

/** Use before (hollow) and after (filled) on both nodes, on a scale of 0 to 100 %. */
function Effect({ effect, move }: { effect: MoveEffect; move: Move }) {
  return (
    <div class="effect">
      <h3>{effect.resource}{effect.resource === move.resource && <span class="burning"> {t("move.hot")}</span>}</h3>
      <Shift name={move.node || t("move.from")} before={effect.node_before} after={effect.node_after} />
      <Shift name={move.to || t("move.to")} before={effect.target_before} after={effect.target_after} />
    </div>
  );
}

function Shift({ name, before, after }: { name: string; before: number | null; after: number | null }) {
  const place = (value: number): number => Math.max(0, Math.min(100, value));
  const text = (value: number | null): string => (value === null ? "–" : `${value.toFixed(1)} %`);
  const known = before !== null && after !== null;
  const [low, high] = known ? [Math.min(place(before), place(after)), Math.max(place(before), place(after))] : [0, 0];
  return (
    <div class="shift">
      <span class="shift-name">{name}</span>
      <span class="shift-track" aria-hidden="true">
        {known && <i class={after <= before ? "less" : "more"} style={{ left: `${low}%`, width: `${high - low}%` }} />}
        {before !== null && <b class="before" style={{ left: `${place(before)}%` }} />}
        {after !== null && <b style={{ left: `${place(after)}%` }} />}
      </span>
      <span class="number">{text(before)} → {text(after)}</span>
    </div>
  );
}
