// Sorts, searches and filters the overview, and handles the choice of tasks and views. The page contains the table. This
// script rearranges its rows, and reads the numbers from data/boards.
(function () {
  "use strict";
  const { load, element, button, say, state, pairs, points } = decabench;
  const form = document.querySelector("[data-controls]");
  const note = document.querySelector("[data-note]");
  const COMPARED = ["system", "run", "paper"]; // the kinds of rows that are shaded
  const STEP = 60; // rows drawn at once; more are added as the reader scrolls
  const boxes = [...form.querySelectorAll("[name=task]")];
  const FIELDS = ["q", "size", "year", "evidence", "view"];
  const TICKS = { baselines: true, papers: true, complete: false, open: false, intervals: false }; // the defaults
  const languageNames = new Intl.DisplayNames("en", { type: "language" });
  let board;
  let tables = [];
  let sort = { key: "", dir: "" };
  const opened = new Set(); // the pages of systems whose runs are shown
  let turn = 0; // the number of the last choice of tasks; ranks for earlier choices are discarded

  // Setting up

  function start(value) {
    board = value;
    tables = board.tables.map((table) => {
      const section = document.querySelector('[data-table="' + CSS.escape(table.id) + '"]');
      const body = section.querySelector("tbody");
      const groups = Object.fromEntries([...body.querySelectorAll(".group")].map((element) => [element.dataset.kind, element]));
      const rows = [...body.rows].filter((element) => !element.dataset.kind).map((element, place) => adopt(table, element, place));
      const sentinel = document.createElement("tr");
      for (const row of rows.filter((each) => each.runs)) unite(row, rows);
      const found = { ...table, section, body, rows, groups, sentinel, heads: [...section.querySelectorAll(".board thead th")], shown: [], drawn: 0 };
      found.heads.push(...board.more.map((one) => addHead(section, one)));
      found.heads.forEach((head) => makeSortable(head));
      new IntersectionObserver((seen) => seen[0].isIntersecting && drawMore(found), { rootMargin: "600px" }).observe(sentinel);
      return found;
    });
    offerPresets();
    const known = board.more.filter(({ name }) => tables.some((table) => table.rows.some((row) => row.more && name in row.more)));
    form.querySelector("[data-more]").append(...known.map(makeTick));
    form.querySelector("[data-more]").closest("details").hidden = !known.length;
    form.hidden = false;
    recall();
    update(false);
  }

  // Returns a row of the page, with its cells and numbers. Its total and rank change with the chosen tasks.
  function adopt(table, element, place) {
    const row = { ...table.rows[place], element, place, isComplete: !["partial", "failed", "nothing"].includes(element.classList[0]) };
    if (row.kind === "ceiling") row.interval = row.intervals = null; // a perfect score has no useful interval
    const cells = [...element.cells];
    const first = table.total ? 3 : 1;
    Object.assign(row, { cells: cells.slice(first), rankCell: table.total && cells[0], totalCell: table.total && cells[2] });
    row.built = [row.rankCell, row.totalCell].map((cell) => cell && [...cell.childNodes]);
    const [rank, , ...range] = table.rows[place].place || [null];
    row.whole = { total: row.total ?? null, interval: row.interval ?? null, rank, range };
    Object.assign(row, row.whole);
    return row;
  }

  // Connects a system's row with its runs, and adds a button that shows the runs below the row.
  function unite(row, rows) {
    row.runs = rows.filter((each) => row.runs.includes(each.page));
    for (const run of row.runs) run.system = row;
    const mark = row.element.querySelector("[data-runs]");
    const toggle = () => {
      if (!opened.delete(row.page)) opened.add(row.page);
      update(true);
    };
    row.button = button(mark.textContent, toggle, "runs");
    mark.replaceWith(row.button);
  }

  // Optional columns, such as calibration

  function addHead(section, { name, title }) {
    const head = element("th", title.split(/[,:]/)[0]);
    Object.assign(head, { scope: "col", title, hidden: true });
    Object.assign(head.dataset, { key: "+" + name, lower: "" });
    section.querySelector(".board thead tr").append(head);
    return head;
  }

  function makeTick({ name, title }) {
    const label = element("label", null, "tick");
    const box = document.createElement("input");
    Object.assign(box, { type: "checkbox", name: "more", value: name });
    label.append(box, " " + title);
    return label;
  }

  const added = () => [...form.querySelectorAll("[name=more]:checked")].map((box) => board.more.find((one) => one.name === box.value));

  function makeSortable(head) {
    const sortBy = () => {
      const key = head.dataset.key;
      const first = key === "rank" || key === "name" || "lower" in head.dataset ? "asc" : "desc"; // best first
      const other = first === "asc" ? "desc" : "asc";
      sort = { key, dir: sort.key === key && sort.dir === first ? other : first };
      update(true);
      say("Sorted by " + key + ", " + (sort.dir === "asc" ? "ascending" : "descending"));
    };
    const sorter = button(null, sortBy, "sort");
    sorter.append(...head.childNodes);
    head.append(sorter);
  }

  function languageOf(code) {
    try {
      return languageNames.of(code);
    } catch { // not a BCP 47 code, for example "hi-en-gu"
      return code;
    }
  }

  // Returns, for example, "English", or "English and German" for translation in either direction.
  function languagesOf(task) {
    return task.languages.map(languageOf).sort().join(" and ");
  }

  function offerPresets() {
    const outputs = [...new Set(board.tasks.map((task) => task.output))].filter(Boolean);
    const presets = [["All", () => true], ["None", () => false]];
    if (outputs.length > 1) presets.push(...outputs.map((output) => [output, (task) => task.output === output]));
    const languages = [...new Set(board.tasks.map(languagesOf))].filter(Boolean);
    if (languages.length > 1) presets.push(...languages.map((each) => [each, (task) => languagesOf(task) === each]));
    for (const [words, isIn] of presets) {
      const apply = () => {
        boxes.forEach((box, index) => (box.checked = isIn(board.tasks[index])));
        update(true);
      };
      form.querySelector("[data-presets]").append(button(words, apply));
    }
  }

  // The chosen tasks

  const current = () => tables.find((table) => !form.board || table.id === form.board.value) || tables[0];
  const chosen = () => board.tasks.filter((task, index) => boxes[index].checked);
  const isWhole = (tasks) => tasks.length === board.tasks.length || !tasks.length;

  async function count(table, tasks) {
    const mine = ++turn;
    note.hidden = isWhole(tasks) || !table.total;
    for (const row of table.rows) restore(row);
    unit(table, null);
    if (isWhole(tasks) || !table.total) return;
    const names = tasks.map((task) => task.name).filter((name) => table.counted.includes(name));
    note.textContent = "The total covers " + names.length + " of " + board.tasks.length + " tasks. ";
    const places = names.map((name) => board.tasks.findIndex((task) => task.name === name));
    for (const row of table.rows) {
      const scores = places.map((place) => row.scores[place] ?? null);
      const isThere = scores.length && scores.every((score) => score !== null);
      row.total = isThere ? pairs.sum(scores) / (board.isMean ? scores.length : 1) : null;
      Object.assign(row, { interval: null, rank: null, range: [] });
    }
    for (const row of table.rows) showTotal(row);
    unit(table, names.length);
    refresh(table);
    const data = await load("tests/" + table.id);
    if (mine !== turn) return;
    const scales = places.map((place) => board.tasks[place]);
    for (const row of table.rows) {
      const spreads = data.spreads[row.page];
      const ends = row.total === null || row.kind === "ceiling" || !spreads ? null : pairs.totalInterval(names.map((name) => spreads[name]), scales, board.isMean);
      if (ends) Object.assign(row, { interval: ends });
      showTotal(row);
    }
    refresh(table);
    await rank(table, names, data, mine);
  }

  async function rank(table, names, data, mine) {
    const better = board.higherIsBetter ? 1 : -1;
    const ranked = table.rows.filter((row) => row.kind === "system" && row.total !== null);
    ranked.sort((a, b) => better * (b.total - a.total) || (a.name < b.name ? -1 : a.name > b.name ? 1 : a.place - b.place));
    const hidden = names.filter((name) => !(name in data.highest));
    if (hidden.length) {
      note.textContent += "There are no ranks, because the labels of " + hidden.join(", ") + " are hidden.";
      return;
    }
    const text = note.textContent;
    note.textContent = text + "Computing ranks …";
    const tests = new pairs.Tests(data);
    await tests.load(ranked.map((row) => row.page));
    const found = mine === turn && (await tests.family(ranked.map((row) => row.page), names, () => mine === turn));
    if (!found) return;
    const shown = ranked.map((row) => points(row.total, board.digits));
    pairs.places(shown, found.adjusted).forEach((place, index) => {
      Object.assign(ranked[index], { rank: place.rank, range: [place.best, place.worst] });
      showTotal(ranked[index]);
    });
    note.textContent = text + "Intervals, ranks and rank ranges are for these tasks, and use the same resamples as the ranking of all tasks.";
    refresh(table);
    say(note.textContent);
  }

  function restore(row) {
    Object.assign(row, row.whole);
    if (!row.totalCell) return;
    row.rankCell.replaceChildren(...row.built[0]);
    row.totalCell.replaceChildren(...row.built[1]);
  }

  // Returns the standard deviation across runs.
  function deviation(values) {
    const mean = pairs.sum(values) / values.length;
    return Math.sqrt(pairs.sum(values.map((value) => (value - mean) ** 2)) / (values.length - 1));
  }

  const small = (text, className) => element("span", text, className);

  function showTotal(row) {
    row.rankCell.replaceChildren(row.rank === null ? "–" : String(row.rank));
    if (row.rank !== null && row.range[0] !== row.range[1]) row.rankCell.append(small(row.range.join("–"), "unit"));
    row.totalCell.replaceChildren(points(row.total, board.digits));
    const totals = row.total === null ? [] : (row.runs || []).map((run) => run.total);
    if (totals.length) row.totalCell.append(small("± " + points(deviation(totals), board.digits), "unit deviation"));
    const between = board.tasks.some((task) => task.low < 0) ? " to " : "–";
    if (row.interval) row.totalCell.append(small(row.interval.map((end) => points(end, board.digits)).join(between), "iv"));
  }

  function unit(table, tasks) {
    const shown = table.section.querySelector("[data-unit]");
    if (!shown) return;
    shown.dataset.built ??= shown.textContent;
    shown.textContent = tasks ? (board.isMean ? "mean of " : "sum of ") + tasks + " · 95%" : shown.dataset.built;
  }

  // Filtering and sorting the rows

  function value(row, key) {
    if (key === "name") return row.name.toLowerCase();
    if (key === "rank" || key === "total") return row[key];
    if (key[0] === "+") return row.more?.[key.slice(1)] ?? null;
    return row.scores[board.tasks.findIndex((task) => task.name === key)] ?? null;
  }

  // Returns the column that the rows are sorted by, or "" for the order of the page, which has a heading above each group.
  const sortKey = () => sort.key || (isWhole(chosen()) ? "" : "rank");

  // Rows without a value come last in both directions.
  function arranged(given) {
    const rows = given.filter((row) => !row.system);
    const key = sortKey();
    const sign = sort.dir === "desc" ? -1 : 1;
    const found = rows.map((row) => [row, key ? value(row, key) : 0]);
    const best = (row) => (row.total === null ? Infinity : (board.higherIsBetter ? -1 : 1) * row.total);
    found.sort(([a, one], [b, other]) => {
      if (one === null || other === null) {
        return (one === null) - (other === null) || (key === "rank" && best(a) - best(b)) || a.place - b.place;
      }
      return sign * (one < other ? -1 : one > other ? 1 : 0) || (key === "rank" && best(a) - best(b)) || a.place - b.place;
    });
    return found.flatMap(([row]) => (opened.has(row.page) ? [row, ...row.runs] : [row]));
  }

  function filter() {
    const wanted = form.q.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const [from, below] = form.size.value.split("-").map(Number);
    return (row) =>
      wanted.every((word) => row.text.includes(word)) &&
      (form.baselines.checked || !["floor", "ceiling"].includes(row.kind)) &&
      (form.papers.checked || row.kind !== "paper") &&
      (!form.complete.checked || row.total !== null || (!current().total && row.isComplete)) &&
      (!form.open.checked || row.open) &&
      (!form.evidence.value || row.evidence === form.evidence.value) &&
      (!form.size.value || (row.size >= from && row.size < below)) &&
      (!form.year.value || (row.date || "") >= form.year.value);
  }

  // Drawing

  function refresh(table) {
    if (table !== current()) return;
    table.shown = arranged(table.rows.filter(filter()));
    table.drawn = 0;
    for (const row of table.rows) if (row.button) row.button.setAttribute("aria-expanded", opened.has(row.page));
    table.body.replaceChildren();
    table.body.classList.toggle("grouped", !sortKey());
    drawMore(table);
    for (const head of table.heads) {
      if (head.dataset.key === sort.key) head.setAttribute("aria-sort", sort.dir === "asc" ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    }
    view(table);
  }

  function drawMore(table, most = STEP) {
    if (table.drawn && table.drawn >= table.shown.length) return;
    const next = table.shown.slice(table.drawn, table.drawn + most);
    table.sentinel.remove();
    for (const row of next) {
      const group = table.groups[row.kind];
      if (group && !group.isConnected && !sortKey()) {
        group.cells[0].colSpan = table.heads.filter((head) => !head.hidden).length;
        table.body.append(group);
      }
      dress(table, row);
      table.body.append(row.element);
    }
    table.drawn += next.length;
    if (table.drawn < table.shown.length) table.body.append(table.sentinel);
  }

  // Sets the tints, intervals and hidden cells of a row before it is drawn.
  function dress(table, row) {
    table.scales ??= board.tasks.map((task, index) => scale(table, task, index));
    const more = added();
    const key = boxes.map((box) => Number(box.checked)).join("") + form.intervals.checked + more.map((one) => one.name);
    if (row.dressed === key) return;
    row.dressed = key;
    for (const cell of row.element.querySelectorAll(".more")) cell.remove();
    row.element.append(...more.map(({ name, digits }) => element("td", points(row.more?.[name], digits), "more")));
    row.cells.forEach((cell, index) => {
      const task = board.tasks[index];
      cell.hidden = !boxes[index].checked && boxes.some((box) => box.checked);
      const ends = row.intervals && row.intervals[index];
      let interval = cell.querySelector(".iv");
      if (ends && !interval && form.intervals.checked) {
        interval = small(ends.map((end) => points(end, task.digits)).join(task.low < 0 ? " to " : "–"), "iv");
        cell.append(interval);
      }
      if (interval) interval.hidden = !form.intervals.checked;
      const text = cell.firstChild;
      if (row.page && !row.runs && text && text.nodeType === 3 && typeof row.scores[index] === "number" && row.evidence === "verified") {
        const link = document.createElement("a"); // for mouse users; keyboard users find the same links on the system's page
        Object.assign(link, { href: "submissions/" + row.page + ".html#task=" + task.name, tabIndex: -1, textContent: text.data });
        text.replaceWith(link);
      }
      const tint = COMPARED.includes(row.kind) ? table.scales[index](row.scores[index]) : null;
      if (tint !== null) cell.classList.add("h" + tint);
    });
  }

  // Returns a function that gives a score's tint, from 0 for the worst score of its column to 8 for the best. If all scores
  // lie within a tenth of the scale, the best score has a lighter tint.
  function scale(table, task, index) {
    const good = (score) => (task.higherIsBetter ? score : -score);
    const scores = table.rows.filter((row) => COMPARED.includes(row.kind)).map((row) => row.scores[index]);
    const known = scores.filter((score) => typeof score === "number").map(good);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const least = task.low === null || task.high === null ? 0 : (task.high - task.low) / 10;
    if (!(high - low >= 0.5 * 10 ** -task.digits)) return () => null;
    return (score) =>
      typeof score !== "number" || good(score) < low || good(score) > high ? null : Math.round((8 * (good(score) - low)) / Math.max(high - low, least));
  }

  function view(table) {
    const figure = table.section.querySelector("[data-view]");
    const kind = form.view.value;
    figure.hidden = !kind;
    table.section.querySelector(".scroll").hidden = Boolean(kind);
    if (kind) decabench.views[kind](figure, { board, table, rows: table.shown, tasks: chosen().length ? chosen() : board.tasks });
  }

  // The address

  function remember() {
    const tasks = chosen().map((task) => task.name);
    const kept = Object.fromEntries(FIELDS.map((name) => [name, form[name].value.trim()]));
    for (const [name, usual] of Object.entries(TICKS)) if (form[name].checked !== usual) kept[name] = usual ? "0" : "1";
    state.write({
      ...kept,
      board: form.board && form.board.value !== tables[0].id ? form.board.value : "",
      tasks: isWhole(tasks) ? "" : tasks.join(","),
      more: added().map(({ name }) => name).join(","),
      runs: [...opened].join(","),
      sort: sort.key ? sort.key + ":" + sort.dir : "",
    });
  }

  function recall() {
    const kept = state.read();
    form.reset();
    for (const name of [...FIELDS, "board"]) if (form[name]) choose(form[name], kept.get(name) || "");
    for (const [name, usual] of Object.entries(TICKS)) form[name].checked = kept.has(name) ? kept.get(name) === "1" : usual;
    opened.clear();
    for (const page of (kept.get("runs") || "").split(",")) if (page) opened.add(page);
    const more = (kept.get("more") || "").split(",");
    for (const box of form.querySelectorAll("[name=more]")) box.checked = more.includes(box.value);
    const tasks = (kept.get("tasks") || "").split(",");
    const isKnown = board.tasks.some((task) => tasks.includes(task.name));
    for (const box of boxes) box.checked = !isKnown || tasks.includes(box.value);
    const [key, dir] = (kept.get("sort") || "").split(/:(?=asc$|desc$)/);
    sort = tables[0].heads.some((head) => head.dataset.key === key) && dir ? { key, dir } : { key: "", dir: "" };
  }

  function choose(field, wanted) {
    const isOffered = !field.options || [...field.options].some((option) => option.value === wanted);
    field.value = isOffered ? wanted : field.options[0].value;
  }

  let counted = "";

  function update(isChange) {
    const table = current();
    const tasks = chosen();
    for (const one of tables) one.section.hidden = one !== table;
    const title = document.querySelector("[data-title]");
    if (form.board && tables.length > 1) title.textContent = form.board.selectedOptions[0].textContent.split(" · ")[0];
    form.querySelector("[data-chosen]").textContent = isWhole(tasks) ? "all" : tasks.length + " of " + board.tasks.length;
    const shown = new Set(added().map(({ name }) => "+" + name));
    for (const head of table.heads) head.hidden = head.dataset.key[0] === "+" ? !shown.has(head.dataset.key) : head.dataset.key !== "rank" && head.dataset.key !== "name" && head.dataset.key !== "total" && !isWhole(tasks) && !tasks.some((task) => task.name === head.dataset.key);
    const key = table.id + " " + tasks.map((task) => task.name).join();
    if (key !== counted) count(table, tasks).catch((error) => (note.textContent = "The tests could not be loaded: " + error.message + "."));
    counted = key;
    refresh(table);
    const [shownRows, all] = [table.shown, table.rows].map((rows) => rows.filter((row) => !row.system).length);
    const text = (shownRows === all ? "" : shownRows + " of ") + all + (all === 1 ? " row" : " rows");
    form.querySelector("[data-count]").textContent = text;
    if (isChange === "filter") say(text + " shown");
    if (isChange) remember();
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector("button[type=reset]").addEventListener("click", (event) => {
    event.preventDefault(); // the browser would reset the fields only after this function
    const view = form.view.value;
    form.reset();
    form.view.value = view;
    sort = { key: "", dir: "" };
    update("filter");
  });
  form.addEventListener("input", () => update("filter"));
  addEventListener("hashchange", () => {
    if (location.hash.includes("=") || !location.hash) {
      recall();
      update(false);
    }
  });
  addEventListener("beforeprint", () => tables.forEach((table) => drawMore(table, Infinity)));
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") for (const open of document.querySelectorAll(".drop[open]")) open.open = false;
  });
  load("boards/" + form.dataset.board).then(start, (error) => {
    note.hidden = false;
    note.textContent = "The numbers could not be loaded: " + error.message + ".";
  });
})();
