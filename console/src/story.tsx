// One pod as a story: where it is and why, why it waits, what would help, and what-if with sliders. Every sentence is the scheduler's own.
import { useState } from "preact/hooks";
import { useAsked } from "./ask";
import type { Candidate, PodAnswer, PodRow, Waiting } from "./answers";
import { Gang } from "./gang";
import { age, bytes, cores, count, milliseconds, moment, when } from "./format";
import { fleet } from "./live";
import { Logs } from "./hosts/logs";
import { NUMA } from "./machines/layout";
import { Old } from "./old";
import { Terminal } from "./terminal/tab";
import { Wide } from "./parts";
import { param, set, to } from "./route";
import { Timeline } from "./timeline";
import { t, type Word } from "./words";

export function Story({ pod }: { pod: string }) {
  const path = pod.split("/").map(encodeURIComponent).join("/");
  const namespaced = /^[^/]+\/[^/]+$/.test(pod);
  const seen = useAsked<PodRow>(namespaced ? `/api/pods/${path}` : "", 3);
  const row = seen.value;
  const asked = useAsked<PodAnswer>(namespaced ? `/api/scheduler/pod/${path}` : "", 5);
  const answer = asked.value;
  const tab = param("tab");
  const tabs = ["logs", ...(row?.hasTerminal ? ["terminal"] : [])] as ("logs" | "terminal")[];
  const [namespace, name] = namespaced ? pod.split("/") : ["", pod];
  if (!namespaced)
    return <article class="story"><p class="crumb"><a href={to("pods")}>← {t("pods")}</a></p><p class="error" role="alert">{t("pod.name", { name: pod })}</p></article>;
  return (
    <article class="story" aria-label={pod}>
      <p class="crumb"><a href={to("pods", { q: param("q"), state: param("state") })}>← {t("pods")}</a> · <span class="soft">{namespace}</span></p>
      <h1>{name}</h1>
      {answer && <p class={`headline${answer.node ? "" : " waits"}`} data-headline>{answer.headline}</p>}
      <p class="chips">{tabs.map((part) => <button type="button" key={part} aria-expanded={tab === part} onClick={() => set({ tab: tab === part ? "" : part, grep: "" })}>{t(part)}</button>)}</p>
      {tab === "logs" && <Logs name={pod} />}
      {tab === "terminal" && row?.hasTerminal && <Terminal guid={pod} />}
      <Old asked={asked} />
      {asked.error && !answer && <p class="error" role="alert">{asked.error}</p>}
      {!answer && asked.isLoading && <p class="soft">{t("loading")}</p>}
      {seen.error && seen.status === 404 && <p class="soft">{t("pod.gone")}</p>}
      {row && <Facts row={row} />}
      {answer?.waiting && <Why waiting={answer.waiting} title="why.waits" onTry={(text) => set({ if: text })} />}
      {answer?.node && <Scores answer={answer} />}
      {answer && row && <WhatIf pod={path} row={row} answer={answer} />}
      {answer && answer.concerns.length > 0 && (
        <section>
          <h2>{t("concerns")}</h2>
          <ul class="concerns">
            {answer.concerns.map((each) => (
              <li key={`${each.kind} ${each.name}`} class={each.holds ? "holds" : ""}>
                <b>{each.kind} {each.name}</b> {each.words} {each.holds && <em>{t("holds")}</em>}
                {each.lines.map((line) => <div class="soft" key={line}>{line}</div>)}
              </li>
            ))}
          </ul>
        </section>
      )}
      {row?.gang && <Gang name={row.gang} />}
      {row && (row.objectiveMs !== null || row.latencyMs !== null) && <Timeline path={`pods/${path}`} isQuiet />}
      {answer && answer.preemptions.length > 0 && (
        <section>
          <h2>{t("preemptions")}</h2>
          <ul>{answer.preemptions.map((each) => <li key={each.at_s}>{when(each.at_s)} {each.rule} {each.words} {each.victims.join(", ")}</li>)}</ul>
        </section>
      )}
      {answer && answer.story.length > 0 && (
        <section>
          <h2>{t("story")}</h2>
          <ol class="steps">{answer.story.map(([at, words]) => <li key={`${at}${words}`}><time>{when(at)}</time><span>{words}</span></li>)}</ol>
        </section>
      )}
    </article>
  );
}

function Facts({ row }: { row: PodRow }) {
  const facts: [Word, preact.ComponentChildren][] = [
    ["node", row.node ? <a href={to("node", { name: row.node })}>{row.node}</a> : t("waits.for", { age: age(Date.now() / 1000 - row.created) })],
    ["tenant", row.tenant],
    ["requests", `${cores(row.cpu + row.lentCpu)} ${t("cpu")}${row.lentCpu ? ` (${t("lent")})` : ""}, ${bytes(row.memory)}`],
    ["used", row.usedCpu === null ? t("unmeasured") : `${cores(row.usedCpu)} ${t("cpu")}, ${bytes(row.usedMemory ?? 0)}`],
    ["priority", count(row.priority)],
    ["owner", row.owner || "–"],
    ["created", moment(row.created)],
    ["scheduler", row.scheduler],
  ];
  if (row.gang) facts.push(["gang", row.gang]);
  if (row.objectiveMs !== null) facts.push(["objective", milliseconds(row.objectiveMs)], ["latency", milliseconds(row.latencyMs)]);
  return (
    <dl class="facts">
      {facts.map(([word, value]) => (
        <div key={word}><dt>{t(word)}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}

function Why({ waiting, title, onTry }: { waiting: Waiting; title: Word; onTry?: (text: string) => void }) {
  const most = Math.max(1, ...waiting.rejections.map((each) => each.nodes));
  return (
    <section>
      <h2>{t(title)}</h2>
      <p>{waiting.because}</p>
      {waiting.rejections.length > 0 && (
        <>
          <h3>{t("rejected")}</h3>
          <ul class="bars">
            {waiting.rejections.map((each) => (
              <li key={each.filter + each.reason}>
                <span class="bar-text">{each.reason} <span class="soft">{each.filter}</span></span>
                <span class="bar-number">{t("nodes.n", { n: count(each.nodes) })}</span>
                <i style={{ width: `${(100 * each.nodes) / most}%` }} />
              </li>
            ))}
          </ul>
        </>
      )}
      {waiting.nearest.length > 0 && (
        <>
          <h3>{t("nearest")}</h3>
          <ul>{waiting.nearest.map((each) => <li key={each}>{each}</li>)}</ul>
        </>
      )}
      <h3>{t("helps")}</h3>
      {waiting.helps.length === 0 && <p class="soft">{t("helps.none")}</p>}
      <ul class="helps">
        {waiting.helps.map((each) => (
          <li key={each.words}>
            {each.words}
            {onTry && suggestion(each.words) && <button type="button" onClick={() => onTry(suggestion(each.words)!)}>{t("whatif")}</button>}
          </li>
        ))}
      </ul>
      {waiting.notes.map((each) => <p class="soft" key={each}>{each}</p>)}
      {waiting.preemption && <p><b>{t("preemption")}</b> {waiting.preemption.replace(/^preemption: /, "")}</p>}
      {waiting.retry && <p><b>{t("retry.when")}</b> {waiting.retry.words}</p>}
    </section>
  );
}

/** The what-if of a proposed request, such as "ask for 24 cpu instead of 64". */
function suggestion(words: string): string | null {
  const found = /^ask for (\S+) (cpu|memory) instead/.exec(words);
  return found ? `${found[2]}=${found[1]}` : null;
}

function readIf(text: string): Map<string, string> {
  return new Map(text.split(",").filter(Boolean).map((each) => each.split("=", 2) as [string, string]));
}

/** cpu=1500m, memory=1Gi as milli-CPU and MiB. */
function milli(text: string): number {
  return text.endsWith("m") ? Number(text.slice(0, -1)) : Number(text) * 1000;
}

function mib(text: string): number {
  const unit = { Ki: 1 / 1024, Mi: 1, Gi: 1024, Ti: 1048576 }[text.slice(-2)];
  return unit ? Number(text.slice(0, -2)) * unit : Number(text) / 1048576;
}

const SELECTOR = "selector.";

function WhatIf({ pod, row, answer }: { pod: string; row: PodRow; answer: PodAnswer }) {
  const text = param("if");
  const given = readIf(text);
  const asked = useAsked<PodAnswer>(text ? `/api/scheduler/pod/${pod}?if=${encodeURIComponent(text)}` : "", 0, 250);
  const change = (name: string, value: string): void => {
    const next = new Map(given);
    if (value) next.set(name, value);
    else next.delete(name);
    set({ if: [...next].map(([key, each]) => `${key}=${each}`).join(",") });
  };
  const ownCpu = row.cpu + row.lentCpu;
  const cpuName = row.lentCpu && !row.cpu ? (answer.requests.find(([name]) => name.endsWith("-cpu"))?.[0] ?? "cpu") : "cpu";
  const memoryName = answer.requests.find(([name]) => name.endsWith("-memory"))?.[0] ?? "memory";
  const cpu = given.has(cpuName) ? (cpuName === "cpu" ? milli(given.get(cpuName)!) : Number(given.get(cpuName))) : ownCpu;
  const memory = given.has(memoryName) ? mib(given.get(memoryName)!) : row.memory / 1048576;
  const priority = given.has("priority") ? Number(given.get("priority")) : row.priority;
  const [node, setNode] = useState(given.get("node") ?? "");
  const [selector, setSelector] = useState([...given].filter(([name]) => name.startsWith(SELECTOR)).map(([name, value]) => `${name.slice(SELECTOR.length)}=${value}`).join(", "));
  const changeSelector = (words: string): void => {
    const others = [...given].filter(([name]) => !name.startsWith(SELECTOR)).map(([name, value]) => `${name}=${value}`);
    const pairs = words.split(/[\s,]+/).filter(Boolean).map((pair) => SELECTOR + pair);
    set({ if: [...others, ...pairs].join(",") });
  };
  const labels = Object.entries(fleet.value?.labels ?? {}).filter(([key]) => key !== NUMA).map(([key, label]): [string, string[]] => [key, label.values.filter(Boolean)]);
  const steps = [1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1, 1.5, 2, 3, 4, 8];
  const nearest = (value: number, own: number): number => {
    const ratio = value / (own || 1);
    return steps.reduce((best, each, k) => (Math.abs(Math.log(each / (ratio || 1 / 16))) < Math.abs(Math.log(steps[best]! / (ratio || 1 / 16))) ? k : best), 0);
  };
  return (
    <section class="whatif">
      <h2>{t("whatif")} {text && <button type="button" onClick={() => { setNode(""); setSelector(""); set({ if: "" }); }}>{t("whatif.reset")}</button>}</h2>
      <p class="soft">{t("whatif.help")}</p>
      <div class="sliders">
        <Slider name={t("cpu")} shown={cores(cpu)} at={nearest(cpu, ownCpu)} last={steps.length - 1} onChange={(k) => change(cpuName, steps[k] === 1 ? "" : cpuName === "cpu" ? `${Math.max(1, Math.round(ownCpu * steps[k]!))}m` : String(Math.max(1, Math.round(ownCpu * steps[k]!))))} />
        <Slider name={t("memory")} shown={bytes(memory * 1048576)} at={nearest(memory, row.memory / 1048576)} last={steps.length - 1} onChange={(k) => change(memoryName, steps[k] === 1 ? "" : `${Math.max(1, Math.round((row.memory / 1048576) * steps[k]!))}Mi`)} />
        <label class="slider">
          <span>{t("priority")}</span>
          <input type="number" value={priority} step={1000} onChange={(event) => change("priority", Number(event.currentTarget.value) === row.priority ? "" : event.currentTarget.value)} />
        </label>
        <label class="slider">
          <span>{t("node")}</span>
          <input type="text" value={node} onInput={(event) => setNode(event.currentTarget.value)} onChange={(event) => change("node", event.currentTarget.value.trim())} />
        </label>
        <label class="slider">
          <span>{t("whatif.selector")}</span>
          <input type="text" value={selector} placeholder="disk=ssd, zone=-" title={t("whatif.selector-help")} onInput={(event) => setSelector(event.currentTarget.value)} onChange={(event) => changeSelector(event.currentTarget.value)} />
        </label>
        <label class="slider">
          <span>{t("whatif.label")}</span>
          <select
            value=""
            onChange={(event) => {
              const [key] = event.currentTarget.value.split("=");
              const kept = selector.split(/[\s,]+/).filter((pair) => pair && !pair.startsWith(`${key}=`));
              const words = [...kept, event.currentTarget.value].join(", ");
              event.currentTarget.value = "";
              setSelector(words);
              changeSelector(words);
            }}
          >
            <option value="">{t("whatif.label-choose")}</option>
            {labels.map(([key, values]) => <optgroup key={key} label={key}>{values.map((value) => <option key={value} value={`${key}=${value}`}>{value}</option>)}</optgroup>)}
          </select>
        </label>
      </div>
      {text && (
        <div class="answer" aria-live="polite" data-whatif>
          <h3>{t("whatif.answer")}</h3>
          {asked.error ? <p class="error">{asked.error}</p> : asked.value ? <p class="headline">{asked.value.headline}</p> : <p class="soft">{t("loading")}</p>}
          {asked.value && <AskedNode answer={asked.value as PodAnswer & { asked_about?: AskedAbout | null }} />}
          {asked.value?.waiting && asked.value.supposed && <Why waiting={asked.value.waiting} title="why.would" />}
        </div>
      )}
    </section>
  );
}

interface AskedAbout {
  node: string;
  refusals: { plugin: string; reason: string; missing: string }[];
  place: number;
  of: number;
}

function AskedNode({ answer }: { answer: { asked_about?: AskedAbout | null } }) {
  const about = answer.asked_about;
  if (!about) return null;
  return (
    <p>
      <b>{about.node}</b>{" "}
      {about.refusals.length ? about.refusals.map((each) => `${each.reason}${each.missing ? `: ${each.missing}` : ""}`).join("; ") : about.of ? `${about.place} / ${about.of}` : ""}
    </p>
  );
}

function Slider({ name, shown, at, last, onChange }: { name: string; shown: string; at: number; last: number; onChange: (k: number) => void }) {
  return (
    <label class="slider">
      <span>{name} <b>{shown}</b></span>
      <input type="range" min={0} max={last} value={at} aria-valuetext={shown} onInput={(event) => onChange(Number(event.currentTarget.value))} />
    </label>
  );
}

/** The score parts with which it was decided, where the scheduler still has them, and those of now. */
function Scores({ answer }: { answer: PodAnswer }) {
  const { record, candidates, node } = answer;
  const decided = record?.node ? record.candidates : [];
  if (!decided.length && !candidates.length) return null;
  return (
    <section>
      <h2>{t("scores")}</h2>
      <p class="soft">{t("scores.help")}</p>
      {decided.length > 0 && record && (
        <>
          <h3>{t("decided", { at: when(record.at_s), nodes: count(record.nodes), policy: record.policy })}</h3>
          <ScoreTable candidates={decided} chosen={node} />
        </>
      )}
      {candidates.length > 0 && (
        <>
          <h3>{t("scores.now")}</h3>
          <ScoreTable candidates={candidates} chosen={node} />
        </>
      )}
    </section>
  );
}

function ScoreTable({ candidates, chosen }: { candidates: Candidate[]; chosen: string }) {
  const names = [...new Set(candidates.flatMap((each) => each.parts.map((part) => part.name)))].filter((name) => candidates.some((each) => each.parts.some((part) => part.name === name && part.value !== 0)));
  const most = Math.max(1e-9, ...candidates.flatMap((each) => each.parts.map((part) => Math.abs(part.value))));
  return (
    <Wide>
      <table class="scores">
        <thead><tr><th scope="col">{t("node")}</th><th scope="col" class="number">{t("score")}</th>{names.map((name) => <th scope="col" key={name}>{name}</th>)}</tr></thead>
        <tbody>
          {candidates.map((each) => (
            <tr key={each.node} class={each.node === chosen ? "chosen" : ""}>
              <th scope="row"><a href={to("node", { name: each.node })}>{each.node}</a></th>
              <td class="number">{each.score.toFixed(2)}</td>
              {names.map((name) => {
                const value = each.parts.find((part) => part.name === name)?.value ?? 0;
                return (
                  <td key={name} class="nowrap">
                    <span class={`part ${value < 0 ? "minus" : "plus"}`} title={value.toFixed(3)}>
                      <i style={{ width: `${(50 * Math.abs(value)) / most}%` }} />
                    </span>
                    <span class="part-number">{value === 0 ? "0" : value.toFixed(2)}</span>
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}
