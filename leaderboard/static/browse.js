// The examples behind scores, for one system or several: search, filters and pages. Texts come in pieces of a hundred.
(function () {
  "use strict";
  const { load, element, line, say, points } = decabench;
  const PAGE = 20;
  const PIECE = 100;

  const words = (text) => text.trim().split(/\s+/).filter(Boolean).length;

  const KINDS = {
    all: () => true,
    right: ([mine]) => mine.kind === "right",
    wrong: ([mine]) => mine.kind === "wrong",
    empty: ([mine]) => mine.kind === "empty",
    answers: (answers) => new Set(answers.map((one) => one.answer)).size > 1,
    scores: (answers) => new Set(answers.map((one) => one.kind === "right")).size > 1,
    only: ([mine, ...others]) => mine.kind === "right" && others.every((one) => one.kind !== "right"),
    other: ([mine, ...others]) => mine.kind !== "right" && others.some((one) => one.kind === "right"),
    none: (answers) => answers.every((one) => one.kind !== "right"),
  };

  const QUESTIONS = ["what", "which", "who", "whom", "whose", "when", "where", "why", "how", "is", "are", "was", "were", "do", "does", "did"];
  const range = (number) => (number <= 1 ? "one word" : number <= 5 ? "2 to 5 words" : number <= 20 ? "6 to 20 words" : "more than 20 words");
  const FIELDS = {
    gold: (text) => text.golds[0] || "(empty)",
    question: (text) => text.question.toLowerCase().split(/[^a-z]+/).find((word) => QUESTIONS.includes(word)) || "other",
    length: (text) => range(words(text.golds[0])),
    turn: (text, answer) => (answer.before ? (answer.before.length < 12 ? "turn " + (answer.before.length + 1) : "later turns") : "alone"),
    unit: (text) => text.unit || "none",
  };
  const MOST_GROUPS = 24;

  // The 95 % interval of a share (Wilson 1927), in percent.
  function wilson(right, count) {
    const z = 1.959964;
    const middle = (right + z ** 2 / 2) / (count + z ** 2);
    const reach = (z / (count + z ** 2)) * Math.sqrt((right * (count - right)) / count + z ** 2 / 4);
    return [100 * Math.max(0, middle - reach), 100 * Math.min(1, middle + reach)];
  }

  // `systems` gives [{ page, name }]; the form has task, kind, q, length and sort; options of task name files and digits.
  function browse(section, systems) {
    const form = section.querySelector("form");
    const list = section.querySelector("[data-example-list]");
    const count = section.querySelector("[data-example-count]");
    const pager = section.querySelector("[data-pager]");
    let found = [];
    let at = 0;
    let turn = 0;

    const option = () => form.task.selectedOptions[0].dataset;
    const piece = (index) => load("texts/" + option().texts + "-" + Math.floor(index / PIECE));
    const textOf = async (index) => (await piece(index))[index % PIECE];

    function item(text, answers) {
      const [mine] = answers;
      const made = element("li", null, answers.length === 1 ? "kind-" + mine.kind : "");
      const head = element("p", null, "head");
      if (answers.length === 1) head.append(element("span", mine.kind, "kind"), " ");
      head.append(element("code", text.id));
      if (answers.length === 1) head.append(element("span", shown(mine), "score"));
      const body = element("dl", null, "example");
      const isMarked = option().span && answers.length === 1 && mine.kind === "wrong";
      const difference = isMarked ? decabench.difference(mine.answer, text.golds) : null;
      body.append(line("Question", text.question));
      if (mine.before && mine.before.length) body.append(line("Before", mine.before.join("\n"), "context"));
      body.append(line("Context", text.context, "context"), line("Gold", difference ? difference.gold : text.golds.join(" · ")));
      answers.forEach((one, index) => {
        const name = answers.length === 1 ? "Answer" : systems()[index].name + " (" + shown(one) + ")";
        body.append(line(name, difference ? difference.answer : one.answer || "(empty)", one.answer ? "kind-" + one.kind : "none"));
      });
      if (mine.before) {
        body.append(line("Gold state", mine.goldState || "(empty)"));
        answers.forEach((one, index) => body.append(line(answers.length === 1 ? "State" : "State of " + systems()[index].name, one.state || "(empty)")));
      }
      if (mine.parted && answers.length === 1) body.append(line("Parted", mine.parted));
      made.append(head, body);
      return made;
    }

    const shown = (one) => (one.score === null ? "no score of its own" : "score " + points(one.score, Number(option().digits)));

    async function draw(mine) {
      const items = await Promise.all(found.slice(at, at + PAGE).map(async ({ index, answers }) => item(await textOf(index), answers)));
      if (mine !== turn) return;
      list.replaceChildren(...items);
      list.start = at + 1;
      pager.hidden = found.length <= PAGE;
      pager.querySelector("[data-place]").textContent = at + 1 + " to " + (at + items.length);
      pager.querySelector("[data-previous]").disabled = at === 0;
      pager.querySelector("[data-next]").disabled = at + PAGE >= found.length;
    }

    async function show() {
      const mine = ++turn;
      const task = form.task.value;
      count.textContent = "Loading …";
      try {
        const loaded = await Promise.all(systems().map(({ page }) => load("answers/" + page + "/" + option().file)));
        if (mine !== turn) return;
        const without = loaded.find((one) => one.why);
        const all = without ? [] : loaded[0].answers.map((_, index) => ({ index, answers: loaded.map((one) => one.answers[index]) }));
        const wanted = form.q.value.trim().toLowerCase();
        const longest = Number(form.length.value) || Infinity;
        found = all.filter(({ answers }) => KINDS[form.kind.value](answers) && words(answers[0].answer) <= longest);
        if (wanted) {
          const texts = await Promise.all(found.map(({ index }) => textOf(index)));
          if (mine !== turn) return;
          const holds = (text, answers) => [text.id, text.question, text.context, ...text.golds, ...answers.map((one) => one.answer)].some((one) => one.toLowerCase().includes(wanted));
          found = found.filter(({ answers }, index) => holds(texts[index], answers));
        }
        if (form.sort.value === "score") found.sort((a, b) => (a.answers[0].score ?? 0) - (b.answers[0].score ?? 0));
        if (form.sort.value === "length") found.sort((a, b) => b.answers[0].answer.length - a.answers[0].answer.length);
        at = 0;
        await draw(mine);
        await breakDown(all);
        if (mine !== turn) return;
        count.textContent = without ? "The site has no examples of " + task + ". " + without.why : found.length + " of " + all.length + " examples of " + task;
        say(count.textContent);
      } catch (error) {
        count.textContent = "The examples could not be loaded: " + error.message + ".";
      }
    }

    function turnTo(start) {
      at = start;
      draw(++turn);
      section.scrollIntoView();
    }

    // The share of right answers by a property of the examples, and for labels also which were taken for which.
    async function breakDown(all) {
      const figures = [...section.querySelectorAll("figure")];
      for (const figure of figures) figure.hidden = true;
      if (!form.by.value || !all.length) return;
      const texts = await Promise.all(all.map(({ index }) => textOf(index)));
      const groups = new Map();
      all.forEach((one, index) => {
        const key = FIELDS[form.by.value](texts[index], one.answers[0]);
        if (!groups.has(key)) groups.set(key, []);
        groups.get(key).push(one);
      });
      const largest = [...groups].sort((a, b) => b[1].length - a[1].length).slice(0, MOST_GROUPS);
      const items = largest.flatMap(([key, members]) =>
        systems().map((system, at) => {
          const right = members.filter(({ answers }) => answers[at].kind === "right").length;
          const [low, high] = wilson(right, members.length);
          const name = key + " (" + members.length + ")" + (system.name ? " · " + system.name : "");
          return { name, value: (100 * right) / members.length, low, high, colour: decabench.charts.COLOURS[at % 5], aside: "" };
        }),
      );
      const left = groups.size - largest.length;
      const about = "Right answers in percent, with 95 % intervals that take the examples as independent (Wilson)." + (left ? " " + left + " smaller groups are left out." : "");
      decabench.charts.forest(figures[0], "breakdown", about, items, 1);
      if (form.by.value === "gold" && systems().length === 1 && groups.size <= 12) confusion(figures[1], all, texts, [...groups.keys()]);
    }

    function confusion(figure, all, texts, labels) {
      const columns = [...labels, "another answer"];
      const counts = labels.map(() => columns.map(() => 0));
      all.forEach(({ answers }, index) => {
        const given = labels.findIndex((label) => label.toLowerCase() === answers[0].answer.trim().toLowerCase());
        counts[labels.indexOf(texts[index].golds[0] || "(empty)")][given < 0 ? labels.length : given] += 1;
      });
      const cells = counts.map((row, gold) => {
        const sum = row.reduce((a, b) => a + b, 0);
        return row.map((count, given) => ({ text: String(count), colour: "rgb(var(--heat) / " + ((0.5 * count) / (sum || 1)).toFixed(2) + ")", title: "gold " + labels[gold] + ", answer " + columns[given] + ": " + count }));
      });
      decabench.charts.grid(figure, "confusion", "Gold answers (rows) and the answers given (columns).", labels, columns, cells, [["gold", ...columns], ...labels.map((label, index) => [label, ...counts[index]])]);
    }

    form.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      show();
    });
    form.addEventListener("change", () => list.childElementCount && show());
    pager.querySelector("[data-previous]").addEventListener("click", () => turnTo(at - PAGE));
    pager.querySelector("[data-next]").addEventListener("click", () => turnTo(at + PAGE));
    return {
      show,
      clear(words) {
        turn++;
        list.replaceChildren();
        pager.hidden = true;
        count.textContent = words;
      },
    };
  }

  decabench.browse = browse;
})();
