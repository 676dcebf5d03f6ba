// Draws the report's pictures in the reader's colours, links their legends, sorts tables, copies the command.
(() => {
  "use strict";
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const plots = [...document.querySelectorAll("[data-figure]")];

  function axis(given) {
    const grid = colour("--tint"), line = colour("--line");
    const title = { standoff: 12, font: { size: 13, color: colour("--soft") }, ...(given || {}).title };
    return { gridcolor: grid, zerolinecolor: line, linecolor: line, tickcolor: line, automargin: true, ...given, title };
  }

  const isNarrow = plot => plot.clientWidth < 560;

  // Beside a narrow figure there is no room for a legend: it goes below, and the figure grows by its lines.
  function fitted(plot, data, layout) {
    const given = layout.height || 440, names = new Set(data.filter(t => t.showlegend !== false && t.visible !== false).map(t => t.name));
    const grown = isNarrow(plot) && layout.showlegend !== false && names.size > 1 ? 21 * Math.ceil(names.size / 2) : 0;
    plot.style.height = `${given + grown}px`;
    if (!isNarrow(plot)) return {};
    return { height: given + grown, legend: { ...layout.legend, orientation: "h", x: 0, xanchor: "left", y: -70 / given, yanchor: "top" }, margin: { l: 44, r: 8, t: 16, b: 56 + grown } };
  }

  function themed(layout) {
    const size = { family: getComputedStyle(document.documentElement).fontFamily, size: 13, color: colour("--ink") };
    const axes = Object.fromEntries(["xaxis", "yaxis"].map(name => [name, axis(layout[name])]));
    const shapes = (layout.shapes || []).map(each => each.name === "uncounted" ? { ...each, fillcolor: colour("--uncounted") } : each);
    const annotations = (layout.annotations || []).map(each => ({ ...each, font: { size: 12, color: colour("--soft"), ...each.font } }));
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest", autosize: true, ...layout,
      font: size, ...axes, shapes, annotations,
      margin: { l: 60, r: 20, t: 16, b: 56, ...layout.margin },
      legend: { font: { size: 12 }, itemwidth: 34, tracegroupgap: 0, ...layout.legend },
      hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: size },
    };
  }

  function inked(trace) {  // whiskers of horizontal bars in the colour of text, so that they stay visible on both grounds
    if (trace.type !== "bar" || !trace.error_x) return trace;
    return { ...trace, error_x: { ...trace.error_x, color: colour("--ink") } };
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
      Plotly.react(plot, data, themed({ ...figure.layout, ...fitted(plot, data, figure.layout) }), options);
      plot.wasNarrow = isNarrow(plot);
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
    addEventListener("resize", () => { if (plots.some(plot => plot.wasNarrow !== isNarrow(plot))) draw(); });
    for (const fold of document.querySelectorAll("details")) fold.addEventListener("toggle", () => fold.querySelectorAll("[data-figure]").forEach(plot => Plotly.Plots.resize(plot)));
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
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.tabIndex = 0;
      head.addEventListener("keydown", event => { if (event.key === "Enter") head.click(); });
      head.addEventListener("click", () => {
      const value = row => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const down = head.dataset.order === "up";
      for (const cell of table.tHead.rows[0].cells) { delete cell.dataset.order; cell.removeAttribute("aria-sort"); }
      head.dataset.order = down ? "down" : "up";
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort((a, b) => {
        const x = value(a), y = value(b), u = parseFloat(x), v = parseFloat(y);
        const order = Number.isNaN(u) || Number.isNaN(v) ? x.localeCompare(y) : u - v;
        return down ? -order : order;
      });
      body.append(...rows);
      });
    });
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.previousElementSibling.textContent);
      button.textContent = "copied";
    });
  }
})();
