// The charts, drawn by Chart.js. Every number is also in a table of the page.
(function () {
  "use strict";
  const GRACE = 0.04;
  const drawn = new Map();

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue("--" + name).trim();
    return {
      ink: colour("ink"),
      soft: colour("soft"),
      line: colour("line"),
      series: [colour("series-1"), colour("series-2"), colour("series-3"), colour("series-4"), colour("series-5")],
    };
  }

  // Draws now and again when the theme changes.
  function show(canvas, configure) {
    const old = drawn.get(canvas);
    if (old) old.chart.destroy();
    const palette = colours();
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    Chart.defaults.color = palette.soft;
    Chart.defaults.borderColor = palette.line;
    const config = configure(palette);
    config.options = {
      responsive: true,
      maintainAspectRatio: false,
      animation: false,
      ...config.options,
    };
    drawn.set(canvas, { chart: new Chart(canvas, config), configure });
  }

  document.addEventListener("themechange", () => {
    for (const [canvas, { configure }] of drawn) show(canvas, configure);
  });
  addEventListener("beforeprint", () => drawn.forEach(({ chart }) => chart.resize()));

  const whisker = (colour) => ({
    errorBarColor: colour,
    errorBarWhiskerColor: colour,
    errorBarLineWidth: 1.5,
    errorBarWhiskerLineWidth: 1.5,
    errorBarWhiskerSize: 8,
  });

  const cut = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);

  function tooltip(items, digits) {
    return {
      callbacks: {
        title: (found) => (found.length ? items[found[0].dataIndex].name : ""),
        label: (found) => {
          const { value, low, high } = items[found.dataIndex];
          const ends = low === null ? "" : "  (" + decabench.fixed(low, digits) + " to " + decabench.fixed(high, digits) + ")";
          return decabench.fixed(value, digits) + ends;
        },
      },
    };
  }

  // Totals with intervals, a line for each system.
  function whiskers(canvas, items, digits) {
    canvas.parentElement.style.height = 40 + 24 * items.length + "px";
    const length = canvas.parentElement.clientWidth < 500 ? 16 : 32;
    const [lows, highs] = [items.map((item) => item.low ?? item.value), items.map((item) => item.high ?? item.value)];
    const [lowest, highest] = [Math.min(...lows), Math.max(...highs)];
    const endsAtZero = lowest >= 0 && lowest < GRACE * (highest - lowest); // or the grace would show negative totals
    show(canvas, (palette) => {
      const colour = items.map((item) => (item.isFloor ? palette.soft : palette.series[0]));
      const data = items.map((item, index) => ({
        x: item.value,
        y: index,
        ...(item.low === null ? {} : { xMin: item.low, xMax: item.high }),
      }));
      return {
        type: "scatterWithErrorBars",
        data: {
          datasets: [
            { data, ...whisker(palette.series[0]), radius: 4, pointRadius: 4, backgroundColor: colour, borderColor: colour },
          ],
        },
        options: {
          plugins: { legend: { display: false }, tooltip: tooltip(items, digits) },
          scales: {
            x: { ...(endsAtZero ? { min: 0 } : {}), grace: 100 * GRACE + "%", grid: { color: palette.line } },
            y: {
              reverse: true,
              min: -0.6,
              max: items.length - 0.4,
              grid: { display: false },
              afterBuildTicks: (axis) => (axis.ticks = items.map((_, value) => ({ value }))),
              ticks: { autoSkip: false, color: palette.ink, callback: (index) => cut(items[index].name, length) },
            },
          },
        },
      };
    });
  }

  const marks = (label, values, colour, pointStyle) => ({
    type: "line",
    label,
    data: values,
    showLine: false,
    pointStyle,
    pointRadius: 9,
    pointHoverRadius: 10,
    pointBorderWidth: 2.5,
    pointBorderColor: colour,
    pointBackgroundColor: colour,
    order: 0,
  });

  const errorBar = (value, interval) =>
    value === null ? { y: NaN } : { y: value, ...(interval ? { yMin: interval[0], yMax: interval[1] } : {}) };

  // The scores of one submission against floor and ceiling.
  function profile(canvas, of) {
    show(canvas, (palette) => ({
      type: "barWithErrorBars",
      data: {
        labels: of.labels,
        datasets: [
          {
            label: "this submission",
            data: of.scores.map((score, index) => errorBar(score, of.intervals[index])),
            backgroundColor: palette.series[0] + "b3",
            ...whisker(palette.ink),
            maxBarThickness: 44,
            order: 1,
          },
          ...(of.floors.some((value) => value !== null) ? [marks("floor", of.floors, palette.series[1], "line")] : []),
          ...(of.ceilings.some((value) => value !== null)
            ? [marks("ceiling", of.ceilings, palette.series[2], "line")]
            : []),
        ],
      },
      options: {
        plugins: { legend: { position: "bottom", labels: { usePointStyle: true, boxHeight: 8 } } },
        scales: {
          x: { grid: { display: false }, ticks: { color: palette.ink } },
          y: { suggestedMin: 0, max: 100, grid: { color: palette.line } },
        },
      },
    }));
  }

  // The difference of two submissions on each task; a gain may be a lower score.
  function differences(canvas, labels, values, intervals, isGain) {
    show(canvas, (palette) => ({
      type: "barWithErrorBars",
      data: {
        labels,
        datasets: [
          {
            data: values.map((value, index) => errorBar(value, intervals[index])),
            backgroundColor: isGain.map((gain) => palette.series[gain ? 0 : 1] + "b3"),
            ...whisker(palette.ink),
            maxBarThickness: 44,
          },
        ],
      },
      options: {
        plugins: { legend: { display: false } },
        scales: {
          x: { grid: { display: false }, ticks: { color: palette.ink } },
          y: { grid: { color: palette.line } },
        },
      },
    }));
  }

  // Shares of examples by score, a series for each system.
  function distribution(canvas, labels, series) {
    show(canvas, (palette) => ({
      type: "bar",
      data: {
        labels,
        datasets: series.map((one, index) => ({
          label: cut(one.name, 40),
          data: one.shares,
          backgroundColor: palette.series[index % palette.series.length] + "cc",
        })),
      },
      options: {
        plugins: { legend: { position: "bottom", labels: { boxWidth: 12, boxHeight: 12 } } },
        scales: {
          x: { grid: { display: false }, title: { display: true, text: "score of an example" } },
          y: { beginAtZero: true, grid: { color: palette.line }, title: { display: true, text: "% of examples" } },
        },
      },
    }));
  }

  decabench.charts = { whiskers, profile, differences, distribution };
})();
