// The chart of a submission, and its examples on request.
(function () {
  "use strict";
  const { load, element, say, points } = decabench;

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

  const form = document.querySelector("[data-example-controls]");
  if (!form) return;
  const page = document.querySelector("[data-examples]").dataset.examples;
  const list = document.querySelector("[data-example-list]");
  const count = document.querySelector("[data-example-count]");
  let isOpen = false;

  function line(name, content, className) {
    const made = element("div", null, className);
    made.append(element("dt", name));
    const value = element("dd");
    value.append(content);
    made.append(value);
    return made;
  }

  function item(example, isSpan, digits) {
    const made = element("li", null, "kind-" + example.kind);
    const head = element("p", null, "head");
    head.append(element("span", example.kind, "kind"), " ", element("code", example.id));
    head.append(element("span", example.score === null ? "no score of its own" : "score " + points(example.score, digits), "score"));
    const body = element("dl", null, "example");
    const shown = isSpan && example.kind === "wrong" ? decabench.difference(example.answer, example.golds) : null;
    const { before, parted } = example;
    body.append(line("Question", example.question));
    if (before && before.length) body.append(line("Before", before.join("\n"), "context"));
    body.append(
      line("Context", example.context, "context"),
      line("Gold", shown ? shown.gold : example.golds.join(" · ")),
      line("Answer", shown ? shown.answer : example.answer || "(empty)", example.answer ? "" : "none"),
    );
    if (before) body.append(line("Gold state", example.goldState || "(empty)"), line("State", example.state || "(empty)"));
    if (parted) body.append(line("Parted", parted));
    made.append(head, body);
    return made;
  }

  async function show() {
    isOpen = true;
    count.textContent = "Loading …";
    try {
      const data = await load("examples/" + page);
      const task = form.task.value;
      const kind = form.kind.value;
      const found = data[task].examples.filter((example) => kind === "all" || example.kind === kind);
      const { span, digits } = form.task.selectedOptions[0].dataset;
      list.replaceChildren(...found.map((example) => item(example, span === "1", Number(digits))));
      const of = data[task].examples.length;
      count.textContent = found.length + " of " + of + " sampled examples of " + task + (kind === "all" ? "" : ", " + kind);
      say(count.textContent);
    } catch (error) {
      count.textContent = "The examples could not be loaded: " + error.message + ".";
    }
  }

  form.hidden = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    show();
  });
  form.addEventListener("change", () => isOpen && show());
})();
