// How the scores of single examples are spread, for the systems that somebody chooses.
(function () {
  "use strict";
  const { load, element } = decabench;
  const LABELS = ["0–10", "10–20", "20–30", "30–40", "40–50", "50–60", "60–70", "70–80", "80–90", "90–100"];
  const sections = [...document.querySelectorAll("[data-task-board]")];
  if (!sections.length) return;

  function series(system) {
    const scored = system.n - system.unscored || 1;
    return { name: system.name, shares: system.bins.map((bin) => (100 * bin) / scored), unscored: system.unscored };
  }

  function table(target, chosen) {
    const head = element("thead");
    const titles = element("tr");
    titles.append(element("th", "Score"), ...chosen.map((one) => element("th", one.name, "num")));
    titles.querySelectorAll("th").forEach((cell) => (cell.scope = "col"));
    head.append(titles);
    const body = element("tbody");
    LABELS.forEach((label, bin) => {
      const row = element("tr");
      const name = element("th", label);
      name.scope = "row";
      row.append(name, ...chosen.map((one) => element("td", one.shares[bin].toFixed(1) + " %", "num")));
      body.append(row);
    });
    target.replaceChildren(head, body);
  }

  function show(section, systems) {
    if (!systems || !systems.length) return;
    const figure = section.querySelector("[data-distribution]");
    const select = figure.querySelector("select");
    systems.forEach((system, index) => {
      const option = element("option", system.name);
      option.value = index;
      option.selected = index < 2;
      select.append(option);
    });
    const draw = () => {
      const chosen = [...select.selectedOptions].slice(0, 5).map((option) => series(systems[option.value]));
      if (!chosen.length) return;
      decabench.charts.distribution(figure.querySelector("canvas"), LABELS, chosen);
      table(figure.querySelector("[data-distribution-table]"), chosen);
    };
    figure.hidden = false;
    select.addEventListener("change", draw);
    draw();
  }

  load("tasks/" + document.querySelector("[data-task-data]").dataset.taskData).then(
    (data) => sections.forEach((section) => show(section, data[section.dataset.taskBoard])),
    () => {}, // the ranking stands without the chart
  );
})();
