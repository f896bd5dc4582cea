// Draws the curves of a job larger, with values where the pointer is, and copies commands. The page is whole without it.
"use strict";
(() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const drawn = new Map();
  const clock = (time) => new Date(time * 1000).toISOString().slice(11, 16);
  const short = (value) => (value === 0 ? "0" : Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 }));

  const draw = (figure) => {
    const place = figure.querySelector(".curve-plot");
    const data = JSON.parse(figure.dataset.curve);
    const line = colour("--line");
    const quiet = colour("--quiet");
    const axis = { stroke: quiet, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    place.replaceChildren();
    const plot = new uPlot(
      {
        width: place.clientWidth,
        height: 120,
        legend: { show: false },
        cursor: { y: false, sync: { key: "job" } },
        tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "UTC"),
        axes: [
          { ...axis, size: 28, space: 80, values: (_, times) => times.map(clock) },
          { ...axis, size: 56, space: 32, values: (_, values) => values.map(short) },
        ],
        series: [{}, { stroke: colour("--running-fill"), width: 2, points: { show: false } }],
        hooks: {
          setCursor: [
            (self) => {
              const at = self.cursor.idx;
              const value = at === null || at === undefined ? data.y[data.y.length - 1] : data.y[at];
              figure.querySelector(".curve-value").textContent = Number(value.toPrecision(6)).toString();
            },
          ],
        },
      },
      [data.x, data.y],
      place,
    );
    figure.classList.add("drawn");
    drawn.set(figure, { plot, data: figure.dataset.curve });
  };

  const drawAll = () => {
    for (const [figure, { plot }] of drawn) {
      if (figure.isConnected) continue;
      plot.destroy();
      drawn.delete(figure);
    }
    for (const figure of document.querySelectorAll("figure[data-curve]")) {
      const known = drawn.get(figure);
      if (known && known.data === figure.dataset.curve && figure.querySelector(".uplot")) continue;
      if (known) known.plot.destroy();
      draw(figure);
    }
  };

  const again = () => {
    for (const { plot } of drawn.values()) plot.destroy();
    drawn.clear();
    drawAll();
  };

  let waits = 0;
  addEventListener("resize", () => {
    clearTimeout(waits);
    waits = setTimeout(again, 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  document.addEventListener("trainshed:changed", drawAll);
  document.addEventListener("click", (event) => {
    const code = event.target.closest("code[data-copy]");
    if (!code || !navigator.clipboard) return;
    navigator.clipboard.writeText(code.textContent).then(() => {
      code.dataset.copied = "";
      setTimeout(() => delete code.dataset.copied, 1500);
    });
  });
  for (const code of document.querySelectorAll("code[data-copy]")) code.title = "Click to copy";
  drawAll();
})();
