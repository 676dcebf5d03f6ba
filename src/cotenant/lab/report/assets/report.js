// Draws the report's pictures in the reader's colours, links their legends, sorts tables, copies the command.
(() => {
  "use strict";
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const plots = [...document.querySelectorAll("[data-figure]")];

  function axis(given) {
    const grid = colour("--grid"), line = colour("--line");
    const title = { standoff: 12, font: { size: 13, color: colour("--soft") }, ...(given || {}).title };
    return { gridcolor: grid, zerolinecolor: line, linecolor: line, tickcolor: line, automargin: true, ...given, title };
  }

  function themed(layout) {
    const size = { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("--text") };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest", autosize: true, ...layout,
      font: size, xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis),
      margin: { l: 60, r: 20, t: 16, b: 56, ...layout.margin },
      legend: { font: { size: 12 }, itemwidth: 34, tracegroupgap: 0, ...layout.legend },
      hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: size },
    };
  }

  function inked(trace) {  // whiskers of horizontal bars in the colour of text, so that they stay visible on both grounds
    if (trace.type !== "bar" || !trace.error_x) return trace;
    return { ...trace, error_x: { ...trace.error_x, color: colour("--text") } };
  }

  const options = { responsive: true, displayModeBar: false };

  function switchEverywhere(name, alone) {
    for (const plot of plots) {
      if (!plot.data) continue;
      const lines = plot.data.map((trace, i) => [trace, i]).filter(([trace]) => report.colours[trace.name] && trace.showlegend !== false);
      if (!lines.length) continue;
      const only = alone && lines.some(([trace]) => trace.name !== name && (trace.visible ?? true) === true);
      const visible = lines.map(([trace]) => {
        if (alone) return trace.name === name || !only ? true : "legendonly";
        const now = trace.visible ?? true;
        return trace.name === name ? (now === true ? "legendonly" : true) : now;
      });
      Plotly.restyle(plot, { visible }, lines.map(([, i]) => i));
    }
  }

  function draw() {
    for (const plot of plots) {
      const figure = report.figures[plot.dataset.figure];
      const data = figure.data.map(inked);
      if (plot.data) data.forEach((trace, i) => { trace.visible = plot.data[i].visible; });
      Plotly.react(plot, data, themed(figure.layout), options);
      if (plot.linked || figure.choices.length) continue;
      plot.linked = true;
      plot.on("plotly_legendclick", event => {
        const name = event.data[event.curveNumber].name;
        if (!report.colours[name]) return true;
        switchEverywhere(name, false);
        return false;
      });
      plot.on("plotly_legenddoubleclick", event => {
        const name = event.data[event.curveNumber].name;
        if (!report.colours[name]) return true;
        switchEverywhere(name, true);
        return false;
      });
    }
  }

  if (window.Plotly) {
    draw();
    dark.addEventListener("change", draw);
  }

  for (const choice of document.querySelectorAll("select[data-for]")) {
    choice.addEventListener("change", () => {
      const plot = plots.find(each => each.dataset.figure === choice.dataset.for);
      Plotly.restyle(plot, { visible: plot.data.map(trace => trace.meta === choice.value) });
    });
  }

  for (const dot of document.querySelectorAll("[data-policy]")) dot.style.background = report.colours[dot.dataset.policy];

  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => head.addEventListener("click", () => {
      const value = row => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const down = head.dataset.order === "up";
      for (const cell of table.tHead.rows[0].cells) delete cell.dataset.order;
      head.dataset.order = down ? "down" : "up";
      const rows = [...body.rows].sort((a, b) => {
        const x = value(a), y = value(b), u = parseFloat(x), v = parseFloat(y);
        const order = Number.isNaN(u) || Number.isNaN(v) ? x.localeCompare(y) : u - v;
        return down ? -order : order;
      });
      body.append(...rows);
    }));
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.previousElementSibling.textContent);
      button.textContent = "copied";
    });
  }
})();
