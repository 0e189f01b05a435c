// Draws charts as SVG in the colors of the page, with links to download each chart as SVG and its numbers as CSV.
(function () {
  "use strict";
  const { element, points } = decabench;
  const SPACE = "http://www.w3.org/2000/svg"; // only a name: nothing is loaded from this address
  const COLOURS = [1, 2, 3, 4, 5].map((number) => "var(--series-" + number + ")");
  const ROW = 22;

  function draw(parent, tag, attributes, text) {
    const made = document.createElementNS(SPACE, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  const label = (parent, x, y, text, more = {}) => draw(parent, "text", { x, y, "font-size": 12, fill: "var(--ink)", "dominant-baseline": "middle", ...more }, text);
  const line = (parent, x1, y1, x2, y2, stroke, more = {}) => draw(parent, "line", { x1, y1, x2, y2, stroke, ...more });
  const turned = (angle, x, y, anchor = "start") => ({ "font-size": 11, "text-anchor": angle ? anchor : "middle", transform: "rotate(" + [angle, x, y] + ")" });
  const cut = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
  const tip = (mark, text) => draw(mark, "title", {}, text);

  // Returns about `count` round numbers between `low` and `high`.
  function ticks(low, high, count = 6) {
    const raw = (high - low || 1) / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((one) => raw <= one * power);
    const found = [];
    for (let at = Math.ceil(low / step); at <= Math.floor(high / step + 1e-9); at++) found.push(Number((at * step).toPrecision(12)));
    return found;
  }

  function scale(values, from, to, fixed = []) {
    const known = [...values, ...fixed].filter(Number.isFinite);
    const [least, most] = [Math.min(...known), Math.max(...known)];
    const grace = (most - least || 1) * 0.04;
    const low = fixed.includes(least) || (least >= 0 && least < grace) ? Math.min(least, 0) : least - grace;
    const high = fixed.includes(most) ? most : most + grace;
    return Object.assign((value) => from + ((value - low) / (high - low)) * (to - from), { low, high });
  }

  // Shows a chart in a figure. `paint` draws the SVG for a given width and returns its height. `table` contains the numbers.
  function show(figure, name, words, paint, table) {
    figure.hidden = false; // a hidden figure has no width
    const width = Math.max(300, (figure.clientWidth || 900) - 26);
    const picture = document.createElementNS(SPACE, "svg");
    const height = paint(picture, width);
    for (const [key, value] of Object.entries({ width, height, viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": words })) picture.setAttribute(key, value);
    const holder = element("div", null, "canvas");
    holder.tabIndex = 0;
    holder.setAttribute("role", "region");
    holder.setAttribute("aria-label", "Chart: " + words);
    holder.append(picture);
    const links = element("p", null, "meta downloads");
    links.append(download("SVG", name + ".svg", "image/svg+xml", () => standalone(picture)), download("CSV", name + ".csv", "text/csv", () => table.map((row) => row.map(quoted).join(",")).join("\n") + "\n"));
    figure.replaceChildren(element("figcaption", words), holder, links, asTable(table, words));
  }

  // Returns a collapsed table with the numbers of a chart. The table is built when the reader opens it.
  function asTable(rows, words) {
    const details = element("details");
    details.append(element("summary", "As a table"));
    details.addEventListener("toggle", () => {
      if (!details.open || details.querySelector("table")) return;
      const [table, head, body] = ["table", "thead", "tbody"].map((tag) => element(tag));
      table.className = "plain";
      rows.forEach((row, index) => {
        const line = element("tr");
        row.forEach((value, column) => {
          const text = typeof value === "number" ? String(Number(value.toFixed(3))) : value === null || value === undefined ? "–" : String(value);
          const cell = element(index && column ? "td" : "th", text || "–", column ? "num" : "");
          if (cell.tagName === "TH") cell.scope = index ? "row" : "col";
          line.append(cell);
        });
        (index ? body : head).append(line);
      });
      table.append(head, body);
      const scroll = element("div", null, "scroll");
      for (const [key, value] of [["role", "region"], ["tabindex", "0"], ["aria-label", "Table: " + words]]) scroll.setAttribute(key, value);
      scroll.append(table);
      details.append(scroll);
    });
    return details;
  }

  // Returns a download link. The file is made when the reader follows the link.
  function download(words, name, type, make) {
    const link = element("a", words);
    link.href = "#";
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const made = document.createElement("a");
      made.href = URL.createObjectURL(new Blob([make()], { type }));
      made.download = name;
      made.click();
    });
    return link;
  }

  // Returns a value for a CSV file. Text that a spreadsheet would treat as a formula is prefixed with an apostrophe.
  function quoted(value) {
    if (typeof value === "number") return String(value);
    const text = value === null || value === undefined ? "" : String(value);
    const safe = /^\s*[=+\-@]/.test(text.normalize("NFKC")) ? "'" + text : text;
    return /[",\n]/.test(safe) ? '"' + safe.replace(/"/g, '""') + '"' : safe;
  }

  function standalone(picture) {
    const style = getComputedStyle(document.documentElement);
    const copy = picture.cloneNode(true);
    copy.setAttribute("font-family", "system-ui, sans-serif");
    const back = draw(copy, "rect", { width: "100%", height: "100%", fill: "var(--sheet)" });
    copy.prepend(back);
    const text = new XMLSerializer().serializeToString(copy);
    return text.replace(/rgb\(var\(--heat\) \/ ([\d.]+)\)/g, (_, share) => "rgb(" + style.getPropertyValue("--heat").trim() + " / " + share + ")").replace(/var\(--([\w-]+)\)/g, (_, name) => style.getPropertyValue("--" + name).trim());
  }

  function axis(picture, at, low, high, side, digits) {
    for (const tick of ticks(low, high)) {
      if (side === "x") {
        line(picture, at(tick), 16, at(tick), at.end, "var(--line)");
        label(picture, at(tick), 8, String(tick), { "text-anchor": "middle", fill: "var(--soft)", "font-size": 11 });
      } else {
        line(picture, at.end, at(tick), at.far, at(tick), "var(--line)");
        label(picture, at.end - 6, at(tick), digits === undefined ? String(tick) : points(tick, digits), { "text-anchor": "end", fill: "var(--soft)", "font-size": 11 });
      }
    }
  }

  // Draws values with intervals, one per line. Each item is { name, value, low, high, colour, aside }.
  function forest(figure, name, words, items, digits) {
    const paint = (picture, width) => {
      const room = Math.min(width * 0.36, 260);
      const aside = items.some((item) => item.aside) ? 70 : 10;
      const height = 22 + ROW * items.length;
      const at = scale(items.flatMap((item) => [item.value, item.low, item.high]), room, width - aside - 10);
      at.end = height;
      axis(picture, at, at.low, at.high, "x");
      items.forEach((item, index) => {
        const y = 22 + ROW * (index + 0.5);
        const mark = draw(picture, "g", {});
        label(mark, 4, y, cut(item.name, Math.floor(room / 7)));
        if (item.low !== null) line(mark, at(item.low), y, at(item.high), y, item.colour, { "stroke-width": 2 });
        draw(mark, "circle", { cx: at(item.value), cy: y, r: 4, fill: item.colour });
        if (item.aside) label(mark, width - 4, y, item.aside, { "text-anchor": "end", fill: "var(--soft)" });
        tip(mark, item.name + ": " + points(item.value, digits) + (item.low === null ? "" : " (" + points(item.low, digits) + " to " + points(item.high, digits) + ")") + (item.aside ? ", rank " + item.aside : ""));
      });
      return height;
    };
    show(figure, name, words, paint, [["name", "value", "low", "high", "rank"], ...items.map((item) => [item.name, item.value, item.low, item.high, item.aside])]);
  }

  // Draws a table of colored cells. `cells` contains rows of { text, colour, title }, or null for an empty cell.
  function grid(figure, name, words, rows, columns, cells, table) {
    const paint = (picture, width) => {
      const room = Math.min(width * 0.3, 220);
      const each = Math.max(columns.length > 12 ? 14 : 34, Math.min(108, (width - room) / columns.length));
      const longest = 6.5 * Math.max(...columns.map((column) => Math.min(column.length, 20)));
      const isFlat = longest < each;
      const top = isFlat ? 20 : 8 + longest;
      columns.forEach((column, index) => {
        const x = room + each * (index + 0.5);
        label(picture, x, top - 6, cut(column, 20), turned(isFlat ? 0 : -60, x, top - 6));
      });
      rows.forEach((row, index) => {
        const y = top + ROW * index;
        label(picture, 4, y + ROW / 2, cut(row, Math.floor(room / 7)));
        cells[index].forEach((cell, column) => {
          if (!cell) return;
          const mark = draw(picture, "g", {});
          const x = room + each * column;
          draw(mark, "rect", { x, y, width: each - 1, height: ROW - 1, fill: cell.colour });
          if (each >= 30) label(mark, x + each / 2, y + ROW / 2, cell.text, { "text-anchor": "middle", "font-size": 11 });
          tip(mark, cell.title);
        });
      });
      picture.dataset.wide = room + each * columns.length;
      return top + ROW * rows.length + 4;
    };
    show(figure, name, words, paint, table);
    const picture = figure.querySelector("svg");
    const wide = Math.max(Number(picture.getAttribute("width")), Number(picture.dataset.wide));
    picture.setAttribute("width", wide);
    picture.setAttribute("viewBox", "0 0 " + wide + " " + picture.getAttribute("height"));
  }

  // Draws points. Each item is { name, x, y, colour }. The x axis is logarithmic if `isLog` is set.
  function scatter(figure, name, words, items, { isLog, showX, digits }) {
    const to = (x) => (isLog ? Math.log10(x) : x);
    const paint = (picture, width) => {
      const height = 420;
      const x = scale(items.map((item) => to(item.x)), 60, width - 20);
      const y = scale(items.map((item) => item.y), height - 40, 14);
      Object.assign(y, { end: 54, far: width - 10 });
      axis(picture, y, y.low, y.high, "y");
      const marks = isLog ? ticks(Math.floor(x.low), Math.ceil(x.high), Math.max(1, Math.ceil(x.high) - Math.floor(x.low))).map((power) => 10 ** power) : ticks(x.low, x.high);
      for (const tick of marks) {
        if (to(tick) < x.low || to(tick) > x.high) continue;
        line(picture, x(to(tick)), 14, x(to(tick)), height - 34, "var(--line)");
        label(picture, x(to(tick)), height - 22, showX(tick), { "text-anchor": "middle", fill: "var(--soft)", "font-size": 11 });
      }
      const placed = []; // the labels so far, from top to bottom; a label that would cover another one moves down
      for (const item of [...items].sort((a, b) => y(a.y) - y(b.y))) {
        const mark = draw(picture, "g", {});
        const [cx, cy] = [x(to(item.x)), y(item.y)];
        draw(mark, "circle", { cx, cy, r: 5, fill: item.colour, "fill-opacity": 0.8 });
        if (items.length <= 30) {
          let at = cy;
          while (placed.some(([left, top]) => Math.abs(left - cx) < 130 && Math.abs(top - at) < 12)) at++;
          placed.push([cx, at]);
          label(mark, cx + (cx > width - 120 ? -8 : 8), at, cut(item.name, 24), { "font-size": 11, "text-anchor": cx > width - 120 ? "end" : "start" });
        }
        tip(mark, item.name + ": " + points(item.y, digits) + ", " + showX(item.x));
      }
      return height;
    };
    show(figure, name, words, paint, [["name", "x", "y"], ...items.map((item) => [item.name, item.x, item.y])]);
  }

  // Draws groups of bars. Each series is { name, values, intervals, colour, colours, isLine }.
  function bars(figure, name, words, labels, series, { fixed = [0], unit = "", digits = 1 } = {}) {
    const paint = (picture, width) => {
      const each = (width - 54) / labels.length;
      const longest = 6.5 * Math.max(...labels.map((one) => one.length));
      const isFlat = longest < each;
      const height = 310 + (isFlat ? 6 : 0.65 * longest + 4);
      const values = series.flatMap((one) => [...one.values, ...(one.intervals || []).flat()]);
      const y = scale(values.filter((value) => value !== null), 290, 12, fixed);
      Object.assign(y, { end: 44, far: width - 6 });
      axis(picture, y, y.low, y.high, "y");
      const drawn = series.filter((one) => !one.isLine);
      labels.forEach((text, index) => {
        const middle = 48 + each * (index + 0.5);
        label(picture, middle, 302, text, turned(isFlat ? 0 : -40, middle, 302, "end"));
        series.forEach((one) => {
          const value = one.values[index];
          if (value === null || value === undefined) return;
          const mark = draw(picture, "g", {});
          const colour = (one.colours && one.colours[index]) || one.colour;
          const wide = Math.min(44, (each * 0.8) / Math.max(1, drawn.length));
          const x = middle + (one.isLine ? -0.5 : drawn.indexOf(one) - drawn.length / 2) * wide;
          if (one.isLine) line(mark, middle - each * 0.4, y(value), middle + each * 0.4, y(value), colour, { "stroke-width": 3 });
          else draw(mark, "rect", { x, y: Math.min(y(value), y(0)), width: wide - 1, height: Math.abs(y(value) - y(0)), fill: colour, "fill-opacity": 0.75 });
          const ends = one.intervals && one.intervals[index];
          if (ends) line(mark, x + wide / 2, y(ends[0]), x + wide / 2, y(ends[1]), "var(--ink)", { "stroke-width": 1.5 });
          tip(mark, one.name + ", " + text + ": " + points(value, digits) + unit + (ends ? " (" + ends.map((end) => points(end, digits)).join(" to ") + ")" : ""));
        });
      });
      line(picture, 44, y(0), width - 6, y(0), "var(--strong-line)");
      if (series.length < 2) return height;
      let [x, below] = [50, height];
      for (const one of series) {
        const wide = 34 + 6.2 * Math.min(one.name.length, 30);
        if (x > 50 && x + wide > width) [x, below] = [50, below + 16];
        draw(picture, "rect", { x, y: below, width: 10, height: 10, fill: one.colour });
        label(picture, x + 14, below + 6, cut(one.name, 30), { "font-size": 11 });
        x += wide;
      }
      return below + 16;
    };
    const head = ["", ...series.flatMap((one) => (one.intervals ? [one.name, one.name + " low", one.name + " high"] : [one.name]))];
    const rows = labels.map((text, index) => [text, ...series.flatMap((one) => (one.intervals ? [one.values[index], ...(one.intervals[index] || [null, null])] : [one.values[index]]))]);
    show(figure, name, words, paint, [head, ...rows]);
  }

  decabench.charts = { COLOURS, draw, forest, grid, scatter, bars };
})();
