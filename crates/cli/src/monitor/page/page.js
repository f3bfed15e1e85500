// Keeps a page true. One source of events; each names elements of the page and has their HTML, which the monitor has
// made and escaped. Rows keep their places, and ages count on.
"use strict";
(() => {
  const body = document.body;
  const place = (id) => document.getElementById(id);
  // How far this machine's clock is from the monitor's, in milliseconds.
  const ahead = Date.now() - Number(body.dataset.now);

  const brief = (seconds) => {
    const two = (number) => String(number).padStart(2, "0");
    const minutes = Math.floor(seconds / 60);
    const hours = Math.floor(seconds / 3600);
    const days = Math.floor(seconds / 86400);
    if (days > 0) return `${days}d${hours % 24}h`;
    if (hours > 0) return `${hours}h${two(minutes % 60)}m`;
    if (minutes > 0) return `${minutes}m${two(seconds % 60)}s`;
    return `${seconds}s`;
  };

  const count = () => {
    if (document.hidden) return;
    const now = Date.now() - ahead;
    for (const age of document.querySelectorAll("time[data-at]")) {
      const passed = now - Number(age.dataset.at);
      const text = brief(Math.max(0, Math.floor(("left" in age.dataset ? -passed : passed) / 1000)));
      if (age.firstChild.data !== text) age.firstChild.data = text;
    }
  };
  setInterval(count, 1000);

  const links = (element, target) =>
    [...element.querySelectorAll("a[href]")].filter((link) => link.getAttribute("href") === target);

  // What an element was last, without its ages.
  const last = new Map();
  const replace = (element, html) => {
    const bare = html.replace(/(<time[^>]*>)[^<]*/g, "$1");
    if (last.get(element.id) === bare) return;
    last.set(element.id, bare);
    const made = document.createElement("template");
    made.innerHTML = html;
    const fresh = made.content.firstElementChild;
    // Several links may lead to the same place: the focus stays on the one that has it.
    const target = element.contains(document.activeElement) && document.activeElement.getAttribute("href");
    const at = target ? links(element, target).indexOf(document.activeElement) : -1;
    element.replaceWith(fresh);
    if (at >= 0) {
      const same = links(fresh, target);
      (same[at] ?? same[0])?.focus();
    }
  };

  const news = ({ parts, rows }) => {
    for (const [id, html] of Object.entries(parts)) {
      const element = place(id);
      if (element) replace(element, html);
    }
    let elsewhere = 0;
    for (const [id, html] of Object.entries(rows)) {
      const row = place(id);
      if (row) replace(row, html);
      else elsewhere += 1;
    }
    const more = place("more");
    if (more && elsewhere > 0) {
      more.textContent = "Other locks are in use meanwhile: load the page anew to see all.";
      more.hidden = false;
    }
  };

  if (!body.dataset.live) return;
  const url = new URL(body.dataset.live, document.baseURI);
  let source = null;
  const close = () => {
    source?.close();
    source = null;
  };
  const open = () => {
    if (source) return;
    source = new EventSource(url);
    source.addEventListener("news", (event) => {
      url.searchParams.set("from", event.lastEventId);
      news(JSON.parse(event.data));
      body.dataset.told = event.lastEventId;
    });
    source.addEventListener("reset", () => {
      close();
      // A page that cannot be told at all must not load in a circle.
      setTimeout(() => location.reload(), 1000);
    });
    source.onerror = () => {
      const live = place("live");
      live.className = "live stale";
      live.textContent = "the monitor does not answer";
      last.delete("live");
      // A monitor that refuses is asked again, as one that is gone.
      if (source?.readyState === EventSource.CLOSED) {
        close();
        setTimeout(() => document.hidden || open(), 2000);
      }
    };
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : (open(), count())));
  if (!document.hidden) open();
})();
