// Compares two to eight systems of one table: scores, differences from the first system, and tests.
(function () {
  "use strict";
  const { load, element, button, say, fixed, points, state, pairs, charts } = decabench;
  const MOST = 8;
  const NAMES = { floor: "baseline", ceiling: "ceiling", run: "single run" };
  const form = document.querySelector("[data-controls]");
  const result = document.querySelector("[data-result]");
  const side = document.querySelector("[data-examples]");
  const examples = decabench.browse(side, () => chosen.map((row) => ({ answers: "answers/" + (row.runs ? row.runs[0] : row.page), name: row.name + (row.runs ? " (first run)" : "") })));
  const boards = JSON.parse(form.dataset.boards); // [[file, title]]
  let tables = [];
  let chosen = []; // rows of one table; the first row is compared with each of the others
  let turn = 0;

  const signed = (value, digits) => (value > 0 ? "+" : value < 0 ? "−" : "") + fixed(Math.abs(value), digits);
  const share = (p) => (p < 0.001 ? "< 0.001" : p.toFixed(3));
  const tableOf = (row) => tables.find((table) => table.rows.includes(row));

  // Choosing

  function fill() {
    const table = chosen.length ? tableOf(chosen[0]) : null;
    const groups = tables.filter((one) => !table || one === table).map((one) => {
      const group = element("optgroup");
      group.label = one.title;
      group.append(...one.rows.filter((row) => !chosen.includes(row)).map((row) => {
        const option = element("option", row.name + (row.kind === "system" ? "" : " (" + NAMES[row.kind] + ")"));
        option.value = row.page;
        return option;
      }));
      return group;
    });
    form.add.replaceChildren(new Option(chosen.length < MOST ? "Add a system …" : "At most eight systems", ""), ...groups);
    form.add.disabled = chosen.length >= MOST;
    form.querySelector("[data-chosen]").replaceChildren(...chosen.map(chip));
  }

  function chip(row, index) {
    const made = element("li");
    const first = button(index ? "Make first" : "First", () => choose([row, ...chosen.filter((one) => one !== row)]));
    const drop = button("Remove", () => choose(chosen.filter((one) => one !== row)));
    first.disabled = !index;
    first.setAttribute("aria-label", first.textContent + ": " + row.name);
    drop.setAttribute("aria-label", "Remove " + row.name);
    made.append(element("bdi", row.name), " ", first, " ", drop);
    return made;
  }

  function choose(rows) {
    chosen = rows;
    fill();
    state.update({ s: chosen.map((row) => row.page).join(","), a: "", b: "" });
    show().catch((error) => tell("The comparison could not be loaded: " + error.message + "."));
  }

  // Shows a message, or hides it if it is empty. For example, a link can refer to submissions that were withdrawn.
  function tell(words) {
    const place = document.querySelector("[data-missing]");
    place.hidden = !words;
    place.textContent = words;
  }

  function recall() {
    const kept = state.read();
    const wanted = [...new Set((kept.get("s") || [kept.get("a"), kept.get("b")].filter(Boolean).join(",")).split(",").filter(Boolean))];
    const rows = wanted.map((page) => tables.flatMap((table) => table.rows).find((row) => row.page === page));
    const gone = wanted.filter((page, index) => !rows[index]);
    const table = rows.find(Boolean) ? tableOf(rows.find(Boolean)) : tables[0];
    const found = rows.filter((row) => row && table.rows.includes(row)).slice(0, MOST);
    for (const row of table.rows) if (found.length < 2 && row.kind !== "run" && !found.includes(row)) found.push(row);
    tell(gone.length ? "This link refers to submissions that were withdrawn or renamed, or that are listed separately and cannot be compared: " + gone.join(", ") + "." : "");
    choose(found);
  }

  // Tests. For hidden labels, the tests were computed when the site was built.

  function tester(table, data) {
    const tests = new pairs.Tests(data);
    const [all, isMean] = [table.counted.filter((name) => name in data.highest), table.board.isMean];
    const highest = Object.fromEntries(Object.entries(data.highest).map(([name, text]) => [name, pairs.floats(text)]));
    const isSystem = (row, task) => row.kind === "system" && (task ? row.scores[task.at] !== null : row.total !== undefined);
    return {
      load: (rows) => tests.load(rows.map((row) => row.page)),
      test(a, b, task) {
        const stored = tests.systems.get(a.page).tests[task ? task.name : ""];
        if (stored) return stored[b.page] || null;
        const name = task ? task.name : "";
        if (!(name in highest)) return null;
        const scored = task ? a.scores[task.at] !== null && b.scores[task.at] !== null : a.total !== undefined && b.total !== undefined;
        return scored ? tests.pair(a.page, b.page, task ? [name] : all, isMean && !task, highest[name], isSystem(a, task) && isSystem(b, task)) : null;
      },
    };
  }

  // Showing

  function reading(found, higherIsBetter) {
    if (!found) return "not tested";
    if (!found.verdict) return "no clear difference";
    return found.verdict > 0 === higherIsBetter ? "clearly better" : "clearly worse";
  }

  async function show() {
    const mine = ++turn;
    result.hidden = chosen.length < 2;
    if (result.hidden) return;
    const table = tableOf(chosen[0]);
    const tester_ = tester(table, await load("tests/" + table.id));
    await tester_.load(chosen);
    if (mine !== turn) return;
    const { board } = table;
    const lines = board.tasks.map((task, at) => ({ ...task, task: { ...task, at }, value: (row) => row.scores[at] ?? null }));
    if (table.total) lines.unshift({ name: table.total.name, title: table.total.unit, higherIsBetter: board.higherIsBetter, digits: board.digits, task: null, value: (row) => row.total ?? null });
    for (const line of lines) {
      line.values = chosen.map(line.value);
      line.found = chosen.slice(1).map((row) => tester_.test(chosen[0], row, line.task));
    }
    head();
    result.querySelector("[data-rows]").replaceChildren(...lines.map(row));
    verdict(table, lines[0]);
    draw(lines.filter((line) => line.task));
    matrix(tester_, table);
    chooseTasks(table);
  }

  function link(row) {
    const made = element("a");
    made.href = "submissions/" + encodeURIComponent(row.page) + ".html";
    made.append(element("bdi", row.name));
    return made;
  }

  function head() {
    const cells = chosen.map((row, index) => {
      const cell = element("th", null, "num");
      cell.scope = "col";
      cell.append(link(row), element("span", index ? "difference (95% interval), p" : "score", "aside"));
      return cell;
    });
    const first = element("th", "Task");
    first.scope = "col";
    result.querySelector("[data-head]").replaceChildren(first, ...cells);
  }

  function row(line) {
    const made = element("tr", null, line.task ? "" : "sum");
    const name = element("th", line.name);
    name.scope = "row";
    name.append(element("span", line.title + (line.higherIsBetter ? "" : " (lower is better)"), "aside"));
    made.append(name, element("td", points(line.values[0], line.digits), "num strong"));
    line.found.forEach((found, index) => {
      const [a, b] = [line.values[0], line.values[index + 1]];
      const cell = element("td", points(b, line.digits), "num");
      const verdict = a === null || b === null ? "not both scored" : reading(found, line.higherIsBetter);
      const difference = a === null || b === null ? "" : signed(b - a, line.digits);
      const interval = found && found.interval ? " (" + found.interval.map((end) => signed(end, line.digits)).join(" to ") + ")" : found && found.isSame ? " (no differences)" : "";
      cell.append(element("span", difference + interval, "unit"));
      if (found) cell.append(element("span", "p " + share(found.p) + ", adjusted " + share(found.adjusted), "unit"));
      cell.append(element("span", verdict, "unit " + (verdict === "clearly better" ? "good" : verdict === "clearly worse" ? "bad" : "")));
      made.append(cell);
    });
    return made;
  }

  function verdict(table, line) {
    const target = document.querySelector("[data-verdict]");
    const words = [];
    chosen.slice(1).forEach((row, index) => {
      const [a, b] = [line.values[0], line.values[index + 1]];
      words.push(index ? "; " : "", element("bdi", row.name), " against ", element("bdi", chosen[0].name));
      if (line.task) words.push(": the suite has no total, so they are compared task by task");
      else if (a === null || b === null) words.push(": there is no total to compare, because not all tasks are scored");
      else words.push(": " + signed(b - a, line.digits) + ", " + reading(line.found[index], line.higherIsBetter));
    });
    target.replaceChildren(...words, ".");
    say(target.textContent);
  }

  // Draws the differences of tasks that are scored in points, or of all tasks if there are no such tasks.
  function draw(lines) {
    const figure = result.querySelector("[data-difference-chart]");
    const isInPoints = (line) => line.task.high === 100 && line.task.low !== null;
    const known = lines.filter((line) => line.values[0] !== null);
    const drawn = known.some(isInPoints) ? known.filter(isInPoints) : known;
    figure.hidden = !drawn.length;
    if (figure.hidden) return;
    const isPair = chosen.length === 2;
    const series = chosen.slice(1).map((row, index) => ({
      name: row.name,
      values: drawn.map((line) => (line.values[index + 1] === null ? null : line.values[index + 1] - line.values[0])),
      intervals: drawn.map((line) => line.found[index] && line.found[index].interval),
      colour: charts.COLOURS[index % charts.COLOURS.length],
      colours: isPair ? drawn.map((line) => charts.COLOURS[line.values[1] - line.values[0] >= 0 === line.higherIsBetter ? 0 : 1]) : null,
    }));
    const left = drawn.length < known.length ? " Tasks on other scales are shown only in the table." : "";
    charts.bars(figure, "differences", "Differences from " + chosen[0].name + ", with 95% intervals." + (isPair ? " Blue is better, orange is worse." : "") + left, drawn.map((line) => line.name), series);
  }

  // Draws the tests of the totals for all pairs of the chosen systems.
  function matrix(tester_, table) {
    const target = result.querySelector("[data-matrix]");
    target.hidden = chosen.length < 3 || !table.total;
    if (target.hidden) return;
    const cells = chosen.map((one) => chosen.map((other) => {
      const found = one === other ? null : tester_.test(other, one, null);
      if (!found) return null;
      const text = share(found.adjusted);
      const colour = !found.verdict ? "var(--band)" : "color-mix(in srgb, var(--series-" + (found.verdict > 0 === table.board.higherIsBetter ? 1 : 2) + ") 35%, var(--sheet))";
      return { text, colour, title: one.name + " minus " + other.name + ": " + signed(one.total - other.total, table.board.digits) + ", adjusted p " + text };
    }));
    const names = chosen.map((one) => one.name);
    const numbers = chosen.flatMap((one, i) => chosen.slice(i + 1).map((other, j) => [one.name, other.name, cells[i][i + 1 + j] ? cells[i][i + 1 + j].text : ""]));
    charts.grid(target, "pairs", "p of each pair, adjusted for all pairs in the table. Blue: the row is clearly better than the column; orange: it is clearly worse.", names, names, cells, [["name", "other", "adjusted p"], ...numbers]);
  }

  // Examples, for the tasks that all chosen systems have scores on

  function chooseTasks({ board, split }) {
    const { task: field } = side.querySelector("form");
    const before = field.value;
    const known = board.tasks.filter((_, at) => chosen.every((row) => typeof row.scores[at] === "number"));
    field.replaceChildren(...known.map((task) => {
      const option = element("option", task.name);
      const best = (task.higherIsBetter ? task.high : task.low) ?? "";
      Object.assign(option.dataset, { file: task.page, texts: task.page + "-" + split, digits: task.digits, output: task.output, headline: task.metric, best });
      return option;
    }));
    if (known.some((task) => task.name === before)) field.value = before;
    side.hidden = !known.length;
    if (!examples.recall()) examples.clear("Examples are loaded on request.");
  }

  function start(loaded) {
    tables = loaded.flatMap((board, index) =>
      board.tables.map((table) => ({
        ...table,
        board,
        title: (boards.length > 1 ? boards[index][1] + " · " : "") + table.split + " · " + table.id.split("-").pop(),
        rows: table.rows
          .filter((row) => row.kind === "system" || row.kind in NAMES)
          .map((row) => (row.seed ? { ...row, name: row.name + ", seed " + row.seed } : row)),
      })),
    );
    tables = tables.filter((table) => table.rows.length > 1);
    if (!tables.length) {
      form.before(element("p", "No two submissions have results on the same data yet."));
      return;
    }
    form.hidden = false;
    recall();
    form.addEventListener("submit", (event) => event.preventDefault());
    form.add.addEventListener("change", () => {
      const row = tables.flatMap((table) => table.rows).find((one) => one.page === form.add.value);
      if (row) choose([...chosen, row]);
    });
    form.querySelector("[data-clear]").addEventListener("click", () => choose([]));
    addEventListener("hashchange", recall);
  }

  Promise.all(boards.map(([file]) => load("boards/" + file))).then(start, (problem) => tell("The comparison could not be loaded: " + problem.message + "."));
})();
