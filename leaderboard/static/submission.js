// The chart of a submission, and its examples on request.
(function () {
  "use strict";
  const { state } = decabench;

  const figure = document.querySelector("[data-profile]");
  const profile = JSON.parse(figure.dataset.profile);
  if (profile.scores.some((score) => score !== null)) {
    const [blue, orange, green] = decabench.charts.COLOURS;
    const marks = [["floor", profile.floors, orange], ["ceiling", profile.ceilings, green]].filter(([, values]) => values.some((value) => value !== null));
    const series = [
      { name: "this submission", values: profile.scores, intervals: profile.intervals, colour: blue },
      ...marks.map(([name, values, colour]) => ({ name, values, colour, isLine: true })),
    ];
    decabench.charts.bars(figure, "scores", figure.querySelector("figcaption").textContent, profile.labels, series, { fixed: [0, 100] });
  }

  const section = document.querySelector("[data-examples]");
  const form = section.querySelector("form");
  if (!form) return;
  const examples = decabench.browse(section, () => [{ page: section.dataset.examples, name: "" }]);

  // A link to a task shows its examples.
  function recall() {
    const task = state.read().get("task");
    if (![...form.task.options].some((option) => option.value === task)) return;
    form.task.value = task;
    examples.show();
    section.scrollIntoView();
  }
  addEventListener("hashchange", recall);
  recall();
})();
