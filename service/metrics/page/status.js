// SPDX-License-Identifier: Apache-2.0
// Shows /status.json. Its numbers count from the start of the service; rates and latencies come from
// the differences of two texts. All text is set as text, never as markup.
"use strict";

const interval = 1000; // ms
const history = [];    // texts of the last 60 s, the oldest first
const points = 61;

function element(name, options = {}, children = []) {
  const made = document.createElement(name);
  if (options.text !== undefined) made.textContent = options.text;
  if (options.kind) made.className = options.kind;
  made.append(...children);
  return made;
}

function chart(values) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", `0 0 ${points - 1} 20`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const most = Math.max(...values, 1e-9);
  const first = points - values.length;
  const line = values.map((value, i) => `${first + i},${19 - 18 * value / most}`).join("L");
  if (values.length > 1) {
    for (const [kind, path] of [["area", `M${first},20L${line}L${points - 1},20Z`], ["", `M${line}`]]) {
      const drawn = document.createElementNS(space, "path");
      drawn.setAttribute("d", path);
      if (kind) drawn.setAttribute("class", kind);
      svg.append(drawn);
    }
  }
  return svg;
}

function number(value) {
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  return value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1);
}

function bytes(value) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1024 || unit === "GiB") return `${value < 10 && unit !== "B" ? value.toFixed(1) : value.toFixed(0)} ${unit}`;
    value /= 1024;
  }
  return "";
}

function time(seconds) {
  if (seconds === null) return "\u2013";
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(0)} \u00b5s`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(seconds < 1e-2 ? 1 : 0)} ms`;
  return `${seconds.toFixed(1)} s`;
}

// The time that a share of the requests between two histograms did not exceed, between the bounds of
// its bucket in proportion. Null without requests.
function quantile(histogram, earlier, share) {
  const counts = histogram.counts.map((count, i) => count - (earlier ? earlier.counts[i] : 0));
  const all = counts[counts.length - 1];
  if (!(all > 0)) return null;
  const i = counts.findIndex(count => count >= share * all);
  const low = i > 0 ? histogram.bounds[i - 1] : 0;
  const high = histogram.bounds[i];
  if (high === null) return low;
  const below = i > 0 ? counts[i - 1] : 0;
  return low + (high - low) * (share * all - below) / (counts[i] - below);
}

// The rates of a count between the texts. `count` returns undefined for texts without it.
function rates(count) {
  const all = [];
  for (let i = 1; i < history.length; ++i) {
    const [a, b] = [count(history[i - 1]), count(history[i])];
    const elapsed = history[i].seconds - history[i - 1].seconds;
    all.push(a === undefined || b === undefined ? 0 : Math.max(b - a, 0) / elapsed);
  }
  return all;
}

const last = values => values.length > 0 ? values[values.length - 1] : 0;
const sum = counts => Object.values(counts).reduce((a, b) => a + b, 0);

function show_table(id, columns, rows) {
  const head = element("tr", {}, columns.map(([title, kind]) => element("th", {text: title, kind})));
  const body = rows.map(cells => element("tr", {}, cells.map((cell, i) => {
    const options = {kind: [columns[i][1], cell.kind].filter(Boolean).join(" ")};
    if (cell instanceof Node) return element("td", options, [cell]);
    return element("td", {...options, text: cell.text === undefined ? cell : cell.text}, cell.parts || []);
  })));
  document.getElementById(id).replaceChildren(element("thead", {}, [head]), element("tbody", {}, body));
}

function show_totals(now) {
  const requests = rates(text => sum(text.http.replies));
  const received = rates(text => text.http.received_bytes);
  const sent = rates(text => text.http.sent_bytes);
  const in_flight = history.map(text => text.http.in_flight);
  const memory = history.map(text => text.workers.reduce((all, worker) => all + worker.request_bytes, 0));
  const totals = [
    ["Requests/s", number(last(requests)), requests],
    ["In flight", number(now.http.in_flight), in_flight],
    ["Received/s", bytes(last(received)), received],
    ["Sent/s", bytes(last(sent)), sent],
    ["Inputs in memory", bytes(last(memory)), memory],
    ["Connections", number(now.http.connections), history.map(text => text.http.connections)],
  ];
  document.getElementById("totals").replaceChildren(...totals.map(([title, value, values]) =>
    element("div", {kind: "total"}, [element("h3", {text: title}), element("p", {text: value}), chart(values)])));
}

function show_models(now) {
  const columns = [["Model", "text"], ["Version"], ["State", "text"], ["Requests/s"], [""], ["In flight"],
    ["Median"], ["99 %"], ["Queue, 99 %"], ["Device, 99 %"], ["Batch"], ["Failures"]];
  show_table("models", columns, now.models.map(model => {
    const find = text => text.models.find(m => m.name === model.name && m.version === model.version) || {};
    const state = {text: model.state, kind: model.state === "served" ? "good" : model.state === "loading" ? "" : "bad",
      parts: model.problem ? [element("div", {text: model.problem, kind: "problem"})] : []};
    const name = element("div", {text: model.name, kind: "name"});
    if (model.request_seconds === undefined) {
      return [name, "\u2013", state, ...Array(columns.length - 3).fill("")];
    }
    const earlier = find(history[0]);
    const requests = rates(text => {
      const found = find(text);
      return found.successes === undefined ? undefined : found.successes + found.failures;
    });
    const served = model.successes - (earlier.successes || 0);
    const launches = model.executions - (earlier.executions || 0);
    const latency = (kind, share) => time(quantile(model[kind], earlier[kind], share));
    return [name, String(model.version), state, number(last(requests)), chart(requests),
      number(model.in_flight), latency("request_seconds", 0.5), latency("request_seconds", 0.99),
      latency("queue_seconds", 0.99), latency("device_seconds", 0.99),
      launches > 0 ? (served / launches).toFixed(1) : "\u2013", number(model.failures)];
  }));
}

function show_workers(now) {
  const columns = [["Worker", "text"], ["Device", "text"], ["State", "text"], ["Process"], ["Restarts"],
    ["In flight"], ["Inputs in memory"], [""]];
  show_table("workers", columns, now.workers.map((worker, i) => {
    const memory = history.map(text => text.workers[i] ? text.workers[i].request_bytes : 0);
    return [String(i), worker.device || "\u2013",
      {text: worker.is_up ? "up" : "down", kind: worker.is_up ? "good" : "bad"},
      worker.process ? String(worker.process) : "\u2013", {text: number(worker.restarts), kind: worker.restarts > 0 ? "bad" : ""},
      number(worker.runs_in_flight), `${bytes(worker.request_bytes)} of ${bytes(now.request_capacity)}`, chart(memory)];
  }));
}

function show_answers(now) {
  const columns = [["Kind", "text"], ["Since the start"], ["Rate/s"], [""]];
  const row = (title, counts, name) => {
    const values = rates(text => counts(text)[name] || 0);
    return [`${title} ${name}`, number(counts(now)[name]), number(last(values)), chart(values)];
  };
  const replies = text => text.http.replies;
  const refused = text => text.refused;
  show_table("answers", columns, [
    ...Object.keys(now.http.replies).map(code => row("status", replies, code)),
    ...Object.keys(now.refused).filter(reason => now.refused[reason] > 0).map(reason => row("refused:", refused, reason)),
  ]);
}

function show(now) {
  // The service was started again.
  if (history.length > 0 && sum(history[history.length - 1].http.replies) > sum(now.http.replies)) history.length = 0;
  history.push(now);
  if (history.length > points) history.shift();
  const summary = document.getElementById("summary");
  summary.textContent = `version ${now.version}, ${now.is_ready ? "ready" : "not ready"}`;
  summary.className = now.is_ready ? "good" : "bad";
  show_totals(now);
  show_models(now);
  show_workers(now);
  show_answers(now);
}

async function poll() {
  try {
    const reply = await fetch("status.json", {cache: "no-store"});
    if (!reply.ok) throw new Error(`status ${reply.status}`);
    show(await reply.json());
  } catch (error) {
    const summary = document.getElementById("summary");
    summary.textContent = `The service does not answer: ${error.message}`;
    summary.className = "bad";
  }
  setTimeout(poll, interval);
}

poll();
