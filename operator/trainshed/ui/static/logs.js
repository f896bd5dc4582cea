// Keeps the lines of logs up to date, and finds text in them. Without it the page shows the last lines, and its form works.
"use strict";
(() => {
  const log = document.getElementById("log");
  const form = document.getElementById("log-form");
  if (!log || !form || !window.EventSource) return;
  const MOST = 10000, CHUNK = 50, MOST_MARKS = 2000;
  const find = document.getElementById("log-find"), found = document.getElementById("log-found");
  const follow = document.getElementById("log-follow");
  let chunks = [], count = 0, following = true, source = null, matches = [], at = -1, findTimer = 0, formTimer = 0, settling = 0;

  // ---------------------------------------------------------------------------------------------- the ring of lines

  function chunk() {
    const last = chunks[chunks.length - 1];
    if (last && last.childElementCount < CHUNK) return last;
    const next = document.createElement("div");
    next.className = "log-chunk";
    log.append(next);
    chunks.push(next);
    return next;
  }

  function add(lines) {
    let room = chunk();
    for (const line of lines) {
      if (room.childElementCount >= CHUNK) room = chunk();
      room.append(line);
      count++;
    }
    while (count - chunks[0].childElementCount >= MOST) {
      count -= chunks[0].childElementCount;
      chunks.shift().remove();
    }
  }

  function parsed(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return [...template.content.children];
  }

  function clear() {
    log.replaceChildren();
    chunks = [];
    count = 0;
  }

  function toEnd() {
    log.scrollTop = log.scrollHeight;
  }

  function setFollowing(on) {
    following = on;
    follow.setAttribute("aria-pressed", String(on));
    if (on) toEnd();
  }

  // ------------------------------------------------------------------------------------------------ what comes in

  function query() {
    const data = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value !== "") data.append(name, value);
    return data;
  }

  // Replaces the content of an element, if it is another: what is the same is not announced again.
  function put(id, html) {
    const old = document.getElementById(id), [fresh] = parsed(html);
    if (old && fresh.innerHTML !== old.innerHTML) old.innerHTML = fresh.innerHTML;
  }

  function connection(text) {
    const place = document.getElementById("link");
    if (place.textContent !== text) place.textContent = text;
  }

  function open() {
    if (source) source.close();
    const wanted = query();
    log.setAttribute("aria-busy", "true");
    source = new EventSource(log.dataset.live + "?" + wanted);
    source.onopen = () => connection("live");
    source.onerror = () => connection(source.readyState === EventSource.CLOSED ? document.body.dataset.ended : "not connected");
    source.addEventListener("log", (event) => {
      const message = JSON.parse(event.data);
      if (message.reset) clear();
      if (message.html) add(parsed(message.html));
      if (message.state) put("log-state", message.state);
      for (const [id, html] of Object.entries(message.parts ?? {})) put(id, html);
      if (message.ready) log.removeAttribute("aria-busy");
      if (following && !settling) settling = requestAnimationFrame(() => {
        settling = 0;
        if (following) toEnd();
      });
      if (find.value) later();
    });
  }

  function changed() {
    const wanted = query();
    if (wanted.get("lines") === form.dataset.usual) wanted.delete("lines");
    history.replaceState(null, "", wanted.size ? "?" + wanted : location.pathname);
    log.classList.toggle("with-times", wanted.has("times"));
    setFollowing(true);
    open();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(formTimer);
    changed();
  });
  form.addEventListener("input", (event) => {
    if (event.target === find) return;
    if (event.target.name === "times") {
      log.classList.toggle("with-times", event.target.checked);
      if (find.value) later();
      return;
    }
    clearTimeout(formTimer);
    formTimer = setTimeout(changed, 300);
  });

  // ------------------------------------------------------------------------------------------------------- finding

  function later() {
    clearTimeout(findTimer);
    findTimer = setTimeout(() => search(false), 200);
  }

  // What is read of a line one by one: a text that begins in one part and ends in the next is not there, nor a hidden time.
  function parts(line) {
    const all = line.childElementCount ? [...line.children] : [line];
    return log.classList.contains("with-times") ? all : all.filter((part) => part.localName !== "time");
  }

  function* texts(line) {
    for (const part of parts(line)) {
      const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) yield walker.currentNode;
    }
  }

  function mark(wanted) {
    if (!window.Highlight || !CSS.highlights) return;
    const ranges = [];
    for (const line of matches) {
      for (const node of texts(line)) {
        const text = node.data.toLowerCase();
        for (let i = text.indexOf(wanted); i >= 0 && ranges.length < MOST_MARKS; i = text.indexOf(wanted, i + wanted.length)) {
          const range = new Range();
          range.setStart(node, i);
          range.setEnd(node, Math.min(i + wanted.length, node.length));
          ranges.push(range);
        }
      }
      if (ranges.length >= MOST_MARKS) break;
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  }

  function search(moves) {
    const wanted = find.value.toLowerCase(), before = matches[at];
    matches = [];
    if (wanted) {
      for (const part of chunks) {
        for (const line of part.children) {
          if (parts(line).some((one) => one.textContent.toLowerCase().includes(wanted))) matches.push(line);
        }
      }
    }
    mark(wanted);
    at = before && before.isConnected ? matches.indexOf(before) : -1;
    if (before && at < 0) before.classList.remove("here");
    if (moves && matches.length) go(at < 0 ? matches.length - 1 : at);
    else say();
  }

  function say() {
    found.textContent = !find.value ? "" : matches.length ? `${at < 0 ? "–" : at + 1} of ${matches.length}` : "none";
  }

  function go(index) {
    if (matches[at]) matches[at].classList.remove("here");
    at = (index + matches.length) % matches.length;
    setFollowing(false);
    matches[at].classList.add("here");
    matches[at].scrollIntoView({ block: "center" });
    say();
  }

  function step(by) {
    if (matches.length) go(at < 0 ? (by > 0 ? 0 : matches.length - 1) : at + by);
  }

  find.addEventListener("input", () => {
    clearTimeout(findTimer);
    findTimer = setTimeout(() => search(true), 150);
  });
  find.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    step(event.shiftKey ? -1 : 1);
  });
  document.getElementById("log-back").addEventListener("click", () => step(-1));
  document.getElementById("log-on").addEventListener("click", () => step(1));
  follow.addEventListener("click", () => setFollowing(!following));

  // ------------------------------------------------------------------------------------------- scrolling and keys

  log.addEventListener("wheel", (event) => { if (event.deltaY < 0) setFollowing(false); }, { passive: true });
  log.addEventListener("touchmove", () => setFollowing(false), { passive: true });
  log.addEventListener("scroll", () => {
    const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 8;
    if (isAtEnd && !following) setFollowing(true);
  }, { passive: true });
  log.addEventListener("keydown", (event) => {
    if (["ArrowUp", "PageUp", "Home"].includes(event.key)) setFollowing(false);
    else if (event.key === "End") setFollowing(true);
    else if (event.key === "/") {
      event.preventDefault();
      find.focus();
    }
  });

  document.getElementById("log-tools").hidden = false;
  const lines = form.elements.lines;
  form.dataset.usual = lines.options[0].value;
  if (!new URLSearchParams(location.search).has("lines")) lines.value = String(MOST);
  toEnd();
  open();
})();
