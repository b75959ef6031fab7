"use strict";
// Charts of a flight, drawn on canvases from the numbers in the page; nothing is fetched.
//   drag       zoom in (all charts over the same axis follow)      double click, Escape   all of it again
//   move       read the values under the pointer                   a name                 hide or show its curve
(() => {
  const page = JSON.parse(document.getElementById("chart-data").textContent);
  const MARGIN = { left: 58, right: 12, top: 8, bottom: 34 };
  const views = {}; // the part of an axis that is shown: [from, to], by the name of the axis
  const pointer = {}; // where the pointer is on an axis
  let waiting = false;

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const make = (kind, parent, className, text) => {
    const own = document.createElement(kind);
    own.className = className || "";
    own.textContent = text || ""; // as text: whatever a name says, it is not read as HTML
    parent.append(own);
    return own;
  };
  const digits = (value, step) => {
    const size = Math.abs(value);
    if (size && (size < 1e-4 || size >= 1e6)) return value.toExponential(2);
    return value.toFixed(Math.max(0, Math.min(6, -Math.floor(Math.log10(step)))));
  };
  const told = (value) => (value === 0 ? "0" : digits(value, Math.abs(value) / 500));

  function niceStep(span, count) {
    const rough = span / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((k) => k * power).find((step) => step >= rough * 0.999);
  }

  function ticks(low, high, count, log) {
    const found = [];
    if (log) {
      for (let k = Math.ceil(low - 1e-9); k <= high + 1e-9; k++) found.push(k);
      return { at: found, text: (k) => (k >= -3 && k <= 4 ? String(+(10 ** k).toPrecision(1)) : `1e${k}`) };
    }
    const step = niceStep(high - low, count);
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
    return { at: found, text: (value) => digits(Math.abs(value) < 1e-9 * step ? 0 : value, step) };
  }

  // The first place of a rising list that is not below a value.
  function place(list, value) {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  class Chart {
    constructor(box, own) {
      this.own = own;
      this.hidden = new Set();
      const head = make("div", box, "chart-head");
      make("b", head, "", own.title);
      this.reset = make("button", head, "chart-reset", "show all");
      this.reset.addEventListener("click", () => this.whole());
      const legend = make("span", head, "chart-names");
      const ordered = [...own.curves].sort((a, b) => (a.style !== "line") - (b.style !== "line"));
      const names = new Map(ordered.map((curve) => [curve.group, curve]));
      if (names.size > 1) names.forEach((curve, name) => this.addName(legend, name, curve));
      this.canvas = make("canvas", box, own.equal ? "chart-map" : "");
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "img");
      this.canvas.setAttribute("aria-label", `${own.title} [${own.unit}]: ${[...names.keys()].join(", ")}`);
      this.note = make("div", box, "chart-note");
      this.canvas.addEventListener("pointermove", (event) => this.moved(event));
      this.canvas.addEventListener("pointerleave", () => this.left());
      this.canvas.addEventListener("pointerdown", (event) => this.pressed(event));
      this.canvas.addEventListener("pointerup", (event) => this.released(event));
      this.canvas.addEventListener("dblclick", () => this.whole());
      this.canvas.addEventListener("keydown", (event) => event.key === "Escape" && this.whole());
    }

    addName(legend, name, curve) {
      const button = make("button", legend, "", name);
      button.style.setProperty("--own", curve.group === name && curve.style === "line" ? curve.colour : style("--ink"));
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        if (!this.hidden.delete(name)) this.hidden.add(name);
        button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
        redraw();
      });
    }

    get shown() {
      return this.own.curves.filter((curve) => !this.hidden.has(curve.group));
    }

    // Ranges [from, to] of both axes; y fits what is seen of the curves that are shown.
    ranges() {
      const { own } = this, x = views[own.over] || own.x;
      if (own.equal) return this.mapRanges();
      if (!views[own.over] && !this.hidden.size) return { x, y: own.y };
      let low = Infinity, high = -Infinity;
      for (const curve of this.shown) {
        const time = own.xs[curve.x];
        for (let i = Math.max(place(time, x[0]) - 1, 0); i < time.length && (i === 0 || time[i - 1] <= x[1]); i++) {
          const value = curve.y[i];
          if (value === null) continue;
          low = Math.min(low, curve.style === "band" ? -value : value);
          high = Math.max(high, value);
        }
      }
      if (!(low <= high)) return { x, y: own.y };
      const half = 0.54 * Math.max(high - low, own.least);
      return { x, y: [(low + high) / 2 - half, (low + high) / 2 + half] };
    }

    mapRanges() { // a metre is as long to the east as to the north
      const { own } = this, box = this.box, [x, y] = this.mapView || [own.x, own.y];
      const metres = Math.max((x[1] - x[0]) / box.width, (y[1] - y[0]) / box.height);
      const around = (range, size) => [-0.5, 0.5].map((k) => (range[0] + range[1]) / 2 + k * metres * size);
      return { x: around(x, box.width), y: around(y, box.height) };
    }

    draw() {
      const { canvas, own } = this, ratio = window.devicePixelRatio || 1;
      const width = canvas.clientWidth, height = canvas.clientHeight;
      if (!width) return;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      this.box = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
      const pen = canvas.getContext("2d"), { x, y } = (this.range = this.ranges());
      pen.scale(ratio, ratio);
      this.right = (value) => MARGIN.left + ((value - x[0]) / (x[1] - x[0])) * this.box.width;
      this.up = (value) => MARGIN.top + (1 - (value - y[0]) / (y[1] - y[0])) * this.box.height;
      this.drawGrid(pen, x, y);
      pen.save();
      pen.beginPath();
      pen.rect(MARGIN.left, MARGIN.top - 1, this.box.width, this.box.height + 2);
      pen.clip();
      for (const shape of own.shapes) this.drawShape(pen, shape);
      for (const curve of this.shown) this.drawCurve(pen, curve);
      this.drawMarks(pen);
      if (this.dragged) {
        const [a, b] = this.dragged;
        pen.fillStyle = style("--ink");
        pen.globalAlpha = 0.12;
        if (own.equal) pen.fillRect(a.x, a.y, b.x - a.x, b.y - a.y);
        else pen.fillRect(a.x, MARGIN.top, b.x - a.x, this.box.height);
      }
      pen.restore();
      this.reset.hidden = own.equal ? !this.mapView : !views[own.over];
    }

    drawGrid(pen, x, y) {
      const { own, box } = this, across = ticks(x[0], x[1], box.width / 80, own.log), along = ticks(y[0], y[1], box.height / 34, own.log);
      pen.font = "11px system-ui, sans-serif";
      pen.lineWidth = 1;
      pen.strokeStyle = style("--line");
      pen.fillStyle = style("--faint");
      const line = (x1, y1, x2, y2) => { pen.beginPath(); pen.moveTo(x1, y1); pen.lineTo(x2, y2); pen.stroke(); };
      pen.textAlign = "center";
      for (const at of across.at) {
        line(this.right(at), MARGIN.top, this.right(at), MARGIN.top + box.height);
        pen.fillText(across.text(at), this.right(at), MARGIN.top + box.height + 14);
      }
      pen.fillText(own.xname, MARGIN.left + box.width / 2, MARGIN.top + box.height + 29);
      pen.textAlign = "right";
      for (const at of along.at) {
        line(MARGIN.left, this.up(at), MARGIN.left + box.width, this.up(at));
        pen.fillText(along.text(at), MARGIN.left - 6, this.up(at) + 4);
      }
      pen.save();
      pen.translate(12, MARGIN.top + box.height / 2);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "center";
      pen.fillText(`[${own.unit}]`, 0, 0);
      pen.restore();
    }

    drawShape(pen, shape) {
      pen.beginPath();
      shape.points.forEach(([a, b]) => pen.lineTo(this.right(a), this.up(b)));
      pen.closePath();
      pen.globalAlpha = 0.5;
      pen.fillStyle = shape.colour;
      pen.fill();
      pen.globalAlpha = 1;
    }

    drawCurve(pen, curve) {
      const time = this.own.xs[curve.x], { y } = curve;
      pen.beginPath();
      let gap = true;
      for (let i = 0; i < y.length; i++) {
        if (y[i] === null) { gap = true; continue; }
        if (gap) pen.moveTo(this.right(time[i]), this.up(y[i]));
        else pen.lineTo(this.right(time[i]), this.up(y[i]));
        gap = false;
      }
      pen.strokeStyle = pen.fillStyle = curve.colour || style("--ink");
      if (curve.style === "band") {
        for (let i = y.length - 1; i >= 0; i--) pen.lineTo(this.right(time[i]), this.up(-y[i]));
        pen.globalAlpha = 0.12;
        pen.fill();
      } else {
        pen.setLineDash(curve.style === "line" ? [] : [4, 3]);
        pen.lineWidth = curve.style === "line" ? 1.5 : 1;
        pen.lineJoin = "round";
        pen.stroke();
      }
      pen.globalAlpha = 1;
      pen.setLineDash([]);
    }

    drawMarks(pen) {
      const { own, box } = this;
      pen.strokeStyle = pen.fillStyle = style("--ink");
      for (const limit of own.limits) {
        pen.setLineDash([6, 3, 1, 3]);
        pen.beginPath();
        pen.moveTo(MARGIN.left, this.up(limit.value));
        pen.lineTo(MARGIN.left + box.width, this.up(limit.value));
        pen.stroke();
        pen.setLineDash([]);
        pen.textAlign = "right";
        pen.fillText(limit.name, MARGIN.left + box.width - 4, this.up(limit.value) + (limit.name === "most" ? 12 : -4));
      }
      if (own.over === "time") {
        let last = -Infinity; // numbers nearer than this would be written over each other
        for (const mark of page.marks) {
          pen.globalAlpha = 0.3;
          pen.fillRect(this.right(mark.time), MARGIN.top, 1, box.height);
          pen.globalAlpha = 1;
          pen.textAlign = "left";
          if (this.right(mark.time) - last < 14) continue;
          last = this.right(mark.time);
          pen.fillText(mark.number, last + 3, MARGIN.top + box.height - 4);
        }
      }
      if (pointer[own.over] !== undefined && !own.equal) {
        pen.globalAlpha = 0.6;
        pen.fillRect(this.right(pointer[own.over]), MARGIN.top, 1, box.height);
        pen.globalAlpha = 1;
      }
    }

    at(event) {
      const seen = this.canvas.getBoundingClientRect(), { x, y } = this.range;
      const right = Math.min(Math.max(event.clientX - seen.left, MARGIN.left), MARGIN.left + this.box.width);
      const down = Math.min(Math.max(event.clientY - seen.top, MARGIN.top), MARGIN.top + this.box.height);
      return {
        x: right, y: down,
        east: x[0] + ((right - MARGIN.left) / this.box.width) * (x[1] - x[0]),
        north: y[1] - ((down - MARGIN.top) / this.box.height) * (y[1] - y[0]),
      };
    }

    moved(event) {
      const here = this.at(event);
      if (this.dragged) this.dragged[1] = here;
      pointer[this.own.over] = here.east;
      this.note.replaceChildren();
      if (this.own.equal) this.nearest(here);
      else this.values(here.east);
      this.note.classList.toggle("left", here.x > MARGIN.left + this.box.width / 2);
      redraw();
    }

    values(x) {
      const { own } = this, where = own.log ? 10 ** x : x;
      make("div", this.note, "faint", `${told(where)} ${own.xunit}`);
      for (const mark of own.over === "time" ? page.marks : []) {
        if (Math.abs(this.right(mark.time) - this.right(x)) < 4) make("div", this.note, "", `${mark.number}: ${mark.text}`);
      }
      for (const curve of this.shown) {
        const time = own.xs[curve.x], i = Math.min(place(time, x), time.length - 1);
        const near = i > 0 && x - time[i - 1] < time[i] - x ? i - 1 : i, value = curve.y[near];
        if (value === null || value === undefined) continue;
        const row = make("div", this.note, "", `${curve.name} ${told(own.log ? 10 ** value : value)} ${own.unit}`);
        row.style.borderLeftColor = curve.colour || style("--ink");
      }
    }

    nearest(here) {
      let best = { far: 400 }; // [px²]
      for (const curve of this.shown) {
        const east = this.own.xs[curve.x];
        curve.y.forEach((north, i) => {
          const far = north === null ? Infinity : (this.right(east[i]) - here.x) ** 2 + (this.up(north) - here.y) ** 2;
          if (far < best.far) best = { far, curve, i, east: east[i], north };
        });
      }
      make("div", this.note, "faint", `${told(here.east)} m east, ${told(here.north)} m north`);
      if (!best.curve) return;
      const when = best.curve.t === undefined ? "" : `, ${told(this.own.xs[best.curve.t][best.i])} s`;
      const row = make("div", this.note, "", `${best.curve.name}: ${told(best.east)}, ${told(best.north)} m${when}`);
      row.style.borderLeftColor = best.curve.colour || style("--ink");
    }

    left() {
      delete pointer[this.own.over];
      this.note.replaceChildren();
      redraw();
    }

    pressed(event) {
      if (event.button) return;
      this.canvas.setPointerCapture(event.pointerId);
      this.dragged = [this.at(event), this.at(event)];
    }

    released(event) {
      const [a, b] = this.dragged || [];
      this.dragged = null;
      if (a && Math.abs(this.at(event).x - a.x) > 6) {
        const order = (one, two) => [Math.min(one, two), Math.max(one, two)];
        if (this.own.equal) this.mapView = [order(a.east, b.east), order(a.north, b.north)];
        else views[this.own.over] = order(a.east, b.east);
      }
      redraw();
    }

    whole() {
      this.mapView = null;
      delete views[this.own.over];
      redraw();
    }
  }

  const charts = [...document.querySelectorAll("[data-chart]")].map((box) => new Chart(box, page.charts[Number(box.dataset.chart)]));

  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      charts.forEach((chart) => chart.draw());
    });
  }

  window.addEventListener("resize", redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  redraw();
})();
