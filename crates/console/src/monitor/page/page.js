// Keeps a page true. One source of events; each has the HTML of elements of the page, which the monitor has made and
// escaped. What differs is altered in place, so that a browser lays out and draws little; ages count on.
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

  // When ages were counted last, and the timer that counts them next.
  let counted = 0;
  let counting;
  const count = () => {
    clearTimeout(counting);
    counting = setTimeout(count, 1000);
    if (document.hidden) return;
    counted = Date.now();
    const now = counted - ahead;
    for (const age of document.querySelectorAll("time[data-at]")) {
      const passed = now - Number(age.dataset.at);
      const text = brief(Math.max(0, Math.floor(("left" in age.dataset ? -passed : passed) / 1000)));
      if (age.firstChild.data !== text) age.firstChild.data = text;
    }
  };
  count();

  const links = (element, target) =>
    [...element.querySelectorAll("a[href]")].filter((link) => link.getAttribute("href") === target);

  // Makes an element what it is in fresh HTML. One that leads elsewhere is another one: who has begun to press it must
  // not follow it. An age that counts from the same moment is counted here.
  const alter = (node, fresh) => {
    // What is said of a bar is said here.
    if (node.isEqualNode(fresh) || node.id === "whose") return;
    if (node.nodeName !== fresh.nodeName || node.getAttribute?.("href") !== fresh.getAttribute?.("href")) {
      node.replaceWith(fresh);
      return;
    }
    if (node.nodeType !== Node.ELEMENT_NODE) {
      node.data = fresh.data;
      return;
    }
    if (fresh.dataset.at && node.dataset.at === fresh.dataset.at) return;
    // What a reader has opened stays open.
    const isOurs = (name) => name !== "open" && !fresh.hasAttribute(name);
    for (const { name } of [...node.attributes]) if (isOurs(name)) node.removeAttribute(name);
    for (const { name, value } of fresh.attributes) {
      if (node.getAttribute(name) !== value) node.setAttribute(name, value);
    }
    let child = node.firstChild;
    for (const next of [...fresh.childNodes]) {
      const behind = child?.nextSibling;
      if (child) alter(child, next);
      else node.append(next);
      child = behind;
    }
    while (child) {
      const behind = child.nextSibling;
      child.remove();
      child = behind;
    }
  };

  const show = (element, fresh) => {
    // Several links may lead to the same place: the focus stays on the one that has it.
    const focused = document.activeElement;
    const target = element.contains(focused) && focused.getAttribute("href");
    const at = target ? links(element, target).indexOf(focused) : -1;
    alter(element, fresh);
    if (at < 0) return;
    const same = links(element, target);
    const heir = same[at] ?? same[0];
    if (heir !== document.activeElement) heir?.focus();
  };

  // Shows the elements that the page has, and returns how many it has not.
  const showAll = (html) => {
    const made = document.createElement("template");
    made.innerHTML = html;
    let elsewhere = 0;
    for (const fresh of [...made.content.children]) {
      const element = place(fresh.id);
      if (element) show(element, fresh);
      else elsewhere += 1;
    }
    return elsewhere;
  };

  const news = ({ parts, rows }) => {
    showAll(parts);
    const elsewhere = showAll(rows);
    // With the news, so that the page is drawn once for both.
    if (Date.now() - counted > 900) count();
    const more = place("more");
    if (more && elsewhere > 0) {
      more.textContent = "Other locks are in use meanwhile: load the page anew to see all.";
      more.hidden = false;
    }
  };

  // Says what the bar is that is pointed to or has the focus.
  const tell = ({ target }) => {
    const bar = target.closest?.(".line a");
    const whose = place("whose");
    if (bar && whose) whose.textContent = bar.getAttribute("aria-label");
  };
  document.addEventListener("pointerover", tell);
  document.addEventListener("focusin", tell);

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
