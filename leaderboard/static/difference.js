// Shows how an answer differs from the gold answer: marks words that are not in the longest common subsequence, shows tags
// under their tokens, and draws trees as arcs.
(function () {
  "use strict";
  const { element } = decabench;
  const { draw: paint } = decabench.charts;
  const MOST = 200;

  const key = (word) => word.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");

  // Returns, for each word of both texts, whether it is part of their longest common subsequence.
  function common(left, right) {
    const [a, b] = [left.map(key), right.map(key)];
    const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i--) {
      for (let j = b.length - 1; j >= 0; j--) {
        lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
      }
    }
    const [inLeft, inRight] = [a.map(() => false), b.map(() => false)];
    for (let i = 0, j = 0; i < a.length && j < b.length; ) {
      if (a[i] === b[j]) [inLeft[i++], inRight[j++]] = [true, true];
      else if (lengths[i + 1][j] >= lengths[i][j + 1]) i++;
      else j++;
    }
    return { inLeft, inRight, count: lengths[0][0] };
  }

  const words = (text) => text.split(/\s+/).filter(Boolean).slice(0, MOST);

  const CLAUSES = ["FROM", "WHERE", "AND", "OR", "ORDER", "GROUP", "HAVING", "LIMIT"];

  // Returns the words of a text as an element. Words that the other text lacks are marked. Each clause of a query starts on
  // a new line.
  function marked(list, isCommon, tag) {
    const made = element("span");
    const isQuery = list[0] === "SELECT";
    list.forEach((word, index) => {
      if (index) made.append(isQuery && CLAUSES.includes(word) ? "\n" : " ");
      made.append(isCommon[index] ? word : element(tag, word));
    });
    return made;
  }

  // Returns an answer and the most similar gold answer, and marks the words that only one of them has.
  function difference(answer, golds) {
    const given = words(answer);
    const found = golds.map((gold) => ({ gold: words(gold), ...common(given, words(gold)) }));
    const share = (one) => (2 * one.count) / (given.length + one.gold.length || 1);
    const best = found.reduce((a, b) => (share(b) > share(a) ? b : a));
    return {
      answer: marked(given, best.inLeft, "ins"),
      gold: marked(best.gold, best.inRight, "del"),
    };
  }

  // Draws tags or trees, which have an entry for each token of the context. Returns null for other kinds of answers.
  function draw(output, context, golds, answers, names) {
    if (output !== "Tags" && output !== "Tree") return null;
    const tokens = context.split(" ");
    const rows = [golds[0], ...answers].map((text) => text.trim().split(/\s+/));
    const made = element("span");
    if (output === "Tree") made.append(arcs(tokens, rows));
    const flow = element("span", null, "tokens");
    const column = (texts, tag) => {
      const found = element("span", null, "token");
      found.append(...texts.map((text, index) => element(index ? tag(index) : "b", text || "–")));
      flow.append(found);
    };
    column(["", "Gold", ...names], () => "i");
    tokens.forEach((token, at) => column([token, ...rows.map((row) => row[at])], (index) => (index > 1 && rows[index - 1][at] !== rows[0][at] ? "ins" : "span")));
    made.append(flow);
    return made;
  }

  // Draws the heads of the gold tree as arcs over the tokens, and the differing heads of answers in another color.
  function arcs(tokens, rows) {
    const ends = [];
    tokens.reduce((x, token) => {
      const width = Math.max(7.5 * token.length, 20) + 14;
      ends.push(x + width / 2);
      return x + width;
    }, 4);
    const heads = rows.map((row) => row.map((one) => parseInt(one, 10)));
    const drawn = heads.flatMap((row, index) => row.map((head, at) => ({ head, at, index })).filter(({ head, at }) => head >= 1 && head <= tokens.length && at < tokens.length && (!index || head !== heads[0][at])));
    const height = (one) => Math.min(16 + 11 * Math.abs(one.head - 1 - one.at), 130);
    const top = Math.max(20, ...drawn.map(height));
    const canvas = element("span", null, "canvas");
    canvas.tabIndex = 0;
    const svg = paint(canvas, "svg", { width: ends[ends.length - 1] + 60, height: top + 26, role: "img", "aria-label": "The gold tree, and where answers differ from it" });
    for (const one of drawn) {
      const [from, to] = [ends[one.head - 1], ends[one.at]];
      const rise = top - height(one);
      paint(svg, "path", { d: "M" + from + "," + top + " C" + from + "," + rise + " " + to + "," + rise + " " + to + "," + top, fill: "none", stroke: one.index ? "var(--series-2)" : "var(--series-1)", "stroke-dasharray": one.index ? "4 3" : "none" });
      paint(svg, "circle", { cx: to, cy: top, r: 2.5, fill: one.index ? "var(--series-2)" : "var(--series-1)" });
    }
    tokens.forEach((token, at) => paint(svg, "text", { x: ends[at], y: top + 18, "text-anchor": "middle", "font-size": 13, fill: "var(--ink)" }, token));
    return canvas;
  }

  Object.assign(decabench, { difference, draw });
})();
