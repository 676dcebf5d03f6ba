// A figure of a static page, drawn by the components of the console.
import { useState } from "preact/hooks";
import type { Axis } from "../chart/axis";
import { Chart, type Line } from "../chart/chart";
import { Intervals } from "../chart/intervals";
import { named } from "./colours";
import type { ChartData, Drawing, IntervalsData } from "./data";
import { dashed, hidden, Legend } from "./legend";
import { Points } from "./marks";
import { TenantMap } from "./tenants";
import { Sheet, Zoomed } from "./zoom";

export function Figure({ drawing, label }: { drawing: Drawing; label: string }) {
  if (drawing.kind === "chart") return <Curves data={drawing} label={label} />;
  if (drawing.kind === "intervals") return <Readings data={drawing} />;
  return <TenantMap data={drawing} label={label} />;
}

function Curves({ data, label }: { data: ChartData; label: string }) {
  const [part, setPart] = useState<readonly [x: Axis, y: Axis] | null>(null);
  const visible = data.lines.filter((each) => !hidden.value.has(each.name));
  const lines = visible.map((each): Line => ({ ...each, colour: named(each.colour), dash: dashed(each), isFilled: each.is_filled, isPoints: each.is_points }));
  const listed = data.lines.filter((each) => each.is_listed).reverse(); // what is drawn last, above the others, is named first
  const [x, y] = part ?? [data.x, data.y];
  return (
    <div class={`with-names${listed.length > 5 ? " many" : ""}`}>
      <Zoomed isPart={part !== null} onWhole={() => setPart(null)}>
        <Chart
          label={label}
          lines={lines}
          x={x}
          y={y}
          height={data.height}
          isUnited={data.is_united}
          below={(frame) => data.spans.map(({ low, high, words }) => (
            <g key={words}><rect class="uncounted" x={frame.x(low)} width={Math.max(0, frame.x(high) - frame.x(low))} height={frame.height} /><text class="words" x={Math.max(0, frame.x(low)) + 6} y="14">{words}</text></g>
          ))}
          above={(frame) => (
            <>
              <Sheet frame={frame} x={x} y={y} onChoose={(...chosen) => setPart(chosen)} />
              {data.limits.map((at) => <line key={at} class="limit" x2={frame.width} y1={frame.y(at)} y2={frame.y(at)} />)}
              <Points lines={visible} frame={frame} />
            </>
          )}
        />
      </Zoomed>
      <Legend lines={listed} />
    </div>
  );
}

function Readings({ data }: { data: IntervalsData }) {
  const rows = data.rows.map((row) => ({ name: row.name, isOurs: row.is_ours, isPale: hidden.value.has(row.name), readings: row.readings.map((each) => ({ ...each, colour: named(each.colour) })) }));
  return (
    <>
      {data.series.length > 1 && <p class="series soft">{data.series.map(([name, colour]) => <span key={name}><i class="swatch" style={{ background: named(colour) }} /> {name}</span>)}</p>}
      <Intervals rows={rows} axis={data.axis} limit={data.limit} isTicked />
    </>
  );
}
