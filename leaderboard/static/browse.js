// The examples behind scores, for one system or several: search, filters and pages. Texts come in pieces of a hundred.
(function () {
  "use strict";
  const { load, element, say, points } = decabench;
  const PAGE = 20;
  const PIECE = 100;

  function line(name, content, className) {
    const made = element("div", null, className);
    made.append(element("dt", name));
    const value = element("dd");
    const text = element("bdi");
    text.append(content);
    value.append(text);
    made.append(value);
    return made;
  }

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
