// Shows the examples behind the scores of one or several systems. Filters need only the indexes. Texts are loaded in pieces.
(function () {
  "use strict";
  const { load, element, button, line, say, points, state } = decabench;
  const PAGE = 20;
  const LONG = 700;
  const MOST_WORDS = 200;
  const MOST_GROUPS = 24;

  // Replaces characters that are invisible, or that affect the text around them, by their codes.
  const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
  const visible = (text) => text.replace(hidden, (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"));
  const number = (value) => value.toLocaleString("en");

  // Texts

  const more = (length, show) => button("show all " + number(length) + " characters", show, "more");

  // Returns a text. If it is long, only its beginning is shown, with a button to show all of it.
  function folding(text) {
    if (text.length <= LONG) return visible(text);
    const made = element("span");
    made.append(visible(text.slice(0, LONG)) + "… ", more(text.length, () => made.replaceChildren(visible(text))));
    return made;
  }

  const isWord = (text) => /[\p{L}\p{N}]/u.test(text);

  // Returns the position of a gold answer in a text, searching from `from`, or -1. A match within a word or number does not
  // count: "5" is not found in "1517".
  function placeOf(text, gold, from) {
    for (let where = text.indexOf(gold, from); where >= 0; where = text.indexOf(gold, where + 1)) {
      const end = where + gold.length;
      const before = isWord(gold[0]) && where > 0 && isWord(text[where - 1]);
      if (!before && !(isWord(gold[gold.length - 1]) && end < text.length && isWord(text[end]))) return where;
    }
    return -1;
  }

  // Returns the part of a context around its first gold answer, with all gold answers marked and a button to show the rest.
  function context(text, given, whole) {
    const golds = given.filter((gold) => gold.trim());
    const places = golds.map((gold) => placeOf(text, gold, 0)).filter((where) => where >= 0);
    const start = whole || text.length <= LONG || !places.length ? 0 : Math.max(0, Math.min(...places) - LONG / 2);
    const end = whole ? text.length : Math.min(text.length, start + LONG);
    const made = element("span");
    if (start) made.append("…");
    let from = start;
    while (from < end) {
      let next = null;
      for (const gold of golds) {
        const where = placeOf(text, gold, from);
        const isFirst = !next || where < next.where || (where === next.where && gold.length > next.gold.length);
        if (where >= 0 && where + gold.length <= end && isFirst) next = { where, gold };
      }
      if (!next) break;
      made.append(visible(text.slice(from, next.where)), element("mark", visible(next.gold)));
      from = next.where + next.gold.length;
    }
    made.append(visible(text.slice(from, end)));
    if (start || end < text.length) made.append(end < text.length ? "… " : " ", more(text.length, () => made.replaceWith(context(text, given, true))));
    return made;
  }

  // Filters. They receive the verdict on each system's answer: right (1), wrong (0), or no individual score (-).

  const KINDS = {
    all: () => true,
    right: ([mine]) => mine === "1",
    wrong: ([mine]) => mine === "0",
    differ: (all) => new Set(all).size > 1,
    only: ([mine, ...others]) => mine === "1" && others.every((one) => one === "0"),
    other: ([mine, ...others]) => mine === "0" && others.includes("1"),
    none: (all) => !all.includes("1"),
  };
  const VERDICTS = { 1: "right", 0: "wrong", "-": "no individual score" };
  const FIELDS = { gold: "Gold answer", question: "Question word", length: "Length of the gold answer", turn: "Turn", unit: "Source, relation or article" };

  // The 95% interval of a share (Wilson 1927), in percent.
  function wilson(right, count) {
    const z = 1.959964;
    const middle = (right + z ** 2 / 2) / (count + z ** 2);
    const reach = (z / (count + z ** 2)) * Math.sqrt((right * (count - right)) / count + z ** 2 / 4);
    return [100 * Math.max(0, middle - reach), 100 * Math.min(1, middle + reach)];
  }

  // `systems` returns [{ answers, name }], with the folder of each system's answers. The <option> of a task contains the
  // names of its files and its scale.
  function browse(section, systems) {
    const form = section.querySelector("form");
    const list = section.querySelector("[data-list]");
    const count = section.querySelector("[data-count]");
    const pager = section.querySelector("[data-pager]");
    let texts = null; // the index of the texts
    let answers = []; // the index of each system's answers
    let found = [];
    let at = 0;
    let turn = 0; // the number of the last request; results of earlier requests are ignored
    let only = "";

    const option = () => form.task.selectedOptions[0].dataset;
    const isOne = () => answers.length === 1;

    async function piece(name, { starts }, place) {
      let part = 0;
      while (part + 1 < starts.length && starts[part + 1] <= place) part++;
      return (await load(name + "-" + part))[place - starts[part]];
    }

    const textOf = (place) => piece("texts/" + option().texts, texts, place);
    const answerOf = async (place, index) => {
      const read = await piece(answers[index].name, answers[index], place);
      return { answer: "", ...(typeof read === "string" ? { answer: read } : read) };
    };
    const everything = async (place) => Promise.all([textOf(place), ...answers.map((_, index) => answerOf(place, index))]);

    // Drawing

    function verdict(right, score) {
      const isPart = right === "0" && score > 0 && option().best > 0;
      return (isPart ? "partly right" : VERDICTS[right]) + (score === null ? "" : ", " + option().headline + " " + points(score, Number(option().digits)));
    }

    const isShort = (text) => text.split(/\s+/).length <= MOST_WORDS;

    // Returns a wrong answer and the most similar gold answer, with the differing words marked.
    function compared(right, answer, golds) {
      const near = golds.filter(isShort).map(visible);
      return right === "0" && answer && isShort(answer) && near.length ? decabench.difference(visible(answer), near) : { answer: answer ? folding(answer) : "(empty)" };
    }

    async function item(place) {
      const [text, ...given] = await everything(place);
      const { golds } = text;
      const rights = answers.map((one) => one.right[place]);
      const words = answers.map((one, index) => verdict(rights[index], one.score[place]));
      const made = element("li", null, isOne() ? "kind-" + VERDICTS[rights[0]] : "");
      const head = element("p", null, "head");
      const link = element("a");
      link.href = "#" + new URLSearchParams({ ...Object.fromEntries(state.read()), id: texts.ids[place] });
      link.append(element("code", visible(texts.ids[place])));
      if (isOne()) head.append(element("span", words[0], "kind"));
      head.append(link);
      for (const [flag, places] of Object.entries(isOne() ? answers[0].flags : {})) if (places.has(place)) head.append(element("span", flag.replace(/_/g, " "), "mark"));
      if (texts.right && texts.systems > 1) head.append(element("span", "right: " + texts.right[place] + " of " + texts.systems + " systems", "score"));
      const body = element("dl", null, "example");
      body.append(line("Question", visible(text.question)));
      if (text.before && text.before.length) body.append(line("Earlier turns", folding(text.before.join("\n")), "context"));
      const names = given.map((_, index) => (isOne() ? "Answer" : systems()[index].name));
      const drawn = decabench.draw(option().output, text.context, golds, given.map((one) => one.answer), names);
      if (drawn) body.append(line("Diagram", drawn));
      else {
        body.append(line("Context", context(text.context, option().output === "Text" ? golds : [], Boolean(only)), "context"));
        const differences = given.map((one, index) => compared(rights[index], one.answer, golds));
        body.append(line("Gold", (isOne() && differences[0].gold) || folding(golds.join("\n"))));
        given.forEach((one, index) => body.append(line(isOne() ? "Answer" : names[index] + " (" + words[index] + ")", differences[index].answer, one.answer ? "kind-" + VERDICTS[rights[index]] : "none")));
        if (isOne() && differences[0].gold && golds.length > 1) body.append(line("All gold answers", folding(golds.join("\n"))));
      }
      if (text.goldState !== undefined) {
        const states = given.map((one) => compared(text.goldState === one.state ? "1" : "0", one.state, [text.goldState || "(empty)"]));
        body.append(line("Gold state", (isOne() && states[0].gold) || text.goldState || "(empty)"));
        given.forEach((one, index) => body.append(line(isOne() ? "State" : "State of " + names[index], states[index].answer)));
        given.forEach((one, index) => one.parted && body.append(line(isOne() ? "Diverged" : names[index] + " diverged", folding(one.parted))));
      }
      given.forEach((one, index) => {
        const whose = isOne() ? "" : " of " + names[index];
        if (one.raw !== undefined) body.append(line((option().raw || "Whole output") + whose, folding(one.raw)));
        if (one.reasoning !== undefined) body.append(line("Reasoning" + whose, folding(one.reasoning)));
        for (const [variant, other] of one.wordings || []) {
          const right = other.right === null ? "-" : String(Number(other.right));
          const shown = element("span");
          shown.append(compared(right, other.answer, golds).answer, element("span", " " + verdict(right, other.score), "aside"));
          body.append(line("Wording " + variant + whose, shown));
        }
      });
      made.append(head, body);
      return made;
    }

    async function draw(mine) {
      const items = await Promise.all(found.slice(at, at + PAGE).map(item));
      if (mine !== turn) return;
      list.replaceChildren(...items);
      list.start = at + 1;
      pager.hidden = found.length <= PAGE;
      pager.querySelector("[data-place]").textContent = number(at + 1) + " to " + number(at + items.length);
      pager.querySelector("[data-previous]").disabled = at === 0;
      pager.querySelector("[data-next]").disabled = at + PAGE >= found.length;
      const of = number(texts.ids.length) + (form.task.options.length > 1 ? " examples of " + form.task.value : " examples");
      count.textContent = only ? (found.length ? "One of " : "There is no example " + only + " among ") + of + ". " : number(found.length) + " of " + of;
      if (only) {
        const back = element("a", "Show all");
        back.href = "#" + new URLSearchParams([...state.read()].filter(([key]) => key !== "id").concat([["all", "1"]]));
        count.append(back);
      }
      say(count.textContent);
    }

    // Choosing

    async function open() {
      const { texts: name, file } = option();
      const names = systems().map((one) => one.answers + "/" + file);
      const read = await Promise.all(names.map((one) => load(one)));
      const without = read.find((one) => one.why);
      if (without) throw new Error(without.why.replace(/\.$/, ""));
      texts = await load("texts/" + name);
      answers = read.map((one, index) => ({ ...one, name: names[index], flags: Object.fromEntries(Object.entries(one.flags).map(([flag, places]) => [flag, new Set(places)])) }));
      const flags = [...new Set(answers.flatMap((one) => Object.keys(one.flags)))].sort();
      offer(form.flag, [["", flags.map((flag) => [flag, flag.replace(/_/g, " ")])]]);
      const fields = Object.entries(texts.fields);
      offer(form.where, fields.map(([field, { labels }]) => [FIELDS[field], labels.map((label) => [field + ":" + label, label])]));
      for (const one of form.by.options) one.disabled = !["", "score"].includes(one.value) && !texts.fields[one.value];
      if (form.by.selectedOptions[0].disabled) form.by.value = "";
    }

    // Replaces all options of a list except the first. The chosen value is kept, even if no example has it.
    function offer(select, groups) {
      const { value } = select;
      const made = groups.map(([name, pairs]) => {
        const options = pairs.map(([key, words]) => new Option(words, key));
        if (!name) return options;
        const group = element("optgroup");
        group.label = name;
        group.append(...options);
        return [group];
      });
      select.replaceChildren(select.options[0], ...made.flat());
      choose(select, value);
    }

    function choose(control, value) {
      control.value = value;
      if (control.selectedIndex < 0 && ["flag", "where"].includes(control.name)) control.add(new Option(value.replace(/_/g, " "), value, true, true));
      if (control.selectedIndex < 0) control.selectedIndex = 0;
    }

    function filter() {
      const [field, label] = form.where.value.split(/:(.*)/s);
      const known = texts.fields[field];
      const code = known ? known.labels.indexOf(label) : -1;
      const most = Number(form.length.value) || Infinity;
      return (place) =>
        KINDS[form.kind.value](answers.map((one) => one.right[place])) &&
        answers[0].words[place] <= most &&
        (!form.flag.value || answers.some((one) => one.flags[form.flag.value]?.has(place))) &&
        (!form.where.value || (known && known.codes[place] === code));
    }

    async function search(places, needle, mine) {
      const hits = [];
      for (const [done, place] of places.entries()) {
        if (done % 500 === 0) count.textContent = "Searching " + number(done) + " of " + number(places.length) + " …";
        const [text, ...given] = await everything(place);
        if (mine !== turn) return null;
        const all = [texts.ids[place], text.question, text.context, ...text.golds];
        for (const one of given) all.push(one.answer, one.raw || "", one.reasoning || "", ...(one.wordings || []).map(([, other]) => other.answer));
        if (all.some((one) => one.toLowerCase().includes(needle))) hits.push(place);
      }
      return hits;
    }

    const ORDERS = {
      loss: (place) => (answers[0].right[place] === "1" ? 0 : answers[0].score[place] === null ? Infinity : Math.abs(Number(option().best || 0) - answers[0].score[place])),
      length: (place) => answers[0].words[place],
      hard: (place) => -(texts.right ? texts.right[place] : 0),
      apart: (place) => Math.max(...answers.map((one) => one.score[place] ?? 0)) - Math.min(...answers.map((one) => one.score[place] ?? 0)),
    };

    async function show(page = 0) {
      const mine = ++turn;
      count.textContent = "Loading …";
      try {
        await open();
        if (mine !== turn) return;
        let places = only ? [texts.ids.indexOf(only)].filter((place) => place >= 0) : texts.ids.map((_, place) => place).filter(filter());
        const needle = form.q.value.trim().toLowerCase();
        if (needle && !only) places = await search(places, needle, mine);
        if (places === null || mine !== turn) return;
        const order = ORDERS[form.sort.value];
        if (order) places = places.map((place) => [place, order(place)]).sort(([a, one], [b, other]) => (one === other ? a - b : other - one)).map(([place]) => place);
        found = places;
        at = Math.min(page * PAGE, Math.max(0, Math.ceil(found.length / PAGE) - 1) * PAGE);
        keep();
        await draw(mine);
        await breakDown();
      } catch (error) {
        if (mine === turn) clear("The examples could not be loaded: " + error.message + ".");
      }
    }

    // Shows the share of right answers by a property of the examples and, for labels, a confusion matrix.
    async function breakDown() {
      const figures = [...section.querySelectorAll("figure")];
      for (const figure of figures) figure.hidden = true;
      const field = texts.fields[form.by.value];
      if (form.by.value === "score" && !only) distribution(figures[0]);
      if (!field || only) return;
      const members = field.labels.map(() => []);
      field.codes.forEach((code, place) => members[code].push(place));
      const items = field.labels.slice(0, MOST_GROUPS).flatMap((label, code) =>
        answers.map((one, index) => {
          const right = members[code].filter((place) => one.right[place] === "1").length;
          const [low, high] = wilson(right, members[code].length);
          const name = label + " (" + members[code].length + ")" + (isOne() ? "" : " · " + systems()[index].name);
          return { name, value: (100 * right) / members[code].length, low, high, colour: decabench.charts.COLOURS[index % 5], aside: "" };
        }),
      );
      const left = field.labels.length - MOST_GROUPS;
      const about = "Percentage of right answers, with 95% intervals that treat the examples as independent (Wilson)." + (left > 0 ? " " + left + (left === 1 ? " smaller group is" : " smaller groups are") + " left out." : "");
      decabench.charts.forest(figures[0], "breakdown", about, items, 1);
      if (form.by.value === "gold" && isOne() && field.labels.length <= 12) await confusion(figures[1], field);
    }

    // Shows the distribution of scores in ten bins of equal width. The last bin includes the highest score.
    function distribution(figure) {
      const scores = answers.map((one) => one.score.filter((score) => score !== null));
      const all = [Number(option().best || 0), 0, ...scores.map((each) => Math.max(...each)), ...scores.map((each) => Math.min(...each))].filter(Number.isFinite);
      const [low, high] = [Math.min(...all), Math.max(...all)];
      const bins = Array.from({ length: 10 }, (_, bin) => low + ((high - low) * bin) / 10);
      const binOf = (score) => Math.min(9, Math.floor((10 * (score - low)) / (high - low) + 1e-6));
      const series = scores.map((each, index) => ({
        name: systems()[index].name || "this submission",
        values: bins.map((_, bin) => (100 * each.filter((score) => binOf(score) === bin).length) / (each.length || 1)),
        colour: decabench.charts.COLOURS[index % 5],
      }));
      const labels = bins.map((bin) => Number(bin.toPrecision(3)) + " to " + Number((bin + (high - low) / 10).toPrecision(3)));
      decabench.charts.bars(figure, "distribution", "Percentage of examples by score.", labels, series, { unit: "%" });
    }

    async function confusion(figure, { labels, codes }) {
      const columns = [...labels, "another answer"];
      const counts = labels.map(() => columns.map(() => 0));
      const given = await Promise.all(codes.map((_, place) => answerOf(place, 0)));
      codes.forEach((code, place) => {
        const answer = given[place].answer.trim().toLowerCase();
        const column = labels.findIndex((label) => label.toLowerCase() === answer);
        counts[code][column < 0 ? labels.length : column] += 1;
      });
      const cells = counts.map((row, gold) => {
        const sum = row.reduce((a, b) => a + b, 0);
        return row.map((one, column) => ({ text: String(one), colour: "rgb(var(--heat) / " + ((0.5 * one) / (sum || 1)).toFixed(2) + ")", title: "gold " + labels[gold] + ", answer " + columns[column] + ": " + one }));
      });
      decabench.charts.grid(figure, "confusion", "Gold answers (rows) and submitted answers (columns).", labels, columns, cells, [["gold", ...columns], ...labels.map((label, index) => [label, ...counts[index]])]);
    }

    // The address

    const CONTROLS = ["q", "kind", "flag", "where", "length", "sort", "by"];

    function keep() {
      const kept = Object.fromEntries(CONTROLS.map((name) => [name, form[name].value.trim()]));
      if (!form.kind.selectedIndex) kept.kind = "";
      if (form.task.options.length > 1) kept.task = form.task.value;
      state.update({ ...kept, page: at ? String(at / PAGE + 1) : "", id: only, all: "" });
    }

    // Shows the examples that the address selects, if it selects any.
    function recall(always) {
      const kept = state.read();
      const [task, id] = [kept.get("task"), kept.get("id") || ""];
      const isKnown = [...form.task.options].some((one) => one.value === task);
      if (!always && !isKnown) return null;
      if (isKnown) form.task.value = task;
      only = id;
      for (const name of CONTROLS) {
        if (form[name].options) choose(form[name], kept.get(name) || (name === "kind" ? form.kind.options[0].value : ""));
        else form[name].value = kept.get(name) || "";
      }
      return show(Math.max(0, (Number(kept.get("page")) || 1) - 1));
    }

    function clear(words) {
      turn++;
      list.replaceChildren();
      pager.hidden = true;
      for (const figure of section.querySelectorAll("figure")) figure.hidden = true;
      count.textContent = words;
    }

    async function turnTo(start) {
      at = start;
      await draw(++turn);
      keep();
      section.scrollIntoView();
    }

    const change = () => {
      only = "";
      return show();
    };
    let typing = 0;
    form.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      change();
    });
    form.addEventListener("input", (event) => {
      clearTimeout(typing);
      if (texts || event.target.name === "task") typing = setTimeout(change, event.target.name === "q" ? 300 : 0);
    });
    pager.querySelector("[data-previous]").addEventListener("click", () => turnTo(at - PAGE));
    pager.querySelector("[data-next]").addEventListener("click", () => turnTo(at + PAGE));
    return { recall, clear };
  }

  decabench.browse = browse;

  // The page of `decabench show` has a single task and one or two submissions. It shows the examples immediately.
  const alone = document.querySelector("[data-alone]");
  if (!alone) return;
  const names = JSON.parse(alone.dataset.alone);
  const examples = browse(alone, () => names.map((name, index) => ({ answers: "answers/" + ["this", "other"][index], name })));
  addEventListener("hashchange", () => examples.recall(true));
  examples.recall(true);
})();
