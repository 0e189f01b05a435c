// Draws the views of the overview. They show the filtered and sorted rows of the table, for the chosen tasks.
(function () {
  "use strict";
  const { load, element, points, pairs, charts } = decabench;
  const colour = (row) => ({ floor: "var(--soft)", ceiling: "var(--soft)", paper: charts.COLOURS[1], apart: charts.COLOURS[4] })[row.kind] || charts.COLOURS[0];
  const nothing = (figure, words) => figure.replaceChildren(element("figcaption", words));
  const about = "Blue: systems; orange: results from papers; gray: baselines and ceilings.";

  function intervals(figure, { board, rows }) {
    const known = rows.filter((row) => row.total !== null);
    if (!known.length) return nothing(figure, "No row has a total.");
    const items = known.map((row) => ({
      name: row.name,
      value: row.total,
      low: row.interval ? row.interval[0] : null,
      high: row.interval ? row.interval[1] : null,
      colour: colour(row),
      aside: row.rank === null ? "" : row.range[0] === row.range[1] ? String(row.rank) : row.rank + " (" + row.range.join("–") + ")",
    }));
    charts.forest(figure, "intervals", "Totals with 95% intervals. On the right: ranks, and ranges of possible ranks. " + about, items, board.digits);
  }

  function heat(figure, { board, table, rows, tasks }) {
    const cells = rows.map((row) =>
      tasks.map((task) => {
        const at = board.tasks.indexOf(task);
        const score = row.scores[at];
        if (typeof score !== "number") return null;
        const tint = ["system", "run", "paper"].includes(row.kind) ? table.scales[at](score) : null;
        const text = points(score, task.digits);
        return { text, colour: tint === null ? "var(--band)" : "rgb(var(--heat) / " + (0.06 * tint).toFixed(2) + ")", title: row.name + ", " + task.name + ": " + text };
      }),
    );
    const numbers = rows.map((row) => [row.name, ...tasks.map((task) => row.scores[board.tasks.indexOf(task)])]);
    charts.grid(figure, "heat", "Scores by task, shaded from the worst to the best score of each column. Baselines, ceilings and rows listed separately are gray.", rows.map((row) => row.name), tasks.map((task) => task.name), cells, [["name", ...tasks.map((task) => task.name)], ...numbers]);
  }

  function against(key) {
    return (figure, { board, rows }) => {
      const year = (row) => Number(row.date.slice(0, 4)) + (Number(row.date.slice(5, 7)) || 1) / 12 - 1 / 12;
      const known = rows.filter((row) => row.total !== null && (key === "size" ? row.size > 0 : row.date));
      if (!known.length) return nothing(figure, "No row with a total gives its " + (key === "size" ? "number of parameters." : "date."));
      const items = known.map((row) => ({ name: row.name, x: key === "size" ? row.size : year(row), y: row.total, colour: colour(row) }));
      const left = rows.filter((row) => row.total !== null).length - known.length;
      const words = "Total by " + (key === "size" ? "number of parameters" : "date") + ". " + about + (left ? " " + left + (left === 1 ? " row without this information is" : " rows without this information are") + " left out." : "");
      const options = { isLog: key === "size", showX: key === "size" ? parameters : (value) => String(Math.floor(value + 1e-9)), digits: board.digits };
      charts.scatter(figure, key, words, items, options);
    };
  }

  function parameters(count) {
    const [size, unit] = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]].find(([one]) => count >= one) || [1, ""];
    return Number((count / size).toPrecision(3)) + unit;
  }

  let turn = 0;

  // Draws the differences between the totals of all pairs, with p adjusted for all pairs of complete systems.
  async function all(figure, { board, table, rows, tasks }) {
    const mine = ++turn;
    const names = tasks.map((task) => task.name).filter((name) => table.counted.includes(name));
    const known = rows.filter((row) => row.kind === "system" && row.total !== null);
    if (!table.total || known.length < 2) return nothing(figure, "Fewer than two systems have a total.");
    nothing(figure, "Computing …");
    const data = await load("tests/" + table.id);
    const hidden = names.filter((name) => !(name in data.highest));
    if (hidden.length) return nothing(figure, "The labels of " + hidden.join(", ") + " are hidden, so the tests cannot be computed here. The page to compare systems has tests of the total.");
    const tests = new pairs.Tests(data);
    const family = table.rows.filter((row) => row.kind === "system" && row.total !== null).map((row) => row.page);
    await tests.load(family);
    const found = await tests.family(family, names, () => mine === turn);
    if (!found || mine !== turn) return;
    const at = known.map((row) => family.indexOf(row.page));
    const isGain = (difference) => difference > 0 === board.higherIsBetter;
    const cells = known.map((row, i) =>
      known.map((other, j) => {
        const p = found.adjusted[at[j]][at[i]];
        if (i === j) return null;
        const difference = row.total - other.total;
        const text = Number.isNaN(p) ? "–" : p < 0.001 ? "<.001" : p.toFixed(3).slice(p < 1 ? 1 : 0);
        const strength = p < 0.001 ? 0.5 : p < 0.05 ? 0.35 : 0;
        const base = isGain(difference) ? "var(--series-1)" : "var(--series-2)";
        return { text, colour: strength ? "color-mix(in srgb, " + base + " " + 100 * strength + "%, var(--sheet))" : "var(--band)", title: row.name + " minus " + other.name + ": " + points(difference, board.digits) + ", adjusted p " + text };
      }),
    );
    const lines = known.flatMap((row, i) => known.slice(i + 1).map((other, j) => [row.name, other.name, row.total - other.total, found.adjusted[at[i]][at[i + 1 + j]]]));
    charts.grid(figure, "pairs", "p of each pair, adjusted for all pairs. Blue: the row is clearly better than the column; orange: it is clearly worse.", known.map((row) => row.name), known.map((row) => row.name), cells, [["name", "other", "difference", "adjusted p"], ...lines]);
  }

  decabench.views = { intervals, heat, size: against("size"), date: against("date"), pairs: all };
})();
