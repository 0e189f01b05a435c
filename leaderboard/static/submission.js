// Draws the chart of a submission, and shows its examples on request.
(function () {
  "use strict";
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

  // A link to a task shows its examples.
  const section = document.querySelector("[data-examples]");
  if (!section.querySelector("form")) return;
  const examples = decabench.browse(section, () => [{ answers: "answers/" + section.dataset.examples, name: "" }]);
  const recall = () => examples.recall()?.then(() => section.scrollIntoView());
  addEventListener("hashchange", recall);
  recall();
})();
