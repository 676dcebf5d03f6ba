// The last lines of a container or pod, as its host's agent keeps them; beside a line the trace that it belongs to.
import { useEffect, useRef, useState } from "preact/hooks";
import { useAsked } from "../ask";
import { clock, count } from "../format";
import { Old } from "../old";
import { param, set, to } from "../route";
import { t } from "../words";
import type { LogPage } from "./answers";

const EVERY_S = 2;
const TAILS = ["100", "200", "1000"];

/** `name`: a container's guid, or a pod as NAMESPACE/NAME. */
export function Logs({ name }: { name: string }) {
  const [tail, setTail] = useState("200");
  const grep = param("grep");
  const path = name.split("/").map(encodeURIComponent).join("/");
  const asked = useAsked<LogPage>(`/api/logs/${path}?${new URLSearchParams({ grep, tail })}`, EVERY_S, grep ? 300 : 0);
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const page = asked.value;
  useEffect(() => {
    if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [page]);
  const follow = (): void => {
    const at = box.current;
    if (at) isAtEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < 24;
  };
  return (
    <section aria-label={t("logs")}>
      <div class="controls">
        <input type="search" class="search" value={grep} placeholder={t("logs.grep")} aria-label={t("logs.grep")} onInput={(event) => set({ grep: event.currentTarget.value })} />
        <label>{t("logs.last")} <select value={tail} onChange={(event) => setTail(event.currentTarget.value)}>{TAILS.map((n) => <option key={n}>{n}</option>)}</select></label>
      </div>
      <Old asked={asked} />
      {asked.error && !page && <p class="error" role="alert">{asked.error}</p>}
      {!page && !asked.error && <p class="soft">{t("loading")}</p>}
      {page && page.missed > 0 && <p class="soft">{t("logs.missed", { n: count(page.missed) })}</p>}
      {page && page.lost > 0 && <p class="soft">{t("logs.lost", { n: count(page.lost) })}</p>}
      {page?.lines.length === 0 && <p class="soft">{t(grep ? "logs.no-match" : "logs.none")}</p>}
      {page && page.lines.length > 0 && (
        <div class="log" ref={box} onScroll={follow} tabIndex={0} role="log" aria-live="off">
          {page.lines.map((line, k) => (
            <div key={k} class={line.stream === "stderr" ? "stderr" : ""}>
              <time>{clock(line.atMs / 1000)}</time>
              <span>{line.text}{line.cut > 0 && <i class="soft"> {t("logs.cut", { n: count(line.cut) })}</i>}</span>
              {line.trace && <a href={to("services", { trace: line.trace })} title={line.trace}>{t("logs.trace")}</a>}
            </div>
          ))}
        </div>
      )}
    </section>
  );
}
