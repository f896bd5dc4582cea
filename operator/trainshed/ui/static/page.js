// Keeps the page current: applies what the server sends. Every page can be read without it.
"use strict";
(() => {
  // What a reader has opened stays open.
  const stays = (name, element) => !(name === "open" && element.tagName === "DETAILS");
  const morphed = { morphStyle: "outerHTML", ignoreActiveValue: true, callbacks: { beforeAttributeUpdated: stays } };
  let source = null;
  let seen = "";

  const said = (text) => {
    const place = document.getElementById("link");
    if (place && place.textContent !== text) place.textContent = text;
  };

  const built = (html) => {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    return holder.content.firstElementChild;
  };

  // Puts the rows below an element in an order; others go. Rows that are where they belong are not touched.
  const arrange = (list, ids, html) => {
    const there = new Map([...list.children].map((row) => [row.id, row]));
    const wanted = new Set(ids);
    for (const [id, row] of there) if (!wanted.has(id)) row.remove();
    let place = list.firstElementChild;
    for (const id of ids) {
      const row = there.get(id) ?? (html[id] ? built(html[id]) : null);
      if (!row) continue;
      if (row === place) place = place.nextElementSibling;
      else list.insertBefore(row, place);
    }
  };

  const apply = (message) => {
    const html = message.html ?? {};
    for (const [id, text] of Object.entries(html)) {
      const element = document.getElementById(id);
      if (element) Idiomorph.morph(element, text, morphed);
    }
    for (const [id, ids] of Object.entries(message.order ?? {})) {
      const list = document.getElementById(id);
      if (list) arrange(list, ids, html);
    }
    for (const [id, text] of Object.entries(message.texts ?? {})) {
      const element = document.getElementById(id);
      if (element && element.textContent !== text) element.textContent = text;
    }
    document.dispatchEvent(new CustomEvent("trainshed:changed", { detail: message }));
  };

  const close = () => {
    if (source) source.close();
    source = null;
  };

  const open = () => {
    const path = document.body.dataset.live;
    if (!path || source) return;
    const url = new URL(path, location.href);
    if (seen) url.searchParams.set("since", seen);
    source = new EventSource(url);
    source.onopen = () => said("live");
    source.onmessage = (event) => {
      seen = event.lastEventId;
      apply(JSON.parse(event.data));
    };
    source.onerror = () => {
      said(source && source.readyState === EventSource.CLOSED ? document.body.dataset.ended : "not connected");
    };
  };

  // Shows another address of the same page: filters without a new document, so that focus and scroll stay.
  let wanted = null;
  const visit = async (url) => {
    wanted?.abort();
    wanted = new AbortController();
    try {
      const response = await fetch(url, { signal: wanted.signal });
      const found = new DOMParser().parseFromString(await response.text(), "text/html");
      if (!response.ok) throw new Error(response.statusText);
      close();
      seen = "";
      document.body.dataset.live = found.body.dataset.live ?? "";
      Idiomorph.morph(document.getElementById("main"), found.getElementById("main"), morphed);
      history.replaceState(null, "", response.url);
      open();
    } catch (error) {
      if (error.name !== "AbortError") location.assign(url);
    }
  };

  const filtered = (form) => {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    return `${form.getAttribute("action")}${query.size ? `?${query}` : ""}`;
  };

  const FORMS = "#filters, .visits";
  let pause = 0;
  document.addEventListener("input", (event) => {
    const form = event.target.form;
    if (!form?.matches(FORMS)) return;
    clearTimeout(pause);
    pause = setTimeout(() => visit(filtered(form)), event.target.type === "search" ? 200 : 0);
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches(FORMS)) return;
    event.preventDefault();
    visit(filtered(event.target));
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("#counts a, #empty a, #turns a[href]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    visit(link.getAttribute("href"));
  });

  // Browsers allow few connections to one server, so only pages that are seen have one.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
})();
