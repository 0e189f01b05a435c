// Tests pairs of systems, and computes totals, intervals and ranks for chosen tasks, with the same sign flips as the build.
// The code follows decabench/scoring/pairs.py and significance.py, which explain the methods and use the same names.
(function () {
  "use strict";
  const { load } = decabench;
  const RESAMPLES = 1999;
  const LEVEL = 0.05;
  const NORMAL = 1.96;
  const TIE = 1e-4;
  const SURE = 1e6;
  const TINY = 1.2e-38;
  const WORD = 2 ** 32;

  const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));

  // Returns a compensated sum, so that totals have the same digits as in Python.
  function sum(values) {
    let total = 0;
    let rest = 0;
    for (const value of values) {
      const next = total + value;
      rest += Math.abs(total) >= Math.abs(value) ? total - next + value : value - next + total;
      total = next;
    }
    return total + rest;
  }

  // Returns random bytes as NumPy's SFC64 does. The state consists of four 64-bit words, each as a low and a high half.
  function randomBytes(state, count) {
    let [al, ah, bl, bh, cl, ch, wl, wh] = state;
    const words = new Uint32Array(2 * Math.ceil(count / 8));
    for (let at = 0; at < words.length; at += 2) {
      const low = al + bl + wl;
      const tl = low >>> 0;
      const th = (ah + bh + wh + Math.floor(low / WORD)) >>> 0;
      wl = (wl + 1) >>> 0;
      if (!wl) wh = (wh + 1) >>> 0;
      al = (bl ^ ((bl >>> 11) | (bh << 21))) >>> 0;
      ah = (bh ^ (bh >>> 11)) >>> 0;
      const sl = cl + ((cl << 3) >>> 0);
      bl = sl >>> 0;
      bh = (ch + (((ch << 3) | (cl >>> 29)) >>> 0) + (sl >= WORD ? 1 : 0)) >>> 0;
      const rl = (((cl << 24) | (ch >>> 8)) >>> 0) + tl;
      ch = ((((ch << 24) | (cl >>> 8)) >>> 0) + th + (rl >= WORD ? 1 : 0)) >>> 0;
      cl = rl >>> 0;
      words[at] = tl;
      words[at + 1] = th;
    }
    return new Uint8Array(words.buffer, 0, count);
  }

  // Returns, for each resample, the sum of the values after it has flipped some of their signs.
  function flip(layout, values) {
    const sums = new Float64Array(RESAMPLES);
    const table = new Float64Array(256);
    for (let column = 0; column < layout.width; column++) {
      table[0] = 0;
      for (let bit = 0; bit < 8; bit++) table[0] -= values[8 * column + bit] || 0;
      for (let byte = 1; byte < 256; byte++) {
        const lowest = 31 - Math.clz32(byte & -byte);
        table[byte] = table[byte & (byte - 1)] + 2 * (values[8 * column + 7 - lowest] || 0);
      }
      for (let at = column * RESAMPLES, index = 0; index < RESAMPLES; index++, at++) sums[index] += table[layout.signs[at]];
    }
    return sums;
  }

  const where = (values, strata, stratum) => (strata ? values.map((value, index) => (strata[index] === stratum ? value : 0)) : values);

  // Prepares the units of a task. Systems with the same layout were scored on the same units.
  function makeLayout(given) {
    const count = given.sizes ? given.sizes.length : given.count;
    const width = Math.ceil(count / 8);
    const drawn = randomBytes(given.state, RESAMPLES * width);
    const signs = new Uint8Array(drawn.length);
    for (let index = 0; index < RESAMPLES; index++) {
      for (let column = 0; column < width; column++) signs[column * RESAMPLES + index] = drawn[index * width + column];
    }
    const strata = given.strata;
    const number = strata ? Math.max(...strata) + 1 : 1;
    const within = new Float64Array(number);
    const members = new Float64Array(number);
    for (let index = 0; index < count; index++) {
      within[strata ? strata[index] : 0] += given.sizes ? given.sizes[index] : 1;
      members[strata ? strata[index] : 0] += 1;
    }
    const shares = Float64Array.from({ length: count }, (_, index) => (given.sizes ? given.sizes[index] : 1) / within[strata ? strata[index] : 0]);
    const layout = { ...given, count, width, signs, strata, shares };
    layout.blocks = Array.from({ length: number }, (_, stratum) => {
      const s = where(shares, strata, stratum);
      const c = (members[stratum] - 1) / members[stratum];
      const h = where(shares.map((share) => c / (1 - share) ** 2), strata, stratum);
      const square = s.reduce((total, share, index) => total + h[index] * share * share, 0);
      const block = { stratum, s, h, square };
      return Object.assign(block, resampled(layout, block, s));
    });
    return layout;
  }

  function resampled(layout, block, x) {
    const moved = flip(layout, x);
    const weighted = flip(layout, x.map((value, index) => block.h[index] * block.s[index] * value));
    return { moved: Float32Array.from(moved), lean: Float32Array.from(moved, (value, index) => block.square * value - 2 * weighted[index]) };
  }

  class Tests {
    // `table` is the content of data/tests/<table>.js.
    constructor(table) {
      this.table = table;
      this.layouts = new Map();
      this.systems = new Map();
      this.found = new Map();
    }

    async load(pages) {
      await Promise.all(
        pages.map(async (page) => {
          if (!this.systems.has(page)) this.systems.set(page, await load("units/" + page));
        }),
      );
    }

    // Returns what each unit contributes to a system's score on a task, and the effect of each resample on the score.
    // Returns null if there are no statistics.
    system(page, task) {
      const key = page + " " + task;
      if (!this.found.has(key)) this.found.set(key, this.makeSystem(this.systems.get(page).units[task]));
      return this.found.get(key);
    }

    makeSystem(given) {
      if (!given) return null;
      if (!this.layouts.has(given.layout)) this.layouts.set(given.layout, makeLayout(this.table.layouts[given.layout]));
      const layout = this.layouts.get(given.layout);
      const coded = bytes(given.parts);
      const parts = given.values ? Float64Array.from(coded, (code) => given.values[code]) : Float64Array.from(new Float32Array(coded.buffer));
      const x = parts.map((part, index) => part - (layout.shares[index] * given.score) / layout.blocks.length);
      const blocks = layout.blocks.map((block) => {
        const own = where(x, layout.strata, block.stratum);
        const weight = own.reduce((total, value, index) => total + block.h[index] * block.s[index] * value, 0);
        return { x: own, weight, ...resampled(layout, block, own) };
      });
      return { layout, parts, blocks, score: given.score };
    }

    // Returns the difference b − a, summed over tasks, before resampling. Returns null if the pair cannot be tested.
    difference(a, b, tasks) {
      const found = [];
      const scores = [];
      for (const task of tasks) {
        const [first, second] = [this.system(a, task), this.system(b, task)];
        if (!first || !second || first.layout !== second.layout) return null;
        scores.push(second.score, -first.score);
        first.layout.blocks.forEach((block, index) => {
          const [i, j] = [first.blocks[index], second.blocks[index]];
          let own = 0;
          for (let unit = 0; unit < i.x.length; unit++) own += block.h[unit] * (j.x[unit] - i.x[unit]) ** 2;
          found.push({ block, i, j, own });
        });
      }
      const difference = sum(scores);
      const variance = sum(found.map((one) => one.own));
      const observed = difference ** 2 / Math.max(variance, difference ** 2 / SURE + TINY);
      return { difference, variance, observed, found };
    }

    // Returns the difference in each resample, under the null hypothesis, as a squared number of standard errors.
    resample({ difference, variance, found }, into) {
      const { moved, spread } = into;
      moved.fill(0);
      let fixed = 0;
      for (const [number, { block, i, j, own }] of found.entries()) {
        const shared = (variance > 0 ? own / variance : 1 / found.length) * difference;
        const [mi, mj, li, lj, shift, leanShift] = [i.moved, j.moved, i.lean, j.lean, block.moved, block.lean];
        for (let index = 0; index < RESAMPLES; index++) {
          const by = mj[index] - mi[index] + shared * shift[index];
          const across = (lj[index] - li[index] + shared * leanShift[index]) * by;
          moved[index] += by;
          spread[index] = number ? spread[index] + across : across;
        }
        fixed += own + 2 * shared * (j.weight - i.weight) + shared * shared * block.square;
      }
      for (let index = 0; index < RESAMPLES; index++) {
        const square = moved[index] * moved[index];
        moved[index] = square / Math.max(spread[index] + fixed, square / SURE + TINY);
      }
      return moved;
    }

    // Tests b minus a. `highest` contains the highest squared ratio of any pair of the family for each resample.
    pair(a, b, tasks, isMean, highest, areFamily) {
      const found = this.difference(a, b, tasks);
      if (!found) return null;
      const parts = isMean ? tasks.length : 1;
      const memory = { moved: new Float64Array(RESAMPLES), spread: new Float64Array(RESAMPLES) };
      const reached = this.resample(found, memory);
      const p = share(reached, found.observed);
      const most = areFamily ? highest : highest.map((value, index) => Math.max(value, reached[index]));
      const size = this.size(a, b, tasks);
      const [near, far] = ends(found, size, critical(reached));
      const span = sum(tasks.map((task) => this.system(a, task).layout.span ?? Infinity)) / parts;
      const difference = found.difference / parts;
      const [below, above] = difference > 0 ? [near, far] : [far, near];
      const [low, high] = [Math.max(difference - below / parts, -span), Math.min(difference + above / parts, span)];
      const adjusted = share(most, found.observed);
      return {
        difference,
        interval: size && Number.isFinite(low) && Number.isFinite(high) ? [low, high] : null,
        p,
        adjusted,
        verdict: adjusted < LEVEL ? Math.sign(difference) : 0,
        isSame: !size,
      };
    }

    // Returns how much a typical unit on which the systems differ changes the difference, or 0 if no unit differs.
    size(a, b, tasks) {
      let [squares, fourths] = [0, 0];
      for (const task of tasks) {
        const [first, second] = [this.system(a, task).parts, this.system(b, task).parts];
        for (let unit = 0; unit < first.length; unit++) {
          const square = (second[unit] - first[unit]) ** 2;
          squares += square;
          fourths += square * square;
        }
      }
      return squares > 0 ? Math.sqrt(fourths / squares) : 0;
    }

    // Tests all pairs. Returns the highest squared ratio of any pair in each resample, the adjusted p and the differences.
    // Pauses regularly, because there can be many pairs. Returns null if `isWanted` returns false after a pause.
    async family(pages, tasks, isWanted) {
      const highest = new Float64Array(RESAMPLES);
      const memory = { moved: new Float64Array(RESAMPLES), spread: new Float64Array(RESAMPLES) };
      const observed = pages.map(() => new Float64Array(pages.length).fill(NaN));
      const differences = pages.map(() => new Float64Array(pages.length).fill(NaN));
      let started = performance.now();
      for (let b = 1; b < pages.length; b++) {
        for (let a = 0; a < b; a++) {
          if (performance.now() - started > 30) {
            await new Promise((resolve) => setTimeout(resolve));
            if (!isWanted()) return null;
            started = performance.now();
          }
          const found = this.difference(pages[a], pages[b], tasks);
          if (!found) continue;
          const reached = this.resample(found, memory);
          for (let index = 0; index < RESAMPLES; index++) if (reached[index] > highest[index]) highest[index] = reached[index];
          observed[a][b] = observed[b][a] = found.observed;
          differences[a][b] = found.difference;
          differences[b][a] = -found.difference;
        }
      }
      const sorted = Float64Array.from(highest).sort();
      const adjusted = observed.map((row) => Array.from(row, (one) => shareOfSorted(sorted, one)));
      return { highest, adjusted, differences };
    }
  }

  const least = (observed) => Math.fround(observed * (1 - TIE) ** 2);

  // Returns the share of resamples whose squared ratio is at least `observed`. The data itself counts as a resample.
  function share(reached, observed) {
    if (observed === 0) return 1;
    const from = least(observed);
    let count = 1;
    for (const one of reached) if (one >= from) count++;
    return count / (reached.length + 1);
  }

  function shareOfSorted(sorted, observed) {
    if (Number.isNaN(observed) || observed === 0) return observed === 0 ? 1 : NaN;
    let [low, high] = [0, sorted.length];
    const from = least(observed);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < from) low = middle + 1;
      else high = middle;
    }
    return (sorted.length - low + 1) / (sorted.length + 1);
  }

  // Returns the number of standard errors beyond which `share` is below LEVEL.
  function critical(reached) {
    const allowed = Math.ceil(LEVEL * (RESAMPLES + 1)) - 1;
    const square = Float64Array.from(reached).sort()[RESAMPLES - allowed];
    return square < SURE * (1 - TIE) ? Math.sqrt(square) / (1 - TIE) : Infinity;
  }

  // Returns how far the interval of a difference extends from the difference towards 0, and away from 0.
  function ends({ difference, variance }, size, errors) {
    const tested = Number.isFinite(errors) ? errors * Math.sqrt(variance) : Infinity;
    const wide = Math.max(errors, NORMAL) * Math.sqrt(variance + 2 * size ** 2);
    const distance = Math.abs(difference);
    return [tested < distance ? Math.min(wide, (distance + tested) / 2) : wide, wide];
  }

  // Returns the interval of a total, given for each task [score, variance or 0 if nothing varies, degrees of freedom, low, high].
  function totalInterval(spreads, scales, isMean) {
    if (spreads.some((one) => !one)) return null;
    const halves = [];
    const errors = [];
    let [lean, variance, square, fewest] = [0, 0, 0, Infinity];
    for (const [score, varies, freedom, low, high] of spreads) {
      const [below, above] = [score - low, high - score];
      if (varies && (below || above)) {
        const error = (below + above) / 2 / studentT(freedom);
        errors.push(error);
        lean += (error ** 3 * (below - above)) / (below + above);
      } else halves.push([below, above]);
      if (varies) {
        variance += varies;
        square += varies ** 2 / freedom;
        fewest = Math.min(fewest, freedom);
      }
    }
    if (errors.length) {
      const error = Math.hypot(...errors);
      const reach = error * studentT(Math.max(variance ** 2 / square, fewest));
      halves.push([reach * (1 + lean / error ** 3), reach * (1 - lean / error ** 3)]);
    }
    const total = sum(spreads.map((one) => one[0]));
    const [below, above] = [0, 1].map((side) => Math.hypot(...halves.map((one) => one[side])));
    const [low, high] = [sum(scales.map((one) => one.low ?? -Infinity)), sum(scales.map((one) => one.high ?? Infinity))];
    const parts = isMean ? spreads.length : 1;
    return [Math.max(total - below, low) / parts, Math.min(total + above, high) / parts];
  }

  const quantiles = new Map();

  // Returns the two-sided 95% quantile of Student's t. With t = sqrt(freedom) tan(angle), the density of the angle is
  // proportional to cos^(freedom - 1).
  function studentT(given) {
    const freedom = Math.min(Math.max(given, 1), 1e5);
    if (!quantiles.has(freedom)) {
      const steps = 40_000;
      const step = Math.PI / 2 / steps;
      const inside = new Float64Array(steps + 1);
      let before = 1;
      for (let index = 1; index <= steps; index++) {
        const density = index === steps ? Math.cos(Math.PI / 2) ** (freedom - 1) : Math.cos(index * step) ** (freedom - 1);
        inside[index] = inside[index - 1] + (before + density) / 2;
        before = density;
      }
      const wanted = (1 - LEVEL) * inside[steps];
      let index = 1;
      while (inside[index] < wanted) index++;
      const angle = (index - 1 + (wanted - inside[index - 1]) / (inside[index] - inside[index - 1])) * step;
      quantiles.set(freedom, Math.sqrt(freedom) * Math.tan(angle));
    }
    return quantiles.get(freedom);
  }

  // Returns the places of systems, sorted best first, from their formatted scores and the adjusted p of all pairs.
  function places(shown, adjusted) {
    const differ = (a, b) => adjusted[a][b] < LEVEL;
    const any = (from, to, index) => {
      for (let one = from; one < to; one++) if (differ(one, index)) return true;
      return false;
    };
    const placed = [];
    let [head, group] = [0, 1];
    for (let start = 0; start < shown.length; ) {
      let end = start + 1;
      while (end < shown.length && shown[end] === shown[start] && !any(start, end, end)) end++;
      for (let index = start; index < end; index++) {
        if (any(head, start, index)) {
          [head, group] = [start, group + 1];
          break;
        }
      }
      for (let index = start; index < end; index++) {
        let [better, worse] = [0, 0];
        for (let one = 0; one < shown.length; one++) if (differ(one, index)) one < index ? better++ : worse++;
        placed.push({ rank: head + 1, group, best: 1 + better, worst: shown.length - worse });
      }
      start = end;
    }
    return placed;
  }

  decabench.pairs = { Tests, places, sum, totalInterval, floats: (text) => new Float32Array(bytes(text).buffer) };
})();
