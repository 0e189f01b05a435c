// Stores the state of a page in its address, as key=value pairs after the #, which also works for pages opened from disk.
(function () {
  "use strict";

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

  decabench.state = { read, write, update };
})();
