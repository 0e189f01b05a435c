// Which words of an answer and a gold differ: the longest common subsequence of their words, drawn as marks.
(function () {
  "use strict";
  const { element } = decabench;
  const MOST = 200;

  const key = (word) => word.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");

  // For each word of both texts whether the other has it, in order.
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

  function marked(list, isCommon, tag) {
    const made = element("span");
    list.forEach((word, index) => {
      if (index) made.append(" ");
      made.append(isCommon[index] ? word : element(tag, word));
    });
    return made;
  }

  // The gold that has most in common, and both texts with their own words marked.
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

  decabench.difference = difference;
})();
