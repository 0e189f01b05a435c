// The page of `decabench show`: filters work on an index; texts come in pieces, those of the examples that are shown.
(function () {
  "use strict";
  const { load, element, line, say, points, state, difference } = decabench;
  const PAGE = 20;
  const LONG = 700;
  const MOST_WORDS = 200;

  const form = document.querySelector("[data-controls]");
  const list = document.querySelector("[data-list]");
  const count = document.querySelector("[data-count]");
  const pager = document.querySelector("[data-pager]");
  const place = document.querySelector("[data-place]");
  let index = null;
  let starts = [];
  let found = [];
  let at = 0;
  let turn = 0; // of the last request: an older search that ends later changes nothing
  let only = "";

  // What would act on the text around it, or cannot be seen, is written as its code.
  const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
  const visible = (text) =>
    text.replace(hidden, (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"));

  function pieceOf(number) {
    let piece = 0;
    while (piece + 1 < starts.length && starts[piece + 1] <= number) piece++;
    return piece;
  }

  async function textsOf(number) {
    const piece = pieceOf(number);
    return (await load("piece-" + piece))[number - starts[piece]];
  }

  // Drawing

  // A text whose end is shown on request.
  function folding(text) {
    if (text.length <= LONG) return visible(text);
    const made = element("span");
    const more = element("button", "show all " + text.length.toLocaleString("en") + " characters", "more");
    more.type = "button";
    more.addEventListener("click", () => made.replaceChildren(visible(text)));
    made.append(visible(text.slice(0, LONG)) + "… ", more);
    return made;
  }

  const isWord = (text) => /[\p{L}\p{N}]/u.test(text);

  // Where a reference stands in a text from a place on, not within a word or number: "5" is not in "1517".
  function placeOf(text, gold, from) {
    for (let where = text.indexOf(gold, from); where >= 0; where = text.indexOf(gold, where + 1)) {
      const end = where + gold.length;
      const inside =
        (isWord(gold[0]) && where > 0 && isWord(text[where - 1])) || (isWord(gold[gold.length - 1]) && end < text.length && isWord(text[end]));
      if (!inside) return where;
    }
    return -1;
  }

  // The part of a context around the first reference in it, with references marked; all of it on request.
  function context(text, references, whole) {
    const golds = index.extractive ? references.filter((gold) => gold.trim()) : [];
    const places = golds.map((gold) => placeOf(text, gold, 0)).filter((where) => where >= 0);
    const first = places.length ? Math.min(...places) : 0;
    const start = whole || text.length <= LONG ? 0 : Math.max(0, first - LONG / 2);
    const end = whole ? text.length : Math.min(text.length, start + LONG);
    const made = element("span");
    if (start) made.append("…");
    let from = start;
    while (from < end) {
      let next = null;
      for (const gold of golds) {
        const where = placeOf(text, gold, from);
        if (where >= 0 && where + gold.length <= end && (!next || where < next.where || (where === next.where && gold.length > next.gold.length))) {
          next = { where, gold };
        }
      }
      if (!next) break;
      made.append(visible(text.slice(from, next.where)), element("mark", visible(next.gold)));
      from = next.where + next.gold.length;
    }
    made.append(visible(text.slice(from, end)));
    if (start || end < text.length) {
      const more = element("button", "show all " + text.length.toLocaleString("en") + " characters", "more");
      more.type = "button";
      more.addEventListener("click", () => made.replaceWith(context(text, references, true)));
      made.append(end < text.length ? "… " : " ", more);
    }
    return made;
  }

  const short = (text) => text.split(/\s+/).length <= MOST_WORDS;
  const words = { true: "right", false: "wrong", null: "no score of its own" };
  const isPart = (answer) => answer.right === false && answer.score > 0 && index.higherIsBetter;
  const verdict = (answer) =>
    (isPart(answer) ? "partly right" : words[answer.right]) + (answer.score === null ? "" : ", " + index.headline + " " + points(answer.score, index.digits));

  function answerLine(name, answer, references, withVerdict) {
    const differs = answer.right === false && answer.text && short(answer.text) && references.some(short);
    const compared = differs ? difference(visible(answer.text), references.filter(short).map(visible)) : null;
    const shown = element("span");
    shown.append(compared ? compared.answer : answer.text ? folding(answer.text) : "(empty)");
    if (withVerdict) shown.append(element("span", " " + verdict(answer), "aside"));
    return { row: line(name, shown, answer.text ? "" : "none"), gold: compared && compared.gold };
  }

  async function item(number) {
    const texts = await textsOf(number);
    const { references, answer } = texts;
    const made = element("li", null, answer.right === null ? "" : words[answer.right]);
    const head = element("p", null, "head");
    const link = element("a");
    link.href = "#" + new URLSearchParams({ id: index.ids[number] });
    link.append(element("code", visible(index.ids[number])));
    head.append(element("span", verdict(answer), "verdict"), link);
    for (const flag of answer.flags) head.append(element("span", flag.replace("_", " "), "mark"));
    const body = element("dl", null, "example");
    const mine = answerLine("Answer", answer, references, false);
    body.append(line("Question", visible(texts.question)));
    if (texts.before && texts.before.length) body.append(line("Before", folding(texts.before.join("\n")), "context"));
    body.append(
      line("Context", context(texts.context, references, Boolean(only)), "context"),
      line("Gold", mine.gold || folding(references.join("\n"))),
      mine.row,
    );
    if (mine.gold && references.length > 1) body.append(line("All golds", folding(references.join("\n"))));
    if (texts.before) {
      const apart = short(texts.state) && short(texts.goldState) ? difference(visible(texts.state), [visible(texts.goldState)]) : null;
      body.append(
        line("Gold state", texts.goldState ? (apart ? apart.gold : folding(texts.goldState)) : "(empty)"),
        line("State", texts.state ? (apart ? apart.answer : folding(texts.state)) : "(empty)"),
      );
      if (texts.parted) body.append(line("Parted", folding(texts.parted)));
    }
    if (answer.raw !== null) body.append(line(index.answers === "raw" ? "Extracted" : "Whole output", folding(answer.raw)));
    for (const [variant, other] of texts.wordings) {
      body.append(answerLine("Wording " + variant, other, references, true).row);
    }
    if (texts.other) body.append(answerLine("Other", texts.other, references, true).row);
    made.append(head, body);
    return made;
  }

  async function draw(mine) {
    const shown = found.slice(at, at + PAGE);
    const items = await Promise.all(shown.map(item));
    if (mine !== turn) return;
    list.replaceChildren(...items);
    list.start = at + 1;
    pager.hidden = found.length <= PAGE;
    place.textContent = (at + 1).toLocaleString("en") + " to " + (at + shown.length).toLocaleString("en");
    pager.querySelector("[data-previous]").disabled = at === 0;
    pager.querySelector("[data-next]").disabled = at + PAGE >= found.length;
    count.replaceChildren(
      only ? (found.length ? "One example of " : "There is no example " + only + " among ") : found.length.toLocaleString("en") + " of ",
      index.ids.length.toLocaleString("en") + (only ? ". " : " examples"),
    );
    if (only) {
      const back = element("a", "Show all");
      back.href = "#all=1";
      count.append(back);
    }
    say(count.textContent);
  }

  // Choosing

  function chosen(number) {
    const kind = form.kind.value;
    const [mine, theirs] = [index.right[number], index.otherRight[number]];
    if (kind === "right" && mine !== true) return false;
    if (kind === "wrong" && mine !== false) return false;
    if (kind === "only" && !(mine === true && theirs === false)) return false;
    if (kind === "other" && !(mine === false && theirs === true)) return false;
    if (kind === "differ" && (mine === null || theirs === null || mine === theirs)) return false;
    return !(form.flag && form.flag.value) || index.flags[number].includes(form.flag.value);
  }

  function holds(texts, needle) {
    const all = [texts.question, texts.context, ...texts.references, texts.answer.text, texts.answer.raw || ""];
    for (const [, other] of texts.wordings) all.push(other.text);
    if (texts.other) all.push(texts.other.text);
    return all.some((text) => text.toLowerCase().includes(needle));
  }

  async function search(numbers, needle, mine) {
    const hits = [];
    let last = -1;
    for (const number of numbers) {
      const piece = pieceOf(number);
      if (piece !== last) {
        last = piece;
        count.textContent = "Searching piece " + (piece + 1) + " of " + starts.length + " …";
      }
      const texts = await textsOf(number);
      if (mine !== turn) return null;
      if (holds(texts, needle) || index.ids[number].toLowerCase().includes(needle)) hits.push(number);
    }
    return hits;
  }

  async function show(page) {
    const mine = ++turn;
    try {
      let numbers = only ? [index.ids.indexOf(only)].filter((number) => number >= 0) : index.ids.map((_, number) => number).filter(chosen);
      const needle = form.q.value.trim().toLowerCase();
      if (needle && !only) numbers = await search(numbers, needle, mine);
      if (numbers === null || mine !== turn) return;
      const loss = (number) => (index.loss[number] === null ? Infinity : index.loss[number]);
      if (form.sort.value === "loss") numbers.sort((a, b) => (loss(a) === loss(b) ? a - b : loss(b) - loss(a)));
      if (form.sort.value === "length") numbers.sort((a, b) => index.length[b] - index.length[a] || a - b);
      found = numbers;
      at = Math.min(page * PAGE, Math.max(0, Math.ceil(found.length / PAGE) - 1) * PAGE);
      await draw(mine);
    } catch (error) {
      count.textContent = "The examples could not be loaded: " + error.message + ".";
    }
  }

  function keep() {
    const pairs = { q: form.q.value.trim(), kind: form.kind.value, sort: form.sort.value };
    if (form.flag) pairs.flag = form.flag.value;
    if (at) pairs.page = String(at / PAGE + 1);
    state.write(only ? { id: only } : pairs);
  }

  function restore() {
    const pairs = state.read();
    only = pairs.get("id") || "";
    form.hidden = Boolean(only);
    for (const name of ["q", "kind", "sort", "flag"]) {
      const control = form[name];
      if (control) control.value = pairs.get(name) || "";
      if (name === "flag" && control && control.selectedIndex < 0) control.add(new Option(pairs.get(name).replace(/_/g, " "), pairs.get(name), true, true));
      if (control && control.selectedIndex < 0) control.selectedIndex = 0;
    }
    return show(Math.max(0, (Number(pairs.get("page")) || 1) - 1));
  }

  async function turnTo(start) {
    at = start;
    await draw(++turn);
    keep();
    document.getElementById("main").scrollIntoView();
  }

  let typing = 0;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => show(0).then(keep), event.target.name === "q" ? 300 : 0);
  });
  pager.querySelector("[data-previous]").addEventListener("click", () => turnTo(at - PAGE));
  pager.querySelector("[data-next]").addEventListener("click", () => turnTo(at + PAGE));
  window.addEventListener("hashchange", restore);

  count.textContent = "Loading …";
  load("index").then(
    (value) => {
      index = value;
      let start = 0;
      starts = index.sizes.map((size) => {
        start += size;
        return start - size;
      });
      return restore();
    },
    (error) => (count.textContent = "The examples could not be loaded: " + error.message + "."),
  );
})();
