// Two submissions of one table, task by task and example by example.
(function () {
  "use strict";
  const { load, element, say, fixed, points, state } = decabench;
  const form = document.querySelector("[data-controls]");
  const result = document.querySelector("[data-result]");
  const side = document.querySelector("[data-side-controls]");
  const list = document.querySelector("[data-side-list]");
  const count = document.querySelector("[data-side-count]");
  let data;

  const signed = (value, digits) => (value > 0 ? "+" : value < 0 ? "−" : "") + fixed(Math.abs(value), digits);

  function find(page) {
    for (const table of data.tables) {
      const index = table.rows.findIndex((row) => row.page === page);
      if (index >= 0) return { table, index, row: table.rows[index] };
    }
    return null;
  }

  function fill(select, tables) {
    const suites = new Set(data.tables.map((table) => table.suite)).size;
    select.replaceChildren(
      ...tables.map((table) => {
        const group = element("optgroup");
        group.label = (suites > 1 ? table.suite + " · " : "") + table.split + " · " + table.heading + " · " + table.id.split("-").pop();
        group.append(
          ...table.rows.map((row) => {
            const option = element("option", row.name + (row.mark ? " (" + row.mark + ")" : ""));
            option.value = row.page;
            return option;
          }),
        );
        return group;
      }),
    );
  }

  // The second submission is from the table of the first: no other can be compared.
  function offerSecond(wanted) {
    const first = find(form.a.value);
    fill(form.b, [first.table]);
    const other = first.table.rows.find((row) => row.page !== form.a.value) || first.row;
    const isThere = first.table.rows.some((row) => row.page === wanted);
    form.b.value = isThere ? wanted : other.page;
  }

  // The test of a pair of rows: of the later minus the earlier one, so reversed if the first is the later.
  function test(tests, a, b) {
    if (!tests || a === b) return null;
    const [earlier, later] = a < b ? [a, b] : [b, a];
    const at = (later * (later - 1)) / 2 + earlier;
    if (tests.p[at] === null) return null;
    const { low, high, verdict } = { low: tests.low[at], high: tests.high[at], verdict: tests.verdict[at] };
    const ends = a < b ? [low, high] : [-high, -low];
    return {
      interval: low === null ? null : ends,
      p: tests.p[at],
      adjusted: tests.adjusted[at],
      verdict: a < b ? verdict : -verdict,
      isSame: tests.same[at],
    };
  }

  function differences(first, second) {
    return first.table.tasks.map((task, index) => {
      const [a, b] = [first.row.scores[index], second.row.scores[index]];
      const difference = a === null || b === null ? null : b - a;
      const found = difference === null ? null : test(first.table.tests.tasks[task.name], first.index, second.index);
      const units = found && first.row.units[index];
      return { ...task, a, b, difference, found, units, interval: found && found.interval };
    });
  }

  function total(first, second) {
    const { name, unit, higherIsBetter, digits } = first.table.total;
    const [a, b] = [first.row.total, second.row.total];
    const difference = a === null || b === null ? null : b - a;
    const found = difference === null ? null : test(first.table.tests.total, first.index, second.index);
    return { name, title: unit, higherIsBetter, digits, a, b, difference, found, interval: found && found.interval };
  }

  // The words follow the p that is adjusted for all pairs of the table, as the ranks do.
  function reading({ difference, found, higherIsBetter }) {
    if (difference === null) return "not both scored";
    if (!found) return "not tested";
    if (!found.verdict) return "no clear difference";
    return found.verdict > 0 === higherIsBetter ? "the second is clearly better" : "the first is clearly better";
  }

  const share = (p) => (p < 0.001 ? "< 0.001" : p.toFixed(3));

  function row(one, isTotal) {
    const made = element("tr", null, isTotal ? "sum" : "");
    const name = element("th", one.name);
    name.scope = "row";
    name.append(element("span", one.title + (one.higherIsBetter ? "" : " (lower is better)"), "aside"));
    if (one.units) name.append(element("span", one.units, "aside"));
    const isSame = one.found && one.found.isSame;
    const interval = one.interval ? one.interval.map((end) => signed(end, one.digits)).join(" to ") : isSame ? "nothing differs" : "–";
    made.append(
      name,
      element("td", points(one.a, one.digits), "num"),
      element("td", points(one.b, one.digits), "num"),
      element("td", one.difference === null ? "–" : signed(one.difference, one.digits), "num strong"),
      element("td", interval, "num"),
      element("td", one.found ? share(one.found.p) : "–", "num"),
      element("td", one.found ? share(one.found.adjusted) : "–", "num"),
      element("td", reading(one)),
    );
    return made;
  }

  function verdict(first, second, sum) {
    const [a, b] = [element("bdi", first.row.name), element("bdi", second.row.name)];
    const target = document.querySelector("[data-verdict]");
    if (!sum.name) target.replaceChildren(b, " against ", a, ": the suite has no total, so they are compared task by task.");
    else if (sum.difference === null) target.replaceChildren(b, " against ", a, ": one of them is not complete, so there is no total to compare.");
    else target.replaceChildren(b, " against ", a, ": " + signed(sum.difference, sum.digits) + (sum.digits === 1 ? " points, " : ", ") + reading(sum) + ".");
  }

  function show() {
    const [first, second] = [find(form.a.value), find(form.b.value)];
    const tasks = differences(first, second);
    const sum = total(first, second);
    result.hidden = false;
    verdict(first, second, sum);
    for (const [key, one] of [["a", first], ["b", second]]) {
      const link = element("a");
      link.href = "submissions/" + encodeURIComponent(one.row.page) + ".html";
      link.append(element("bdi", one.row.name));
      result.querySelector('[data-name="' + key + '"]').replaceChildren(link);
    }
    result.querySelector("[data-rows]").replaceChildren(...(sum.name ? [row(sum, true)] : []), ...tasks.map((task) => row(task, false)));
    draw(tasks.filter((task) => task.difference !== null));
    chooseTasks(first.table);
    clearExamples();
    state.write({ a: form.a.value, b: form.b.value });
    say(document.querySelector("[data-verdict]").textContent);
  }

  // Differences in points, or those of other scales where there are no points.
  function draw(scored) {
    const inPoints = scored.filter((task) => task.inPoints);
    const drawn = inPoints.length ? inPoints : scored;
    const figure = result.querySelector("[data-difference-chart]");
    figure.querySelector("[data-not-drawn]").hidden = drawn.length === scored.length;
    figure.hidden = !drawn.length;
    if (figure.hidden) return;
    decabench.charts.differences(
      figure.querySelector("canvas"),
      drawn.map((task) => task.name),
      drawn.map((task) => task.difference),
      drawn.map((task) => task.interval),
      drawn.map((task) => task.difference >= 0 === task.higherIsBetter),
    );
  }

  function chooseTasks(table) {
    const before = side.task.value;
    side.task.replaceChildren(...table.tasks.map((task) => element("option", task.name)));
    if (table.tasks.some((task) => task.name === before)) side.task.value = before;
  }

  function clearExamples() {
    list.replaceChildren();
    count.textContent = "Loaded on request, if the site has examples of both.";
  }

  function pair(a, b, digits) {
    const made = element("li");
    const head = element("p", null, "head");
    head.append(element("code", a.id));
    const body = element("dl", null, "example");
    const lines = [
      ["Question", a.question, ""],
      ["Context", a.context, "context"],
      ["Gold", a.golds.join(" · "), ""],
      ["First (" + points(a.score, digits) + ")", a.answer || "(empty)", "kind-" + a.kind],
      ["Second (" + points(b.score, digits) + ")", b.answer || "(empty)", "kind-" + b.kind],
    ];
    if (a.before) lines.splice(1, 0, ["Before", a.before.join("\n"), "context"]);
    if (a.before) lines.push(["Gold state", a.goldState, ""], ["First state", a.state, ""], ["Second state", b.state, ""]);
    for (const [name, text, className] of lines) {
      const line = element("div", null, className);
      line.append(element("dt", name), element("dd", text));
      body.append(line);
    }
    made.append(head, body);
    return made;
  }

  async function showExamples() {
    count.textContent = "Loading …";
    try {
      const [a, b] = await Promise.all([load("examples/" + form.a.value), load("examples/" + form.b.value)]);
      const task = side.task.value;
      const second = new Map(((b[task] || {}).examples || []).map((example) => [example.id, example]));
      const both = ((a[task] || {}).examples || []).filter((example) => second.has(example.id));
      const found = both.filter((example) => !side.differ.checked || example.answer !== second.get(example.id).answer);
      const { digits } = find(form.a.value).table.tasks.find((one) => one.name === task);
      list.replaceChildren(...found.map((example) => pair(example, second.get(example.id), digits)));
      count.textContent = both.length
        ? found.length + " of " + both.length + " sampled examples of " + task + " that the site has for both"
        : "The site has no examples of " + task + " for both. " + ((a[task] || b[task] || {}).why || "");
    } catch (problem) {
      count.textContent = "The examples could not be loaded: " + problem.message + ".";
    }
  }

  // A link may name submissions that have gone, were renamed, or stand apart.
  function tell(gone) {
    const place = document.querySelector("[data-missing]");
    place.hidden = !gone.length;
    place.textContent = gone.length
      ? "This link compares " + gone.join(" and ") + ", which cannot be compared here: withdrawn, renamed, or not among the ranked results. Another pair is shown."
      : "";
  }

  function recall() {
    const kept = state.read();
    const pages = data.tables.flatMap((table) => table.rows).map((row) => row.page);
    tell(["a", "b"].map((name) => kept.get(name)).filter((page) => page && !pages.includes(page)));
    if (pages.includes(kept.get("a"))) form.a.value = kept.get("a");
    offerSecond(kept.get("b"));
    show();
  }

  function start(value) {
    data = value;
    data.tables = data.tables.filter((table) => table.rows.length > 1);
    if (!data.tables.length) {
      form.before(element("p", "No two submissions have results on the same data yet."));
      return;
    }
    fill(form.a, data.tables);
    form.hidden = false;
    recall();
    form.addEventListener("change", (event) => {
      if (event.target === form.a) offerSecond(form.b.value);
      show();
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.querySelector("[data-swap]").addEventListener("click", () => {
      [form.a.value, form.b.value] = [form.b.value, form.a.value];
      show();
    });
    side.addEventListener("submit", (event) => {
      event.preventDefault();
      showExamples();
    });
    addEventListener("hashchange", recall);
  }

  load("compare").then(start, (problem) => {
    form.before(element("p", "The comparison could not be loaded: " + problem.message + "."));
  });
})();
