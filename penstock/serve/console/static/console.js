// The live part of a page: numbers, plots and rows that follow one event stream. Pages work without it.

import { applyRows } from "./rows.js";

const address = document.body.dataset.stream;
const MOST_POINTS = 60;
let source = null;
let position = null;
let paused = false;
let reloading = false;

function show(numbers) {
  for (const place of document.querySelectorAll("[data-live]")) {
    const [name, noun] = place.dataset.live.split("|");
    if (name in numbers) place.textContent = noun ? `${numbers[name]} ${noun}` : numbers[name];
  }
}

function plot(points) {
  for (const chart of document.querySelectorAll("svg[data-chart]")) {
    const value = points[chart.dataset.chart];
    if (value === undefined) continue;
    const values = [...chart.dataset.values.split(" ").filter(Boolean).map(Number), value].slice(-MOST_POINTS);
    chart.dataset.values = values.join(" ");
    const { width, height } = chart.viewBox.baseVal;
    const top = Math.max(...values, 1e-9);
    const step = width / (MOST_POINTS - 1);
    const first = width - step * (values.length - 1);
    const at = (v, i) => `${(first + i * step).toFixed(1)},${(height - 1 - ((height - 2) * v) / top).toFixed(1)}`;
    chart.querySelector("polyline").setAttribute("points", values.map(at).join(" "));
  }
}

function connected(yes) {
  const place = document.getElementById("connection");
  place.hidden = yes;
  place.textContent = yes ? "" : "The server does not answer. The page continues when it is back.";
}

async function reload() {
  if (reloading) return;
  reloading = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("tbody[data-rows]");
    const stale = document.querySelector("tbody[data-rows]");
    if (fresh && stale) stale.replaceWith(document.importNode(fresh, true));
  } finally {
    setTimeout(() => { reloading = false; }, 1000); // a view that changes faster is loaded once a second
  }
}

function open() {
  if (!address || source || paused || document.hidden) return;
  const link = new URL(address, location.href);
  if (position !== null) link.searchParams.set("since", position);
  source = new EventSource(link);
  source.onopen = () => connected(true);
  source.onerror = () => {
    connected(false);
    if (source && source.readyState === EventSource.CLOSED) {
      close();
      setTimeout(open, 2000);
    }
  };
  const on = (name, work) => source.addEventListener(name, (event) => {
    position = event.lastEventId || position;
    work(JSON.parse(event.data));
  });
  on("state", (data) => { show(data.numbers); plot(data.points); });
  on("rows", (data) => {
    if (data.rows.length && !document.querySelector("tbody[data-rows]")) location.reload(); // the first rows of an empty page
    const shown = applyRows(data.rows);
    const place = document.getElementById("live-rate");
    if (place) place.textContent = data.changes ? `${data.rate.replace("/s", " changes/s")}, showing ${shown} groups` : "live";
  });
  on("reload", reload);
}

function close() {
  if (source) source.close();
  source = null;
}

function togglePause(button) {
  paused = !paused;
  button.textContent = paused ? "Continue" : "Pause";
  button.setAttribute("aria-pressed", String(paused));
  button.closest(".live").classList.toggle("paused", paused);
  document.getElementById("live-rate").textContent = paused ? "paused" : "live";
  if (paused) close();
  else open();
}

const button = document.getElementById("live-pause");
if (button) {
  button.closest(".live").hidden = false;
  button.addEventListener("click", () => togglePause(button));
}
document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
addEventListener("pagehide", close);
addEventListener("pageshow", open);
open();
