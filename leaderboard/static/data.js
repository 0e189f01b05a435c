// Loads data files, and defines helpers for all pages.
// Data files are scripts, because browsers do not fetch JSON from file:// addresses.
(function () {
  "use strict";
  const values = new Map();
  const loading = new Map();

  function put(name, text) {
    values.set(name, JSON.parse(text));
  }

  // Returns a promise of the value in data/<name>.js. The file is loaded only once, by the first call.
  function load(name) {
    if (!loading.has(name)) {
      loading.set(
        name,
        new Promise((resolve, reject) => {
          const script = document.createElement("script");
          script.src = document.body.dataset.root + "data/" + name + ".js";
          script.addEventListener("load", () =>
            values.has(name) ? resolve(values.get(name)) : reject(new Error("data/" + name + ".js contains no data")),
          );
          script.addEventListener("error", () => reject(new Error("data/" + name + ".js could not be read")));
          document.head.append(script);
        }),
      );
    }
    return loading.get(name);
  }

  // Returns an element with text, which is never interpreted as markup.
  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined && text !== null) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function button(text, act, className) {
    const made = element("button", text, className);
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  }

  // Returns a term and its description, for a description list.
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

  function say(text) {
    document.querySelector("[data-status]").textContent = text;
  }

  // Rounds like Python: a number that is halfway between two others, such as 46.25, is rounded to the even digit.
  // Such a number is a multiple of a power of two, so it is recognized exactly.
  function fixed(value, digits) {
    const scaled = Math.abs(value) * 10 ** digits;
    if (!Number.isInteger(value * 2 ** (digits + 1)) || scaled % 1 !== 0.5) return value.toFixed(digits);
    return ((Math.sign(value) * 2 * Math.round(scaled / 2)) / 10 ** digits).toFixed(digits);
  }

  const points = (value, digits = 1) => (value === null || value === undefined ? "–" : fixed(value, digits));

  // The state of the page, which its address stores as key=value pairs after the #. This also works for pages opened from
  // disk.

  function read() {
    const text = location.hash.slice(1);
    return text.includes("=") ? new URLSearchParams(text) : new URLSearchParams();
  }

  function write(pairs) {
    const kept = new URLSearchParams();
    for (const [key, value] of Object.entries(pairs)) if (value) kept.set(key, value);
    const text = kept.toString();
    if (!text && !location.hash.includes("=")) return;
    history.replaceState(null, "", text ? "#" + text : location.href.split("#")[0]);
  }

  // Changes some pairs and keeps the others.
  const update = (pairs) => write({ ...Object.fromEntries(read()), ...pairs });

  window.decabench = { put, load, element, button, line, say, fixed, points, state: { read, write, update } };
})();
