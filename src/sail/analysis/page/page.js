"use strict";
// The report's page. Everything that comes from a run is put in as text, never as markup.
const SVG = "http://www.w3.org/2000/svg";
const COLOURS = ["#d1495b", "#2f6690", "#e0a100", "#2e8b57", "#7b4ea3", "#1f9e9e", "#8d5524", "#c2558f", "#5c7a99", "#6b8e23", "#b35c00", "#4b5cc4"];
let report = JSON.parse(document.getElementById("data").textContent);
const view = { find: "", group: "", hidden: new Set(), sorted: {}, zoom: {}, dragging: false };

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

function draw(tag, attributes, parent, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

const colour = (agent) => COLOURS[Math.max(report.agents.indexOf(agent), 0) % COLOURS.length];
const dashed = (agent) => report.agents.indexOf(agent) >= COLOURS.length;
const shown = (agent) => !view.hidden.has(agent);

function fits(env) {
  const known = report.envs.find((one) => one.name === env);
  if (view.group && !(known && known.groups.includes(view.group))) return false;
  return env.toLowerCase().includes(view.find.toLowerCase());
}

function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (size >= 1e9) return `${+(value / 1e9).toPrecision(3)}G`;
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return Math.round(value).toLocaleString("en");
  return String(+value.toPrecision(digits));
}

// For axes: 200k, 1.5M.
function short(value) {
  return Math.abs(value) >= 1e4 && Math.abs(value) < 1e6 ? `${+(value / 1e3).toPrecision(3)}k` : number(value, 3);
}

function save(name, type, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const fileName = (text) => text.replace(/[^A-Za-z0-9.+_-]+/g, "-").replace(/^[-.]+/, "") || "sail";

// Tables ---------------------------------------------------------------------------------------------------------------

function csv(table, rows) {
  const cell = (value) => {
    let text = value === null || value === undefined ? "" : String(value);
    if (typeof value === "string" && /^[=+@\t\r-]/.test(text)) text = `'${text}`; // or a spreadsheet would compute it
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const names = table.columns.flatMap((c) => (c.kind === "score" ? [c.name, `${c.name} low`, `${c.name} high`, `${c.name} seeds`, `${c.name} at`] : [c.name]));
  const at = table.columns.findIndex((c) => c.name === "at");
  const lines = rows.map((row) =>
    table.columns.flatMap((c, i) => {
      const value = row.cells[i];
      return c.kind === "score" ? (value ? [value.value, value.low, value.high, value.seeds, value.at ?? row.cells[at]] : [null, null, null, null, null]) : [value];
    }),
  );
  return [names, ...lines].map((line) => line.map(cell).join(",")).join("\n") + "\n";
}

const sortable = (value) => (value && typeof value === "object" ? value.value : value);

function tableRows(table) {
  const rows = table.rows.filter((row) => (row.env === undefined || fits(row.env)) && (row.agent === undefined || shown(row.agent)));
  const sorting = view.sorted[table.id];
  if (!sorting) return rows;
  const [column, up] = sorting;
  return [...rows].sort((a, b) => {
    const [x, y] = [sortable(a.cells[column]), sortable(b.cells[column])];
    if (x === y) return 0;
    if (x === null || x === undefined || x === "") return 1;
    if (y === null || y === undefined || y === "") return -1;
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en");
    return up ? order : -order;
  });
}

function showTable(table) {
  const visible = table.columns.map((c) => c.agent === undefined || shown(c.agent));
  const rows = tableRows(table);
  const head = make("tr");
  table.columns.forEach((column, i) => {
    if (!visible[i]) return;
    const sorting = view.sorted[table.id];
    const state = sorting && sorting[0] === i ? (sorting[1] ? "ascending" : "descending") : "none";
    const turn = () => {
      view.sorted[table.id] = [i, state === "descending" || (state === "none" && column.kind === "text")];
      refresh(table.id);
      document.getElementById(table.id).querySelectorAll("th")[place].focus();
    };
    const place = head.childElementCount;
    const key = (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); turn(); } };
    head.append(make("th", { scope: "col", class: column.kind, "aria-sort": state, tabindex: 0, onclick: turn, onkeydown: key, title: column.about || "" }, column.name));
  });
  const body = make("tbody");
  for (const row of rows) {
    const line = make("tr");
    row.cells.forEach((value, i) => {
      if (!visible[i]) return;
      const kind = table.columns[i].kind;
      const cell = make("td", kind === "text" ? { class: "text" } : {});
      if (kind === "score" && value) {
        const text = number(value.value);
        cell.append(value.best ? make("b", {}, text) : text);
        if (value.low !== null && value.low !== undefined) cell.append(make("small", {}, ` [${number(value.low, 3)}, ${number(value.high, 3)}]`));
        if (value.seeds) cell.append(make("small", { title: "seeds" }, ` x ${value.seeds}${value.of ? ` of ${value.of}` : ""}`));
        if (value.at) cell.append(make("small", { title: "measured here" }, ` @${number(value.at, 3)}`));
      } else {
        const text = kind === "share" && value !== null ? `${(100 * value).toFixed(1)} %` : kind === "text" ? String(value ?? "") : number(value);
        cell.append(row.bold ? make("b", {}, text) : text);
      }
      line.append(cell);
    });
    body.append(line);
  }
  const button = make("button", { type: "button", onclick: () => save(`${fileName(table.id)}.csv`, "text/csv", csv(table, rows)) }, "CSV");
  return section(table, make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), body)), button);
}

function section(part, content, ...buttons) {
  return make("section", { id: part.id }, make("div", { class: "head" }, make("h2", {}, part.title), make("div", {}, ...buttons)), make("p", {}, part.about || ""), content);
}

// Charts ---------------------------------------------------------------------------------------------------------------

const tip = make("div", { class: "tip", role: "status" });
document.body.append(tip);

function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough) || 10 * power;
  const found = [];
  if (low + step === low || high + step === high) return [low]; // too near each other, or too large, to count in steps
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9 && found.length < 50; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}

// A line chart: series of {agent?, name, colour, x, y, low?, high?, thin?}. Drag to zoom, double-click to see all again.
function lineChart(key, title, series, labels) {
  const figure = make("figure");
  const buttons = make("span");
  const all = make("button", { type: "button", hidden: "" }, "all");
  const svgButton = make("button", { type: "button" }, "SVG");
  buttons.append(all, " ", svgButton);
  figure.append(make("figcaption", {}, make("span", {}, title), buttons));
  const W = 420, H = 260, L = 54, R = 18, T = 8, B = 34;
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", title);
  figure.append(svg);
  let scale = null;

  function paint() {
    svg.replaceChildren();
    const visible = series.filter((one) => one.agent === undefined || shown(one.agent));
    let [x0, x1] = [Infinity, -Infinity];
    for (const one of visible) for (const x of one.x) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); }
    const zoom = view.zoom[key];
    if (zoom) [x0, x1] = zoom;
    all.toggleAttribute("hidden", !zoom);
    let [y0, y1] = [Infinity, -Infinity];
    for (const one of visible) {
      one.x.forEach((x, i) => {
        if (x < x0 || x > x1) return;
        for (const list of [one.y, one.low, one.high]) {
          const y = list ? list[i] : null;
          if (y !== null && y !== undefined) { y0 = Math.min(y0, y); y1 = Math.max(y1, y); }
        }
      });
    }
    if (!Number.isFinite(x0) || !Number.isFinite(y0)) {
      draw("text", { x: W / 2, y: H / 2, "text-anchor": "middle", fill: "currentColor", opacity: 0.6, "font-size": 13 }, svg, "nothing to show");
      scale = null;
      return;
    }
    if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
    const pad = (y1 - y0) * 0.05 || Math.abs(y1) * 0.05 || 0.5;
    [y0, y1] = [y0 - pad, y1 + pad];
    const px = (x) => L + ((x - x0) / (x1 - x0)) * (W - L - R);
    const py = (y) => T + ((y1 - y) / (y1 - y0)) * (H - T - B);
    scale = { x0, x1, px, visible };
    for (const y of ticks(y0, y1, 5)) {
      draw("line", { x1: L, x2: W - R, y1: py(y), y2: py(y), stroke: "currentColor", opacity: y === 0 ? 0.4 : 0.12 }, svg);
      draw("text", { x: L - 6, y: py(y) + 4, "text-anchor": "end", "font-size": 11, fill: "currentColor", opacity: 0.75 }, svg, short(y));
    }
    for (const x of ticks(x0, x1, 5)) {
      const anchor = px(x) > W - R - 12 ? "end" : "middle";
      draw("text", { x: anchor === "end" ? W - 2 : px(x), y: H - B + 15, "text-anchor": anchor, "font-size": 11, fill: "currentColor", opacity: 0.75 }, svg, short(x));
    }
    draw("text", { x: (L + W - R) / 2, y: H - 4, "text-anchor": "middle", "font-size": 11, fill: "currentColor", opacity: 0.75 }, svg, labels.x);
    const clip = `clip-${key.replace(/[^A-Za-z0-9]/g, "_")}`;
    draw("rect", { x: L, y: T, width: W - L - R, height: H - T - B }, draw("clipPath", { id: clip }, svg));
    const inside = draw("g", { "clip-path": `url(#${clip})` }, svg);
    const path = (xs, ys) => {
      let pen = false;
      return xs.map((x, i) => {
        if (ys[i] === null || ys[i] === undefined) { pen = false; return ""; }
        const word = `${pen ? "L" : "M"}${px(x).toFixed(1)} ${py(ys[i]).toFixed(1)}`;
        pen = true;
        return word;
      }).join("");
    };
    for (const one of visible) {
      if (!one.low) continue;
      const there = one.x.map((_, i) => i).filter((i) => one.low[i] !== null && one.high[i] !== null);
      if (there.length < 2) continue;
      const up = there.map((i) => `${px(one.x[i]).toFixed(1)} ${py(one.high[i]).toFixed(1)}`);
      const down = there.reverse().map((i) => `${px(one.x[i]).toFixed(1)} ${py(one.low[i]).toFixed(1)}`);
      draw("path", { d: `M${up.join("L")}L${down.join("L")}Z`, fill: one.colour, opacity: 0.16 }, inside);
    }
    for (const one of visible) {
      const style = { d: path(one.x, one.y), fill: "none", stroke: one.colour, "stroke-width": one.thin ? 1 : 1.8, opacity: one.thin ? 0.5 : 1, "stroke-linejoin": "round" };
      if (one.dashed) style["stroke-dasharray"] = "5 3";
      draw("path", style, inside);
      if (one.x.length === 1 && one.y[0] !== null) draw("circle", { cx: px(one.x[0]), cy: py(one.y[0]), r: 3, fill: one.colour }, inside);
    }
  }

  const toX = (event) => {
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * W;
    return scale.x0 + ((Math.min(Math.max(at, L), W - R) - L) / (W - L - R)) * (scale.x1 - scale.x0);
  };
  let from = null;
  let band = null;
  svg.addEventListener("pointerdown", (event) => {
    if (!scale || event.button) return;
    from = toX(event);
    view.dragging = true;
    band = draw("rect", { x: scale.px(from), y: T, width: 0, height: H - T - B, fill: "currentColor", opacity: 0.12 }, svg);
  });
  svg.addEventListener("pointermove", (event) => {
    if (!scale) return;
    const x = toX(event);
    if (from !== null && band) {
      band.setAttribute("x", Math.min(scale.px(from), scale.px(x)));
      band.setAttribute("width", Math.abs(scale.px(from) - scale.px(x)));
    }
    showTip(event, x, scale.visible, labels);
  });
  const end = (event) => {
    if (from !== null && scale) {
      const to = toX(event);
      if (Math.abs(scale.px(to) - scale.px(from)) > 8) view.zoom[key] = [Math.min(from, to), Math.max(from, to)];
      from = null;
      band = null;
      view.dragging = false;
      paint();
    }
  };
  svg.addEventListener("pointerup", end);
  svg.addEventListener("pointerleave", (event) => { tip.style.display = "none"; end(event); });
  const reset = () => { delete view.zoom[key]; paint(); };
  svg.addEventListener("dblclick", reset);
  all.addEventListener("click", reset);
  svgButton.addEventListener("click", () => save(`${fileName(title)}.svg`, "image/svg+xml", standalone(svg, scale ? scale.visible : [])));
  if (series.some((one) => one.agent === undefined)) {
    const entry = (one) => make("span", { style: "margin-right:1rem" }, make("i", { style: `display:inline-block;width:1rem;height:3px;margin-right:.3rem;vertical-align:middle;background:${one.colour}` }), one.name);
    figure.append(make("div", {}, ...series.map(entry)));
  }
  figure.paint = paint;
  return figure;
}

// For a file: black on white, with a legend, since the page's chips do not come along.
function standalone(svg, series = []) {
  const copy = svg.cloneNode(true);
  const [, , width, height] = copy.getAttribute("viewBox").split(" ").map(Number);
  const named = series.filter((one) => !one.thin);
  named.forEach((one, i) => {
    const y = height + 16 * i + 8;
    draw("line", { x1: 54, x2: 76, y1: y, y2: y, stroke: one.colour, "stroke-width": 2, ...(one.dashed ? { "stroke-dasharray": "5 3" } : {}) }, copy);
    draw("text", { x: 82, y: y + 4, "font-size": 11, fill: "currentColor" }, copy, one.name);
  });
  if (named.length) copy.setAttribute("viewBox", `0 0 ${width} ${height + 16 * named.length + 4}`);
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("style", "color:#1b2733;background:#fff;font-family:sans-serif");
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
}

function showTip(event, x, series, labels) {
  const rows = [];
  for (const one of series) {
    if (one.thin || !one.x.length) continue;
    let best = 0;
    one.x.forEach((at, i) => { if (Math.abs(at - x) < Math.abs(one.x[best] - x)) best = i; });
    if (one.y[best] === null) continue;
    const dot = make("i", { style: `background:${one.colour};width:.7rem;height:.7rem;border-radius:50%;display:inline-block;margin-right:.4rem` });
    rows.push(make("div", {}, make("span", {}, dot, one.name), make("span", {}, number(one.y[best]))));
  }
  if (!rows.length) { tip.style.display = "none"; return; }
  tip.replaceChildren(make("b", {}, `${number(x, 3)} ${labels.x}`), ...rows);
  tip.style.display = "block";
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 8))}px`;
}

// Bars from zero, one for each item, labels on the left; long ones are cut at the edge and say so.
function barChart(part) {
  if (part.agent !== undefined && !shown(part.agent)) return make("section", { id: part.id, hidden: "" });
  const items = part.items.filter((item) => (item.env === undefined || fits(item.env)) && (item.agent === undefined || shown(item.agent)));
  const W = 720, row = 18, L = 170, R = 105, T = 6;
  const H = T + row * Math.max(items.length, 1) + 8;
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", part.title);
  const sizes = items.map((item) => Math.abs(item.value)).filter(Number.isFinite).sort((a, b) => a - b);
  // One game may be hundreds of times better than nothing: it must not make the others vanish.
  const edge = Math.max(Math.min(sizes.at(-1) || 1, 4 * (sizes[Math.floor(sizes.length * 0.75)] || 1)), 1e-9);
  const low = items.some((item) => item.value < 0) ? -edge : 0;
  const px = (v) => L + ((Math.max(low, Math.min(edge, v)) - low) / (edge - low)) * (W - L - R);
  items.forEach((item, i) => {
    const y = T + i * row;
    const weight = item.bold ? 700 : 400;
    draw("text", { x: L - 8, y: y + 13, "text-anchor": "end", "font-size": 12, "font-weight": weight, fill: "currentColor" }, svg, item.label);
    const [a, b] = [px(0), px(item.value)];
    draw("rect", { x: Math.min(a, b), y: y + 3, width: Math.max(Math.abs(b - a), 0.5), height: row - 6, fill: item.agent ? colour(item.agent) : item.value < 0 ? "#2f6690" : "#d1495b" }, svg);
    const cut = Math.abs(item.value) > edge ? " →" : "";
    draw("text", { x: Math.max(a, b) + 5, y: y + 13, "font-size": 11, fill: "currentColor", opacity: 0.8 }, svg, `${item.text}${cut}`);
  });
  draw("line", { x1: px(0), x2: px(0), y1: T, y2: H - 6, stroke: "currentColor", opacity: 0.5 }, svg);
  if (!items.length) draw("text", { x: W / 2, y: 20, "text-anchor": "middle", fill: "currentColor", opacity: 0.6, "font-size": 13 }, svg, "nothing to show");
  const button = make("button", { type: "button", onclick: () => save(`${fileName(part.id)}.svg`, "image/svg+xml", standalone(svg)) }, "SVG");
  return section(part, make("figure", { class: "bars" }, svg), button);
}

// The page ---------------------------------------------------------------------------------------------------------------

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting && entry.target.paint) { entry.target.paint(); seen.unobserve(entry.target); }
}, { rootMargin: "400px" });

function curveSeries(curve, metric) {
  const own = { agent: curve.agent, colour: colour(curve.agent), dashed: dashed(curve.agent) };
  if (metric) return (curve.more[metric] ? [{ ...own, name: curve.agent, x: curve.more.x || curve.x, y: curve.more[metric] }] : []);
  const seeds = curve.seeds.length > 1 ? curve.seeds.map((s) => ({ ...own, name: `seed ${s.seed}`, x: curve.x, y: s.y, thin: true })) : [];
  const main = { ...own, name: `${curve.agent} (${curve.seeds.length})`, x: curve.x, y: curve.mean, low: curve.low, high: curve.high };
  return [...(curve.low ? [] : seeds), main];
}

function curvesPart(part) {
  const charts = make("div", { class: "charts" });
  for (const env of report.envs) {
    if (!fits(env.name)) continue;
    const mine = report.curves.filter((curve) => curve.env === env.name);
    const series = mine.flatMap((curve) => curveSeries(curve, part.metric));
    if (!series.length) continue;
    const figure = lineChart(`${part.id} ${env.name}`, part.metric ? `${env.name}: ${part.short}` : env.name, series, { x: env.unit });
    charts.append(figure);
    seen.observe(figure);
  }
  return section(part, charts.childElementCount ? charts : make("p", {}, "Nothing to show."));
}

function linesPart(part) {
  const series = part.series.map((one, i) => (one.agent === undefined ? { ...one, colour: COLOURS[i % COLOURS.length] } : { ...one, colour: colour(one.agent), dashed: dashed(one.agent) }));
  const figure = lineChart(part.id, part.title, series, { x: part.x });
  figure.paint();
  return section(part, make("div", { class: "charts", style: "grid-template-columns:minmax(0,720px)" }, figure));
}

function listPart(part) {
  const list = make("ul", { class: "plain" }, ...part.items.map((item) => make("li", {}, item)));
  return section(part, part.items.length > 12 ? make("details", {}, make("summary", {}, `${part.items.length} lines`), list) : list);
}

function videosPart(part) {
  const figures = part.items.filter((item) => fits(item.env) && shown(item.agent)).map((item) => make("figure", {}, make("figcaption", {}, item.label), item.kind === "video" ? make("video", { src: item.src, controls: "", loop: "", muted: "" }) : make("img", { src: item.src, alt: item.label, style: "width:100%" })));
  return section(part, make("div", { class: "charts" }, ...figures));
}

const KINDS = { table: showTable, bars: barChart, curves: curvesPart, lines: linesPart, list: listPart, videos: videosPart };

function refresh(id) {
  const part = report.parts.find((one) => one.id === id);
  document.getElementById(id).replaceWith(KINDS[part.kind](part));
}

function showFilters() {
  const group = document.getElementById("group");
  const names = [...new Set(report.envs.flatMap((env) => env.groups))];
  group.replaceChildren(make("option", { value: "" }, "all"), ...names.map((name) => make("option", { value: name }, name)));
  group.value = view.group;
  group.parentElement.hidden = names.length === 0;
  const chips = report.agents.map((agent) => {
    const dot = make("i", { style: `background:${colour(agent)}` });
    const turn = () => { if (shown(agent)) view.hidden.add(agent); else view.hidden.delete(agent); render(); };
    return make("button", { type: "button", class: "chip", "aria-pressed": String(shown(agent)), onclick: turn }, dot, agent);
  });
  document.getElementById("agents").replaceChildren(...chips);
}

function render() {
  document.title = report.title;
  document.getElementById("title").textContent = report.title;
  document.getElementById("subtitle").textContent = report.subtitle;
  showFilters();
  document.getElementById("main").replaceChildren(...report.parts.map((part) => KINDS[part.kind](part)));
  document.getElementById("footer").replaceChildren(make("p", {}, report.made));
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  try { localStorage.setItem("sail-theme", name); } catch { /* a file may have no storage */ }
}
let remembered = null;
try { remembered = localStorage.getItem("sail-theme"); } catch { /* likewise */ }
theme(remembered || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
document.getElementById("find").addEventListener("input", (event) => { view.find = event.target.value; render(); });
document.getElementById("group").addEventListener("change", (event) => { view.group = event.target.value; render(); });
render();

// Live: `sail watch` serves the same page and new data under /data.json. Parts that have not changed stay as they are,
// so that filters, zoom, open lists and the place on the page are kept.
const told = (data, part) => JSON.stringify(part.kind === "curves" ? [part, data.envs, data.agents, data.curves] : [part, data.agents, data.envs]);

function renew(fresh) {
  const old = report;
  const same = (x, y) => JSON.stringify(x) === JSON.stringify(y);
  report = fresh;
  if (!same(old.parts.map((part) => part.id), fresh.parts.map((part) => part.id)) || !same([old.agents, old.envs], [fresh.agents, fresh.envs])) {
    const place = scrollY;
    render();
    scrollTo(0, place);
    return;
  }
  document.getElementById("subtitle").textContent = report.subtitle;
  fresh.parts.forEach((part, i) => { if (told(old, old.parts[i]) !== told(fresh, part)) refresh(part.id); });
}

async function follow() {
  if (!view.dragging) {
    try {
      const answer = await fetch("data.json", { headers: { "If-None-Match": report.version }, cache: "no-store" });
      if (answer.status === 200) renew(await answer.json());
      else document.getElementById("subtitle").textContent = report.subtitle;
    } catch {
      document.getElementById("subtitle").textContent = "The server does not answer any more; what is here is the last it said.";
    }
  }
  setTimeout(follow, 700);
}
if (report.live) follow();
