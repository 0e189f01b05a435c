// The registry of data files, and helpers for all pages.
// Data comes as script files because browsers do not fetch JSON from file://.
(function () {
  "use strict";
  const values = new Map();
  const loading = new Map();

  function put(name, text) {
    values.set(name, JSON.parse(text));
  }

  // The value of data/<name>.js, loaded once and only on request.
  function load(name) {
    if (!loading.has(name)) {
      loading.set(
        name,
        new Promise((resolve, reject) => {
          const script = document.createElement("script");
          script.src = document.body.dataset.root + "data/" + name + ".js";
          script.addEventListener("load", () =>
            values.has(name) ? resolve(values.get(name)) : reject(new Error(name + " is empty")),
          );
          script.addEventListener("error", () => reject(new Error(name + " could not be loaded")));
          document.head.append(script);
        }),
      );
    }
    return loading.get(name);
  }

  // An element with text, never markup.
  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined && text !== null) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  // A term and its description, in a list of them.
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

  // As Python rounds: a number halfway between two, such as 46.25, goes to the even one. A tie is a multiple of a power
  // of two, so that it is found exactly.
  function fixed(value, digits) {
    const scaled = Math.abs(value) * 10 ** digits;
    if (!Number.isInteger(value * 2 ** (digits + 1)) || scaled % 1 !== 0.5) return value.toFixed(digits);
    return ((Math.sign(value) * 2 * Math.round(scaled / 2)) / 10 ** digits).toFixed(digits);
  }

  const points = (value, digits = 1) => (value === null || value === undefined ? "–" : fixed(value, digits));

  window.decabench = { put, load, element, line, say, fixed, points };
})();
