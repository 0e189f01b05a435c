// The distribution of the scores of single examples, for the systems that the reader chooses.
(function () {
  "use strict";
  const { load, element, charts } = decabench;
  const sections = [...document.querySelectorAll("[data-task-board]")];
  if (!sections.length) return;

  function show(section, found) {
    if (!found || !found.systems.length) return;
    const { labels, systems } = found;
    const chart = section.querySelector("[data-distribution]");
    const select = chart.querySelector("select");
    systems.forEach((system, index) => {
      const option = element("option", system.name);
      option.value = index;
      option.selected = index < 2;
      select.append(option);
    });
    const draw = () => {
      const chosen = [...select.selectedOptions].slice(0, 5).map((option) => systems[option.value]);
      const series = chosen.map((one, index) => {
        const scored = one.n - one.unscored || 1;
        return { name: one.name, values: one.bins.map((bin) => (100 * bin) / scored), colour: charts.COLOURS[index] };
      });
      const words = "Share of the examples by their score, in percent.";
      if (series.length) charts.bars(chart.querySelector("figure"), "distribution", words, labels, series, { unit: " %" });
    };
    chart.hidden = false;
    select.addEventListener("change", draw);
    draw();
  }

  load("tasks/" + document.querySelector("[data-task-data]").dataset.taskData).then(
    (data) => sections.forEach((section) => show(section, data[section.dataset.taskBoard])),
    () => {}, // the ranking is there without the chart
  );
})();
