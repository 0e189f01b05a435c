// The distribution of the scores of single examples, for the systems that the reader chooses.
(function () {
  "use strict";
  const { load, element } = decabench;
  const sections = [...document.querySelectorAll("[data-task-board]")];
  if (!sections.length) return;

  function series(system) {
    const scored = system.n - system.unscored || 1;
    return { name: system.name, shares: system.bins.map((bin) => (100 * bin) / scored), unscored: system.unscored };
  }

  function table(target, labels, chosen) {
    const head = element("thead");
    const titles = element("tr");
    titles.append(element("th", "Score"), ...chosen.map((one) => element("th", one.name, "num")));
    titles.querySelectorAll("th").forEach((cell) => (cell.scope = "col"));
    head.append(titles);
    const body = element("tbody");
    labels.forEach((label, bin) => {
      const row = element("tr");
      const name = element("th", label);
      name.scope = "row";
      row.append(name, ...chosen.map((one) => element("td", one.shares[bin].toFixed(1) + " %", "num")));
      body.append(row);
    });
    target.replaceChildren(head, body);
  }

  function show(section, found) {
    if (!found || !found.systems.length) return;
    const { labels, systems } = found;
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
      decabench.charts.distribution(figure.querySelector("canvas"), labels, chosen);
      table(figure.querySelector("[data-distribution-table]"), labels, chosen);
    };
    figure.hidden = false;
    select.addEventListener("change", draw);
    draw();
  }

  load("tasks/" + document.querySelector("[data-task-data]").dataset.taskData).then(
    (data) => sections.forEach((section) => show(section, data[section.dataset.taskBoard])),
    () => {}, // the ranking is there without the chart
  );
})();
