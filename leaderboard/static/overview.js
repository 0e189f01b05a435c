// Sorting, searching, filtering and choosing columns. The table is complete without this file.
(function () {
  "use strict";
  const { state, say } = decabench;
  const form = document.querySelector("[data-controls]");
  if (!form) return;
  const sections = [...document.querySelectorAll("section.table")];
  const columns = [...form.querySelectorAll("[name=column]")];
  const all = sections[0].dataset.board;
  let sort = { key: "", dir: "" };

  for (const section of sections) {
    section.querySelectorAll("tbody.systems tr").forEach((row, index) => (row.dataset.place = index));
    section.querySelectorAll("thead th").forEach(makeSortable);
  }

  function makeSortable(head) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const key = head.dataset.key;
      const first = key === "rank" || key === "name" || "lower" in head.dataset ? "asc" : "desc"; // best first
      const other = first === "asc" ? "desc" : "asc";
      sort = { key, dir: sort.key === key && sort.dir === first ? other : first };
      update(true);
      const order = sort.dir === "asc" ? "ascending" : "descending";
      say("Sorted by " + (key === "total" ? "total" : key) + ", " + order);
    });
  }

  function value(row, key) {
    if (key === "name") return row.querySelector("th.name bdi").textContent.toLowerCase();
    const cell = row.querySelector('[data-key="' + CSS.escape(key) + '"]');
    return cell && cell.dataset.v !== undefined ? Number(cell.dataset.v) : null;
  }

  // Rows without a value come last in both directions.
  function compare(a, b) {
    if (a.value === null || b.value === null) {
      return (a.value === null) - (b.value === null) || a.place - b.place;
    }
    const order = a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
    return (sort.dir === "desc" ? -order : order) || a.place - b.place;
  }

  function sortRows(section) {
    const body = section.querySelector("tbody.systems");
    const rows = [...body.rows].map((row) => ({
      row,
      place: Number(row.dataset.place),
      value: sort.key && !row.matches(".placeholder") ? value(row, sort.key) : 0,
    }));
    rows.sort(sort.key ? compare : (a, b) => a.place - b.place);
    body.append(...rows.map((item) => item.row));
    section.classList.toggle("resorted", Boolean(sort.key) && sort.key !== "rank");
    for (const head of section.querySelectorAll("thead th")) {
      if (head.dataset.key === sort.key) {
        head.setAttribute("aria-sort", sort.dir === "asc" ? "ascending" : "descending");
      } else {
        head.removeAttribute("aria-sort");
      }
    }
  }

  function isShown(row) {
    const wanted = form.q.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    return (
      wanted.every((word) => row.dataset.text.includes(word)) &&
      (!form.complete.checked || row.dataset.complete === "1") &&
      (!form.open.checked || row.dataset.open === "1") &&
      (!form.size.value || row.dataset.size === form.size.value) &&
      (!form.year.value || row.dataset.year === form.year.value)
    );
  }

  function filterRows(section) {
    const rows = [...section.querySelectorAll("tbody.systems tr:not(.placeholder)")];
    for (const row of rows) row.hidden = !isShown(row);
    markGroups(section);
    return [rows.filter((row) => !row.hidden).length, rows.length];
  }

  // A line between rank groups, where the order is the ranking's.
  function markGroups(section) {
    let before = null;
    for (const row of section.querySelectorAll("tbody.systems tr")) {
      if (row.hidden) continue;
      row.classList.toggle("opens", before !== null && before !== row.dataset.group);
      before = row.dataset.group;
    }
  }

  function chooseColumns() {
    for (const box of columns) {
      for (const cell of document.querySelectorAll('.table [data-key="' + CSS.escape(box.value) + '"]')) {
        cell.hidden = !box.checked;
      }
    }
    for (const band of document.querySelectorAll(".table th.band")) {
      band.colSpan = band.closest("table").querySelectorAll("thead th:not([hidden])").length;
    }
    document.body.classList.toggle("intervals", form.intervals.checked);
  }

  function board() {
    return form.board ? form.board.value : all;
  }

  function remember() {
    state.write({
      board: board() === all ? "" : board(),
      q: form.q.value.trim(),
      size: form.size.value,
      year: form.year.value,
      complete: form.complete.checked ? "1" : "",
      open: form.open.checked ? "1" : "",
      intervals: form.intervals.checked ? "1" : "",
      hide: columns.filter((box) => !box.checked).map((box) => box.value).join(","),
      sort: sort.key ? sort.key + ":" + sort.dir : "",
    });
  }

  function recall() {
    const kept = state.read();
    form.reset();
    if (form.board) choose(form.board, kept.get("board") || all);
    form.q.value = kept.get("q") || "";
    choose(form.size, kept.get("size") || "");
    choose(form.year, kept.get("year") || "");
    for (const name of ["complete", "open", "intervals"]) form[name].checked = kept.get(name) === "1";
    const hidden = (kept.get("hide") || "").split(",");
    for (const box of columns) box.checked = !hidden.includes(box.value);
    const [key, dir] = (kept.get("sort") || "").split(/:(?=asc$|desc$)/);
    const known = [...sections[0].querySelectorAll("thead th")].map((head) => head.dataset.key);
    sort = known.includes(key) && dir ? { key, dir } : { key: "", dir: "" };
  }

  function choose(select, wanted) {
    select.value = [...select.options].some((option) => option.value === wanted) ? wanted : select.options[0].value;
  }

  function update(isChange) {
    chooseColumns();
    for (const section of sections) {
      section.hidden = section.dataset.board !== board();
      sortRows(section);
      const [shown, of] = filterRows(section);
      if (section.hidden) continue;
      const text = shown === of ? of + (of === 1 ? " system" : " systems") : shown + " of " + of + " systems";
      document.querySelector("[data-count]").textContent = text;
      if (isChange === "filter") say(text + " shown");
      draw(section);
    }
    if (isChange) remember();
  }

  // The chart shows the rows in the order of the table.
  function draw(section) {
    const figure = section.querySelector("[data-whiskers]");
    if (!figure) return;
    const rows = [...section.querySelectorAll("tbody.systems tr, tbody.floors tr")].filter(
      (row) => !row.hidden && row.dataset.page && value(row, "total") !== null,
    );
    const shown = rows.slice(0, 60).map((row) => ({
      name: row.querySelector("th.name bdi").textContent,
      value: value(row, "total"),
      low: row.dataset.low ? Number(row.dataset.low) : null,
      high: row.dataset.high ? Number(row.dataset.high) : null,
      isFloor: row.parentElement.matches(".floors"),
    }));
    figure.hidden = shown.length < 2;
    if (!figure.hidden) decabench.charts.whiskers(figure.querySelector("canvas"), shown, Number(figure.dataset.digits));
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector("button[type=reset]").addEventListener("click", (event) => {
    event.preventDefault(); // the browser would empty the fields only after this
    form.reset();
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
  form.hidden = false;
  recall();
  update(false);
})();
